"""All outputs agree: values, intervals, order, ties and verdicts come from one object.

Stored results of every benchmark are read through the terminal, HTML, LaTeX, Markdown, CSV, JSON, the leaderboard, the
comparison and Python. Of three models the "winner" is significantly better than the others in the second column and
statistically tied with "tied" in the first; "unfinished" lacks the second column. A published row has a value without
an interval.
"""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unseen.benchmarks import BENCHMARKS
from unseen.benchmarks.rank.scoring import EXPECTED, packed
from unseen.cli import main
from unseen.cli.run import display_names
from unseen.core.records import Cell, Result
from unseen.core.run_record import RunRecord
from unseen.results import FILE_NAME, ResultsDatabase, info
from unseen.results.grid import Grid, grids, pack_correct, pack_values
from unseen.results.render import latex_text, markdown_words
from unseen.results.table import Table, TableCell, result_tables
from unseen.study import make_report

IMAGES = 600
SEEDS = (22, 37)
#: Accuracy by model in the first and in the second column; None if the model has no result.
ACCURACY: dict[str, tuple[float, float | None]] = {
    "timm:winner": (0.8, 0.85),
    "timm:tied": (0.8, 0.6),
    "timm:unfinished": (0.55, None),
}
PUBLISHED = "published:method"
SOURCE = "Someone et al., 2020, Table 1"
#: (dataset, level or method) of the first and of the second column.
COLUMNS: dict[str, tuple[tuple[str, dict[str, Any]], tuple[str, dict[str, Any]]]] = {
    "cog": (("packaged:emoji", {"level": "seen"}), ("packaged:emoji", {"level": "L1"})),
    "cog-finetune": (("packaged:emoji", {"level": "seen"}), ("packaged:emoji", {"level": "L1"})),
    "zsl": (("xlsa17:CUB", {"method": "ALE"}), ("xlsa17:SUN", {"method": "ALE"})),
    "vtab": (("packaged:grocery", {}), ("procedural:shapes-count", {})),
    "rank": (("folder:one", {"score": EXPECTED}), ("folder:two", {"score": EXPECTED})),
}
COMMON: dict[str, dict[str, Any]] = {
    "cog": {"shots": "all", "solver": "logistic", "levels": 1},
    "cog-finetune": {"steps": 100},
    "zsl": {"fold": "all", "split": "PS", "embedding": "auto", "calibration": 0.0},
    "vtab": {"adaptation": "linear", "sweep": "lightweight"},
    "rank": {"layer": "pooled", "split": "train", "sample": 0},
}
SEEDLESS = ("regression", "zsl", "rank")


def stored_results(benchmark: str) -> list[Result]:
    """Return the results of three models and one published row."""
    found = []
    columns = COLUMNS.get(benchmark, (("folder:one", {}), ("folder:two", {})))
    for place, (dataset, setting) in enumerate(columns):
        hard = np.random.default_rng(place).random(IMAGES)
        for number, (model, accuracies) in enumerate(ACCURACY.items()):
            accuracy = accuracies[place]
            for seed in SEEDS if benchmark not in SEEDLESS else (0,):
                if accuracy is not None:
                    noise = np.random.default_rng([number, seed, place]).normal(0, 0.12, IMAGES)
                    correct = hard + noise < accuracy
                    parameters = (
                        COMMON.get(benchmark, {}) | setting | ({"seed": seed} if benchmark not in SEEDLESS else {})
                    )
                    cell = Cell(benchmark, model, dataset, parameters, f"{model}+{dataset}", "1")
                    metrics, details = _outcome(benchmark, correct, place)
                    found.append(Result(cell, metrics, details=details))
    return [*found, published_result(benchmark, found)]


def published_result(benchmark: str, results: list[Result]) -> Result:
    """Return a number of a paper in the first column."""
    first = results[0]
    parameters = {**first.cell.parameters, **({"score": "logme"} if benchmark == "rank" else {})}
    cell = Cell(benchmark, PUBLISHED, first.cell.dataset, parameters, f"p+{first.cell.data}", "1")
    metric = next(iter(first.metrics))
    details = {name: value for name, value in first.details.items() if name in ("chance", "classes", "test_images")}
    return Result(cell, {metric: 0.3}, details=details, record=RunRecord(source=SOURCE))


def _outcome(benchmark: str, correct: np.ndarray[Any, Any], place: int) -> tuple[dict[str, float], dict[str, Any]]:
    mean = float(correct.mean())
    sizes = {"classes": 10, "chance": 0.1, "train_images": 100, "test_images": IMAGES}
    if benchmark in ("regression", "multilabel"):
        scores = 2 * correct - 1.0 if benchmark == "regression" else correct.astype(float)
        name = "r2" if benchmark == "regression" else "map"
        value = float(scores.mean())
        metrics = {name: value, f"{name}_low": value - 0.03, f"{name}_high": value + 0.03}
        metrics |= {"lrap": value} if benchmark == "multilabel" else {}
        return metrics, {**sizes, "image_scores": pack_values(scores)}
    if benchmark == "zsl":
        metrics = {
            name: mean * part for name, part in (("zsl", 1), ("ts", 0.3), ("tr", 0.9), ("H", 0.45), ("AUSUC", 0.3))
        }
        bounds = {f"{n}_{end}": v + d for n, v in metrics.items() for end, d in (("low", -0.02), ("high", 0.02))}
        return metrics | bounds, sizes | {"unseen_classes": 10, "seen_classes": 30, "transductive": False}
    if benchmark == "rank":
        hits = packed(correct.astype(float), np.arange(IMAGES), IMAGES)
        about = {"images": IMAGES, "total": IMAGES, "classes": 10, "notes": [], "extraction_seconds": 1.0}
        return {"score": mean}, about | {"outcomes": hits}
    details: dict[str, Any] = {**sizes, "correct": pack_correct(correct)}
    if benchmark in ("cog", "cog-finetune"):
        per_class = correct.reshape(10, -1).mean(1)
        details |= {"per_class": {str(i): float(v) for i, v in enumerate(per_class)}, "similarity": 1 - place / 2}
        details |= {"concepts": [_concept(place, i) for i in range(10)], "train_per_class": [10] * 10}
        details |= {
            "test_per_class": [60] * 10,
            "confusions": [],
            "domains": {"seen": "S", "classes": 10, "measure": "lin"},
        }
    if benchmark == "vtab":
        details |= {"task": {"title": ("Grocery", "Count")[place]}}
    return {"top1": mean}, details


def _concept(place: int, number: int) -> dict[str, Any]:
    name = f"concept {place}-{number}"
    return {"id": f"n{place}{number:03d}", "name": name, "similarity": 1 - place / 2 - number / 99, "nearest": "cat"}


BUILT_IN = ("clip", "cog", "cog-finetune", "multilabel", "probe", "rank", "regression", "vtab", "zsl")


@pytest.fixture(params=BUILT_IN, scope="module")
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    with ResultsDatabase(folder / FILE_NAME) as database:
        for result in stored_results(request.param):
            database.append("s", result)
    return folder


@pytest.fixture
def results(home: Path) -> list[Result]:
    with ResultsDatabase(home / FILE_NAME, read_only=True) as database:
        return database.latest()


@pytest.fixture
def tables(results: list[Result]) -> list[Table]:
    return result_tables(results, display_names(results))


@pytest.fixture
def grid(results: list[Result]) -> Grid:
    """The columns of the first metric, each with its decision."""
    (found,) = grids(results)
    return found


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def numbers(tables: list[Table]) -> list[tuple[Table, list[TableCell], TableCell]]:
    """Every number with a confidence interval, with its table and row."""
    return [(t, list(row), c) for t in tables for row in t.rows for c in row[1:] if c.value is not None and c.interval]


def test_every_benchmark_is_here() -> None:
    assert set(BUILT_IN) <= {name for name, _ in BENCHMARKS.entries()}
    assert len(BUILT_IN) == len(info._BUILT_IN), "a new benchmark needs results here"


def test_the_decision_is_the_one_that_the_data_were_made_for(grid: Grid) -> None:
    columns = [c for c in grid.columns if c.metric == grid.columns[0].metric]
    whole = [grid.decisions[c] for c in columns if {"timm:winner", "timm:tied"} <= set(grid.decisions[c].order)]
    assert len(whole) == 2
    tie, clear = sorted(whole, key=lambda decision: len(decision.possibly_best), reverse=True)
    assert set(tie.possibly_best) == {"timm:winner", "timm:tied"}
    assert tie.pairs["timm:winner", "timm:unfinished"].significant
    assert not tie.pairs["timm:winner", "timm:tied"].significant
    assert clear.best == "timm:winner" and clear.pairs["timm:winner", "timm:tied"].significant


def test_texts_agree(
    home: Path, tables: list[Table], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    terminal = run(capsys, "results", "--home", str(home))
    latex = run(capsys, "results", "--latex", "-", "--home", str(home))
    markdown = run(capsys, "results", "--markdown", "-", "--home", str(home))
    assert numbers(tables)
    for _, row, cell in numbers(tables):
        name = row[0].shown
        assert re.search(rf"^\s*{re.escape(name)}\s.*{re.escape(cell.full)}", terminal, re.M), (name, cell.full)
        bold = rf"\textbf{{{latex_text(cell.shown)}}}" if cell.mark else latex_text(cell.shown)
        below = cell.full[len(cell.shown) :].strip()
        assert (rf"{bold} {{\scriptsize {latex_text(below)}}}" if below else bold) in latex
        shown = markdown_words(cell.full)
        assert (f"**{shown}**" if cell.mark else f"| {shown} |") in markdown


def test_numbers_agree(home: Path, tables: list[Table], capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, "results", "--json", "--table", "--home", str(home)))
    assert [table["caption"] for table in found] == [table.caption for table in tables]
    for read, table in zip(found, tables, strict=True):
        assert [row["name"] for row in read["rows"]] == [row[0].shown for row in table.rows], "the same order"
        for cells, row in zip(read["rows"], table.rows, strict=True):
            assert cells["cells"] == json.loads(json.dumps([cell.to_dict() for cell in row[1:]]))
    text = run(capsys, "results", "--csv", "-", "--table", "--home", str(home))
    lines = [line for line in csv.reader(io.StringIO(text)) if line]
    for _, row, cell in numbers(tables):
        values = [line for line in lines if line[0] == row[0].shown and repr(cell.value) in line]
        assert values, (row[0].shown, cell.value)
        if cell.interval is not None and cell.interval.known:
            assert any(repr(cell.interval.low) in line and repr(cell.interval.high) in line for line in values)


def test_the_report_agrees(results: list[Result], tables: list[Table], tmp_path: Path) -> None:
    page = make_report(results, title="t").write(tmp_path / "page.html")
    text = unescape(re.sub(r"\s+", " ", page.read_text())).replace("\u202f", " ").replace("\u00a0", " ")
    for _, _, cell in numbers(tables):
        bold = f"<strong>{cell.shown}</strong>" if cell.mark else cell.shown
        below = f"<small>{re.escape(cell.below)}</small>" if cell.below else ""
        assert re.search(rf"{re.escape(bold)}(?:</button>)?{below}", text), cell.full


def test_the_report_has_the_order_of_the_tables(results: list[Result], tables: list[Table]) -> None:
    page = {table.caption: table for section in make_report(results, title="t").sections for table in section.tables}
    for table in tables:
        if table.caption in page and len(table.rows) > 1:
            assert [r[0].shown for r in page[table.caption].rows] == [r[0].shown for r in table.rows]


def test_leaderboard_and_comparison_agree(home: Path, grid: Grid, capsys: pytest.CaptureFixture[str]) -> None:
    columns = [c for c in grid.columns if c.metric == grid.columns[0].metric]
    boards = json.loads(run(capsys, "leaderboard", "--json", "--home", str(home)))
    cells = [(row["id"], cell) for board in boards for row in board["rows"] for cell in row["cells"][1:] if cell]
    for column in columns:
        decision = grid.decisions[column]
        for model in decision.order if len(decision.order) > 1 else ():
            value = grid.cells[model, column].value
            (cell,) = (c for name, c in cells if name == model and c["value"] == value)
            assert cell["mark"] == decision.mark(model)
            assert cell.get("place") == (None if decision.untested else list(decision.places[model]))
            interval = grid.cells[model, column].interval
            assert not interval.known or (cell["low"], cell["high"]) == (interval.low, interval.high)
    for other in ("timm:tied", "timm:unfinished"):
        found = json.loads(run(capsys, "compare", "timm:winner", other, "--json", "--home", str(home)))
        assert len(found["rows"]) == (2 if other == "timm:tied" else 1)
        for row in found["rows"]:
            _, first, second, difference, test, _ = row["cells"]
            pairs = [
                grid.decisions[c].pairs["timm:winner", other]
                for c in columns
                if (other, c) in grid.cells and grid.cells[other, c].value == second["value"]
            ]
            (pair,) = pairs
            assert (difference["value"], difference["low"], difference["high"]) == (pair.value, pair.low, pair.high)
            assert (test["value"], bool(first["mark"] or second["mark"])) == (pair.adjusted_p, pair.significant)


def test_a_row_without_intervals_is_ordered_and_never_marked(
    results: list[Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A published number has no outcomes: it is in the table, and no claim is made about it."""
    published = next(result for result in results if result.cell.model == PUBLISHED)
    best = replace(published, metrics=dict.fromkeys(published.metrics, 0.99))
    with ResultsDatabase(tmp_path / FILE_NAME) as database:
        for result in [*(r for r in results if r is not published), best]:
            database.append("s", result)
    text = run(capsys, "results", "--markdown", "-", "--home", str(tmp_path))
    rows = [line for line in text.splitlines() if re.search(r"\| (99\.0|0\.9900) \|", line)]
    assert rows and not any("**" in row for row in rows)
    if published.cell.benchmark in ("probe", "clip", "regression", "multilabel"):
        assert SOURCE in text
