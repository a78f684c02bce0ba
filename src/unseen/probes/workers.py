"""Threads that each run single-threaded kernels, so that results do not depend on how many there are.

A matrix product that is split by its library over two threads rounds differently than on one. Here the work is cut
into pieces that depend on the data alone, every piece runs on one thread, and sums are taken in the order of the
pieces: the same bits with any number of threads. It is also faster: two independent products keep two cores busy,
where one product split in two waits for its slower half.

The number of threads is `torch.get_num_threads()`, which is respected and left as it was.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, Self, TypeVar

import torch

Item = TypeVar("Item")
Found = TypeVar("Found")
Given = ParamSpec("Given")


class Workers:
    """A pool of single-threaded workers, and one driver thread that distributes pieces to them.

    Use as a context manager. `run` and `submit` are for the caller; `ordered` is for code inside `run`.
    """

    def __init__(self, count: int | None = None) -> None:
        self.count = torch.get_num_threads() if count is None else count
        self._pool = ThreadPoolExecutor(self.count, thread_name_prefix="probe", initializer=_single_threaded)
        self._driver = ThreadPoolExecutor(1, thread_name_prefix="probe-driver", initializer=_single_threaded)

    def __enter__(self) -> Self:
        before = torch.get_num_threads()
        barrier = threading.Barrier(self.count)
        started = [self._pool.submit(barrier.wait) for _ in range(self.count)]
        started.append(self._driver.submit(lambda: 0))
        for future in started:
            future.result()
        # A thread's own setting also becomes the default of threads that start later: put that back.
        torch.set_num_threads(before)
        return self

    def __exit__(self, *_error: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._driver.shutdown(cancel_futures=True)

    def run(self, work: Callable[Given, Found], *args: Given.args, **kwargs: Given.kwargs) -> Found:
        """Run `work` on the driver thread, from where it may call `ordered`."""
        return self._driver.submit(work, *args, **kwargs).result()

    def submit(self, work: Callable[Given, Found], *args: Given.args, **kwargs: Given.kwargs) -> Future[Found]:
        """Run `work` on a worker. It must not wait for other workers."""
        return self._pool.submit(work, *args, **kwargs)

    def ordered(self, work: Callable[[Item], Found], items: Iterable[Item]) -> Iterator[Found]:
        """Results of `work` in the order of `items`, with few of them held at a time."""
        waiting: deque[Future[Found]] = deque()
        for item in items:
            waiting.append(self._pool.submit(work, item))
            if len(waiting) > 2 * self.count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _single_threaded() -> None:
    """Make torch's kernels in this thread, and in no other, run on one core."""
    torch.get_num_threads()  # the first call in a thread overwrites its setting, so it must come before
    torch.set_num_threads(1)
