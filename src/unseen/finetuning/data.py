"""Batches of images for fine-tuning: decoded and augmented by worker processes, returned in shared memory.

    jobs: (number, positions) ─► equal parts to the workers ─► rows of a shared slot ─► batches in the order of the jobs

The images of step `s` and the crop of each follow from (seed, s) alone: there is no iterator whose state would have to
be saved, a resumed training sees the same batches, and so does any number of workers. The deterministic part of the
work is cached, up to a number of bytes, in memory that all workers read. Workers are forked, as those of torch's
DataLoader are; where that is impossible (macOS, Windows, workers of a Dask cluster) threads replace them.

`concurrent.futures.ProcessPoolExecutor` is not used: its workers survive a parent that is killed.
"""

from __future__ import annotations

import mmap
import multiprocessing
import signal
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.connection import Connection

import numpy as np
from PIL import Image

from unseen.core.arrays import IntArray, Pixels
from unseen.core.errors import DataError
from unseen.core.guard import read_patiently
from unseen.data import Split
from unseen.finetuning.views import TrainView
from unseen.probes.sgd import BatchOrder

#: Bytes of images that are cached between epochs, over all workers.
CACHE_BYTES = 1 << 30
#: Number of jobs that workers are ahead of the network.
_AHEAD = 3
#: Number of batches in memory: those, and the one that the network uses.
_SLOTS = _AHEAD + 1
#: Offset, height and width of a cached image.
_Place = tuple[int, int, int]


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
        workers: processes that decode and crop; 0 for a thread of this one. They change no batch.
        cache_bytes: size of the cache of decoded images.

    Attributes:
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
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        if not len(images):
            raise DataError("fine-tuning needs at least one training image; the split is empty.")
        self.images, self.batch_size, self.seed = images, batch_size, seed
        self.workers, self.cache_bytes = workers, cache_bytes
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
    jobs = (
        (number, np.arange(start, min(start + batch_size, len(images)), dtype=np.int64))
        for number, start in enumerate(range(0, len(images), batch_size))
    )
    return load_batches(ImageView(images, view, side), jobs, batch_size, workers)


def micro_batches(count: int, size: int) -> Sequence[slice]:
    """Return slices of at most `size` out of `count`, of equal length: a single last image would upset batch norm."""
    bounds = _bounds(count, max(1, -(-count // size)))
    return [slice(start, stop) for start, stop in pairwise(bounds)]


def _bounds(count: int, parts: int) -> list[int]:
    bounds: list[int] = np.linspace(0, count, parts + 1).round().astype(int).tolist()
    return bounds


@dataclass(eq=False)
class _Part:
    """The share of one worker in a job: places `first` on in a slot, for these positions.

    Attributes:
        cached: (n, 3), the place of each cached image; an offset below 0 if it is not cached.
    """

    number: int
    slot: int
    first: int
    positions: IntArray
    cached: IntArray


#: Places of images that a worker has cached, and why others could not be read; both by position.
_Answer = tuple[dict[int, _Place], dict[int, str]]
#: Send one part to each worker; receive the answers to the oldest parts that were sent.
_Channel = tuple[Callable[[list[_Part]], None], Callable[[], list[_Answer]]]


class _Worker:
    """Process parts of jobs, and cache decoded images in a share of the cache.

    Attributes:
        slots: (slots, batch, side, side, 3), shared with processes that are forked later.
        cache: shared bytes; this worker writes from `free` to `last`.
        own, new: places of the images that it cached, of all parts and of the last one.
    """

    def __init__(self, view: ImageView, slots: Pixels, cache: Pixels, free: int, last: int) -> None:
        self.view, self.slots, self.cache, self.free, self.last = view, slots, cache, free, last
        self.own: dict[int, _Place] = {}  # parts that were sent earlier do not know that these are cached
        self.new: dict[int, _Place] = {}

    def __call__(self, part: _Part) -> _Answer:
        self.new, unreadable = {}, dict[int, str]()
        for k, (position, place) in enumerate(zip(part.positions.tolist(), part.cached.tolist(), strict=True)):
            try:
                pixels = self._load(position) if place[0] < 0 else self._cached(place)
                if self.view.finish is not None:
                    base = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
                    pixels = self.view.finish(base, part.number, part.first + k)
                self.slots[part.slot, part.first + k] = np.asarray(pixels)
            except (DataError, OSError) as error:
                unreadable[position] = str(error).partition("\n")[0] or type(error).__name__
        return self.new, unreadable

    def _cached(self, place: _Place) -> Pixels:
        offset, height, width = place
        found: Pixels = self.cache[offset : offset + height * width * 3].reshape(height, width, 3)
        return found

    def _load(self, position: int) -> Image.Image | Pixels:
        if position in self.own:
            return self._cached(self.own[position])
        images = self.view.images
        base = read_patiently(lambda: self.view.base(images.open(position)), images.names[position])
        if self.free < self.last:
            pixels = np.asarray(base)
            if self.free + pixels.size <= self.last:
                place = self.own[position] = self.new[position] = (self.free, *pixels.shape[:2])
                self._cached(place)[:] = pixels
                self.free += pixels.size
        return base


def load_batches(
    view: ImageView, jobs: Iterable[tuple[int, IntArray]], batch: int, workers: int = 0, cache_bytes: int = 0
) -> Iterator[Batch]:
    """Yield the batches of some jobs, in their order.

    Args:
        jobs: numbers, which the random part depends on, and positions of images; at most `batch` of them.
        workers: processes; 0 for a thread of this one.
        cache_bytes: size of the cache of decoded images.
    """
    slots = np.frombuffer(mmap.mmap(-1, _SLOTS * batch * view.side * view.side * 3), np.uint8)
    slots = slots.reshape(_SLOTS, batch, view.side, view.side, 3)
    cache = np.frombuffer(mmap.mmap(-1, max(cache_bytes, 1)), np.uint8)  # uses memory as it is filled
    count = max(workers, 1)
    shares = pairwise(np.linspace(0, cache_bytes, count + 1).astype(int).tolist())
    start = _processes if workers and can_fork() else _threads
    with start([_Worker(view, slots, cache, first, last) for first, last in shares]) as (send, receive):
        cached: dict[int, _Place] = {}
        waiting: deque[tuple[int, IntArray]] = deque()

        def fetch() -> Batch:
            slot, positions = waiting.popleft()
            unreadable: dict[int, str] = {}
            for places, reasons in receive():
                cached.update(places)
                unreadable |= reasons
            pixels = slots[slot, : len(positions)]
            if unreadable:
                readable = np.array([int(p) not in unreadable for p in positions], bool)
                pixels, positions = pixels[readable], positions[readable]
            return Batch(pixels, view.images.labels[positions], positions, unreadable)

        for turn, (number, positions) in enumerate(jobs):
            slot, bounds = turn % _SLOTS, pairwise(_bounds(len(positions), count))
            places = np.array([cached.get(p, (-1, 0, 0)) for p in positions.tolist()], np.int64).reshape(-1, 3)
            send([_Part(number, slot, a, positions[a:b], places[a:b]) for a, b in bounds])
            waiting.append((slot, positions))
            if len(waiting) > _AHEAD:
                yield fetch()
        while waiting:
            yield fetch()


def can_fork() -> bool:
    """Return whether processes can be forked: not on macOS or Windows, nor from daemons such as Dask's workers."""
    return sys.platform == "linux" and not multiprocessing.current_process().daemon


@contextmanager
def _threads(workers: list[_Worker]) -> Iterator[_Channel]:
    """Run the workers as threads of this process."""
    pools = [ThreadPoolExecutor(1, thread_name_prefix="unseen-feed") for _ in workers]
    running: deque[list[Future[_Answer]]] = deque()

    def send(parts: list[_Part]) -> None:
        running.append([p.submit(worker, part) for p, worker, part in zip(pools, workers, parts, strict=True)])

    def receive() -> list[_Answer]:
        return [future.result() for future in running.popleft()]

    try:
        yield send, receive
    finally:
        for pool in pools:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _processes(workers: list[_Worker]) -> Iterator[_Channel]:
    """Fork the workers from this process. They end when their pipe closes, also if this process is killed."""
    context = multiprocessing.get_context("fork")
    pipes: list[Connection] = []
    children = []
    for worker in workers:
        here, there = context.Pipe()
        pipes.append(here)
        child = context.Process(target=_serve, args=(worker, there, list(pipes)), daemon=True)
        with warnings.catch_warnings():
            # A child that only decodes uses no lock of torch's threads; Python warns of them nevertheless.
            warnings.simplefilter("ignore", DeprecationWarning)
            child.start()
        there.close()
        children.append(child)

    def send(parts: list[_Part]) -> None:
        for pipe, part in zip(pipes, parts, strict=True):
            pipe.send(part)

    def receive() -> list[_Answer]:
        return [_receive(pipe) for pipe in pipes]

    try:
        yield send, receive
    finally:
        for pipe in pipes:
            pipe.close()
        for child in children:
            child.join(1)
            if child.is_alive():
                child.terminate()
                child.join()


def _receive(pipe: Connection) -> _Answer:
    try:
        answer: _Answer | BaseException = pipe.recv()
    except (EOFError, ConnectionError) as error:
        raise RuntimeError("a process that decodes images has ended; it may have been killed for memory.") from error
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _serve(worker: _Worker, pipe: Connection, others: list[Connection]) -> None:
    """Process parts in a forked worker until its pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in others:  # ends of pipes that belong to the parent: while one is open here, it never closes there
        other.close()
    while True:
        try:
            part = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer: _Answer | BaseException = worker(part)
        except BaseException as error:  # noqa: BLE001 - it is raised in the parent
            answer = error
        pipe.send(answer)
