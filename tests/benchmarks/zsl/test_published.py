"""The paper's tables: whole, and what follows from them."""

from __future__ import annotations

import math

import pytest

from unseen.benchmarks.zsl.published import DATASETS, cross_dataset_pairs, observations, published_value, source, table
from unseen.core.errors import UnknownNameError


def test_every_table_is_whole() -> None:
    shapes = {n: (len(table(n).rows), len(table(n).columns)) for n in range(1, 7)}
    assert shapes == {1: (5, 11), 2: (10, 8), 3: (13, 10), 4: (12, 4), 5: (10, 9), 6: (14, 15)}
    for n in range(1, 7):
        assert all(len(row) == len(table(n).columns) for row in table(n).rows.values())
    assert "10.1109/TPAMI.2018.2857768" in source()


def test_numbers_by_eye() -> None:
    assert table(3).value("ESZSL", "CUB PS") == 53.9
    assert table(6).value("CMT*", "aPY H") == 19.0
    assert table(5).value("GFZSL", "all") is None
    assert table(2).value("SSE", "AWA1 O") == 76.3
    assert table(1).value("AWA2", "ps_test_unseen") == 7913
    assert table(3).value("nobody", "CUB PS") is None
    with pytest.raises(UnknownNameError, match="column"):
        table(3).column("CUB")
    with pytest.raises(UnknownNameError, match="table"):
        table(7)


def test_tables_agree_with_one_another() -> None:
    """Table 4 repeats the PS columns of Table 3."""
    for method in table(4).rows:
        for dataset in ("AWA1", "AWA2"):
            assert table(4).value(method, f"{dataset}:{dataset}") == table(3).value(method, f"{dataset} PS")


def test_values_for_our_cells() -> None:
    assert published_value("xlsa17:CUB", "ALE", "zsl", "PS") == pytest.approx(0.549)
    assert published_value("xlsa17:CUB?split=SS", "ALE", "zsl", "SS") == pytest.approx(0.532)
    assert published_value("xlsa17:APY", "DAP", "tr", "PS") == pytest.approx(0.783)
    assert published_value("xlsa17:APY", "DAP", "tr", "SS") is None
    assert published_value("packaged:emoji", "DAP", "zsl", "PS") is None


def test_observations_have_no_gaps() -> None:
    for metric, split, methods in (("zsl", "PS", 13), ("zsl", "SS", 13), ("ts", "PS", 14), ("H", "PS", 14)):
        found = observations(metric, split)
        assert len(found) == methods
        assert all(len(v) == len(DATASETS) and not any(map(math.isnan, v)) for v in found.values())
    first, second = cross_dataset_pairs()
    assert len(first) == len(second) == 24
