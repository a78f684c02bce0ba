"""The page: whole, the same every time, safe against any name, and asking the network for nothing."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import math
import random
import re
import subprocess
import sys
from datetime import date
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from unseen.core.errors import StoreError
from unseen.core.records import Cell, DatasetCard, ModelCard, Result
from unseen.core.run_record import Dropped, LoadedModel, RunRecord, SplitCounts
from unseen.reports.blocks import Figure, Material, Section
from unseen.reports.page import build_sections
from unseen.results.info import BenchmarkInfo, info_of
from unseen.study import write_report

HOSTILE = "<script>alert(1)</script>"


class Reader(HTMLParser):
    """Collects what the tests ask about: text, addresses, scripts, bold words, element counts."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.scripts: dict[str, str] = {}
        self.handlers: list[str] = []
        self.bold: list[str] = []
        self.text = ""
        self.policy = ""
        self._inside: list[str] = []
        self._script = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.addresses += [values[name] for name in ("src", "href", "action", "data", "srcset") if name in values]
        self.handlers += [name for name in values if name.startswith("on")]
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policy = values["content"]
        if tag in ("script", "style", "strong"):
            self._inside.append(tag)
        if tag == "script":
            self._script = values.get("id", f"script-{len(self.scripts)}")
            self.scripts[self._script] = ""

    def handle_endtag(self, tag: str) -> None:
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        inside = self._inside[-1] if self._inside else ""
        if inside == "script":
            self.scripts[self._script] += data
        elif inside != "style":
            self.text += data
            if inside == "strong":
                self.bold.append(data.strip())


def unpacked(reader: Reader, name: str) -> Any:
    """What the browser unpacks: JSON behind gzip and base64."""
    return json.loads(gzip.decompress(base64.b64decode(reader.scripts[name])))


def read(page: Path) -> Reader:
    reader = Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    return reader


@pytest.fixture
def page(
    results: list[Result], cards: dict[str, ModelCard], dataset_cards: dict[str, DatasetCard], tmp_path: Path
) -> Path:
    path = tmp_path / "out" / "index.html"
    return write_report(results, path, title="A small study", cards=cards, dataset_cards=dataset_cards)


def test_it_says_what_there_is(page: Path) -> None:
    text = read(page).text
    for expected in (
        "A small study",
        "EfficientNet-Lite2",
        "packaged:efficientnet-lite2",
        "[73.0, 77.0]",
        "4.65 M",
        "788 M",
        "out of memory <at> cell 45",
        "1 unreadable image",
        "train/apple/7.jpg",
        "truncated",
        "22, 37 and 45",
        "Tan & Le, ICML 2019",
        "unseen 0.1.0",
        "Some CPU",
        "14 classes · 1,460 training, 594 test images",
    ):
        assert expected in text, expected


def test_the_best_of_each_column_is_bold(page: Path) -> None:
    bold = read(page).bold
    assert "75.0" in bold
    assert "65.0" in bold
    assert "71.0" not in bold


def test_it_names_the_leader_and_doubts_a_small_lead(results: list[Result], cards: dict[str, ModelCard]) -> None:
    (section, *_) = build_sections(Material(results, cards))
    points = dict(section.points)
    assert points["grocery"].startswith(
        "EfficientNet-Lite2 leads with 75.0\u202f% [73.0, 77.0], 4.0 points ahead of EfficientNet-Lite0 (significant)"
    )
    close = [
        dataclasses.replace(r, metrics={"top1": r.metrics["top1"] - 0.035}) if "lite2" in r.cell.model else r
        for r in results
    ]
    (section, *_) = build_sections(Material(close, cards))
    text = dict(section.points)["grocery"]
    assert "0.5 points ahead of" in text and "(no confidence interval)" in text, "no interval is stored"


def test_the_same_results_give_the_same_bytes(
    results: list[Result], cards: dict[str, ModelCard], dataset_cards: dict[str, DatasetCard], page: Path
) -> None:
    shuffled = random.Random(0).sample(results, len(results))
    again = write_report(
        shuffled, page.with_name("again.html"), title="A small study", cards=cards, dataset_cards=dataset_cards
    )
    assert again.read_bytes() == page.read_bytes()


def test_a_date_only_when_it_is_given(results: list[Result], tmp_path: Path, page: Path) -> None:
    dated = write_report(results, tmp_path / "dated.html", title="A small study", date=date(2026, 3, 9))
    assert "9 March 2026" in read(dated).text
    assert "2026" not in read(page).text


def test_nothing_is_asked_of_the_network(page: Path) -> None:
    reader = read(page)
    assert reader.addresses
    assert all(address.startswith(("#", "data:")) for address in reader.addresses), reader.addresses
    assert "default-src 'none'" in reader.policy
    assert "unsafe-eval" not in reader.policy
    assert not re.search(r"@import|url\(", page.read_text(encoding="utf-8").partition("</style>")[0])
    assert "http" not in json.dumps(unpacked(reader, "specs"))


def test_the_data_in_the_page_is_exact(page: Path, results: list[Result]) -> None:
    data = unpacked(read(page), "data")
    found, parts = {entry["id"]: entry for entry in data["results"]}, data["parts"]
    assert {key: entry["metrics"] for key, entry in found.items()} == {r.cell.id: dict(r.metrics) for r in results}
    assert [entry["error"] for entry in found.values() if "error" in entry] == ["out of memory <at> cell 45"]
    first = found[results[0].cell.id]
    assert parts[first["sweep"]] == [dict(trial) for trial in results[0].sweep]
    assert parts[first["cell"]["parameters"]] == dict(results[0].cell.parameters)
    assert parts[first["environment"]] == dict(results[0].environment)
    assert len(parts) < len(results), "equal parts are held once"


def test_no_name_can_break_out(tmp_path: Path, results: list[Result]) -> None:
    cell = Cell(HOSTILE, f"a:{HOSTILE}", f'd:"onload=x {HOSTILE}', {"seed": 1, HOSTILE: HOSTILE})
    record = RunRecord(
        {HOSTILE: SplitCounts(2, 1)},
        dropped=(Dropped("image", HOSTILE, HOSTILE, HOSTILE),),
        model=LoadedModel(HOSTILE, HOSTILE, (HOSTILE,), HOSTILE, missing=(HOSTILE,), unused=(HOSTILE,), layer=HOSTILE),
        notes=(HOSTILE,),
    )
    hostile = [
        Result(cell, {"top1": 0.5, HOSTILE: 1.0}, record=record, environment={HOSTILE: HOSTILE}),
        Result(dataclasses.replace(cell, parameters={"seed": 2}), error=f"{HOSTILE} --> <!-- ]]>"),
    ]
    cards = {cell.model: ModelCard(cell.model, f"</title>{HOSTILE}", group=HOSTILE, citation=HOSTILE)}
    calm = read(write_report(results, tmp_path / "calm.html", title="Calm"))
    page = write_report([*results, *hostile], tmp_path / "hostile.html", title=HOSTILE, cards=cards)
    reader = read(page)
    assert list(reader.scripts) == list(calm.scripts), "no script more than in a page without hostile names"
    assert not any(script.strip() == "alert(1)" for script in reader.scripts.values())
    assert reader.handlers == []
    assert HOSTILE in reader.text, "names are shown as they are"
    assert json.dumps(unpacked(reader, "data")).count(HOSTILE) > 3
    assert unpacked(reader, "specs")


def test_values_that_are_not_numbers(tmp_path: Path) -> None:
    odd = {"a": math.nan, "b": math.inf, "c": 0.5}
    results = [
        Result(Cell("plain", f"timm:{m}", "d", {}), {"logme": v}, sweep=({"c": math.nan},)) for m, v in odd.items()
    ]
    reader = read(write_report(results, tmp_path / "odd.html", title="Odd"))
    assert "not a number" in reader.text
    assert "∞" in reader.text
    (spec,) = unpacked(reader, "specs").values()
    drawn = {row["model"] for row in spec["data"]["values"]}
    assert drawn == {"timm:c"}


def test_no_results_and_only_failures(tmp_path: Path) -> None:
    assert "No results yet" in read(write_report([], tmp_path / "empty.html", title="Empty")).text
    failed = [Result(Cell("probe", "m", "d", {"seed": 1}), error="no such folder")]
    text = read(write_report(failed, tmp_path / "failed.html", title="Failed")).text
    assert "no such folder" in text
    assert "1" in text
    assert "failed cell" in text


def test_settings_get_panels_of_their_own(tmp_path: Path) -> None:
    results = [
        Result(Cell("probe", m, "d:x", {"seed": s, "shots": n}), {"top1": 0.1 * n})
        for m in "ab"
        for s in (1, 2)
        for n in (1, 2, 4)
    ]
    (section, *_) = build_sections(Material(results))
    assert [figure.title for figure in section.figures] == ["x · shots 1", "x · shots 2", "x · shots 4"]


def levels(material: Material, benchmark: str) -> Section:
    spec: dict[str, Any] = {"data": {"values": [{"x": 1}]}, "mark": "point", "encoding": {"x": {"field": "x"}}}
    return Section("Levels", benchmark, prose=["By level."], figures=[Figure("One", spec, "a point")])


def test_a_benchmark_may_have_a_section_of_its_own(results: list[Result], monkeypatch: pytest.MonkeyPatch) -> None:
    more = [*results, Result(Cell("mine", "m", "d"), {"top1": 0.5}), Result(Cell("new", "m", "d"), {"tau": 0.5})]
    own = f"{levels.__module__}:levels"
    ordered = build_sections(Material(more))
    assert [s.anchor for s in ordered] == ["overview", "probe", "mine", "new", "problems", "provenance"]
    info = BenchmarkInfo(section=own)
    monkeypatch.setattr("unseen.reports.page.info_of", lambda name: info if name == "mine" else info_of(name))
    sections = build_sections(Material(more))
    assert [s.anchor for s in sections] == ["probe", "mine", "new", "problems", "provenance"]
    assert sections[1].title == "Levels"


def test_older_weights_are_left_out_of_means_whatever_the_order_of_cells(results: list[Result]) -> None:
    """Seeds 22 to 45 with old weights, then seed 22 with new ones: they are not averaged, and the page states it."""
    own = [r for r in results if (r.cell.model, r.cell.dataset) == ("packaged:efficientnet-lite0", "packaged:grocery")]
    old = [dataclasses.replace(r, cell=dataclasses.replace(r.cell, revision="old+d"), recorded="2025") for r in own]
    new = dataclasses.replace(own[0], cell=dataclasses.replace(own[0].cell, revision="new+d"), metrics={"top1": 0.1})
    new = dataclasses.replace(new, recorded="2026")
    (section, *_) = build_sections(Material([new, *old]))
    assert [figure.title for figure in section.figures] == ["grocery · weights newest", "grocery · weights old (older)"]
    assert "1 older result of other weights or data left out." in section.prose
    first, second = (section.tables[0].rows[0][i] for i in (1, 2))
    assert (first.shown, first.below) == ("10.0", "")
    assert (second.shown, second.below) == ("71.5", "[69.5, 73.5]")
    assert "standard deviation 0.7" in second.hint


def test_a_page_that_cannot_be_written(results: list[Result]) -> None:
    with pytest.raises(StoreError, match="cannot write"):
        write_report(results, "/dev/null/page.html", title="x")


def test_altair_loads_only_when_a_chart_is_drawn() -> None:
    script = (
        "import sys, unseen.reports; print(sorted({'altair', 'vl_convert', 'jinja2', 'pandas'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_one_seed_and_seeds_that_agree_are_no_certainty() -> None:
    def shown(count: int, **bounds: float) -> str:
        results = [Result(Cell("probe", "m", "d", {"seed": s}), {"top1": 0.875, **bounds}) for s in range(count)]
        (section, *_) = build_sections(Material(results))
        entry = section.tables[0].rows[0][1]
        return entry.full

    assert shown(1) == shown(3) == "87.5"
    assert shown(1, top1_low=0.5, top1_high=0.99) == shown(3, top1_low=0.5, top1_high=0.99) == "87.5 [50.0, 99.0]"


def test_ties_are_ties() -> None:
    values = {"a": 0.8, "b": 0.8, "c": 0.4}
    results = [Result(Cell("probe", m, "d"), {"top1": v, "top1_low": v, "top1_high": v}) for m, v in values.items()]
    (section, *_) = build_sections(Material(results))
    (headline,) = section.headlines
    assert (headline.text, headline.sure) == (
        "a and b have 80.0\u202f%.",
        "no confidence interval",
    )
    assert section.points[0][1].startswith("a and b have 80.0\u202f%")
    assert not any(row[1].mark for row in section.tables[0].rows), "limits without width are no interval"


def test_a_lead_is_clear_only_where_intervals_bear_it_out() -> None:
    def sure(second: float, half: float) -> tuple[str, bool]:
        rows = (("a", 0.8), ("b", second))
        metrics = [{"top1": v, "top1_low": v - half, "top1_high": v + half} for _, v in rows]
        results = [Result(Cell("probe", m, "d"), found) for (m, _), found in zip(rows, metrics, strict=True)]
        (section, *_) = build_sections(Material(results))
        return section.headlines[0].sure, section.headlines[0].clear

    assert sure(0.7, 0.02) == ("significant", True)
    assert sure(0.78, 0.02) == ("statistically tied", False)


def test_every_number_knows_its_cells(results: list[Result], cards: dict[str, ModelCard]) -> None:
    (section, *_) = build_sections(Material(results, cards))
    row = next(row for row in section.tables[0].rows if row[0].note == "packaged:efficientnet-lite0")
    own = [r.cell for r in results if r.cell.model == "packaged:efficientnet-lite0"]
    for place, dataset in ((1, "packaged:emoji"), (2, "packaged:grocery")):
        assert set(row[place].cells) == {cell.id for cell in own if cell.dataset == dataset}
    assert [section.tables[0].columns[i] for i in (0, 1, -2, -1)] == ["model", "emoji", "parameters", "FLOPs"]
