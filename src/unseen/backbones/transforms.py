"""Other people's preprocessing: taken over as a `Preprocessing` where it is one of the usual chains, else run as it is.

The usual chain is torchvision's `Resize`, `CenterCrop`, `ToTensor`, `Normalize` on Pillow images: our own arithmetic is
the same, and leaves the images in bytes until they are in the graph. Anything else stays the callable that it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from unseen.core.errors import BackboneError
from unseen.core.records import Preprocessing

_TO_TENSOR = ("ToTensor", "MaybeToTensor", "PILToTensor", "ToImage")
_NEUTRAL = ("_convert_to_rgb", "MaybeConvertMode", "ToDtype", "ConvertImageDtype", "ToRGB", "RGB")


class ForeignTransform:
    """A callable from a Pillow image to a tensor or array, known by what it does to two images.

    Raises:
        BackboneError: it fails, gives no (c, h, w), or other values each time.
    """

    def __init__(self, function: Callable[[Image.Image], Any]) -> None:
        self._function = function
        rng = np.random.default_rng(0)
        images = [Image.fromarray(rng.integers(0, 256, (h, w, 3), dtype=np.uint8)) for h, w in ((97, 131), (160, 120))]
        try:
            found, again = [self(image) for image in images], self(images[0])
        except BackboneError:
            raise
        except Exception as error:
            raise BackboneError(f"the transform fails on an RGB image: {type(error).__name__}: {error}") from error
        if not np.array_equal(found[0], again):
            raise BackboneError("the transform gives other values each time. Give the one for evaluation.")
        if found[0].shape != found[1].shape:
            raise BackboneError(f"the transform gives images of several sizes, {found[0].shape} and {found[1].shape}.")
        self.shape: tuple[int, ...] = found[0].shape
        self.fingerprint = hashlib.sha256(b"".join(one.tobytes() for one in found)).hexdigest()[:16]

    def __call__(self, image: Image.Image) -> npt.NDArray[np.float32]:
        value = self._function(image)
        value = value.detach().cpu().numpy() if hasattr(value, "detach") else value
        array = np.asarray(value, np.float32)
        array = array[0] if array.ndim == 4 and len(array) == 1 else array
        if array.ndim != 3:
            raise BackboneError(f"the transform gives shape {array.shape}; (channels, height, width) is needed.")
        return np.ascontiguousarray(array)


def read_transform(transform: Any) -> Preprocessing | None:
    """Return the preprocessing that a torchvision transform does, or None if it is no usual chain."""
    size = resize = 0
    mode, interpolation = "shortest", "bilinear"
    mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    in_tensors = False
    for step in getattr(transform, "transforms", ()):
        name = getattr(step, "__name__", type(step).__name__)
        if name == "Resize" and not (in_tensors or resize or size):
            sides = list(np.atleast_1d(step.size))
            if len(set(sides)) != 1 or getattr(step, "max_size", None) is not None:
                return None
            resize, mode = int(sides[0]), "squash" if len(sides) == 2 else "shortest"
            interpolation = str(getattr(step.interpolation, "value", step.interpolation))
        elif name == "CenterCrop" and not in_tensors:
            sides = list(np.atleast_1d(step.size))
            if len(set(sides)) != 1:
                return None
            size = int(sides[0])
        elif name in _TO_TENSOR:
            in_tensors = True
        elif name == "Normalize":
            mean, std = tuple(map(float, step.mean)), tuple(map(float, step.std))  # type: ignore[assignment]
        elif name not in _NEUTRAL:
            return None
    size = size or (resize if mode == "squash" else 0)
    usual = in_tensors and size and resize >= size and len(mean) == len(std) == 3
    if not usual or interpolation not in ("nearest", "bilinear", "bicubic", "lanczos"):
        return None
    return Preprocessing(size, resize, mode, interpolation, mean, std)  # type: ignore[arg-type]
