"""Charts as files, and what keeps them safe inside a page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unseen.core.errors import StoreError, UsageError
from unseen.core.records import Result
from unseen.reports import save_chart
from unseen.reports.blocks import (
    Figure,
    Key,
    Material,
    SectionSpec,
    Table,
    TableCell,
    Text,
    folded,
)
from unseen.reports.charts import (
    Axis,
    Bars,
    Chart,
    Distribution,
    Dots,
    Lines,
    Matrix,
    Panels,
    Scatter,
    Strip,
    table_rows,
)
from unseen.reports.page import script_json
from unseen.reports.scores import summary_dots
from unseen.reports.theme import PALETTE, drawn_chart, series_keys, to_spec
from unseen.results import summarise
from unseen.results.info import TOP1
from unseen.stats import Interval

START = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<svg", ".html": b"<!DOCTYPE html>"}


def keys_of(models: list[str]) -> dict[str, Key]:
    return series_keys(models, {model: model.partition(":")[2] for model in models}, {})


@pytest.fixture
def chart(results: list[Result]) -> Any:
    summaries = summarise([r for r in results if r.cell.dataset == "packaged:grocery"], "top1")
    models = [summary.model for summary in summaries]
    return summary_dots(summaries, keys_of(models), chance=1 / 14)


@pytest.mark.parametrize("ending", sorted(START))
def test_a_chart_as_a_file(chart: Any, ending: str, tmp_path: Path) -> None:
    path = save_chart(chart, tmp_path / "figures" / f"top1{ending}")
    content = path.read_bytes()
    assert content.lstrip().startswith(START[ending])
    assert [found.name for found in path.parent.iterdir()] == [path.name]
    if ending == ".svg":
        assert b"efficientnet-lite2" in content
        assert b"75.0 [73.0, 77.0]" in content
    if ending == ".html":
        assert not re.search(rb"<(script|link)[^>]+(src|href)=", content), "works without a network"


def test_another_ending_is_refused(chart: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'top1\.gif'.*\.html, \.svg, \.png, \.pdf"):
        save_chart(chart, tmp_path / "top1.gif")
    with pytest.raises(StoreError, match="cannot write"):
        save_chart(chart, "/dev/null/top1.svg")


def test_a_dictionary_is_a_chart_and_stays_as_it_was(tmp_path: Path) -> None:
    spec = {"data": {"values": [{"x": 1}]}, "mark": "point", "encoding": {"x": {"field": "x", "type": "quantitative"}}}
    before = json.dumps(spec)
    assert save_chart(spec, tmp_path / "x.svg").read_text().startswith("<svg")
    assert json.dumps(spec) == before
    assert "config" in to_spec(spec)


def test_no_address_in_a_specification(chart: Any) -> None:
    assert "http" not in json.dumps(to_spec(chart))


def test_the_reference_is_grey_and_models_differ() -> None:
    keys = keys_of(["timm:a", "packaged:b", "random:a"])
    assert keys["random:a"].colour not in PALETTE
    assert len({(key.colour, key.symbol) for key in keys.values()}) == 3


def test_the_reader_can_leave_models_out_of_any_chart(chart: Any) -> None:
    spec = to_spec(chart)
    assert {p["name"]: p["value"] for p in spec["params"]} == {"focus": "", "lit": None, "hidden": {}}
    for layer in spec["layer"]:
        assert layer["transform"][0] == {"filter": "datum.model == null || !hidden[datum.model]"}
    assert to_spec(spec) == spec, "once is enough"


@given(st.recursive(st.text() | st.integers() | st.booleans() | st.none(), lambda inner: st.lists(inner, max_size=3)))
def test_json_in_a_script_is_json_and_closes_nothing(value: Any) -> None:
    text = script_json({"value": value})
    assert json.loads(text) == {"value": value}
    assert not set("<>&\u2028\u2029") & set(text)


@pytest.mark.parametrize(
    "models",
    [
        [f"source{n % 6}:m{n}" for n in range(36)],
        [f"timm:m{n}" for n in range(12)],
        [*(f"random:m{n}" for n in range(6)), "timm:a"],
    ],
)
def test_every_model_has_its_own_colour_and_look(models: list[str]) -> None:
    keys = keys_of(models)
    assert len({key.colour for key in keys.values()}) == len(models)
    assert len({(key.colour, key.symbol) for key in keys.values()}) == len(models)


KEYS = list(keys_of(["timm:a", "timm:b", "random:c"]).values())
ROWS = [
    {"model": key.key, "name": key.label, "place": place, "x": 10.0 + n, "value": 0.5 + n / 10, "low": 0.4, "high": 0.7}
    | {"shown": f"{50 + 10 * n}.0 [40.0, 70.0]"}
    for n, key in enumerate(KEYS)
    for place in ("near", "far")
]
TILES = [{"x": a, "y": b, "value": n / 4, "shown": f"{n}"} for n, (a, b) in enumerate(["ab", "ac", "bb", "bc"])]
CHARTS: dict[str, Chart] = {
    "dots": Dots(rows=ROWS, keys=KEYS, y="place", above=True, chance=0.3, x=Axis("accuracy")),
    "lines": Lines(rows=ROWS, keys=KEYS, x="place", rule=0.5, band=(0.5, 0.6), band_text="random draws"),
    "scatter": Scatter(
        rows=ROWS[::2], keys=KEYS, label="name", lines=[{"x": 10, "value": 0.4}, {"x": 12, "value": 0.5}]
    ),
    "bars": Bars(rows=ROWS, y="place", vertical=True),
    "matrix": Matrix(rows=TILES),
    "distribution": Distribution(rows=ROWS, x="place"),
    "strip": Strip(rows=[{"value": 1 - n / 9, "section": "L1" if n < 4 else "", "name": f"c{n}"} for n in range(9)]),
}
CHARTS["panels"] = Panels(charts=[CHARTS["dots"], CHARTS["lines"]], titles=["one", "two"])


@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_type_is_valid_vega_lite_and_has_words(name: str) -> None:
    spec = to_spec(CHARTS[name])
    assert drawn_chart(spec).startswith("<svg")
    assert CHARTS[name].words()
    assert "http" not in json.dumps(spec)


@pytest.mark.parametrize("name", ["dots", "lines", "bars"])
def test_values_at_one_place_are_drawn_side_by_side(name: str) -> None:
    offsets = {"xOffset", "yOffset"}
    for layer in CHARTS[name].body()["layer"]:
        if "data" not in layer and layer["mark"]["type"] in ("point", "bar", "rule"):
            assert offsets & layer["encoding"].keys(), layer["mark"]


def test_a_figure_without_words_describes_its_values() -> None:
    figure = Figure("By place", CHARTS["dots"])
    assert figure.description.startswith("By place: a near 50.0 [40.0, 70.0]; a far")
    assert '"legend": {' not in json.dumps(figure.vega["layer"]), "the section has the legend of models"
    assert '"legend": {' in json.dumps(Figure("Bars", CHARTS["bars"]).vega["layer"])


def test_rows_of_a_table_have_all_that_a_chart_needs() -> None:
    cell = TableCell(value=0.713, interval=Interval(0.713, 0.699, 0.726), metric=TOP1, n=1000, chance=0.1, cells=["id"])
    table = Table("caption", ["model", "top-1"], [[TableCell("A"), cell], [TableCell("B"), TableCell()]], row_keys="ab")
    (row,) = table_rows(table)
    assert row == {
        "model": "a",
        "name": "A",
        "column": "top-1",
        "value": 0.713,
        "low": 0.699,
        "high": 0.726,
        "shown": "71.3 [69.9, 72.6]",
        "cells": ["id"],
    }


def test_a_section_is_declared_by_its_blocks() -> None:
    spec: SectionSpec[int] = SectionSpec(
        title="Levels",
        settings=lambda material, benchmark: [("one", 1), ("two", 2)],
        blocks=(
            lambda s: Text(f"setting {s}", answer=True),
            lambda s: Figure("By place", CHARTS["dots"]) if s == 2 else None,
            folded(lambda s: Table(f"table {s}", ["a"], [])),
        ),
        common=(lambda s: "for all",),
    )
    section = spec(Material([]), "levels")
    assert section is not None and section.anchor == "levels"
    assert section.answer == [("one", "setting 1"), ("two", "setting 2")]
    assert [figure.title for figure in section.figures] == ["By place · two"]
    assert [table.caption for table in section.tables] == ["table 1 · one", "table 2 · two"]
    assert section.prose[-1] == "for all"
    assert SectionSpec("none", lambda material, benchmark: [], ())(Material([]), "none") is None


@pytest.mark.parametrize(("chance", "drawn"), [(1 / 14, True), (0.0, True), (None, False), (-5.0, False)])
def test_chance_is_drawn_unless_it_would_squeeze_the_rest(
    results: list[Result], chance: float | None, drawn: bool
) -> None:
    summaries = summarise([r for r in results if r.cell.dataset == "packaged:grocery"], "top1")
    models = [summary.model for summary in summaries]
    chart = summary_dots(summaries, keys_of(models), chance=chance)
    assert ("strokeDash" in json.dumps(to_spec(chart)["layer"])) is drawn
