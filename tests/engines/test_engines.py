"""The contract of every engine: all items, any order, exceptions come back."""

from __future__ import annotations

import pytest

from unseen.core.errors import DataError, UnknownNameError, UnseenError
from unseen.engines import ENGINES, make_engine


def double(value: int) -> int:
    if value == 13:
        raise DataError("thirteen")
    return 2 * value


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("local", {}),
        pytest.param("local", {"workers": 2}, marks=pytest.mark.slow),
        pytest.param("dask", {"workers": 2}, marks=pytest.mark.slow),
    ],
)
def test_the_contract(name: str, options: dict[str, int]) -> None:
    with make_engine(name, **options) as engine:
        assert sorted(engine.map(double, list(range(6)))) == [0, 2, 4, 6, 8, 10]
        assert list(engine.map(double, [])) == []
        with pytest.raises(DataError, match="thirteen"):
            list(engine.map(double, [1, 13]))
        assert list(engine.map(double, [4])) == [8]


def test_a_scheduler_that_is_not_there() -> None:
    with (
        pytest.raises(UnseenError, match="no Dask scheduler answers"),
        make_engine("dask", scheduler="tcp://127.0.0.1:1"),
    ):
        pass


def test_an_unknown_engine() -> None:
    with pytest.raises(UnknownNameError, match="dask"):
        make_engine("daks")
    assert set(ENGINES) >= {"local", "dask"}
