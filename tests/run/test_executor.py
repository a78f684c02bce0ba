"""The contract of every engine: all items, any order, exceptions come back."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable

import pytest

from unseen.core.errors import DataError, UnknownNameError, UnseenError
from unseen.engines import ENGINES, Engine, make_engine


def double(value: int) -> int:
    if value == 13:
        raise DataError("thirteen")
    return 2 * value


@pytest.mark.parametrize(
    ("name", "workers"),
    [
        ("local", 1),
        pytest.param("local", 2, marks=pytest.mark.slow),
        pytest.param("dask", 2, marks=pytest.mark.slow),
    ],
)
def test_the_contract(name: str, workers: int, shared_engine: Callable[[str, int], Engine]) -> None:
    engine = shared_engine(name, workers)
    assert sorted(engine.map(double, list(range(6)))) == [0, 2, 4, 6, 8, 10]
    assert list(engine.map(double, [])) == []
    with pytest.raises(DataError, match="thirteen"):
        list(engine.map(double, [1, 13]))
    assert list(engine.map(double, [4])) == [8]


def own_process(_item: int) -> int:
    return os.getpid()


@pytest.mark.slow
def test_local_workers_serve_all_maps_and_end_with_the_engine() -> None:
    before = set(multiprocessing.active_children())
    with make_engine("local", workers=1) as engine:
        assert set(engine.map(own_process, [1, 2])) == {os.getpid()}
    with make_engine("local", workers=2) as engine:
        rounds = [set(engine.map(own_process, list(range(8)))) for _ in range(3)]
        assert len(set.union(*rounds)) <= 2
        assert os.getpid() not in rounds[0]
    assert set(multiprocessing.active_children()) == before


def test_a_scheduler_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unseen.run.dask._CONNECT", 0.2)
    with (
        pytest.raises(UnseenError, match="no Dask scheduler answers"),
        make_engine("dask", scheduler="tcp://127.0.0.1:1"),
    ):
        pass


def test_an_unknown_engine() -> None:
    with pytest.raises(UnknownNameError, match="dask"):
        make_engine("daks")
    assert set(ENGINES) >= {"local", "dask"}
