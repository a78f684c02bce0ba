"""How results become a table, by hand: order of columns and models, spreads and intervals, numbers and titles."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from unseen.core.records import Cell, Result
from unseen.results.grid import Grid, grids, interval_of, summarise
from unseen.results.styles import COMMON, MetricStyle, metric_style, undescribed
from unseen.results.typeset import typeset


def one(model: str, value: float, dataset: str = "d", **more: Any) -> Result:
    details, metrics, version = more.pop("details", {}), more.pop("metrics", {}), more.pop("version", "")
    benchmark = more.pop("benchmark", "probe")
    return Result(Cell(benchmark, model, dataset, more, version=version), {"top1": value, **metrics}, details=details)


def grid_of(*results: Result, metrics: tuple[str, ...] = ("top1",)) -> Grid:
    (grid,) = grids(results, metrics)
    return grid


def test_models_stand_by_gaps_then_by_merit_then_by_name() -> None:
    grid = grid_of(
        *(one("gap", 0.99, "e"), one("b", 0.5), one("a", 0.5), one("best", 0.4), one("b", 0.5, "e")),
        *(one("a", 0.5, "e"), one("best", 0.7, "e"), one("nan", math.nan), one("nan", 0.9, "e")),
    )
    assert grid.models == ("best", "a", "b", "gap", "nan"), "what is no number is a gap"
    assert [c.dataset for c in grid.columns] == ["d", "e"]
    assert [sorted(grid.best(c)) for c in grid.columns] == [["a", "b"], ["gap"]]
    assert grid.titles() == ["d", "e"]


def test_merit_is_the_mean_whatever_its_sign() -> None:
    rows = {
        "a": (-1.0, -4.0),
        "b": (-2.0, -2.0),
        "c": (3.0, -9.0),
        "none": (math.nan, math.nan),
        "nil": (math.nan,) * 2,
    }
    both = [
        Result(Cell("rank", m, d), {"score": v})
        for m, values in rows.items()
        for d, v in zip("de", values, strict=True)
    ]
    (grid,) = grids(both)
    assert grid.models == ("b", "a", "c", "nil", "none")


def test_tiny_differences_order_models() -> None:
    (grid,) = grids([Result(Cell("rank", m, "d"), {"score": v}) for m, v in (("a", 1e-18), ("b", 2e-18))])
    assert grid.models == ("b", "a")


def test_nobody_is_best_of_one() -> None:
    grid = grid_of(one("a", 0.5), one("b", math.nan))
    assert grid.best(grid.columns[0]) == set()
    assert grid.models == ("a", "b")


def test_where_less_is_better_the_least_is_best() -> None:
    rows = [Result(Cell("probe", m, "d"), {"loss": v}) for m, v in (("a", 2.0), ("b", 1.0), ("c", 3.0))]
    (grid,) = grids(rows)
    assert grid.models == ("b", "a", "c")
    assert grid.best(grid.columns[0]) == {"b"}
    assert [entries[0].place for _, entries in typeset(grid)[0].rows] == [0, 1, None]


def test_columns_stand_by_size_numbers_before_words() -> None:
    shots = ["all", 16, 2, True, 1.5, "R10", "R2", None]
    grid = grid_of(*(one("m", 0.5, shots=s, a="x") for s in shots))
    assert [c.setting[0][1] for c in grid.columns] == [1.5, 2, 16, None, "R2", "R10", True, "all"]
    assert grid.titles()[0] == "shots=1.5"
    nested = grid_of(*(one("m", 0.5, layers=layers) for layers in ([2, 3], [1])))
    assert [c.setting[0][1] for c in nested.columns] == ["[1]", "[2,3]"]


def test_several_metrics_stand_in_the_order_asked_for() -> None:
    results = [one("m", 0.5, metrics={"top5": 0.9, "loss": 1.0, "top5_low": 0.8}), one("n", 0.6)]
    grid = grid_of(*results, metrics=("loss", "none", "top1"))
    assert [c.metric for c in grid.columns] == ["loss", "top1"]
    assert grid.titles() == ["loss", "top-1 (%)"]
    assert ("n", grid.columns[0]) not in grid.cells
    assert [c.metric for c in grid_of(*results, metrics=()).columns] == ["top1", "top5", "loss"]
    assert grids(results, ["none"]) == []
    both = grids([*results, one("m", 0.5, benchmark="another")])
    assert [g.benchmark for g in both] == ["another", "probe"]
    two = grid_of(one("m", 0.5, metrics={"top5": 0.9}), one("m", 0.5, "e"), metrics=())
    assert [c.metric for c in two.columns] == ["top1", "top1"], "the headline alone"
    assert two.titles() == ["d", "e"]
    four = grid_of(*(one("m", 0.5, d, metrics={"top5": 0.9}) for d in "de"), metrics=("top5", "top1"))
    assert four.titles() == ["d · top-5 (%)", "d · top-1 (%)", "e · top-5 (%)", "e · top-1 (%)"]
    shots = grid_of(*(one("m", 0.5, shots=s, metrics={"top5": 0.9}) for s in (1, 2)), metrics=("top5", "top1"))
    assert shots.titles()[1:3] == ["shots=1 · top-1 (%)", "shots=2 · top-5 (%)"]


def test_versions_are_told_where_nothing_else_tells() -> None:
    grid = grid_of(one("m", 0.5, version="1"), one("m", 0.5, version="2"))
    assert grid.titles() == ["version=1", "version=2"]
    grid = grid_of(one("m", 0.5, version="a.1", method="a"), one("m", 0.5, version="b.1", method="b"))
    assert grid.titles() == ["method=a", "method=b"]


def test_seeds_stand_in_order_and_the_spread_is_of_what_is_finite() -> None:
    (found,) = summarise([one("m", 0.7, seed=2), one("m", 0.5, seed=1)], "top1")
    assert (found.seeds, found.values, found.mean) == ((1, 2), (0.5, 0.7), pytest.approx(0.6))
    assert found.std == pytest.approx(0.1 * math.sqrt(2))
    assert (found.low, found.high) == (found.mean - found.std, found.mean + found.std)
    assert (found.spread, found.bounds, found.parameters, found.text) == ("std", None, {}, "60.0 ± 14.1")
    assert found.cells == tuple(one("m", 0, seed=seed).cell.id for seed in (1, 2))
    (found,) = summarise([one("m", math.inf, seed=1), one("m", 0.5, seed=2)], "top1")
    assert (math.isnan(found.std), found.spread, found.low) == (True, "", math.inf)
    (found,) = summarise([one("m", 0.5, shots=3)], "top1")
    assert (found.seeds, found.low, found.high, found.spread, found.parameters) == ((None,), 0.5, 0.5, "", {"shots": 3})
    with pytest.raises(FrozenInstanceError):
        found.mean = 0.0  # type: ignore[misc]


def test_the_ends_of_intervals_are_averaged_where_all_seeds_have_them() -> None:
    def seed(number: int, low: float | None) -> Result:
        ends = {} if low is None else {"top1_low": low, "top1_high": low + 0.5}
        return one("m", 0.5, seed=number, metrics=ends)

    (found,) = summarise([seed(1, 0.1), seed(2, 0.3)], "top1")
    assert found.bounds == (pytest.approx(0.2), pytest.approx(0.7))
    assert found.spread == "std"
    assert summarise([seed(1, 0.1), seed(2, None)], "top1")[0].bounds is None
    (found,) = summarise([seed(1, 0.1)], "top1")
    assert (found.low, found.high, found.spread) == (0.1, 0.6, "interval")
    assert interval_of(one("m", 0.5, metrics={"top1_low": 0.1}), "top1") is None
    assert interval_of(one("m", 0.5, metrics={"top1_high": 0.1}), "top1") is None


@pytest.mark.parametrize(
    ("value", "images", "wilson"),
    [
        (1.0, 42, True),
        (0.0, 42, True),
        (1.0, 1, True),
        (1.0, 0, False),
        (1.5, 42, False),
        (-0.5, 42, False),
        (1.0, "42", False),
    ],
)
def test_no_width_is_wilsons_for_shares_of_a_known_count(value: float, images: Any, wilson: bool) -> None:
    ends = {f"top1_{end}": float(str(value)) for end in ("low", "high")}  # equal, and not the same object
    found = interval_of(one("m", value, metrics=ends, details={"n": images}), "top1", "n")
    assert found is not None
    assert (found[0] < found[1]) == wilson
    assert wilson or found == (value, value)


# ---- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, "1.000"),
        (9.9994, "9.999"),
        (10.0, "10.00"),
        (1000.0, "1000"),
        (123456.7, "123457"),
        (0.01234, "0.01234"),
        (0.001234, "0.001234"),
        (0.0001234, "1.234e-04"),
        (-0.5, "-0.5000"),
        (math.nan, "not a number"),
    ],
)
def test_four_digits(value: float, expected: str) -> None:
    assert metric_style("score").text(value) == expected


def test_a_spread_has_the_decimals_of_its_value() -> None:
    style = metric_style("score")
    assert style.text(123.4, 0.01234) == "123.4 ± 0.0"
    assert style.text(math.inf, 0.5) == "∞ ± 0.5000"
    assert style.text(0.00001, 0.5) == "1.000e-05 ± 5.000e-01"
    assert style.text(0.0, 0.5) == "0.000 ± 0.500"
    assert metric_style("top1").text(0.5, math.inf) == "50.0 ± ∞"


def test_titles_of_metrics() -> None:
    assert [style.name for style in COMMON if not style.higher_is_better] == [
        *("loss", "expected_se", "log_loss", "calibration_error")
    ]
    assert [style.name for style in COMMON if not style.percent] == ["kappa", "loss", "log_loss"]
    assert (metric_style("top1").heading, metric_style("top1").spoken) == ("top-1 (%)", "top-1 accuracy")
    low = metric_style("top1_low")
    assert (low.name, low.heading, low.spoken, low.percent) == ("top1_low", "top-1, low (%)", "top-1, low", True)
    assert not metric_style("loss_high").higher_is_better
    plain = metric_style("my_own_low")
    assert (plain.title, plain.percent, plain.higher_is_better) == ("my own low", False, True)
    assert MetricStyle("a", "b") == MetricStyle("a", "b", percent=False, higher_is_better=True, long_title="")
    assert undescribed([one("m", 0.5, metrics={"top1_low": 0.1})]) == []
    assert undescribed([one("m", 0.5, metrics={"odd": 0.1}), one("m", 0.5)]) == ["probe"]
    with pytest.raises(FrozenInstanceError):
        low.title = ""  # type: ignore[misc]
