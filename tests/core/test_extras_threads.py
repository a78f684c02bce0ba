"""Small work runs on one thread, and leaves the number of threads as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from unseen.core.extras import one_thread


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    with threadpool_limits(2):
        yield
    torch.set_num_threads(before)


def _threads() -> tuple[int, set[int]]:
    return torch.get_num_threads(), {pool["num_threads"] for pool in threadpool_info()}


def test_one_thread_for_numpy_and_torch_and_then_as_before() -> None:
    before = _threads()
    with one_thread():
        assert _threads() == (1, {1})
    assert _threads() == before and before[0] == 2


def test_a_failure_leaves_the_threads_as_they_were() -> None:
    before = _threads()
    with pytest.raises(KeyError), one_thread():
        raise KeyError
    assert _threads() == before


def test_large_work_keeps_its_threads() -> None:
    before = _threads()
    with one_thread(small=False):
        assert _threads() == before
