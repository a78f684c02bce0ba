"""Charts and sections of a CoG hold one setting at a time: made-up results of two runs under one study's name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unseen.benchmarks.cog.analysis import concept_scores, level_scores, settings
from unseen.benchmarks.cog.figures import VIEW_FIGURES, View
from unseen.benchmarks.cog.section import cog_finetune_section, cog_section
from unseen.cli import main
from unseen.core.errors import UsageError
from unseen.core.records import Cell, Result
from unseen.reports import save_chart
from unseen.reports.blocks import Material
from unseen.reports.charts import series_keys
from unseen.results import FILE_NAME, ResultsDatabase
from unseen.results.grid import pack_correct
from unseen.results.table import result_tables

RECIPE = {"seen": "imagenet-1k", "levels": 5, "size": 0, "measure": "lin", "rerank": "", "ontology": "", "draw_seed": 0}
CONCEPTS = [{"id": f"n{i}", "name": f"c{i}", "similarity": 0.9 - i / 10, "nearest": "cat"} for i in range(4)]


def made_up(top1: float, level: str = "L1", seed: int = 0, **changes: Any) -> Result:
    benchmark, model, dataset, revision = (
        changes.pop(name, default)
        for name, default in (("benchmark", "cog"), ("model", "m:a"), ("dataset", "d:x"), ("revision", "w+d"))
    )
    parameters = {**RECIPE, "solver": "fast", "level": level, "shots": "all", "seed": seed, **changes}
    correct = np.arange(100) < 100 * top1
    details = {
        "classes": 4,
        "similarity": 0.5,
        "concepts": CONCEPTS,
        "train_per_class": [3] * 4,
        "per_class": {str(i): top1 for i in range(4)},
        "correct": pack_correct(correct),
    }
    cell = Cell(benchmark, model, dataset, parameters, revision, "1 fast.1")
    return Result(cell, {"top1": top1}, details=details)


def two_runs() -> list[Result]:
    """The audit's case: five levels with `fast`, then three with `ncm`, under the study "cog"."""
    first = [made_up(0.99, level, seed) for level in ("seen", "L1", "L2") for seed in range(5)]
    second = [made_up(0.97, level, seed, solver="ncm", levels=3) for level in ("seen", "L1", "L2") for seed in range(5)]
    return first + second


def test_two_runs_are_not_averaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = two_runs()
    for analyse in (level_scores, concept_scores):
        with pytest.raises(UsageError, match=r"2 settings.*\(1\) levels 5, solver fast; \(2\) levels 3, solver ncm"):
            analyse(results)
    means = [[(s.mean, len(s.summary.values)) for s in level_scores(group.results)] for group in settings(results)]
    assert means == [[(0.99, 5)] * 3, [(pytest.approx(0.97), 5)] * 3]
    with ResultsDatabase(tmp_path / FILE_NAME) as database:
        for result in results:
            database.append("cog", result)
    chart = ["cog", "chart", "levels", "--output", str(tmp_path / "levels.svg"), "--home", str(tmp_path)]
    assert main(chart) == 2
    err = capsys.readouterr().err
    assert "levels 3, solver ncm" in err
    assert "--setting" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "levels.svg").exists()


def test_the_section_shows_both_runs_separately(tmp_path: Path) -> None:
    section = cog_section(Material([*two_runs(), made_up(0.5, "L1", model="m:b")]), "cog")
    assert section is not None
    assert "shown separately: (1) levels 5, solver fast; (2) levels 3, solver ncm." in section.prose[0]
    tables = [table for table in section.tables if "top-1 accuracy (%) by level" in table.caption]
    assert [table.caption.partition(" · ")[2] for table in tables] == ["levels 5, solver fast", "levels 3, solver ncm"]
    shown = [[row[2].full for row in table.rows] for table in tables]
    assert shown == [["99.0 [95.2, 99.9]", "50.0 [40.3, 59.7]"], ["97.0 [92.1, 99.2]"]]
    assert [row[2].mark for row in tables[0].rows] == ["best", ""]
    assert tables[0].columns[2] == "L1"
    assert [table.caption for table in result_tables(two_runs())] == [table.caption for table in tables]
    assert [key.label for key in section.legend] == ["a", "b"]
    for number, figure in enumerate(section.figures):
        assert save_chart(figure.spec, tmp_path / f"{number}.svg").stat().st_size > 1000


def test_one_setting_has_no_words() -> None:
    section = cog_section(Material(two_runs()[:15]), "cog")
    assert section is not None
    assert "settings" not in " ".join(section.prose)
    assert section.figures[0].title == "Top-1 by level"


def test_another_mapping_or_other_weights_are_not_averaged() -> None:
    old = [made_up(0.9, "L1", seed) for seed in range(2)]
    new = [made_up(0.8, "L1", 0, revision="w+e"), made_up(0.7, "L1", 0, revision="v+e")]
    words = [(group.words, [r.metrics["top1"] for r in group.results], group.older) for group in settings([*old, *new])]
    assert words == [("weights w (older), data d (older)", [0.9], 0), ("weights newest, data newest", [0.7], 2)]


def test_fine_tuning_stands_beside_probes_on_the_same_concepts() -> None:
    tuned = [made_up(0.9, level, benchmark="cog-finetune", steps=200) for level in ("seen", "L1")]
    short = [made_up(0.4, level, benchmark="cog-finetune", steps=2) for level in ("seen", "L1")]
    other = [made_up(0.1, "L1", measure="wu-palmer")]
    section = cog_finetune_section(Material([*two_runs()[:15], *other, *tuned, *short]), "cog-finetune")
    assert section is not None
    first, second = (table for table in section.tables if table.caption.startswith("Frozen / fine-tuned"))
    assert first.columns == ["model", "seen", "L1"]
    assert [[cell.shown for cell in row] for row in first.rows] == [["a", "1.100", "1.100"]]
    ratio = first.rows[0][1].interval
    assert ratio is not None and 1.02 < ratio.low < 1.1 < ratio.high < 1 / 0.82
    assert second.caption.endswith("steps 2")
    accuracy = [table for table in section.tables if table not in (first, second)]
    assert [[cell.shown for cell in table.rows[0][1:]] for table in accuracy] == [["90.0", "90.0"], ["40.0", "40.0"]]


def test_colours_are_those_of_the_legend() -> None:
    keys = series_keys(["m:a", "m:b"], {"m:a": "a", "m:b": "b"}, {})
    (group,) = settings([made_up(0.5, level, model="m:b") for level in ("seen", "L1")])
    only_b = VIEW_FIGURES["levels"].charts(View.of(group, keys, lambda dataset, name: ""))[""]
    scale = only_b.to_dict()["layer"][0]["encoding"]["color"]["scale"]
    assert (scale["domain"], scale["range"]) == (["b"], [keys["m:b"].colour]), "its own, though it stands alone"
