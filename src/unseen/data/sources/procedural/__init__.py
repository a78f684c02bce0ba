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
from PIL import Image

from unseen.core.arrays import IntArray
from unseen.core.errors import UnknownNameError, UsageError
from unseen.core.identity import digest
from unseen.core.names import Name, Options
from unseen.core.records import DatasetCard
from unseen.data.dataset import Dataset, Split
from unseen.data.load import DatasetSource
from unseen.data.sources.procedural import shapes, sprites
from unseen.data.sources.procedural.sprites import render_sprites

__all__ = ["render_sprites"]

_DEFAULTS = {"seed": 0, "train": 800, "val": 200, "test": 1000}
#: Bounds of the depth bins, as VTAB has them for CLEVR.
DISTANCES = (0.0, 8.0, 8.5, 9.0, 9.5, 10.0, 100.0)


@dataclass(frozen=True)
class _Images:
    """Rendered images.

    Attributes:
        prefix: of their names.
        labels: by task; those of the first task are in the fingerprint.
        keys: state how each image is rendered.
        draw: renders image `i`.
    """

    prefix: str
    labels: dict[str, IntArray]
    keys: list[str]
    draw: Callable[[int], Image.Image]


def _sprites(seed: int, total: int) -> _Images:
    # Without replacement: no image is in two splits, and each factor is uniform.
    numbers = np.random.default_rng([seed, 0x5B]).choice(sprites.COUNT, total, replace=False)
    factors = sprites.factors_of(numbers)
    return _Images(
        f"sprite-{seed}",
        {"sprites-location": factors[:, 3] // 2, "sprites-orientation": (factors[:, 2] / 2.5).astype(np.int64)},
        [f"sprite {sprites.VERSION} {number}" for number in numbers.tolist()],
        lambda i: Image.fromarray(sprites.render_sprites(factors[i])[0]),
    )


@lru_cache(maxsize=4)
def _shapes(seed: int, total: int) -> _Images:
    scenes = [shapes.draw_scene(seed, number) for number in range(total)]
    closest = np.array([scene.closest for scene in scenes])
    # VTAB's rule: the largest bound strictly below the value.
    distance = np.searchsorted(np.asarray(DISTANCES), closest, side="left").astype(np.int64) - 1
    return _Images(
        f"scene-{seed}",
        {"shapes-count": np.array([scene.count for scene in scenes]) - shapes.FEWEST, "shapes-distance": distance},
        [f"scene {shapes.VERSION} {seed} {number}" for number in range(total)],
        lambda i: Image.fromarray(shapes.render_scene(scenes[i])),
    )


_TURNS = [int(np.ceil(2.5 * k)) for k in range(17)]
#: The names of the classes of each labelling.
_CLASSES = {
    "sprites-location": tuple(f"x {2 * k} to {2 * k + 1} of 32" for k in range(16)),
    "sprites-orientation": tuple(f"turn {a} to {b - 1} of 40" for a, b in pairwise(_TURNS)),
    "shapes-count": tuple(f"{k} objects" for k in range(shapes.FEWEST, shapes.MOST + 1)),
    "shapes-distance": ("up to 8", *(f"{a:g} to {b:g}" for a, b in pairwise(DISTANCES[1:6])), "beyond 10"),
}
_AFTER = {"sprites": "Matthey et al., dSprites, 2017", "shapes": "Johnson et al., CLEVR, 2017"}


def _card(name: str) -> DatasetCard:
    return DatasetCard(
        id=f"procedural:{name}",
        name=name.capitalize().replace("-", ", "),
        group="procedural",
        paper="vtab",
        classes=len(_CLASSES[name]),
        images=sum(_DEFAULTS.values()),
        source="drawn by this package",
        license="none needed",
        citation=f"after {_AFTER[name.partition('-')[0]]}; task of Zhai et al., 2019",
        notes="options: seed, train, val, test",
    )


class ProceduralSource(DatasetSource):
    """Loads `procedural:NAME`."""

    def cards(self) -> Iterable[DatasetCard]:
        return map(_card, _CLASSES)

    def load(self, name: str, options: Options) -> Dataset:
        if name not in _CLASSES:
            raise UnknownNameError("procedural dataset", name, _CLASSES)
        given = {key: options.integer(key) for key in _DEFAULTS}
        options.finish()
        chosen = _DEFAULTS | {key: value for key, value in given.items() if value is not None}
        seed, *sizes = chosen.values()
        total = sum(sizes)
        if total > sprites.COUNT or not total:
            raise UsageError(f"{options.dataset!r}: {total} images; from 1 to {sprites.COUNT:,} can be drawn.")
        kind = name.partition("-")[0]
        images = (_sprites if kind == "sprites" else _shapes)(seed, total)
        primary, splits, start = next(iter(images.labels.values())), {}, 0
        for split, size in zip(("train", "val", "test"), sizes, strict=True):
            if size:
                splits[split] = _split(images, images.labels[name], primary, slice(start, start + size))
            start += size
        changed = {key: value for key, value in chosen.items() if value != _DEFAULTS[key]}
        return Dataset(
            card=_card(name),
            class_names=_CLASSES[name],
            splits=splits,
            features_id=str(Name.parse(f"procedural:{kind}", changed)),
        )


def _split(images: _Images, labels: IntArray, primary: IntArray, piece: slice) -> Split:
    first = piece.start
    return Split(
        names=[f"{images.prefix}-{i:06d}" for i in range(first, piece.stop)],
        labels=labels[piece],
        open=lambda i: images.draw(first + i),
        # The keys state how images are rendered, so the fingerprint needs no pixels.
        fingerprint=digest([images.keys[piece], primary[piece].tolist()], length=32),
        primary_labels=primary[piece],
    )
