"""Images on their way to a network: decoded and changed by processes of their own, handed over in shared memory.

    jobs: (number, positions) ─► equal parts to the workers ─► rows of a shared slot ─► batches in the order of the jobs

What an image becomes depends on its position, the number of its job and its place in it alone: the batches are the same
for any number of workers. The part of the work that does not depend on chance is kept, up to a number of bytes, in
memory that all workers read. Workers are forked, as those of torch's DataLoader are; where that cannot be done (macOS,
Windows, workers of a Dask cluster) threads take their place.
"""

from __future__ import annotations

import mmap
import multiprocessing
import signal
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from PIL import Image

from unseen.core.errors import DataError
from unseen.core.guard import read_patiently
from unseen.data import Split
from unseen.finetuning.views import Pixels
from unseen.probes.batch_order import IntArray

#: Bytes of images that are kept between epochs, over all workers.
CACHE_BYTES = 1 << 30
#: Jobs that workers are ahead of the network.
_AHEAD = 3
#: Batches that are in memory at a time: those, and the one that the network has.
BATCHES_KEPT = _AHEAD + 1
#: Where a kept image lies: offset, height, width.
_Where = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Shown:
    """What the images of a split become.

    Attributes:
        base: the part that may be kept for the next time: an image, or its pixels (h, w, 3).
        finish: the part that chance decides, by (base, number of the job, place in it); none where it is None.
        side: of what enters the network: all images become (side, side, 3).
    """

    images: Split
    base: Callable[[Image.Image], Image.Image | Pixels]
    side: int
    finish: Callable[[Image.Image, int, int], Pixels] | None = None


@dataclass(frozen=True, eq=False)
class Fed:
    """Images of a job that could be read, good until the next one is asked for, and why the others could not."""

    pixels: Pixels
    positions: IntArray
    unreadable: dict[int, str]


@dataclass(eq=False)
class _Part:
    """What one worker does of a job: places `first` on in a slot, for these positions.

    Attributes:
        kept: (n, 3), where each lies that is kept; an offset below 0 where it is not.
    """

    number: int
    slot: int
    first: int
    positions: IntArray
    kept: IntArray


@dataclass(eq=False)
class _Done:
    """What a worker has kept of a part, and why images could not be read; both by position."""

    kept: dict[int, _Where] = field(default_factory=dict)
    unreadable: dict[int, str] = field(default_factory=dict)


class _Memory:
    """Slots for jobs, and room for kept images; shared with processes that are forked after it was made."""

    def __init__(self, side: int, batch: int, cache_bytes: int) -> None:
        room = max(cache_bytes, 1)
        self.slots = np.frombuffer(mmap.mmap(-1, BATCHES_KEPT * batch * side * side * 3), np.uint8)
        self.slots = self.slots.reshape(BATCHES_KEPT, batch, side, side, 3)
        self.room = np.frombuffer(mmap.mmap(-1, room), np.uint8)  # takes memory as it is filled, not before
        self.cache_bytes = cache_bytes


class _Worker:
    """Does parts of jobs, and keeps what it decoded in its own share of the room."""

    def __init__(self, shown: Shown, memory: _Memory, free: int, last: int) -> None:
        self.shown, self.memory, self.free, self.last = shown, memory, free, last
        self.mine: dict[int, _Where] = {}  # jobs that were sent before it was known do not say that these are kept

    def __call__(self, part: _Part) -> _Done:
        done = _Done()
        for k, (position, where) in enumerate(zip(part.positions.tolist(), part.kept.tolist(), strict=True)):
            try:
                shown = self._base(position, done) if where[0] < 0 else self._kept(where)
                if self.shown.finish is not None:
                    base = shown if isinstance(shown, Image.Image) else Image.fromarray(shown)
                    shown = self.shown.finish(base, part.number, part.first + k)
                self.memory.slots[part.slot, part.first + k] = np.asarray(shown)
            except (DataError, OSError) as error:
                done.unreadable[position] = str(error).partition("\n")[0] or type(error).__name__
        return done

    def _kept(self, where: _Where) -> Pixels:
        offset, height, width = where
        found: Pixels = self.memory.room[offset : offset + height * width * 3].reshape(height, width, 3)
        return found

    def _base(self, position: int, done: _Done) -> Image.Image | Pixels:
        if position in self.mine:
            return self._kept(self.mine[position])
        images = self.shown.images
        base = read_patiently(lambda: self.shown.base(images.open(position)), images.names[position])
        if self.free < self.last:
            pixels = np.asarray(base)
            if self.free + pixels.size <= self.last:
                where = (self.free, *pixels.shape[:2])
                self._kept(where)[:] = pixels
                self.free += pixels.size
                done.kept[position] = self.mine[position] = where
        return base


def feed(
    shown: Shown, jobs: Iterable[tuple[int, IntArray]], *, batch: int, workers: int = 0, cache_bytes: int = 0
) -> Iterator[Fed]:
    """The batches of some jobs, in their order.

    Args:
        jobs: numbers, which chance depends on, and positions of images; at most `batch` of them.
        workers: processes; 0 for a thread of this one.
        cache_bytes: of images that are kept from job to job.
    """
    memory = _Memory(shown.side, batch, cache_bytes)
    crew = _processes if workers and can_fork() else _threads
    bounds = np.linspace(0, cache_bytes, max(workers, 1) + 1).astype(int).tolist()
    with crew([_Worker(shown, memory, first, last) for first, last in pairwise(bounds)]) as (send, receive):
        kept: dict[int, _Where] = {}
        waiting: deque[tuple[int, IntArray]] = deque()

        def fetch() -> Fed:
            slot, positions = waiting.popleft()
            unreadable: dict[int, str] = {}
            for done in receive():
                kept.update(done.kept)
                unreadable |= done.unreadable
            pixels = memory.slots[slot, : len(positions)]
            if unreadable:
                readable = np.array([int(p) not in unreadable for p in positions], bool)
                return Fed(pixels[readable], positions[readable], unreadable)
            return Fed(pixels, positions, unreadable)

        for turn, (number, positions) in enumerate(jobs):
            slot = turn % BATCHES_KEPT
            send(_parts(number, slot, positions, max(workers, 1), kept))
            waiting.append((slot, positions))
            if len(waiting) > _AHEAD:
                yield fetch()
        while waiting:
            yield fetch()


def can_fork() -> bool:
    """Whether processes can be forked here: not on macOS or Windows, nor from the daemons that Dask's workers are."""
    return sys.platform == "linux" and not multiprocessing.current_process().daemon


def _parts(number: int, slot: int, positions: IntArray, workers: int, kept: dict[int, _Where]) -> list[_Part]:
    """A job in equal parts, one per worker."""
    bounds = np.linspace(0, len(positions), workers + 1).round().astype(int).tolist()
    parts = []
    for first, last in pairwise(bounds):
        where = [kept.get(position, (-1, 0, 0)) for position in positions[first:last].tolist()]
        parts.append(_Part(number, slot, first, positions[first:last], np.array(where, np.int64).reshape(-1, 3)))
    return parts


class _threads:
    """Workers that are threads of this process: what a crew of processes does, without them."""

    def __init__(self, workers: list[_Worker]) -> None:
        self.workers = workers
        self.pools = [ThreadPoolExecutor(1, thread_name_prefix="unseen-feed") for _ in workers]
        self.running: deque[list[Any]] = deque()

    def __enter__(self) -> tuple[Callable[[list[_Part]], None], Callable[[], list[_Done]]]:
        def send(parts: list[_Part]) -> None:
            work = zip(self.pools, self.workers, parts, strict=True)
            self.running.append([pool.submit(worker, part) for pool, worker, part in work])

        return send, lambda: [future.result() for future in self.running.popleft()]

    def __exit__(self, *_: object) -> None:
        for pool in self.pools:
            pool.shutdown(cancel_futures=True)


class _processes:
    """Workers that are forked from this process. They end when their pipe closes, also if this process is killed."""

    def __init__(self, workers: list[_Worker]) -> None:
        context = multiprocessing.get_context("fork")
        self.pipes: list[Any] = []
        self.children: list[Any] = []
        for worker in workers:
            here, there = context.Pipe()
            self.pipes.append(here)
            child = context.Process(target=_serve, args=(worker, there, list(self.pipes)), daemon=True)
            with warnings.catch_warnings():
                # A child that only decodes touches no lock of torch's threads; Python warns of them all the same.
                warnings.simplefilter("ignore", DeprecationWarning)
                child.start()
            there.close()
            self.children.append(child)

    def __enter__(self) -> tuple[Callable[[list[_Part]], None], Callable[[], list[_Done]]]:
        def send(parts: list[_Part]) -> None:
            for pipe, part in zip(self.pipes, parts, strict=True):
                pipe.send(part)

        return send, lambda: [self._answer(pipe) for pipe in self.pipes]

    def _answer(self, pipe: Any) -> _Done:
        try:
            answer = pipe.recv()
        except (EOFError, ConnectionError) as error:
            raise RuntimeError(
                "a process that decodes images has ended; it may have been killed for memory."
            ) from error
        if isinstance(answer, BaseException):
            raise answer
        done: _Done = answer
        return done

    def __exit__(self, *_: object) -> None:
        for pipe in self.pipes:
            pipe.close()
        for child in self.children:
            child.join(1)
            if child.is_alive():
                child.terminate()
                child.join()


def _serve(worker: _Worker, pipe: Any, others: list[Any]) -> None:
    """The life of a forked worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the parent that answers Ctrl-C
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in others:  # ends of pipes that are the parent's: while one is open here, nobody sees it close there
        other.close()
    while True:
        try:
            part = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer: _Done | BaseException = worker(part)
        except BaseException as error:  # noqa: BLE001 - it is raised where the images were asked for
            answer = error
        pipe.send(answer)
