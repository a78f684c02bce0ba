"""Sprites after dSprites: one white shape on black, every factor of variation known.

Paper:      Matthey et al., "dSprites: Disentanglement testing sprites dataset", 2017
Shapes:     factors (n, 5) integers: shape (3), scale (6), orientation (40), x (32), y (32)
Implements: square, ellipse, heart; scales 0.5 to 1; 64 x 64 pixels; 4 x 4 samples per pixel; 737,280 images
Differs:    edges are anti-aliased; positions are one pixel apart; orientations are multiples of 2 pi / 41. dSprites
            takes 2 pi / 39, whose last orientation repeats its first; 41, like 39, is odd, so no turn of the square
            or the ellipse repeats another
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt

from unseen.core.arrays import IntArray, Pixels
from unseen.core.errors import DataError

SHAPES = ("square", "ellipse", "heart")
#: Number of values of shape, scale, orientation, x and y.
FACTORS = (3, 6, 40, 32, 32)
SIZE = 64
COUNT = math.prod(FACTORS)
#: Changes when the pixels of any image do.
VERSION = 1

_WINDOW = 32
_SAMPLES = 4
_TURN = 2 * math.pi / 41


def factors_of(numbers: npt.ArrayLike) -> IntArray:
    """Return the (n, 5) factors of images by number, 0 to 737,279; y varies fastest."""
    chosen = np.asarray(numbers, np.int64)
    if chosen.size and (chosen.min() < 0 or chosen.max() >= COUNT):
        raise DataError(f"sprites are numbered from 0 to {COUNT - 1}, found {chosen.min()} to {chosen.max()}.")
    return np.stack(np.unravel_index(chosen, FACTORS), axis=-1)


def render_sprites(factors: npt.ArrayLike) -> Pixels:
    """Render (n, 64, 64) grey images of (n, 5) factors."""
    chosen = np.asarray(factors, np.int64).reshape(-1, len(FACTORS))
    if chosen.size and ((chosen < 0).any() or (chosen >= FACTORS).any()):
        raise DataError(f"sprite factors are below {FACTORS}, found up to {tuple(chosen.max(axis=0).tolist())}.")
    shape, scale, turn, x, y = chosen.T
    stamps = _stamps()[shape, scale, turn]
    images = np.zeros((len(chosen), SIZE, SIZE), np.uint8)
    # Each stamp goes to its own place: one scatter over all pixels of all images.
    span = np.arange(_WINDOW)
    rows, columns = y[:, None] + span, x[:, None] + span
    images[np.arange(len(chosen))[:, None, None], rows[:, :, None], columns[:, None, :]] = stamps
    return images


@cache
def _stamps() -> Pixels:
    """Render every shape at every scale and orientation, centred: (3, 6, 40, 32, 32)."""
    per_axis = _WINDOW * _SAMPLES
    axis = (np.arange(per_axis, dtype=np.float32) + 0.5) / _SAMPLES - _WINDOW / 2
    x, y = np.meshgrid(axis, axis)
    stamps = np.empty((*FACTORS[:3], _WINDOW, _WINDOW), np.uint8)
    for scale, turn in np.ndindex(FACTORS[1:3]):
        size = 0.5 + 0.1 * scale
        cosine, sine = math.cos(turn * _TURN), math.sin(turn * _TURN)
        u, v = (cosine * x + sine * y) / size, (cosine * y - sine * x) / size
        a, b = u / 12, 0.1 - v / 12
        shapes = (
            np.maximum(np.abs(u), np.abs(v)) < 10.5,
            (u / 14) ** 2 + (v / 7) ** 2 < 1,
            # The sextic (a^2 + b^2 - 1)^3 < a^2 b^3, point down and centred between its ends.
            (a * a + b * b - 1) ** 3 < a * a * b * b * b,
        )
        for shape, inside in enumerate(shapes):
            covered = inside.reshape(_WINDOW, _SAMPLES, _WINDOW, _SAMPLES).sum(axis=(1, 3), dtype=np.int32)
            stamps[shape, scale, turn] = (covered * 255 + _SAMPLES**2 // 2) // _SAMPLES**2
    return stamps
