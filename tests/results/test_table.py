"""Tables of results: marks that the decision supports, notes, how columns are parted, and what headings state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unseen.core.records import Cell, Result
from unseen.core.run_record import Dropped, RunRecord
from unseen.results.grid import Column, Grid, grids, pack_correct
from unseen.results.info import metric_style
from unseen.results.table import MARK_NOTE, TIED_NOTE, Table, TableCell, format_interval, heading, parted, result_tables
from unseen.stats import Interval


def one(model: str, value: float, dataset: str = "d", **more: Any) -> Result:
    """A result whose stored interval is four points wide."""
    details, benchmark, record = (
        more.pop("details", {}),
        more.pop("benchmark", "probe"),
        more.pop("record", RunRecord()),
    )
    metrics = {"top1": value, "top1_low": value - 0.02, "top1_high": value + 0.02}
    return Result(Cell(benchmark, model, dataset, more), metrics, details=details, record=record)


def table_of(*results: Result, **names: str) -> Table:
    (table,) = result_tables(results, names)
    return table


def column(dataset: str = "d", metric: str = "top1", **setting: Any) -> Column:
    return Column("probe", dataset, tuple(setting.items()), metric)


def shown(table: Table) -> list[list[str]]:
    return [[row[0].shown, *(cell.full for cell in row[1:])] for row in table.rows]


def test_values_have_their_interval_and_the_best_is_marked() -> None:
    table = table_of(one("a", 0.5), one("b", 0.7), one("c", 0.6), d="Dee", probe="Probe", a="Aye")
    assert table.caption == "Probe, Dee, top-1 (%)"
    assert shown(table) == [["b", "70.0 [68.0, 72.0]"], ["c", "60.0 [58.0, 62.0]"], ["Aye", "50.0 [48.0, 52.0]"]]
    assert [row[1].mark for row in table.rows] == ["best", "", ""]
    assert f"{MARK_NOTE}." in table.notes


def test_ties_are_marked_only_if_another_candidate_is_ruled_out() -> None:
    table = table_of(one("a", 0.70), one("b", 0.705), one("c", 0.5))
    assert [(row[0].shown, row[1].mark) for row in table.rows] == [("b", "tied"), ("a", "tied"), ("c", "")]
    table = table_of(one("a", 0.70), one("b", 0.705))
    assert [row[1].mark for row in table.rows] == ["", ""]
    assert f"{MARK_NOTE}." not in table.notes and TIED_NOTE in table.notes
    assert TIED_NOTE not in table_of(one("a", 0.70)).notes


def test_values_without_intervals_are_not_marked() -> None:
    results = [Result(Cell("probe", m, "d"), {"top1": v}) for m, v in (("a", 0.2), ("b", 0.9))]
    (table,) = result_tables(results)
    assert [(row[0].shown, row[1].full, row[1].mark) for row in table.rows] == [("b", "90.0", ""), ("a", "20.0", "")]


def test_notes_state_seeds_images_chance_and_findings() -> None:
    details = {"test_images": 1500, "chance": 0.25, "classes": 4}
    lost = RunRecord(dropped=(Dropped("image", "x.png", "truncated", "test"),))
    results = [one("a", 0.5, seed=seed, details=details, record=lost) for seed in (1, 2)]
    table = table_of(*results, one("b", 0.6, seed=1, details=details | {"test_images": 20}))
    assert table.notes == [
        "Mean over 1 to 2 seeds, 95 % confidence interval over test images in brackets.",
        "20 to 1,500 test images; chance 25.0 %.",
        f"{MARK_NOTE}.",
    ]
    assert table.footnote == "Run record: 1 unreadable image."


def test_older_results_are_counted() -> None:
    old, new = (Result(Cell("probe", "m", "d", {}, revision), {"top1": 0.5}) for revision in ("w1+d", "w2+d"))
    assert "1 older result of other weights or data left out." in table_of(old, new).notes


def test_a_gap_is_a_dash() -> None:
    table = table_of(one("a", 0.5), one("b", 0.6), one("a", 0.5, "e"))
    assert table.columns == ["model", "d", "e"]
    assert shown(table)[1] == ["b", "60.0 [58.0, 62.0]", "–"]


@pytest.mark.parametrize(("models", "settings", "turned"), [(2, 9, True), (2, 8, False), (3, 9, False)])
def test_few_models_in_many_settings_become_columns(models: int, settings: int, turned: bool) -> None:
    results = [one(f"m{m}", 0.8 - m / 10, shots=n) for m in range(models) for n in range(settings)]
    tables = result_tables(results)
    assert (tables[0].columns[0] == "setting") == turned
    assert len(tables) == (1 if turned or settings <= 8 else 2)
    if turned:
        assert tables[0].columns == ["setting", "m0", "m1"]
        assert shown(tables[0])[8] == ["shots 8", "80.0 [78.0, 82.0]", "70.0 [68.0, 72.0]"]
        assert [cell.mark for cell in tables[0].rows[8][1:]] == ["best", ""]


def test_json_has_full_precision() -> None:
    correct = np.arange(90) % 3 > 0
    details = {"correct": pack_correct(correct), "test_images": 90, "chance": 0.5}
    table = table_of(Result(Cell("probe", "m", "d", {}, "w+d"), {"top1": 2 / 3}, details=details))
    (row,) = table.to_dict()["rows"]
    (cell,) = row["cells"]
    assert (row["name"], cell["value"], cell["n"], cell["chance"]) == ("m", 2 / 3, 90, 0.5)
    assert cell["low"] < 0.6 < 0.75 < cell["high"]


def test_intervals_are_two_limits() -> None:
    style = metric_style("top1")
    assert format_interval(Interval(1.0, 0.69, 1.0), style) == "[69.0, 100.0]"
    assert format_interval(Interval(1.0, float("nan"), float("nan")), style) == "" == format_interval(None, style)
    assert TableCell("words", note="more").full == "words"


def test_columns_are_parted_by_what_has_the_fewest_values() -> None:
    eight = [column(shots=n) for n in range(8)]
    assert list(parted(eight)) == [eight]
    many = [column(shots=n) for n in range(17)]
    assert [len(lot) for lot in parted(many)] == [8, 8, 1]
    assert [each for lot in parted(many) for each in lot] == many
    both = [column(f"d{d}", shots=n) for n in range(5) for d in range(2)]
    assert [[c.dataset for c in lot] for lot in parted(both)] == [["d0"] * 5, ["d1"] * 5]
    three = [column(f"d{d}", m, shots=n) for d in range(3) for n in range(6) for m in ("top1", "top5")]
    assert [(lot[0].metric, lot[0].dataset, len(lot)) for lot in parted(three)] == [
        (metric, f"d{d}", 6) for metric in ("top1", "top5") for d in range(3)
    ]


def test_the_title_states_what_columns_share() -> None:
    grid: Grid
    (grid,) = grids([one("m", 0.5)])
    columns = [column("d", method="a", shots=1, version="p.1 a.2"), column("d", method="a", shots=0.5)]
    assert heading(grid, columns[:1], {"d": "Dee", "probe": "Prober"}) == (
        "Prober, Dee, a, shots 1, top-1 (%)",
        ["top-1 (%)"],
    )
    assert heading(grid, columns, {}) == ("probe, d, a, top-1 (%)", ["shots 1", "shots 0.5"])
    other = [column("d", version="2"), column("e", version="2")]
    assert heading(grid, other, {"e": "E"}) == ("probe, version 2, top-1 (%)", ["d", "E"])
    assert heading(grid, [column(version="1"), column(version="2")], {})[1] == ["version 1", "version 2"]
    methods = [column(method="a", version="p a.1"), column(method="b", version="p b.1")]
    assert heading(grid, methods, {})[1] == ["a", "b"]
    for name in ("width", "alpha"):
        both = [column(**{name: n}, version=f"{n}") for n in (1, 2)]
        assert heading(grid, both, {})[1] == [f"{name} 1", f"{name} 2"], "the version adds nothing"
    for name in ("level", "method", "task", "score"):
        assert heading(grid, [column(**{name: "x"}), column(**{name: "y"})], {})[1] == ["x", "y"]
    gaps = [column(shots=1), column(metric="top5")]
    assert heading(grid, gaps, {})[1] == ["shots 1, top-1 (%)", "top-5 (%)"]


def test_columns_are_sorted_by_numbers_or_words_and_gaps_come_last() -> None:
    style = metric_style("top1", "probe")
    rows = [
        [TableCell("Lite0"), TableCell(value=0.7, metric=style), TableCell("4.65 M", 4_652_008), TableCell("ResNet")],
        [TableCell("lite1"), TableCell("failed"), TableCell("–"), TableCell("–")],
        [TableCell("Lite2"), TableCell(), TableCell("0", 0), TableCell()],
    ]
    assert [[cell.order for cell in row] for row in rows] == [
        ["lite0", 0.7, 4_652_008, "resnet"],
        ["lite1", "failed", None, None],
        ["lite2", None, 0, None],
    ]
    assert Table("", ["model", "top-1", "parameters", "family"], rows).numeric == {1, 2}
    assert Table("", ["model"], []).numeric == set()
