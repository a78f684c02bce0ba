"""Linear algebra on one thread, where threads cost more than they give."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread(small: bool = True) -> Iterator[None]:
    """numpy and torch on one thread, if the work is small.

    The threads of a small product spend their time in waiting for one another, and where other programs hold the cores
    they wait a hundred times longer than they work.
    """
    if not small:
        yield
        return
    import torch
    from threadpoolctl import threadpool_limits

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(threads)
