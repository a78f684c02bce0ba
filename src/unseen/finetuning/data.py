"""Batches for fine-tuning, as a function of the seed and the step alone.

There is no iterator whose state would have to be saved: which images make up step `s`, and how each is cropped, is
computed from (seed, s). A run that goes on after a kill sees the batches that it would have seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from PIL import Image

from unseen.core.errors import DataError
from unseen.data import Split
from unseen.finetuning.views import Pixels, TrainView
from unseen.probes.batch_order import BatchOrder, IntArray

#: Bytes of resized training images that are kept in memory between epochs.
CACHE_BYTES = 1 << 30


@dataclass(frozen=True, eq=False)
class Batch:
    """Images that could be read, with their labels.

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
    ) -> None:
        if not len(images):
            raise DataError("fine-tuning needs at least one training image; the split is empty.")
        self.images, self.view, self.size, self.batch_size, self.seed = images, view, size, batch_size, seed
        self.unreadable: dict[int, str] = {}
        self._own = own
        self._kept: dict[int, Image.Image] = {}
        self._bytes = 0
        self._order = BatchOrder(len(images), batch_size, seed)

    def positions(self, step: int) -> IntArray:
        """Which images make up step `step`."""
        return self._order.positions(step)

    def batch(self, step: int) -> Batch:
        """The batch of a step; an unreadable image is left out and remembered."""
        positions = self.positions(step)
        shown: list[Pixels] = []
        kept: list[int] = []
        for place, position in enumerate(positions.tolist()):
            try:
                shown.append(self._show(position, step, place))
            except (DataError, OSError) as error:
                self.unreadable[position] = str(error).partition("\n")[0] or type(error).__name__
            else:
                kept.append(position)
        if not kept:
            reason = next(iter(self.unreadable.values()))
            raise DataError(f"no training image of step {step} can be read; the first reason: {reason}")
        where = np.asarray(kept, np.int64)
        return Batch(np.stack(shown), self.images.labels[where], where)

    def _show(self, position: int, step: int, place: int) -> Pixels:
        base = self._kept.get(position)
        if base is None:
            opened = self.images.open(position)
            base = Image.fromarray(self._own(opened)) if self._own is not None else self.view.base(opened, self.size)
            size = 3 * base.width * base.height
            if self._bytes + size <= CACHE_BYTES:
                self._kept[position], self._bytes = base, self._bytes + size
        rng = np.random.default_rng([self.seed, 1, step, place])
        return np.asarray(base) if self._own is not None else self.view.finish(base, self.size, rng)

    def ahead(self, first: int, last: int) -> Iterator[Batch]:
        """Batches of steps `first` to `last` (left out), the next one made while the present one is used."""
        with ThreadPoolExecutor(1, thread_name_prefix="unseen-finetune") as pool:
            coming: Future[Batch] | None = pool.submit(self.batch, first) if first < last else None
            for step in range(first, last):
                assert coming is not None
                present = coming.result()
                coming = pool.submit(self.batch, step + 1) if step + 1 < last else None
                yield present


def evaluation_batches(
    images: Split, show: Callable[[Image.Image], Pixels], batch_size: int
) -> Iterator[tuple[IntArray, Pixels, dict[int, str]]]:
    """(positions, pixels, unreadable) of consecutive images."""
    for first in range(0, len(images), batch_size):
        pixels: list[Pixels] = []
        kept: list[int] = []
        unreadable: dict[int, str] = {}
        for position in range(first, min(first + batch_size, len(images))):
            try:
                pixels.append(show(images.open(position)))
            except (DataError, OSError) as error:
                unreadable[position] = str(error).partition("\n")[0] or type(error).__name__
            else:
                kept.append(position)
        yield np.asarray(kept, np.int64), np.stack(pixels) if pixels else np.empty((0, 0, 0, 3), np.uint8), unreadable


def micro_batches(count: int, size: int) -> Sequence[slice]:
    """Slices of at most `size` out of `count`, as equal as can be: a lone last image would upset batch norm."""
    parts = max(1, -(-count // size))
    bounds = np.linspace(0, count, parts + 1).round().astype(int).tolist()
    return [slice(start, stop) for start, stop in pairwise(bounds)]
