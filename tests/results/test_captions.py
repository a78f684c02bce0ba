"""Tables for papers, by hand: how columns are parted, what headings and captions say, and each letter of a table."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from unseen.core.records import Cell, Result
from unseen.results import typeset as module
from unseen.results.grid import Column, Grid, Summary, grids
from unseen.results.typeset import (
    Entry,
    Typeset,
    heading,
    latex_table,
    latex_text,
    markdown_table,
    markdown_words,
    parted,
    tables_text,
    typeset,
)


def one(model: str, value: float, dataset: str = "d", **more: Any) -> Result:
    details, benchmark = more.pop("details", {}), more.pop("benchmark", "probe")
    return Result(Cell(benchmark, model, dataset, more), {"top1": value}, details=details)


def grid_of(*results: Result) -> Grid:
    (grid,) = grids(results, ["top1"])
    return grid


def column(dataset: str = "d", metric: str = "top1", **setting: Any) -> Column:
    return Column("probe", dataset, tuple(setting.items()), metric)


def test_columns_are_parted_by_what_has_the_fewest_values() -> None:
    eight = [column(shots=n) for n in range(8)]
    assert list(parted(eight)) == [eight]
    many = [column(shots=n) for n in range(17)]
    assert [len(lot) for lot in parted(many)] == [8, 8, 1]
    assert [each for lot in parted(many) for each in lot] == many
    both = [column(f"d{d}", shots=n) for n in range(5) for d in range(2)]
    assert [[c.dataset for c in lot] for lot in parted(both)] == [["d0"] * 5, ["d1"] * 5]
    three = [column(f"d{d}", m, shots=n) for d in range(3) for n in range(6) for m in ("top1", "top5")]
    lots = list(parted(three))
    assert [(lot[0].metric, lot[0].dataset, len(lot)) for lot in lots] == [
        (metric, f"d{d}", 6) for metric in ("top1", "top5") for d in range(3)
    ]


def test_what_columns_share_is_the_title() -> None:
    grid = grid_of(one("m", 0.5))
    columns = [column("d", method="a", shots=1, version="p.1 a.2"), column("d", method="a", shots=0.5)]
    assert heading(grid, columns[:1], {"d": "Dee", "probe": "Prober"}) == (
        "Prober, Dee, a, shots 1, top-1 (%)",
        ["top-1 (%)"],
    )
    assert heading(grid, columns, {}) == ("probe, d, a, top-1 (%)", ["shots 1", "shots 0.5"])
    other = [column("d", version="2"), column("e", version="2")]
    assert heading(grid, other, {"e": "E"}) == ("probe, version 2, top-1 (%)", ["d", "E"])
    versions = [column(version="1"), column(version="2")]
    assert heading(grid, versions, {})[1] == ["version 1", "version 2"]
    methods = [column(method="a", version="p a.1"), column(method="b", version="p b.1")]
    assert heading(grid, methods, {})[1] == ["a", "b"]
    for name in ("width", "alpha"):
        told = [column(**{name: n}, version=f"{n}") for n in (1, 2)]
        assert heading(grid, told, {})[1] == [f"{name} 1", f"{name} 2"], "the version says nothing more"
    said = [column(d, method="a", width=2, version="p a.1") for d in "de"]
    assert heading(grid, said, {})[0] == "probe, a, width 2, top-1 (%)", "names after the version are told as well"
    for name in ("level", "method", "task", "score"):
        assert heading(grid, [column(**{name: "x"}), column(**{name: "y"})], {})[1] == ["x", "y"]
    gaps = [column(shots=1), column(metric="top5")]
    assert heading(grid, gaps, {})[1] == ["shots 1, top-1 (%)", "top-5 (%)"]


def summary(*values: float, std: float = math.nan, spread: str = "") -> Summary:
    mean = sum(values) / len(values)
    return Summary("probe", "m", "d", {}, "top1", values, (), mean, std, mean - 0.1, mean + 0.3, spread)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([summary(0.5)], "Single runs, n = 1"),
        ([summary(0.5, spread="interval")], "± half of the 95 % interval over test images"),
        ([summary(0.5, 0.5, std=0.0, spread="std")], "Means over seeds, n = 2"),
        (
            [summary(0.5, 0.6, 0.7, std=0.1, spread="std"), summary(0.5, 0.6, std=0.1, spread="std")],
            "Means over seeds, n = 2 to 3; ± one sample standard deviation over seeds",
        ),
        (
            [summary(0.5, 0.6, std=0.1, spread="std"), summary(0.5, spread="interval")],
            (
                "Means over seeds, n = 1 to 2; ± one sample standard deviation over seeds; "
                "± half of the 95 % interval over test images, where there is one seed"
            ),
        ),
    ],
)
def test_the_caption_says_what_the_spread_is(cells: list[Summary], said: str) -> None:
    assert module._spread(cells) == said


def test_numbers_have_their_spread_or_half_of_their_interval() -> None:
    assert module._number(summary(0.5, spread="interval")) == "50.0 ± 20.0"
    assert module._number(summary(0.5, 0.5, std=0.05, spread="std")) == "50.0 ± 5.0"
    assert module._number(summary(0.5, 0.5, std=0.0, spread="std")) == module._number(summary(0.5)) == "50.0"


@pytest.mark.parametrize(
    ("counts", "said"),
    [([], ""), (["a"], ""), ([1500], "1,500 test images"), ([20, 1500, 30], "20 to 1,500 test images")],
)
def test_the_caption_says_of_how_many_images(counts: list[Any], said: str) -> None:
    results = [one(f"m{n}", 0.5, details={"test_images": count}) for n, count in enumerate(counts)]
    grid = grid_of(*results, one("none", 0.5))
    assert module._images(grid, grid.columns) == said


def test_the_caption_says_what_is_left_out() -> None:
    old, new = (Result(Cell("probe", "m", "d", {}, revision), {"top1": 0.5}) for revision in ("w1+d", "w2+d"))
    (table,) = typeset(grid_of(old, new, one("m", 0.5, "e")))
    assert table.caption.endswith("1 older result of other weights or data left out.")
    (table,) = typeset(grid_of(new))
    assert table.caption == "Probe, d, top-1 (%). Single runs, n = 1."


def test_a_gap_is_a_dash_and_a_model_of_no_column_is_left_out() -> None:
    (table,) = typeset(grid_of(one("a", 0.5), one("b", 0.6), one("a", 0.5, "e")), {"a": "Aye"})
    assert table.rows == (("Aye", (Entry("50.0", 1), Entry("50.0"))), ("b", (Entry("60.0", 0), Entry("–"))))
    assert (table.corner, table.columns) == ("model", ("d", "e"))
    with pytest.raises(FrozenInstanceError):
        table.corner = ""  # type: ignore[misc]


@pytest.mark.parametrize(("models", "settings", "turned"), [(2, 9, True), (2, 8, False), (3, 9, False)])
def test_few_models_in_many_settings_are_turned(models: int, settings: int, turned: bool) -> None:
    grid = grid_of(*(one(f"m{m}", 0.5 - m / 10, shots=n) for m in range(models) for n in range(settings)))
    tables = typeset(grid)
    assert (tables[0].corner == "setting") == turned
    assert len(tables) == (1 if turned or settings <= 8 else 2)
    if turned:
        assert tables[0].columns == ("m0", "m1")
        assert tables[0].rows[8] == ("shots 8", (Entry("50.0", 0), Entry("40.0", 1)))


TABLE = Typeset("A_b.", ("x", "y|"), (("m_1", (Entry("1", 0), Entry("2", 1))), ("n", (Entry("3"), Entry("–")))))


def test_markdown_letter_by_letter() -> None:
    assert markdown_table(TABLE) == (
        "A\\_b.\n\n| model | x | y\\| |\n|---|---:|---:|\n| m\\_1 | **1** | <u>2</u> |\n| n | 3 | – |\n"
    )
    assert markdown_words(" a\n\tb  c\x00 ") == "a b c"
    assert markdown_words("\\`*_[]<>|~#") == "".join(f"\\{letter}" for letter in "\\`*_[]<>|~#")


def test_latex_letter_by_letter() -> None:
    lines = latex_table(TABLE, "tab:1").split("\n")
    assert lines == [
        *(r"\begin{table}", r"\centering", r"\caption{A\_b.}", r"\label{tab:1}", r"\begin{tabular}{lrr}", r"\toprule"),
        *(r"model & x & y\textbar{} \\", r"\midrule", r"m\_1 & \textbf{1} & \underline{2} \\", r"n & 3 & -- \\"),
        *(r"\bottomrule", r"\end{tabular}", r"\end{table}", ""),
    ]


def test_letters_without_ascii() -> None:
    assert latex_text("\u00e9\u4e2d\u2116") == "e[U+4E2D]No"
    assert latex_text("\uff05") == r"\%", "a wide percent sign comments nothing out"
    assert latex_text("a  b\tc\u00a0d") == "a  b c~d"
    assert latex_text("\u00df") == "[U+00DF]"


def test_tables_are_numbered_from_one() -> None:
    both = [grid_of(one("m", 0.5)), grid_of(one("m", 0.5, benchmark="b"))]
    written = tables_text(both, lambda table, number: f"{number} {table.caption.partition(',')[0]}", {"b": "Bee"})
    assert written == ["1 Probe", "2 Bee"]
