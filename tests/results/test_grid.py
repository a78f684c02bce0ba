"""Means, spreads and the wide form, against numpy and by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unseen.core.records import Cell, Result
from unseen.results.grid import grids, summarise
from unseen.results.styles import MetricStyle, declare_styles, headline_first, metric_style, undescribed

Maker = Callable[..., Result]


@given(st.lists(st.floats(0, 1), min_size=2, max_size=8))
def test_mean_and_spread_agree_with_numpy(values: list[float]) -> None:
    results = [Result(Cell("probe", "m", "d", {"seed": s}), {"top1": v}) for s, v in enumerate(values)]
    (summary,) = summarise(results, "top1")
    assert summary.mean == pytest.approx(np.mean(values), abs=1e-12)
    assert summary.std == pytest.approx(np.std(values, ddof=1), abs=1e-12)
    assert summary.spread == "std"
    assert summary.low == pytest.approx(summary.mean - summary.std)
    assert summary.values == tuple(values)


def test_order_of_arrival_changes_nothing(make_result: Maker) -> None:
    results = [make_result(seed=s, top1=0.1 * k) for k, s in enumerate((22, 37, 45, 77, 93))]
    assert summarise(results, "top1") == summarise(results[::-1], "top1")


def test_one_seed_takes_the_interval_of_the_benchmark(make_result: Maker) -> None:
    (summary,) = summarise([make_result(top1=0.5)], "top1")
    assert math.isnan(summary.std)
    assert (summary.low, summary.high, summary.spread) == (0.48, 0.52, "interval")
    assert summary.text == "50.0"
    (bare,) = summarise([make_result(metrics={"top1": 0.5})], "top1")
    assert (bare.low, bare.high, bare.spread) == (0.5, 0.5, "")


def test_failures_and_other_metrics_are_left_out(make_result: Maker) -> None:
    results = [make_result(), Result(make_result(seed=37).cell, error="no"), make_result(seed=45, metrics={"tau": 1.0})]
    (summary,) = summarise(results, "top1")
    assert summary.seeds == (22,)
    assert summarise(results, "unheard of") == []


def test_settings_are_kept_apart(make_result: Maker) -> None:
    results = [make_result(seed=s, parameters={"shots": n}) for s in (22, 37) for n in (16, 2, "all")]
    assert len(summarise(results, "top1")) == 3
    (grid,) = grids(results)
    assert grid.titles() == ["shots=2", "shots=16", "shots=all"]


def test_an_overtaken_revision_does_not_count_and_is_said(make_result: Maker) -> None:
    old, new = make_result(top1=0.1, revision="r1"), make_result(top1=0.5, revision="r2")
    (summary,) = summarise([old, new], "top1")
    assert summary.values == (0.5,)
    (grid,) = grids([old, new])
    assert grid.older == 1
    other = make_result(seed=37, top1=0.7, revision="r1")
    assert sorted(s.values for s in summarise([old, other, new], "top1")) == [(0.5,), (0.7,)], "weights are not mixed"
    (grid,) = grids([old, other, new])
    assert grid.titles() == ["weights=newest", "weights=r1 (older)"]


def test_not_a_number_is_shown_and_is_never_best(make_result: Maker) -> None:
    results = [make_result("a", top1=math.nan), make_result("b", top1=0.2), make_result("c", top1=0.1)]
    (grid,) = grids(results, ["top1"])
    (column,) = grid.columns
    assert grid.best(column) == {"b"}
    assert grid.models[-1] == "a"
    assert grid.cells["a", column].text == "not a number"


def test_grid_of_several_datasets_shows_the_headline(make_result: Maker) -> None:
    results = [
        make_result(m, d, s, top1)
        for m, d, s, top1 in [("a", "x", 22, 0.5), ("a", "x", 37, 0.7), ("a", "y", 22, 0.2), ("b", "x", 22, 0.9)]
    ]
    (grid,) = grids(results)
    assert [(c.dataset, c.metric) for c in grid.columns] == [("x", "top1"), ("y", "top1")]
    assert grid.models == ("a", "b"), "a model with gaps comes after one without"
    x, y = grid.columns
    assert grid.best(x) == {"b"}
    assert grid.best(y) == set(), "alone is not best"
    assert grid.cells["a", x].text == "60.0 ± 14.1"
    assert ("b", y) not in grid.cells


def test_grid_of_one_dataset_shows_all_metrics(make_result: Maker) -> None:
    (grid,) = grids([make_result("a", top1=0.5), make_result("b", top1=0.5)])
    assert grid.titles() == ["top-1 (%)", "top-5 (%)"]
    assert grid.best(grid.columns[0]) == {"a", "b"}


def test_where_less_is_better() -> None:
    results = [Result(Cell("zsl", m, "d"), {"loss": v}) for m, v in (("a", 3.0), ("b", 1.5))]
    (grid,) = grids(results)
    assert grid.models == ("b", "a")
    assert grid.best(grid.columns[0]) == {"b"}


def test_only_failures_make_no_grid(make_result: Maker) -> None:
    assert grids([Result(make_result().cell, error="no")]) == []
    assert grids([]) == []


@pytest.mark.parametrize(
    ("name", "value", "spread", "expected"),
    [
        ("top1", 0.71349, math.nan, "71.3"),
        ("top1", 0.71349, 0.0042, "71.3 ± 0.4"),
        ("top1_low", 0.5, math.nan, "50.0"),
        ("logme", 1.23456, 0.012345, "1.235 ± 0.012"),
        ("logme", -123.456, math.nan, "-123.5"),
        ("logme", 0.0, math.nan, "0.000"),
        ("logme", 1.5e-9, math.nan, "1.500e-09"),
        ("logme", math.inf, math.nan, "∞"),
        ("logme", -math.inf, math.nan, "-∞"),
    ],
)
def test_numbers_as_people_read_them(name: str, value: float, spread: float, expected: str) -> None:
    assert metric_style(name).text(value, spread) == expected


def test_the_metric_to_judge_by_comes_first() -> None:
    assert headline_first({"zeta", "top5", "alpha", "top1", "alpha_high"}) == ["top1", "top5", "alpha", "zeta"]
    assert metric_style("some_thing").heading == "some thing"


def test_a_benchmark_brings_its_own_styles() -> None:
    declare_styles("styled", [MetricStyle("cost", "cost", higher_is_better=False), MetricStyle("top1", "mine first")])
    assert headline_first({"top1", "cost", "loss"}, "styled") == ["cost", "top1", "loss"]
    assert metric_style("top1", "styled").title == "mine first"
    assert metric_style("top1", "probe").title == "top-1", "others are not disturbed"
    assert metric_style("cost_low", "styled").title == "cost, low"
    odd = Result(Cell("probe", "m", "d"), {"top1": 1.0, "cost_low": 0.5})
    assert undescribed([Result(Cell("styled", "m", "d"), {"cost": 1.0, "cost_high": 2.0, "loss": 1.0}), odd]) == [
        "probe"
    ]
    results = [Result(Cell("styled", m, "d"), {"cost": v}) for m, v in (("a", 3.0), ("b", 1.5))]
    (grid,) = grids(results)
    assert grid.models == ("b", "a")


def test_an_interval_of_no_width_is_wilsons_for_as_many_images() -> None:
    def bounds(value: float, low: float, high: float, **details: int) -> tuple[float, float] | None:
        metrics = {"top1": value, "top1_low": low, "top1_high": high}
        return summarise([Result(Cell("probe", "m", "d"), metrics, details=details)], "top1")[0].bounds

    assert bounds(0.9, 0.8, 0.95, test_images=42) == (0.8, 0.95)
    assert bounds(1.0, 1.0, 1.0) == (1.0, 1.0), "of how many images is not known"
    found = bounds(1.0, 1.0, 1.0, test_images=42)
    assert found == pytest.approx((42 / (42 + 1.959964**2), 1.0))  # Wilson's where all are right: n / (n + z squared)
