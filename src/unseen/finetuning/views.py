"""Training and evaluation views: how images are transformed for fine-tuning, and networks for larger images.

Paper:      Zhai et al., 2019 [P], Appendix I: the preprocessing of both sweeps
Implements: train: res., res.|crop, res.smallcrop, inc.crop, cif.crop, each with or without flips and colour distortion;
            evaluation: plain resize, or shortest side and centre crop
Differs:    [P] names sizes for inputs of 224; here they scale with the input (256 / 224, padding 28 / 224). Resizing is
            Pillow's bilinear filter, which low-passes when it shrinks. [P] does not define its colour distortion:
            brightness, contrast and saturation by factors in [0.6, 1.4]

Convolutional networks take any size. A transformer of fixed size resamples its position embedding if it is timm's
(`set_input_size`); others raise their own error.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from PIL import Image, ImageEnhance
from torch import nn

from unseen.core.arrays import Pixels
from unseen.core.errors import UnknownNameError, UsageError
from unseen.core.records import Preprocessing
from unseen.data import decode_rgb
from unseen.features.batches import to_pixels

TrainCrop = Literal["resize", "resize-crop", "shortest-crop", "inception", "pad-crop"]

_LARGER = 256 / 224
_PADDING = 28 / 224
_DISTORTION = 0.4
_BILINEAR = Image.Resampling.BILINEAR


@dataclass(frozen=True, slots=True)
class TrainView:
    """Transformation of a training image.

    Attributes:
        crop: "resize" (plain, no crop), "resize-crop" (larger, random crop), "shortest-crop" (keeps the aspect, random
            crop), "inception" (a random area and aspect), "pad-crop" (zero-padded, random crop).
        flip: mirror half of the images.
        colour: distort brightness, contrast and saturation.
    """

    crop: TrainCrop = "resize"
    flip: bool = False
    colour: bool = False

    def __post_init__(self) -> None:
        if self.crop not in get_args(TrainCrop):
            raise UnknownNameError("training crop", self.crop, get_args(TrainCrop))

    @property
    def random(self) -> bool:
        """Return whether views of an image differ."""
        return self.crop != "resize" or self.flip or self.colour

    def base(self, image: Image.Image, size: int) -> Image.Image:
        """Return the deterministic part of a view, which may be cached for the next epoch."""
        rgb = decode_rgb(image)
        if self.crop == "inception":
            return rgb
        if self.crop == "shortest-crop":
            return _shortest(rgb, round(_LARGER * size))
        side = round(_LARGER * size) if self.crop == "resize-crop" else size
        return rgb if rgb.size == (side, side) else rgb.resize((side, side), _BILINEAR)

    def finish(self, base: Image.Image, size: int, rng: np.random.Generator) -> Pixels:
        """Return a random view of a base, (size, size, 3), without changing the base."""
        view = self._crop(base, size, rng)
        if self.flip and rng.random() < 0.5:
            view = view.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        if self.colour:
            for kind in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
                view = kind(view).enhance(rng.uniform(1 - _DISTORTION, 1 + _DISTORTION))
        return np.asarray(view, np.uint8)

    def _crop(self, base: Image.Image, size: int, rng: np.random.Generator) -> Image.Image:
        if self.crop == "resize":
            return base
        if self.crop == "inception":
            return base.resize((size, size), _BILINEAR, box=inception_box(base.size, rng))
        if self.crop == "pad-crop":
            pad = round(_PADDING * size)
            padded = Image.new("RGB", (base.width + 2 * pad, base.height + 2 * pad))
            padded.paste(base, (pad, pad))
            base = padded
        left = int(rng.integers(base.width - size + 1))
        top = int(rng.integers(base.height - size + 1))
        return base.crop((left, top, left + size, top + size))


@dataclass(frozen=True, slots=True)
class EvalView:
    """Transformation of a test image: a plain resize to `size`, or the centre of the image with its aspect kept.

    Attributes:
        size: of the input of the network; 0 for the network's own.
        resize: of the shortest side before the centre crop; 0 for the plain resize.
    """

    size: int = 0
    resize: int = 0

    def __post_init__(self) -> None:
        if self.resize and not 0 < self.size <= self.resize:
            raise UsageError(
                f"an evaluation view cuts {self.size} pixels out of {self.resize}: no more than there are."
            )

    def with_size(self, size: int) -> EvalView:
        """Return the view for an input of another size, never cropped from a smaller image."""
        return EvalView(size, max(self.resize, size) if self.resize else 0)

    def apply(self, image: Image.Image, size: int) -> Pixels:
        """Return the pixels of an image for a network whose own input has `size`."""
        side = self.size or size
        mode: Literal["shortest", "squash"] = "shortest" if self.resize else "squash"
        return to_pixels(image, Preprocessing(side, self.resize or side, mode, "bilinear"))


def inception_box(size: tuple[int, int], rng: np.random.Generator) -> tuple[float, float, float, float]:
    """Sample a box of 8 % to 100 % of the area with an aspect of 3/4 to 4/3 (Szegedy et al., 2015).

    If none of ten samples fits, return the largest centred box with an allowed aspect.
    """
    width, height = size
    for _ in range(10):
        area = rng.uniform(0.08, 1.0) * width * height
        aspect = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = math.sqrt(area * aspect), math.sqrt(area / aspect)
        if 1 <= w <= width and 1 <= h <= height:
            left, top = rng.uniform(0, width - w), rng.uniform(0, height - h)
            return left, top, left + w, top + h
    w, h = min(width, height * 4 / 3), min(height, width * 4 / 3)
    return (width - w) / 2, (height - h) / 2, (width + w) / 2, (height + h) / 2


def _shortest(image: Image.Image, side: int) -> Image.Image:
    """Resize the shortest side of an image, and keep its aspect."""
    width, height = image.size
    target = (side, int(side * height / width)) if width <= height else (int(side * width / height), side)
    return image if image.size == target else image.resize(target, _BILINEAR)


def nearest_size(module: nn.Module, size: int) -> int:
    """Return the side nearest to `size` that the patches of a network cover; `size` if it has no patches."""
    patch = getattr(getattr(module, "patch_embed", None), "patch_size", None)
    side = patch[0] if isinstance(patch, tuple) else patch
    if not isinstance(side, int) or not hasattr(module, "set_input_size"):
        return size
    return max(1, round(size / side)) * side


def at_size(module: nn.Module, size: int) -> nn.Module:
    """Return the network for inputs of another side: a copy if it has to change, otherwise itself."""
    change = "set_input_size"
    if not hasattr(module, change):
        return module
    other = copy.deepcopy(module)
    getattr(other, change)(img_size=(size, size))
    return other.to(next(module.parameters()).device)
