"""The paper's tables: whole, and what follows from them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unseen.benchmarks.zsl.analysis import ranks_by_setting
from unseen.benchmarks.zsl.details import parameters_of
from unseen.benchmarks.zsl.published import (
    DATASETS,
    printed_table,
    published_at_home,
    published_results,
    source,
    table,
)
from unseen.benchmarks.zsl.tables import zsl_tables
from unseen.metrics import harmonic_mean


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
    assert table(3).value("unknown", "CUB PS") is None


def test_tables_agree_with_one_another() -> None:
    """Table 4 repeats the PS columns of Table 3."""
    for method in table(4).rows:
        for dataset in ("AWA1", "AWA2"):
            assert table(4).value(method, f"{dataset}:{dataset}") == table(3).value(method, f"{dataset} PS")


def test_values_by_training_set_test_set_method_and_split() -> None:
    results = published_results()
    assert results["CUB", "CUB", "ALE", "PS"].metrics["zsl"] == pytest.approx(0.549)
    assert results["CUB", "CUB", "ALE", "SS"].metrics["zsl"] == pytest.approx(0.532)
    assert results["aPY", "aPY", "DAP", "PS"].metrics["tr"] == pytest.approx(0.783)
    assert "tr" not in results["aPY", "aPY", "DAP", "SS"].metrics


def test_numbers_are_results_with_a_source() -> None:
    """Every number of Tables 3 to 6 that is not a dash, once; ranks over the five datasets have no gaps."""
    results = published_results()
    assert all("10.1109/TPAMI.2018.2857768" in result.record.source for result in results.values())
    printed = [v for n in (3, 5, 6) for row in table(n).rows.values() for v in row if not math.isnan(v)]
    across = [v for c in ("AWA1:AWA2", "AWA2:AWA1") for v in (table(4).value(row, c) for row in table(4).rows)]
    stored = [v for result in results.values() for v in result.metrics.values()]
    np.testing.assert_allclose(sorted(stored), np.sort([*printed, *across]) / 100)
    ale = results["AWA1", "AWA2", "ALE", "PS"]
    assert (ale.cell.dataset, ale.cell.parameters["test_on"]) == ("xlsa17:AWA1", "xlsa17:AWA2")
    wanted = {"zsl": 0.549, "ts": 0.237, "tr": 0.628, "H": 0.344}
    assert results["CUB", "CUB", "ALE", "PS"].metrics == pytest.approx(wanted)
    for metric, split, methods in (("zsl", "PS", 13), ("zsl", "SS", 13), ("ts", "PS", 14), ("H", "PS", 14)):
        (ranks,) = ranks_by_setting([r for r in published_at_home() if parameters_of(r).split == split], metric)
        assert ranks.table.ranks.shape == (methods, len(DATASETS))
        assert ranks.left_out == ()


def test_h_follows_from_ts_and_tr_but_for_two_numbers() -> None:
    wrong = [
        (row, name)
        for row in table(6).rows
        for name in DATASETS
        if all(values := [table(6).value(row, f"{name} {end}") for end in ("ts", "tr", "H")])
        and abs(harmonic_mean(values[0], values[1]) - values[2]) > 0.1
    ]
    assert wrong == [("IAP", "SUN"), ("SAE", "aPY")]


def test_printed_tables_have_the_decimals_of_the_paper() -> None:
    shown = {row[0].shown: [cell.shown for cell in row[1:]] for row in printed_table(5).rows}
    assert shown["DEVISE"][:6] == ["5.25", "1.29", "10.36", "6.68", "1.94", "4.23"]
    assert shown["GFZSL"][6:] == ["1.11", "0.13", "–"]
    assert printed_table(3).rows[0][1].shown == "38.9"


def test_tables_accept_published_results() -> None:
    """The paper's numbers have no interval: they are ordered, and no claim is made."""
    tables = zsl_tables([r for (home, *_), r in published_results().items() if home == "CUB"], {})
    assert [t.caption.split(" · ")[1:3] for t in tables] == [["xlsa17:CUB", "SS"], ["xlsa17:CUB", "PS"]]
    assert not any(cell.mark for table in tables for row in table.rows for cell in row)
