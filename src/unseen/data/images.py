"""Images as people hold them in Python: Pillow images, arrays, tensors, paths, encoded bytes."""

from __future__ import annotations

import hashlib
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from unseen.core.errors import DataError
from unseen.data.decode import open_image
from unseen.data.scan import content_key


def is_image(value: Any) -> bool:
    """Whether `to_image` takes a value; arrays by their number of dimensions."""
    if isinstance(value, Image.Image | bytes | str | PathLike):
        return True
    if isinstance(value, dict):
        return "bytes" in value or "path" in value
    return getattr(value, "ndim", 0) in (2, 3) and hasattr(value, "dtype")


def to_image(value: Any) -> Image.Image:
    """A value as an image of its own, which may be used up: the caller's stays as it is.

    Args:
        value: a Pillow image, a path, encoded bytes, a dict of the two (as Hugging Face stores images), or an array or
            tensor (h, w), (h, w, c) or (c, h, w) of uint8, or of floats in [0, 1].

    Raises:
        DataError: it is none of these, or its values lie outside their range.
    """
    if isinstance(value, Image.Image):
        return value.copy()
    if isinstance(value, str | PathLike):
        return open_image(Path(value).expanduser())
    if isinstance(value, bytes):
        return open_image(value)
    if isinstance(value, dict):
        return open_image(value["bytes"] if value.get("bytes") else Path(str(value.get("path"))))
    return Image.fromarray(_pixels(value))


def image_key(value: Any) -> bytes:
    """Bytes that change when the picture does."""
    if isinstance(value, str | PathLike):
        return content_key(Path(value).expanduser())
    if isinstance(value, dict):
        return image_key(value["bytes"]) if value.get("bytes") else content_key(Path(str(value.get("path"))))
    if isinstance(value, bytes):
        return b"file:" + hashlib.blake2b(value, digest_size=16).digest()
    if isinstance(value, Image.Image):
        head, data = f"{value.mode}{value.size}{value.info.get('exif', b'')!r}".encode(), value.tobytes()
        palette = value.getpalette()
        return hashlib.blake2b(head + bytes(palette or ()) + data, digest_size=16).digest()
    pixels = _pixels(value)
    return hashlib.blake2b(str(pixels.shape).encode() + pixels.tobytes(), digest_size=16).digest()


def _pixels(value: Any) -> npt.NDArray[np.uint8]:
    """An array or tensor as uint8 (h, w) or (h, w, c)."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    array = np.asarray(value)
    if array.ndim == 3 and array.shape[0] in (1, 3, 4) and array.shape[2] not in (1, 3, 4):
        array = np.moveaxis(array, 0, 2)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)):
        raise DataError(f"an image is an array (h, w), (h, w, 3) or (3, h, w); found shape {array.shape}.")
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    low, high = float(np.min(array, initial=0)), float(np.max(array, initial=0))
    if array.dtype.kind == "f" and low >= 0 and high <= 1:
        return np.ascontiguousarray(np.rint(array * 255).astype(np.uint8))
    if array.dtype.kind in "iu" and low >= 0 and high <= 255:
        return np.ascontiguousarray(array.astype(np.uint8))
    raise DataError(
        f"an image has values from {low:.3g} to {high:.3g} ({array.dtype}): uint8, or floats in [0, 1], are taken. "
        "Leave normalisation to the model's preprocessing."
    )
