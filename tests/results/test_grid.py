"""Summaries over seeds, intervals, decisions and the order of a grid, against numpy, `unseen.stats` and by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unseen.benchmarks import BENCHMARKS, Benchmark
from unseen.core.records import Cell, Result
from unseen.results.grid import decide_summaries, grids, mean_candidate, pack_correct, summarise
from unseen.results.info import BenchmarkInfo, MetricStyle, headline_first, metric_style
from unseen.results.table import heading
from unseen.stats import accuracy_interval, decide

Maker = Callable[..., Result]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the first call imports scipy
@given(st.lists(st.floats(0, 1), min_size=2, max_size=8))
def test_mean_and_deviation_agree_with_numpy(values: list[float]) -> None:
    results = [Result(Cell("probe", "m", "d", {"seed": s}), {"top1": v}) for s, v in enumerate(values)]
    (summary,) = summarise(results, "top1")
    assert summary.value == summary.interval.value == pytest.approx(np.mean(values), abs=1e-12)
    assert summary.std == pytest.approx(np.std(values, ddof=1), abs=1e-12)
    assert not summary.interval.known, "a deviation over seeds is not a confidence interval"
    assert summary.values == tuple(values)


def test_order_of_arrival_changes_nothing(make_result: Maker) -> None:
    results = [make_result(seed=s, top1=0.1 * k) for k, s in enumerate((22, 37, 45, 77, 93))]
    (one,), (other,) = summarise(results, "top1"), summarise(results[::-1], "top1")
    assert (one.values, one.seeds, one.cells) == (other.values, other.seeds, other.cells)


def test_stored_limits_are_averaged_over_seeds_if_all_have_them(make_result: Maker) -> None:
    (summary,) = summarise([make_result(top1=0.5)], "top1")
    assert math.isnan(summary.std)
    assert (summary.interval.low, summary.interval.high) == (0.48, 0.52)
    (both,) = summarise([make_result(top1=0.5), make_result(seed=37, top1=0.7)], "top1")
    assert (both.interval.low, both.interval.high) == (pytest.approx(0.58), pytest.approx(0.62))
    (bare,) = summarise([make_result(metrics={"top1": 0.5})], "top1")
    assert not bare.interval.known
    assert bare.interval.reason == "no interval is stored"
    half = [make_result(top1=0.5), make_result(seed=37, metrics={"top1": 0.5})]
    assert not summarise(half, "top1")[0].interval.known


def correct_result(model: str, correct: np.ndarray, seed: int = 22, **more: Any) -> Result:
    cell = Cell("probe", model, "d", {"seed": seed}, revision=f"{model}+data")
    details = {"correct": pack_correct(correct), "test_images": len(correct), "chance": 0.1, **more}
    return Result(cell, {"top1": float(correct.mean()), "top1_low": 0.0, "top1_high": 1.0}, details=details)


def test_the_interval_comes_from_the_outcomes_if_they_are_stored() -> None:
    correct = np.random.default_rng(0).random((2, 200)) < 0.8
    results = [correct_result("m", row, seed) for seed, row in enumerate(correct)]
    (summary,) = summarise(results, "top1")
    expected = accuracy_interval(correct)
    assert (summary.interval.low, summary.interval.high) == (expected.low, expected.high)
    assert (summary.images, summary.chance) == (200, 0.1)
    np.testing.assert_array_equal(summary.candidate.outcomes, correct.mean(axis=0))


def test_the_median_over_seeds_has_the_interval_of_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    correct = np.random.default_rng(0).random((3, 100)) < [[0.5], [0.6], [0.9]]
    results = [
        replace(r, cell=replace(r.cell, benchmark="vtab"))
        for r in (correct_result("m", row, seed) for seed, row in enumerate(correct))
    ]
    (summary,) = summarise(results, "top1")
    middle = correct[np.argsort(correct.mean(axis=1))[1]]
    assert summary.value == pytest.approx(middle.mean())
    assert summary.interval.low == accuracy_interval(middle).low


def test_decisions_compare_on_the_same_images() -> None:
    generator = np.random.default_rng(1)
    hard = generator.random(2000)
    weak, strong = hard < 0.60, hard < 0.64
    (grid,) = grids([correct_result("weak", weak), correct_result("strong", strong)])
    decision = grid.decisions[grid.columns[0]]
    assert decision.pairs["strong", "weak"].paired
    assert decision.pairs["strong", "weak"].significant
    assert decision.possibly_best == ("strong",)
    other = replace(correct_result("other", weak), cell=Cell("probe", "other", "d", {"seed": 22}, revision="o+else"))
    assert not decide_summaries(summarise([correct_result("weak", weak), other], "top1")).pairs["weak", "other"].paired


def test_a_mean_over_datasets_is_compared_image_by_image() -> None:
    found = {}
    for model, shift in (("a", 0.0), ("b", 0.03)):
        parts = []
        for dataset, size in (("d", 400), ("e", 1600)):
            hard = np.random.default_rng(len(dataset) + size).random(size)
            result = correct_result(model, hard < 0.6 + shift)
            cell = replace(result.cell, dataset=dataset, revision=f"{model}+{dataset}")
            parts += summarise([replace(result, cell=cell)], "top1")
        found[model] = mean_candidate(parts)
        assert found[model].interval is not None
        assert found[model].interval.value == pytest.approx(np.mean([part.value for part in parts]))
    assert decide(found).pairs["b", "a"].paired
    assert decide(found).pairs["b", "a"].significant


def test_failures_and_other_metrics_are_left_out(make_result: Maker) -> None:
    results = [make_result(), Result(make_result(seed=37).cell, error="no"), make_result(seed=45, metrics={"tau": 1.0})]
    (summary,) = summarise(results, "top1")
    assert summary.seeds == (22,)
    assert summarise(results, "unheard of") == []


def test_settings_are_kept_apart(make_result: Maker) -> None:
    results = [make_result(seed=s, parameters={"shots": n}) for s in (22, 37) for n in (16, 2, "all")]
    assert len(summarise(results, "top1")) == 3
    (grid,) = grids(results)
    assert heading(grid, grid.columns, {})[1] == ["shots 2", "shots 16", "shots all"]


def test_an_overtaken_revision_does_not_count_and_is_said(make_result: Maker) -> None:
    old, new = make_result(top1=0.1, revision="r1"), make_result(top1=0.5, revision="r2")
    (summary,) = summarise([old, new], "top1")
    assert summary.values == (0.5,)
    (grid,) = grids([old, new])
    assert grid.older == 1
    other = make_result(seed=37, top1=0.7, revision="r1")
    assert sorted(s.values for s in summarise([old, other, new], "top1")) == [(0.5,), (0.7,)], "weights are not mixed"
    (grid,) = grids([old, other, new])
    assert heading(grid, grid.columns, {})[1] == ["weights newest", "weights r1 (older)"]


def test_not_a_number_is_shown_and_is_never_best(make_result: Maker) -> None:
    results = [make_result("a", top1=math.nan), make_result("b", top1=0.2), make_result("c", top1=0.1)]
    (grid,) = grids(results, ["top1"])
    (column,) = grid.columns
    assert grid.decisions[column].order == ("b", "c")
    assert grid.decisions[column].incomplete == {"a": "no finite value"}
    assert grid.models[-1] == "a"


def test_grid_of_several_datasets_shows_the_headline(make_result: Maker) -> None:
    results = [
        make_result(m, d, s, top1)
        for m, d, s, top1 in [("a", "x", 22, 0.5), ("a", "x", 37, 0.7), ("a", "y", 22, 0.2), ("b", "x", 22, 0.9)]
    ]
    (grid,) = grids(results)
    assert [(c.dataset, c.metric) for c in grid.columns] == [("x", "top1"), ("y", "top1")]
    assert grid.models == ("a", "b"), "a model with gaps comes after one without"
    x, y = grid.columns
    assert grid.decisions[x].best == "b"
    assert grid.decisions[y].best is None, "alone is not best"
    assert grid.cells["a", x].value == pytest.approx(0.6)
    assert ("b", y) not in grid.cells


def test_a_grid_shows_the_headline_metric_or_those_that_are_named(make_result: Maker) -> None:
    results = [make_result("a", top1=0.5), make_result("b", top1=0.5)]
    (grid,) = grids(results)
    assert [column.metric for column in grid.columns] == ["top1"]
    (grid,) = grids(results, ["top5", "none", "top1"])
    assert [column.metric for column in grid.columns] == ["top5", "top1"]
    assert grids(results, ["none"]) == []


def test_where_less_is_better() -> None:
    results = [Result(Cell("zsl", m, "d"), {"loss": v}) for m, v in (("a", 3.0), ("b", 1.5))]
    (grid,) = grids(results)
    assert grid.models == ("b", "a")
    assert grid.decisions[grid.columns[0]].order == ("b", "a")


def test_only_failures_make_no_grid(make_result: Maker) -> None:
    assert grids([Result(make_result().cell, error="no")]) == []
    assert grids([]) == []


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("top1", 0.71349, "71.3"),
        ("top1_low", 0.5, "50.0"),
        ("logme", 1.23456, "1.235"),
        ("logme", -123.456, "-123.5"),
        ("logme", 0.0, "0.000"),
        ("logme", 1.5e-9, "1.500e-09"),
        ("logme", math.inf, "∞"),
        ("logme", -math.inf, "-∞"),
    ],
)
def test_values_are_rounded_for_readers(name: str, value: float, expected: str) -> None:
    assert metric_style(name).text(value) == expected


def test_the_metric_to_judge_by_comes_first() -> None:
    assert headline_first({"zeta", "top5", "alpha", "top1", "alpha_high"}) == ["top1", "top5", "alpha", "zeta"]
    assert metric_style("some_thing").heading == "some thing"


def test_a_benchmark_brings_its_own_styles(monkeypatch: pytest.MonkeyPatch) -> None:
    class Styled(Benchmark):
        info = BenchmarkInfo(
            metrics=(MetricStyle("cost", "cost", higher_is_better=False), MetricStyle("top1", "mine first"))
        )

    monkeypatch.setattr(BENCHMARKS, "_targets", {**BENCHMARKS._targets, "styled": Styled})
    assert headline_first({"top1", "cost", "loss"}, "styled") == ["cost", "top1", "loss"]
    assert metric_style("top1", "styled").title == "mine first"
    assert metric_style("top1", "probe").title == "top-1", "others are not disturbed"
    assert metric_style("cost_low", "styled").title == "cost, low"
    results = [Result(Cell("styled", m, "d"), {"cost": v}) for m, v in (("a", 3.0), ("b", 1.5))]
    (grid,) = grids(results)
    assert grid.models == ("b", "a")


@pytest.mark.parametrize(
    ("value", "images", "known"),
    [(1.0, 42, True), (0.0, 42, True), (1.0, 1, True), (1.0, 0, False), (1.5, 42, False), (1.0, "42", False)],
)
def test_stored_limits_without_width_are_not_shown(value: float, images: Any, known: bool) -> None:
    metrics = {"top1": value, "top1_low": value, "top1_high": value}
    (summary,) = summarise([Result(Cell("probe", "m", "d"), metrics, details={"test_images": images})], "top1")
    assert summary.interval.known == known
    if known:
        assert summary.interval.high - summary.interval.low > 0.05


def test_models_are_ordered_by_gaps_then_by_value_then_by_name() -> None:
    def one(model: str, value: float, dataset: str = "d") -> Result:
        return Result(Cell("probe", model, dataset), {"top1": value})

    (grid,) = grids(
        [
            *(one("gap", 0.99, "e"), one("b", 0.5), one("a", 0.5), one("best", 0.4), one("b", 0.5, "e")),
            *(one("a", 0.5, "e"), one("best", 0.7, "e"), one("nan", math.nan), one("nan", 0.9, "e")),
        ]
    )
    assert grid.models == ("best", "a", "b", "gap", "nan"), "a value that is not a number is a gap"


def test_columns_are_ordered_by_size_numbers_before_words() -> None:
    shots = ["all", 16, 2, True, 1.5, "R10", "R2", None]
    (grid,) = grids([Result(Cell("probe", "m", "d", {"shots": s, "a": "x"}), {"top1": 0.5}) for s in shots])
    assert [c.setting[0][1] for c in grid.columns] == [1.5, 2, 16, None, "R2", "R10", True, "all"]
    (nested,) = grids([Result(Cell("probe", "m", "d", {"layers": n}), {"top1": 0.5}) for n in ([2, 3], [1])])
    assert [c.setting[0][1] for c in nested.columns] == ["[1]", "[2,3]"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, "1.000"),
        (9.9994, "9.999"),
        (10.0, "10.00"),
        (1000.0, "1000"),
        (123456.7, "123457"),
        (0.01234, "0.01234"),
        (0.0001234, "1.234e-04"),
        (-0.5, "-0.5000"),
        (math.nan, "not a number"),
    ],
)
def test_four_digits(value: float, expected: str) -> None:
    assert metric_style("score").text(value) == expected


def test_titles_of_metrics() -> None:
    assert (metric_style("top1").heading, metric_style("top1").spoken) == ("top-1 (%)", "top-1 accuracy")
    low = metric_style("top1_low")
    assert (low.name, low.heading, low.spoken, low.percent) == ("top1_low", "top-1, low (%)", "top-1, low", True)
    assert not metric_style("loss_high").higher_is_better
    plain = metric_style("my_own_low")
    assert (plain.title, plain.percent, plain.higher_is_better) == ("my own low", False, True)
