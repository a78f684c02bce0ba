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
from unseen.reports.blocks import Key
from unseen.reports.charts import PALETTE, script_json, to_spec
from unseen.reports.dotplot import dot_plot
from unseen.reports.series import series_keys
from unseen.results import summarise

START = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<svg", ".html": b"<!DOCTYPE html>"}


def keys_of(models: list[str]) -> dict[str, Key]:
    return series_keys(models, {model: model.partition(":")[2] for model in models}, {})


@pytest.fixture
def chart(results: list[Result]) -> Any:
    summaries = summarise([r for r in results if r.cell.dataset == "packaged:grocery"], "top1")
    models = [summary.model for summary in summaries]
    return dot_plot(summaries, keys=keys_of(models), order=models, chance=1 / 14)


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


def test_many_models_never_look_the_same() -> None:
    keys = keys_of([f"source{n % 6}:m{n}" for n in range(36)])
    assert len({(key.colour, key.symbol) for key in keys.values()}) == 36


@pytest.mark.parametrize(("chance", "drawn"), [(1 / 14, True), (0.0, True), (None, False), (-5.0, False)])
def test_chance_is_drawn_unless_it_would_squeeze_the_rest(
    results: list[Result], chance: float | None, drawn: bool
) -> None:
    summaries = summarise([r for r in results if r.cell.dataset == "packaged:grocery"], "top1")
    models = [summary.model for summary in summaries]
    chart = dot_plot(summaries, keys=keys_of(models), order=models, chance=chance)
    assert ("strokeDash" in json.dumps(to_spec(chart)["layer"])) is drawn
