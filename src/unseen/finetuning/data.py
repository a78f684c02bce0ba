"""Batches of images for fine-tuning: decoded and augmented by the workers of a PyTorch `DataLoader`.

The images of step `s` and the crop of each follow from (seed, s) alone: there is no iterator whose state would have to
be saved, a resumed training sees the same batches, and so does any number of workers. The deterministic part of the
work is cached, up to a number of bytes, in memory that all workers share. Where processes cannot be forked (macOS,
Windows, workers of a Dask cluster), images are decoded in this process.

Workers return pixels in memory that is mapped before they are forked, not as tensors: tensors of workers need space
in /dev/shm, of which a container has 64 MB by default, less than one batch of 512 images.
"""

from __future__ import annotations

import mmap
import multiprocessing
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from unseen.core.arrays import AnyArray, IntArray, Pixels
from unseen.core.errors import DataError
from unseen.core.guard import read_patiently
from unseen.data import Split
from unseen.finetuning.views import TrainView
from unseen.probes.sgd import BatchOrder

#: Bytes of images that are cached between epochs, over all workers.
CACHE_BYTES = 1 << 30
#: Positions of the images of a batch and the reasons why some of them could not be read, or an error to raise.
_Loaded = tuple[IntArray, dict[int, str]] | Exception


@dataclass(frozen=True, eq=False)
class Batch:
    """Images that could be read, with their labels; valid until the next batch is requested.

    Attributes:
        pixels: (n, s, s, 3).
        positions: of the images in their split.
        unreadable: position to reason, of images that could not be read.
    """

    pixels: Pixels
    labels: IntArray
    positions: IntArray
    unreadable: dict[int, str]


@dataclass(frozen=True, eq=False)
class ImageView:
    """How the images of a split are transformed.

    Attributes:
        base: the deterministic part, which may be cached: returns an image, or its pixels (h, w, 3).
        side: all images become (side, side, 3).
        finish: the random part, by (base, number of the job, place in it); None if there is none.
    """

    images: Split
    base: Callable[[Image.Image], Image.Image | Pixels]
    side: int
    finish: Callable[[Image.Image, int, int], Pixels] | None = None


class TrainingBatches:
    """The batches of a training.

    Args:
        images: training images.
        view: random transformation of images.
        size: side of the network's input.
        batch_size: images per step.
        seed: of the order and of the views.
        own: replaces `view` by a fixed function of the image.
        workers: processes that decode and crop; 0 for this one. They change no batch.

    Attributes:
        cache_bytes: size of the cache of decoded images; set it before the first batch.
        order: the images of each step.
        unreadable: position to reason, of images that could not be read so far.
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
    ) -> None:
        if not len(images):
            raise DataError("fine-tuning needs at least one training image; the split is empty.")
        self.images, self.batch_size, self.seed = images, batch_size, seed
        self.workers, self.cache_bytes = workers, CACHE_BYTES
        self.unreadable: dict[int, str] = {}
        self.order = BatchOrder(len(images), batch_size, seed)

        def augment(base: Image.Image, step: int, place: int) -> Pixels:
            return view.finish(base, size, np.random.default_rng([seed, 1, step, place]))

        finish = augment if own is None and view.random else None
        self._view = ImageView(images, own or (lambda image: view.base(image, size)), size, finish)

    def ahead(self, first: int, last: int) -> Iterator[Batch]:
        """Yield the batches of steps `first` to `last` (exclusive), and prepare the next ones meanwhile.

        Unreadable images are skipped and added to `unreadable`.
        """
        jobs = ((step, self.order.positions(step)) for step in range(first, last))
        batches = load_batches(self._view, jobs, self.batch_size, self.workers, self.cache_bytes)
        for step, batch in enumerate(batches, start=first):
            self.unreadable |= batch.unreadable
            if not len(batch.positions):
                reason = next(iter(self.unreadable.values()))
                raise DataError(f"no training image of step {step} can be read; the first reason: {reason}")
            yield batch


def evaluation_batches(
    images: Split, view: Callable[[Image.Image], Pixels], *, side: int, batch_size: int, workers: int = 0
) -> Iterator[Batch]:
    """Return batches of consecutive images of a split, transformed by `view` to (side, side, 3)."""
    parts = np.split(np.arange(len(images)), range(batch_size, len(images), batch_size))
    return load_batches(ImageView(images, view, side), enumerate(parts), batch_size, workers)


def micro_batches(count: int, size: int) -> Sequence[slice]:
    """Return slices of at most `size` out of `count`, of equal length: a single last image would upset batch norm."""
    bounds: list[int] = np.linspace(0, count, max(1, -(-count // size)) + 1).round().astype(int).tolist()
    return [slice(start, stop) for start, stop in pairwise(bounds)]


class _Batches(Dataset[_Loaded]):
    """Loads the images of jobs into slots of shared memory, and caches the decoded ones.

    Attributes:
        slots: (slots, batch, side, side, 3); job number `turn` of a run fills slot `turn` modulo their number.
        cache: bytes of decoded images, `used` of them; `places` has the offset, height and width of each image.
    """

    def __init__(self, view: ImageView, batch: int, slots: int, cache_bytes: int) -> None:
        self.view, self.lock = view, multiprocessing.Lock()
        self.slots = _shared(np.uint8, slots, batch, view.side, view.side, 3)
        self.cache, self.used = _shared(np.uint8, max(cache_bytes, 1)), _shared(np.int64, 1)
        self.places = _shared(np.int64, max(len(view.images), 1), 3)

    def __getitem__(self, job: tuple[int, tuple[int, IntArray]]) -> _Loaded:
        turn, (number, positions) = job
        unreadable: dict[int, str] = {}
        try:
            for place, position in enumerate(positions.tolist()):
                try:
                    self.slots[turn % len(self.slots), place] = self._pixels(position, number, place)
                except (DataError, OSError) as error:
                    unreadable[position] = str(error).partition("\n")[0] or type(error).__name__
        except Exception as error:  # noqa: BLE001 - it is raised in the process that trains
            return error
        return positions, unreadable

    def _pixels(self, position: int, number: int, place: int) -> Pixels:
        base, finish = self._base(position), self.view.finish
        return base if finish is None else finish(Image.fromarray(base), number, place)

    def _base(self, position: int) -> Pixels:
        with self.lock:
            start, height, width = self.places[position].tolist()
        if height:
            cached: Pixels = self.cache[start : start + height * width * 3].reshape(height, width, 3)
            return cached
        images = self.view.images
        pixels = np.asarray(read_patiently(lambda: self.view.base(images.open(position)), images.names[position]))
        with self.lock:
            start = int(self.used[0])
            if start + pixels.size <= len(self.cache):
                self.cache[start : start + pixels.size] = pixels.reshape(-1)
                self.places[position] = (start, *pixels.shape[:2])
                self.used[0] += pixels.size
        return pixels


def _shared(kind: type[np.generic], *shape: int) -> AnyArray:
    """Return zeros in memory that forked processes share; it takes space as it is filled."""
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    return np.frombuffer(mmap.mmap(-1, size), kind).reshape(shape)


def load_batches(
    view: ImageView, jobs: Iterable[tuple[int, IntArray]], batch: int, workers: int = 0, cache_bytes: int = 0
) -> Iterator[Batch]:
    """Yield the batches of some jobs, in their order.

    Args:
        jobs: numbers, which the random part depends on, and positions of images; at most `batch` of them.
        workers: processes; 0 for this one.
        cache_bytes: size of the cache of decoded images.
    """
    count = workers if can_fork() else 0
    # Each worker loads one batch ahead; one is in use, and the next job is sent before its batch is returned.
    images = _Batches(view, batch, count + 2, cache_bytes)
    with warnings.catch_warnings():
        # Of locks that torch's threads hold in a fork, which a child that only decodes does not use, and of more
        # workers than cores, which is the choice of the user.
        warnings.simplefilter("ignore")
        feed: DataLoader[_Loaded] = DataLoader(
            images, batch_size=None, sampler=enumerate(jobs), collate_fn=_unchanged, num_workers=count,
            worker_init_fn=_reset_signals, generator=torch.Generator(),
            multiprocessing_context="fork" if count else None, prefetch_factor=1 if count else None,
        )  # fmt: skip
        loaded: Iterator[_Loaded] = iter(feed)
    for turn, found in enumerate(loaded):
        if isinstance(found, Exception):
            raise found
        positions, unreadable = found
        pixels = images.slots[turn % len(images.slots), : len(positions)]
        if unreadable:
            readable = np.array([int(p) not in unreadable for p in positions], bool)
            pixels, positions = pixels[readable], positions[readable]
        yield Batch(pixels, view.images.labels[positions], positions, unreadable)


def _unchanged(loaded: object) -> object:
    return loaded


def _reset_signals(_worker: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that trains handles Ctrl-C
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def can_fork() -> bool:
    """Return whether processes can be forked: not on macOS or Windows, nor from daemons such as Dask's workers."""
    return sys.platform == "linux" and not multiprocessing.current_process().daemon
