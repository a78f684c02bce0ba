"""Whether two small grey pictures show the same pixels: laid over each other whole, or one as a part of the other.

Shapes:     pictures (h, w), 0 to 255, in their own proportions
Implements: whole: both squashed to 48 x 48 and correlated. Part: the one is shrunk to a share of the other, from a half
            of its sides to nearly all, and slid over it by Fourier transforms (Lewis, "Fast normalized
            cross-correlation", 1995); the best place is then refined in size and position
Why so:     before they are correlated, pictures lose what varies slowly: two things on white paper are alike in that
            alone. What is left are edges and texture, which two photographs of like things do not share
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy.fft import irfft2, next_fast_len, rfft2
from scipy.ndimage import uniform_filter

FloatArray = npt.NDArray[np.float32]
Picture = npt.NDArray[np.uint8]
Box = tuple[float, float, float, float]

_WHOLE = 48
_COARSE = 48
_EDGES = 64
_SMALLEST_PART = 0.5
_SIZES = 13
_FINE = 64
#: Least agreement in small pictures that is worth a closer look.
PROMISING = 0.6
# One step left, right, up, down, larger, smaller.
_STEPS = ((-1, 0, 0), (1, 0, 0), (0, -1, 0), (0, 1, 0), (0, 0, -1), (0, 0, 1))


def correlation(a: FloatArray, b: FloatArray) -> float:
    """Of two pictures of one shape; 0 where one of them is flat."""
    x, y = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((x * x).sum() * (y * y).sum()))
    return float((x * y).sum()) / scale if scale > 1e-6 else 0.0


def detail(picture: npt.NDArray[np.generic], slow: int = 12) -> FloatArray:
    """A picture less what varies over more than `slow` pixels."""
    values = np.asarray(picture, np.float32)
    return np.asarray(values - uniform_filter(values, size=slow, mode="nearest"), np.float32)


def whole_agreement(a: Picture, b: Picture) -> float:
    """Correlation of the details of two pictures, both squashed to one size."""
    return correlation(detail(_resized(a, (_WHOLE, _WHOLE))), detail(_resized(b, (_WHOLE, _WHOLE))))


@dataclass(frozen=True)
class Part:
    """Where a picture lies within another one.

    Attributes:
        agreement: correlation of the details there.
        box: left, top, right, bottom within the other picture, from 0 to 1.
    """

    agreement: float
    box: Box


NOWHERE = Part(0.0, (0.0, 0.0, 0.0, 0.0))


def edges(picture: Picture) -> FloatArray:
    """The detail of a picture, small, to look for parts in: made once for all that it is compared with."""
    # A fifth of the longer side: in a part that is a half to all of a picture, about what is slow in either.
    values = detail(picture, max(3, max(picture.shape) // 5))
    height, width = _fitted(picture.shape, _EDGES)
    return np.asarray(Image.fromarray(values).resize((width, height), Image.Resampling.BICUBIC))


def find_part(part: Picture, whole: Picture) -> Part:
    """The place in `whole` where `part` fits best."""
    return refined(part, whole, coarse_part(edges(part), edges(whole)))


def coarse_part(part: FloatArray, whole: FloatArray) -> Part:
    """The place where the edges of a part fit best, to a pixel of a picture whose longer side is 48."""
    scene = _Scene(whole)
    shapes = [shape for size in np.geomspace(_SMALLEST_PART, 0.98, _SIZES) if (shape := scene.fit(part.shape, size))]
    if not shapes:
        return NOWHERE
    source = Image.fromarray(part)
    templates = np.zeros((len(shapes), *scene.padded), np.float32)
    for template, (height, width) in zip(templates, shapes, strict=True):
        values = np.asarray(source.resize((width, height), Image.Resampling.BILINEAR))
        template[:height, :width] = values - values.mean()
    products = irfft2(scene.transform * np.conj(rfft2(templates)), scene.padded)
    energy = (templates**2).sum(axis=(1, 2))
    return max(
        (scene.best(product, shape, float(own)) for product, shape, own in zip(products, shapes, energy, strict=True)),
        key=lambda found: found.agreement,
    )


class _Scene:
    """A small picture over which parts are slid."""

    def __init__(self, whole: FloatArray) -> None:
        self.height, self.width = _fitted(whole.shape, _COARSE)
        values = np.asarray(Image.fromarray(whole).resize((self.width, self.height), Image.Resampling.BILINEAR))
        self.padded = (next_fast_len(self.height, real=True), next_fast_len(self.width, real=True))
        self.transform = rfft2(values, self.padded)
        self._sums, self._squares = _table(values), _table(values**2)

    def fit(self, shape: tuple[int, ...], size: float) -> tuple[int, int] | None:
        """The shape of a part where the larger of its two relations to the scene is `size`."""
        scale = size / max(shape[0] / self.height, shape[1] / self.width)
        height, width = max(4, round(shape[0] * scale)), max(4, round(shape[1] * scale))
        return (height, width) if height <= self.height and width <= self.width else None

    def best(self, product: npt.NDArray[np.floating], shape: tuple[int, int], own: float) -> Part:
        """The best place of a part, from its products with the scene at every place."""
        height, width = shape
        area = height * width
        mean = _boxes(self._sums, height, width)
        there = _boxes(self._squares, height, width) - mean**2 / area
        scale = np.sqrt(np.maximum(there, 0.0) * own)
        # A place without detail agrees with nothing: one grey level per pixel is the least.
        score = np.where(scale > area, product[: scale.shape[0], : scale.shape[1]] / np.maximum(scale, area), 0.0)
        top, left = divmod(int(score.argmax()), score.shape[1])
        box = (left / self.width, top / self.height, (left + width) / self.width, (top + height) / self.height)
        return Part(float(score[top, left]), box)


def _table(values: FloatArray) -> npt.NDArray[np.float64]:
    """Sums over all boxes that start in the corner."""
    sums = np.zeros((values.shape[0] + 1, values.shape[1] + 1))
    sums[1:, 1:] = values.astype(np.float64).cumsum(0).cumsum(1)
    return sums


def _boxes(sums: npt.NDArray[np.float64], height: int, width: int) -> npt.NDArray[np.float64]:
    """Sum over every box of one size, from a table of sums."""
    return sums[height:, width:] - sums[:-height, width:] - sums[height:, :-width] + sums[:-height, :-width]


def refined(part: Picture, whole: Picture, found: Part) -> Part:
    """A place moved and resized by ever smaller steps, in finer pictures, as long as that helps.

    One that does not look promising is given back as it is.
    """
    if found.agreement < PROMISING:
        return found
    template = _resized(part, _fitted(part.shape, _FINE))
    sought, scene = detail(template), Image.fromarray(whole)
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
    """A box moved or resized about its middle; None where nothing of it would be left within the picture."""
    right, down, grow = move
    half_width, half_height = (box[2] - box[0]) / 2, (box[3] - box[1]) / 2
    larger = 1 + grow * step / max(half_width, half_height)
    middle = (box[0] + half_width + right * step, box[1] + half_height + down * step)
    moved = (
        max(0.0, middle[0] - half_width * larger),
        max(0.0, middle[1] - half_height * larger),
        min(1.0, middle[0] + half_width * larger),
        min(1.0, middle[1] + half_height * larger),
    )
    return moved if moved[2] - moved[0] > 0.1 and moved[3] - moved[1] > 0.1 else None


def _fitted(shape: tuple[int, ...], longest: int) -> tuple[int, int]:
    """A shape in the same proportions whose longer side is `longest`."""
    scale = longest / max(shape)
    return max(4, round(shape[0] * scale)), max(4, round(shape[1] * scale))


def _resized(picture: Picture, shape: tuple[int, int]) -> Picture:
    image = Image.fromarray(picture).resize((shape[1], shape[0]), Image.Resampling.BICUBIC)
    return np.asarray(image)
