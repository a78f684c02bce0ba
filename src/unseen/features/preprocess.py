"""From an image of any kind to the uint8 square that a model takes.

The same arithmetic as torchvision's `Resize` + `CenterCrop` on Pillow images, without its per-image objects; and, as
"tf-bilinear", that of TensorFlow 1, whose values are rounded to whole ones here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from unseen.core.records import Preprocessing
from unseen.data import decode_rgb
from unseen.data.resample import resize_like_tf

_FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


def to_pixels(
    image: Image.Image, preprocessing: Preprocessing, *, truncated: Literal["refuse", "accept"] = "refuse"
) -> npt.NDArray[np.uint8]:
    """Decode, resize and crop: (size, size, 3), not yet normalised (the model's graph does that).

    Raises:
        DataError: the image cannot be decoded.
    """
    rgb = decode_rgb(image, truncated=truncated)
    target = _resized(rgb.size, preprocessing)
    if rgb.size != target:
        rgb = _resize(rgb, target, preprocessing.interpolation)
    size = preprocessing.size
    left, top = round((target[0] - size) / 2), round((target[1] - size) / 2)
    if (left, top) != (0, 0) or target != (size, size):
        rgb = rgb.crop((left, top, left + size, top + size))
    return np.asarray(rgb, dtype=np.uint8)


def tf_preprocessing(own: Preprocessing, *, centred: bool = False) -> Preprocessing:
    """How the authors of VTAB show images to a model: both sides resized as TensorFlow 1 does.

    Args:
        own: of the model, whose size stays; its mean and deviation too, for they belong to its weights.
        centred: values in [-1, 1] instead, for a network that has learnt no other range yet.
    """
    shown = replace(own, resize=own.size, mode="squash", interpolation="tf-bilinear")
    return replace(shown, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5)) if centred else shown


def _resize(rgb: Image.Image, target: tuple[int, int], interpolation: str) -> Image.Image:
    if interpolation != "tf-bilinear":
        return rgb.resize(target, _FILTERS[interpolation])
    shown = resize_like_tf(np.asarray(rgb, np.uint8), target[1], target[0])
    return Image.fromarray(np.rint(shown).astype(np.uint8))


def _resized(size: tuple[int, int], preprocessing: Preprocessing) -> tuple[int, int]:
    """Width and height after the resize."""
    width, height = size
    side = preprocessing.resize
    if preprocessing.mode == "squash":
        return side, side
    if width <= height:
        return side, int(side * height / width)
    return int(side * width / height), side
