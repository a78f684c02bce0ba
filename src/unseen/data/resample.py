"""Bilinear resizing as TensorFlow 1 does it: two neighbours per axis, and no low-pass where an image shrinks.

Source:     the documentation and behaviour of `tf.compat.v1.image.resize` (ResizeBilinear with `align_corners` and
            `half_pixel_centers` off), which the released code of VTAB calls
Shapes:     pixels (h, w, c) -> (height, width, c), float32 in the range of the input
Implements: output i looks at i * in / out; floor and the next one, the last where there is none; columns, then rows
Differs:    nothing: equal to TensorFlow 2.21 bit for bit (`tests/data/fixtures/tf_resize.npz`)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]


def resize_like_tf(pixels: npt.NDArray[np.uint8], height: int, width: int) -> FloatArray:
    """An image in another size, not rounded."""
    low_y, high_y, part_y = _neighbours(pixels.shape[0], height)
    low_x, high_x, part_x = _neighbours(pixels.shape[1], width)
    used = np.unique(np.concatenate([low_y, high_y]))  # of a large image most rows are never looked at
    rows = pixels[used]
    left, right = rows[:, low_x].astype(np.float32), rows[:, high_x].astype(np.float32)
    across = left + (right - left) * part_x[None, :, None]
    top, bottom = across[np.searchsorted(used, low_y)], across[np.searchsorted(used, high_y)]
    shown: FloatArray = top + (bottom - top) * part_y[:, None, None]
    return shown


def _neighbours(before: int, after: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], FloatArray]:
    """Per output: the two inputs it lies between, and how far it is on its way from the one to the other."""
    # Single precision, as there: it decides on which side of a pixel a place falls.
    places = np.arange(after, dtype=np.float32) * (np.float32(before) / np.float32(after))
    low = np.floor(places)
    index = low.astype(np.int64)
    return np.minimum(index, before - 1), np.minimum(index + 1, before - 1), places - low
