"""The metadata of benchmarks: complete for every registered one, and used by every output instead of their names."""

from __future__ import annotations

import ast
import string
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import unseen
from unseen.benchmarks import BENCHMARKS, Benchmark, make_benchmark
from unseen.benchmarks.benchmark import citations_of, command_of, references
from unseen.benchmarks.citations import bibtex
from unseen.cli import main
from unseen.core.records import Cell, Result
from unseen.core.registry import load_object
from unseen.results import FILE_NAME, ResultsDatabase
from unseen.results.grid import grids, summarise
from unseen.results.info import (
    NO_INFO,
    BenchmarkInfo,
    MetricStyle,
    info_of,
    stored_chance,
)

#: Before other tests register benchmarks of their own.
REGISTERED = tuple(BENCHMARKS)


@pytest.mark.parametrize("name", REGISTERED)
def test_every_benchmark_has_complete_metadata(name: str) -> None:
    info = BENCHMARKS.get(name).info
    for field in ("title", "question", "command", "sentence", "metrics", "targets"):
        assert getattr(info, field), field
    assert callable(load_object(info.section))
    assert set(info.citations) <= set(references())
    assert set(info.columns) <= {style.name for style in info.metrics}
    for cell in make_benchmark(name, {}).plan("m", "d"):
        named = {field for _, field, _, _ in string.Formatter().parse(info.sentence) if field}
        assert named <= set(cell.parameters)


@pytest.mark.parametrize("name", REGISTERED)
def test_metadata_by_name_is_that_of_the_class(name: str) -> None:
    """The table of built-in benchmarks names the same object as the class does."""
    found, declared = info_of(name), BENCHMARKS.get(name).info
    for field in ("title", "question", "command", "metrics", "section", "cell_options"):
        assert getattr(found, field) == getattr(declared, field)


def stored(name: str) -> list[Result]:
    """Return a result for every default cell of a benchmark, with its headline metric."""
    metric = info_of(name).metrics[0].name
    return [
        Result(replace(cell, revision="w+d"), {metric: 0.25}, details={"test_images": 90, "classes": 4})
        for cell in make_benchmark(name, {}).plan("random:test_resnet", "procedural:shapes-count")
    ]


#: What the paragraph of each benchmark must state with default options.
STATED = {
    "probe": "the logistic classifier, trained on all images per class",
    "regression": "A number per image was predicted from frozen features (pooled layer) by ridge regression",
    "multilabel": "Several labels per image were predicted from frozen features (pooled layer) by one logistic",
    "cog": "follows ImageNet-CoG: the logistic classifier on frozen features",
    "cog-finetune": "Networks were fine-tuned for 200 steps, separately on each of the domains",
    "zsl": "follows the protocol of Xian et al. with the split PS: the methods",
    "clip": "with the prompt templates openai; nothing was trained",
    "vtab": "follows VTAB: from 1,000 labelled examples of each task, or as many as it has, by linear",
    "rank": "Checkpoints were ranked on the train images by knn, logme, parc and probe; scores were computed before",
}


@pytest.mark.parametrize("name", REGISTERED)
def test_markdown_has_a_sentence_for_every_benchmark(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ResultsDatabase(tmp_path / FILE_NAME) as database:
        for result in stored(name):
            database.append("s", result)
    assert main(["results", "--home", str(tmp_path), "--markdown", "-"]) == 0
    out = capsys.readouterr().out
    assert STATED[name] in out
    assert "was run" not in out and "{" not in out
    assert info_of(name).title in out, "the caption has the title"
    assert main(["results", "--home", str(tmp_path), "--latex", "-"]) == 0
    cited = "".join(rf" \cite{{{key}}}" for key in ("unseen", *info_of(name).citations))
    assert cited in capsys.readouterr().out


def test_metrics_are_known_without_loading_the_benchmark() -> None:
    """Metadata loads neither the code of a benchmark nor a numeric library."""
    code = (
        "import sys\n"
        "from unseen.results.info import metric_style\n"
        "assert metric_style('zsl', 'zsl').percent and metric_style('r2', 'regression').title == 'R²'\n"
        "assert metric_style('top1', 'vtab').aggregate == 'median'\n"
        "print([name for name in sys.modules if name in ('numpy', 'torch') or name.endswith('.protocol')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_vtab_reports_the_median_over_seeds() -> None:
    values = (0.2, 0.5, 0.6)
    for benchmark, expected in (("vtab", 0.5), ("probe", 1.3 / 3)):
        results = [Result(Cell(benchmark, "m", "d", {"seed": s}), {"top1": v}) for s, v in enumerate(values)]
        (summary,) = summarise(results, "top1")
        assert summary.value == pytest.approx(expected)


def test_default_columns() -> None:
    metrics = {"zsl": 0.5, "H": 0.4, "zsl_top10": 0.9}
    (grid,) = grids([Result(Cell("zsl", "m", "d"), metrics)])
    assert [column.metric for column in grid.columns] == ["zsl", "H"]
    (grid,) = grids([Result(Cell("zsl", "m", "d"), metrics)], ["zsl_top10"])
    assert [column.metric for column in grid.columns] == ["zsl_top10"]
    (grid,) = grids([Result(Cell("zsl", "m", "d"), {"zsl_top10": 0.9})])
    assert [column.metric for column in grid.columns] == ["zsl_top10"], "rather another column than none"


def test_chance() -> None:
    assert stored_chance({"chance": 0.5, "classes": 4}) == 0.5
    assert stored_chance({"classes": 4}) == 0.25
    assert stored_chance({"classes": 0}) is stored_chance({}) is None
    assert info_of("regression").chance({}) == 0.0
    assert info_of("multilabel").chance({"chance": 0.3}) == 0.3


# ---- plug-ins --------------------------------------------------------------------------------------------------------


INFO = BenchmarkInfo(
    title="Class means",
    question="How far do class means get?",
    command="",
    sentence="Images were assigned to the nearest class mean",
    citations=("vtab", "Doe et al., A method of means, Venue 2024"),
    metrics=(MetricStyle("cost", "cost", higher_is_better=False),),
    cell_citations=lambda parameters: (f"Roe et al., Number {parameters['seed']}, Venue 2025",),
)


@dataclass(frozen=True)
class New(Benchmark):
    """A benchmark that declares metadata."""

    name = "new"
    info = INFO

    def evaluate(self, cells: Any, bench: Any) -> Any:
        raise NotImplementedError


@pytest.fixture
def plug_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    added = {"new": New, "broken": "no_such_package:Thing"}
    monkeypatch.setattr(BENCHMARKS, "_targets", {**BENCHMARKS._targets, **added})


@pytest.mark.usefixtures("plug_ins")
def test_plug_ins_provide_the_same_as_built_in_benchmarks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = Result(Cell("new", "m", "d", {"seed": 3}, "w+d"), {"cost": 2.0})
    with ResultsDatabase(tmp_path / FILE_NAME) as database:
        database.append("s", result)
    assert main(["results", "--home", str(tmp_path), "--latex", "-"]) == 0
    out = capsys.readouterr().out
    assert "Class means" in out and "Images were assigned to the nearest class mean." in out
    assert r"\cite{unseen} \cite{vtab} \cite{doe2024}" in out
    assert all(key in bibtex([result], {}, {}) for key in ("{vtab,", "{doe2024,", "{roe2025,"))
    assert citations_of(result.cell)[1:] == [INFO.citations[1], "Roe et al., Number 3, Venue 2025"]
    assert command_of(result.cell).startswith("unseen new d")


@pytest.mark.usefixtures("plug_ins")
@pytest.mark.parametrize("name", ["broken", "not installed"])
def test_results_of_a_missing_plug_in_are_shown_by_its_name(name: str) -> None:
    info = info_of(name)
    assert (info.title, info.command, info.sentence) == (name, name, f"The benchmark {name} was run")
    assert info.section == NO_INFO.section
    assert command_of(Cell(name, "m", "d")) == ""
    assert citations_of(Cell(name, "m", "d")) == []


# ---- no name of a benchmark outside of its package -------------------------------------------------------------------


def test_no_code_compares_with_the_name_of_a_benchmark() -> None:
    """Facts of a benchmark are in its package; elsewhere no branch depends on its name."""
    root, found = Path(unseen.__file__).parent, []
    own = {name: f"benchmarks/{name.partition('-')[0]}/" for name in REGISTERED}
    own |= {"regression": "benchmarks/probe/", "multilabel": "benchmarks/probe/"}
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare) and "benchmark" in ast.unparse(node):
                texts = {c.value for c in ast.walk(node) if isinstance(c, ast.Constant) and isinstance(c.value, str)}
                strange = [name for name in texts & set(own) if not place.startswith(own[name])]
                found += [f"{place}:{node.lineno}: {ast.unparse(node)}"] * bool(strange)
    assert found == []
