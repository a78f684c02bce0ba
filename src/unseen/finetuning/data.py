"""Batches for fine-tuning, as a function of the seed and the step alone.

There is no iterator whose state would have to be saved: which images make up step `s`, and how each is cropped, is
computed from (seed, s). A run that goes on after a kill sees the batches that it would have seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from PIL import Image

from unseen.core.errors import DataError
from unseen.data import Split
from unseen.finetuning.feeding import CACHE_BYTES, Fed, Shown, feed
from unseen.finetuning.views import Pixels, TrainView
from unseen.probes.batch_order import BatchOrder, IntArray


@dataclass(frozen=True, eq=False)
class Batch:
    """Images that could be read, with their labels; good until the next batch is asked for.

    Attributes:
        pixels: (n, s, s, 3).
        positions: of the images in their split.
    """

    pixels: Pixels
    labels: IntArray
    positions: IntArray


class TrainingBatches:
    """The batches of a training.

    Args:
        images: what to train on.
        view: what an image becomes.
        size: side of the network's input.
        batch_size: images per step.
        seed: of the order and of the views.
        own: replaces `view` by a fixed function of the image.
        workers: processes that decode and crop; 0 for a thread of this one. They change no batch.
        cache_bytes: of images that are kept between epochs.
    """

    def __init__(
        self,
        images: Split,
        view: TrainView,
        *,
        size: int,
        batch_size: int,
        seed: int,
        own: Callable[[Image.Image], Pixels] | None = None,
        workers: int = 0,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        if not len(images):
            raise DataError("fine-tuning needs at least one training image; the split is empty.")
        self.images, self.batch_size, self.seed = images, batch_size, seed
        self.workers, self.cache_bytes = workers, cache_bytes
        self.unreadable: dict[int, str] = {}
        self._order = BatchOrder(len(images), batch_size, seed)

        def chance(base: Image.Image, step: int, place: int) -> Pixels:
            return view.finish(base, size, np.random.default_rng([seed, 1, step, place]))

        if own is not None:
            self.shown = Shown(images, own, size)
        else:
            finish = chance if view.random else None
            self.shown = Shown(images, lambda image: view.base(image, size), size, finish)

    def positions(self, step: int) -> IntArray:
        """Which images make up step `step`."""
        return self._order.positions(step)

    def ahead(self, first: int, last: int) -> Iterator[Batch]:
        """Batches of steps `first` to `last` (left out), the next ones made while the present one is used.

        An unreadable image is left out and remembered.
        """
        jobs = ((step, self.positions(step)) for step in range(first, last))
        fed = feed(self.shown, jobs, batch=self.batch_size, workers=self.workers, cache_bytes=self.cache_bytes)
        for step, found in enumerate(fed, start=first):
            self.unreadable |= found.unreadable
            if not len(found.positions):
                reason = next(iter(self.unreadable.values()))
                raise DataError(f"no training image of step {step} can be read; the first reason: {reason}")
            yield Batch(found.pixels, self.images.labels[found.positions], found.positions)


def evaluation_batches(
    images: Split, show: Callable[[Image.Image], Pixels], *, side: int, batch_size: int, workers: int = 0
) -> Iterator[Fed]:
    """Consecutive images of a split, as `show` shows them: (side, side, 3)."""
    jobs = (
        (number, np.arange(start, min(start + batch_size, len(images)), dtype=np.int64))
        for number, start in enumerate(range(0, len(images), batch_size))
    )
    return feed(Shown(images, show, side), jobs, batch=batch_size, workers=workers)


def micro_batches(count: int, size: int) -> Sequence[slice]:
    """Slices of at most `size` out of `count`, as equal as can be: a lone last image would upset batch norm."""
    parts = max(1, -(-count // size))
    bounds = np.linspace(0, count, parts + 1).round().astype(int).tolist()
    return [slice(start, stop) for start, stop in pairwise(bounds)]
