"""Decide whether two images are one picture, and what was done to it: from their signatures, the cheap tests first.

Shapes:     pictures (h, w), grey, 0 to 255, in their own proportions
Implements: 1. equal pixels
            2. the perceptual hash in the four turns, confirmed by the pixels: both squashed to 48 x 48 and correlated
            3. the one as a part of the other, unchanged and mirrored: it is shrunk to a share of the other, from a half
               of its sides to nearly all, and slid over it by Fourier transforms (Lewis, "Fast normalized
               cross-correlation", 1995); the best place is then refined in size and position
Why so:     before they are correlated, pictures lose what varies slowly, which alone makes two things on white paper
            similar. What is left are edges and texture, which two photographs of similar things do not share
Expected:   docs/concepts.md has recall and precision on planted copies of real photographs
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from PIL import Image
from scipy.fft import irfft2, next_fast_len, rfft2
from scipy.ndimage import uniform_filter

from unseen.core.arrays import AnyArray, Float32Array, FloatArray, Pixels
from unseen.data.duplicates.signature import TURNS, Signature, hash_distance

Box = tuple[float, float, float, float]

#: Bits of the perceptual hash that may differ between two copies of a picture.
MOST_BITS = 12
#: Least correlation of the details of two copies laid over each other, and of a part with the place that it came from.
WHOLE = 0.9
PART = 0.88
#: Least agreement in small pictures that is worth a closer look.
PROMISING = 0.6

_WHOLE = 48
_COARSE = 48
_EDGES = 64
_SMALLEST_PART = 0.5
_SIZES = 13
_FINE = 64
# One step left, right, up, down, larger, smaller.
_STEPS = ((-1, 0, 0), (1, 0, 0), (0, -1, 0), (0, 1, 0), (0, 0, -1), (0, 0, 1))


class Kind(StrEnum):
    """What was done to a picture to make the other one of it; or that only the features are similar."""

    EXACT = "exact"
    REENCODED = "re-encoded"
    RESCALED = "rescaled"
    FLIPPED = "flipped"
    CROPPED = "cropped"
    UNCONFIRMED = "not confirmed"


@dataclass(frozen=True)
class Agreement:
    """Two images are one picture.

    Attributes:
        kind: what was done to it.
        correlation: of the details of the two; 1 for equal pixels.
    """

    kind: Kind
    correlation: float


@dataclass(frozen=True)
class Part:
    """Where a picture lies within another one.

    Attributes:
        agreement: correlation of the details there.
        box: left, top, right, bottom within the other picture, from 0 to 1.
    """

    agreement: float = 0.0
    box: Box = (0.0, 0.0, 0.0, 0.0)


def compare(a: Signature, b: Signature, *, parts: bool = True) -> Agreement | None:
    """Return how two images are one picture, or None if they are not.

    Args:
        parts: also look for the one as a part of the other, which costs a hundred times as much.
    """
    if a.digest == b.digest:
        return Agreement(Kind.EXACT, 1.0)
    return _as_wholes(a, b) or (_as_parts(a, b) if parts else None)


def _as_wholes(a: Signature, b: Signature) -> Agreement | None:
    best: Agreement | None = None
    for turn, (down, across) in enumerate(TURNS):
        if hash_distance(a.hashes[0], b.hashes[turn]) > MOST_BITS:
            continue
        squashed = (detail(_resized(each, (_WHOLE, _WHOLE))) for each in (a.picture, b.picture[::down, ::across]))
        value = correlation(*squashed)
        if value >= WHOLE and (best is None or value > best.correlation):
            upright = Kind.REENCODED if a.size == b.size else Kind.RESCALED
            best = Agreement(upright if turn == 0 else Kind.FLIPPED, value)
    return best


def _as_parts(a: Signature, b: Signature) -> Agreement | None:
    pictures = (a.picture, b.picture, b.picture[:, ::-1])
    outlines = [edges(picture) for picture in pictures]
    found = {way: coarse_part(outlines[way[0]], outlines[way[1]]) for way in ((0, 1), (1, 0), (0, 2), (2, 0))}
    # Only the most promising way is worth a closer look.
    part, whole = max(found, key=lambda way: found[way].agreement)
    agreement = refined(pictures[part], pictures[whole], found[part, whole]).agreement
    return Agreement(Kind.CROPPED, agreement) if agreement >= PART else None


def correlation(a: Float32Array, b: Float32Array) -> float:
    """Return the correlation of two pictures of one shape; 0 if one of them is flat."""
    x, y = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((x * x).sum() * (y * y).sum()))
    return float((x * y).sum()) / scale if scale > 1e-6 else 0.0


def detail(picture: AnyArray, slow: int = 12) -> Float32Array:
    """Return a picture less what varies over more than `slow` pixels."""
    values = np.asarray(picture, np.float32)
    return np.asarray(values - uniform_filter(values, size=slow, mode="nearest"), np.float32)


def edges(picture: Pixels) -> Float32Array:
    """Return the detail of a picture, small, to look for parts in."""
    # A fifth of the longer side: in a part that is a half to all of a picture, about what is slow in either.
    values = detail(picture, max(3, max(picture.shape) // 5))
    return _resized(values, _fitted(picture.shape, _EDGES))


def coarse_part(part: Float32Array, whole: Float32Array) -> Part:
    """Return the place where the edges of a part fit best, to a pixel of a picture whose longer side is 48."""
    height, width = _fitted(whole.shape, _COARSE)
    scene = _resized(whole, (height, width), Image.Resampling.BILINEAR)
    padded = (next_fast_len(height, real=True), next_fast_len(width, real=True))
    transform = rfft2(scene, padded)
    sums, squares = _table(scene), _table(scene**2)
    best = Part()
    for size in np.geomspace(_SMALLEST_PART, 0.98, _SIZES):
        # The larger of the part's two relations to the scene is `size`.
        tall, wide = _scaled(part.shape, size / max(part.shape[0] / height, part.shape[1] / width))
        if tall > height or wide > width:
            continue
        template = _resized(part, (tall, wide), Image.Resampling.BILINEAR)
        template = template - template.mean()
        product = irfft2(transform * np.conj(rfft2(template, padded)), padded)
        area = tall * wide
        energy = _boxes(squares, tall, wide) - _boxes(sums, tall, wide) ** 2 / area
        scale = np.sqrt(np.maximum(energy, 0.0) * float((template**2).sum()))
        # A place without detail agrees with nothing: one grey level per pixel is the least.
        score = np.where(scale > area, product[: scale.shape[0], : scale.shape[1]] / np.maximum(scale, area), 0.0)
        top, left = divmod(int(score.argmax()), score.shape[1])
        if score[top, left] > best.agreement:
            box = (left / width, top / height, (left + wide) / width, (top + tall) / height)
            best = Part(float(score[top, left]), box)
    return best


def _table(values: Float32Array) -> FloatArray:
    """Return the sums over all boxes that start in the corner."""
    return np.pad(values.astype(np.float64).cumsum(0).cumsum(1), ((1, 0), (1, 0)))


def _boxes(sums: FloatArray, height: int, width: int) -> FloatArray:
    """Return the sum over every box of one size, from a table of sums."""
    return sums[height:, width:] - sums[:-height, width:] - sums[height:, :-width] + sums[:-height, :-width]


def refined(part: Pixels, whole: Pixels, found: Part) -> Part:
    """Return a place moved and resized by decreasing steps, in finer pictures, as long as that helps.

    A place that is not promising is returned unchanged.
    """
    if found.agreement < PROMISING:
        return found
    template = _resized(part, _fitted(part.shape, _FINE))
    sought, scene = detail(template), Image.fromarray(np.ascontiguousarray(whole))
    shape = (template.shape[1], template.shape[0])

    def at(box: Box) -> Part:
        pixels = (box[0] * scene.width, box[1] * scene.height, box[2] * scene.width, box[3] * scene.height)
        window = scene.resize(shape, Image.Resampling.BICUBIC, box=pixels)
        return Part(correlation(sought, detail(np.asarray(window))), box)

    best = at(found.box)
    for step in (1.0 / _COARSE, 0.5 / _COARSE, 0.25 / _COARSE):
        for _ in range(3):
            near = [at(box) for move in _STEPS if (box := _moved(best.box, move, step)) is not None]
            better = max(near, key=lambda place: place.agreement, default=best)
            if better.agreement <= best.agreement:
                break
            best = better
    return best


def _moved(box: Box, move: tuple[int, int, int], step: float) -> Box | None:
    """Return a box moved or resized about its middle; None if nothing of it would be left within the picture."""
    corners, (right, down, grow) = np.reshape(box, (2, 2)), move
    half = (corners[1] - corners[0]) / 2
    middle = corners[0] + half + np.array([right, down]) * step
    half = half * (1 + grow * step / half.max())
    low, high = np.maximum(0.0, middle - half), np.minimum(1.0, middle + half)
    return (*low.tolist(), *high.tolist()) if (high - low > 0.1).all() else None


def _fitted(shape: tuple[int, ...], longest: int) -> tuple[int, int]:
    """Return a shape in the same proportions whose longer side is `longest`."""
    return _scaled(shape, longest / max(shape))


def _scaled(shape: tuple[int, ...], scale: float) -> tuple[int, int]:
    return max(4, round(shape[0] * scale)), max(4, round(shape[1] * scale))


def _resized(
    picture: AnyArray, shape: tuple[int, int], resampling: Image.Resampling = Image.Resampling.BICUBIC
) -> AnyArray:
    return np.asarray(Image.fromarray(np.ascontiguousarray(picture)).resize(shape[::-1], resampling))
