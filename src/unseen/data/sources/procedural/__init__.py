"""`procedural:NAME`: rendered datasets modelled on four VTAB tasks, without a download.

    sprites-location, sprites-orientation    dSprites' factors, labels by VTAB's rules (16 bins each)
    shapes-count, shapes-distance            CLEVR-like scenes: number of objects (8), depth of the closest (6 bins)

The two tasks of a pair label the same images. Options: seed (0), train (800), val (200), test (1000).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from PIL import Image

from unseen.core.errors import UnknownNameError, UsageError
from unseen.core.identity import digest
from unseen.core.names import Options
from unseen.core.records import DatasetCard
from unseen.data.dataset import Dataset, Split
from unseen.data.load import DatasetSource
from unseen.data.sources.procedural import scenes, shapes, sprites
from unseen.data.sources.procedural.sprites import render_sprites

__all__ = ["render_sprites"]


IntArray = npt.NDArray[np.int64]
Sizes = tuple[tuple[str, int], ...]

_DEFAULTS = {"train": 800, "val": 200, "test": 1000}
#: Bounds of the depth bins, as VTAB has them for CLEVR.
DISTANCES = (0.0, 8.0, 8.5, 9.0, 9.5, 10.0, 100.0)


@dataclass(frozen=True)
class _Task:
    """One labelling."""

    images: str
    name: str
    class_names: tuple[str, ...]
    citation: str


_SPRITES = "after Matthey et al., dSprites, 2017; task of Zhai et al., 2019"
_SHAPES = "after Johnson et al., CLEVR, 2017; task of Zhai et al., 2019"
_TASKS = {
    "sprites-location": _Task(
        "sprites", "Sprites, location", tuple(f"x {2 * k} to {2 * k + 1} of 32" for k in range(16)), _SPRITES
    ),
    "sprites-orientation": _Task(
        "sprites",
        "Sprites, orientation",
        tuple(f"turn {int(np.ceil(2.5 * k))} to {int(np.ceil(2.5 * k + 2.5)) - 1} of 40" for k in range(16)),
        _SPRITES,
    ),
    "shapes-count": _Task(
        "shapes", "Shapes, count", tuple(f"{k} objects" for k in range(scenes.FEWEST, scenes.MOST + 1)), _SHAPES
    ),
    "shapes-distance": _Task(
        "shapes",
        "Shapes, distance",
        ("up to 8", *(f"{a:g} to {b:g}" for a, b in pairwise(DISTANCES[1:6])), "beyond 10"),
        _SHAPES,
    ),
}


class ProceduralSource(DatasetSource):
    """Loads `procedural:NAME`."""

    def cards(self) -> Iterable[DatasetCard]:
        for name, task in _TASKS.items():
            yield _card(name, task)

    def load(self, name: str, options: Options) -> Dataset:
        if name not in _TASKS:
            raise UnknownNameError("procedural dataset", name, _TASKS)
        given = {split: options.integer(split) for split in _DEFAULTS}
        sizes = tuple((s, default if given[s] is None else given[s] or 0) for s, default in _DEFAULTS.items())
        seed = options.integer("seed") or 0
        options.finish()
        total = sum(size for _, size in sizes)
        if total > sprites.COUNT or not total:
            raise UsageError(f"{options.dataset!r}: {total} images; from 1 to {sprites.COUNT:,} can be drawn.")
        task = _TASKS[name]
        make = _sprites if task.images == "sprites" else _shapes
        return Dataset(
            card=_card(name, task),
            class_names=task.class_names,
            splits=make(name, seed, sizes),
            features_id=_features_id(task.images, seed, sizes),
        )


def _card(name: str, task: _Task) -> DatasetCard:
    return DatasetCard(
        id=f"procedural:{name}",
        name=task.name,
        group="procedural",
        paper="vtab",
        classes=len(task.class_names),
        images=sum(_DEFAULTS.values()),
        source="drawn by this package",
        license="none needed",
        citation=task.citation,
        notes="options: seed, train, val, test",
    )


def _features_id(images: str, seed: int, sizes: Sizes) -> str:
    changed = {"seed": seed} if seed else {}
    changed |= {split: size for split, size in sizes if size != _DEFAULTS[split]}
    query = "&".join(f"{key}={changed[key]}" for key in sorted(changed))
    return f"procedural:{images}" + (f"?{query}" if query else "")


def _cut(sizes: Sizes) -> dict[str, slice]:
    """Return consecutive pieces of the sampled images, one per split."""
    ends = np.cumsum([size for _, size in sizes]).tolist()
    return {s: slice(end - size, end) for (s, size), end in zip(sizes, ends, strict=True) if size}


def _sprites(name: str, seed: int, sizes: Sizes) -> dict[str, Split]:
    total = sum(size for _, size in sizes)
    # Without replacement: no image is in two splits, and each factor is uniform.
    numbers = np.random.default_rng([seed, 0x5B]).choice(sprites.COUNT, total, replace=False)
    factors = sprites.factors_of(numbers)
    location, orientation = factors[:, 3] // 2, (factors[:, 2] / 2.5).astype(np.int64)
    labels = location if name == "sprites-location" else orientation

    def draw(i: int) -> Image.Image:
        return Image.fromarray(sprites.render_sprites(factors[i])[0])

    keys = [f"sprite {sprites.VERSION} {number}" for number in numbers.tolist()]
    return {s: _split(f"sprite-{seed}", piece, keys, labels, location, draw) for s, piece in _cut(sizes).items()}


def _shapes(name: str, seed: int, sizes: Sizes) -> dict[str, Split]:
    total = sum(size for _, size in sizes)
    drawn = _drawn_scenes(seed, total)
    count = np.array([scene.count for scene in drawn], np.int64) - scenes.FEWEST
    closest = np.array([scene.closest for scene in drawn])
    # VTAB's rule: the largest bound strictly below the value.
    distance = np.searchsorted(np.asarray(DISTANCES), closest, side="left").astype(np.int64) - 1
    labels = count if name == "shapes-count" else distance

    def draw(i: int) -> Image.Image:
        return Image.fromarray(shapes.render_scene(drawn[i]))

    keys = [f"scene {shapes.VERSION} {seed} {number}" for number in range(total)]
    return {s: _split(f"scene-{seed}", piece, keys, labels, count, draw) for s, piece in _cut(sizes).items()}


@lru_cache(maxsize=4)
def _drawn_scenes(seed: int, total: int) -> list[scenes.Scene]:
    return [scenes.draw_scene(seed, number) for number in range(total)]


def _split(
    prefix: str,
    piece: slice,
    keys: list[str],
    labels: IntArray,
    primary: IntArray,
    draw: Callable[[int], Image.Image],
) -> Split:
    first, count = piece.start, piece.stop - piece.start
    return Split(
        names=[f"{prefix}-{first + i:06d}" for i in range(count)],
        labels=labels[piece],
        open=lambda i: draw(first + i),
        # The recipe is known, so the images need not be drawn to know them.
        fingerprint=digest([keys[piece], primary[piece].tolist()], length=32),
        primary_labels=primary[piece],
    )
