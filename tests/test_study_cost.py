"""What a plan will take: from speeds that the home remembers, from a guess where it does not, beside what it took."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unseen.benchmarks.workbench import Workbench
from unseen.cli.run import against, in_seconds, stage_line
from unseen.features import Extraction
from unseen.results.environment import SPEEDS, Speeds, Stage, expect_cells, expect_features
from unseen.study import Study, expect_stages, plan_study, run_study


@pytest.fixture
def study(images: Path, small_model: str) -> Study:
    benchmarks = {"probe": {"seeds": [1, 2], "solver": "ncm"}}
    return Study("s", (small_model,), (f"folder:{images}",), benchmarks, extraction=Extraction(dtype="float16"))


def test_a_home_learns_from_its_runs(study: Study, home: Path, small_model: str) -> None:
    bench = Workbench(home, how=study.extraction)
    features, cells = expect_stages(plan_study(study, bench=bench), bench)
    assert (features.work, cells.work, features.known, cells.known) == ("24 images", "2 cells", False, False)
    assert features.seconds > 0 and features.memory > 0
    again = expect_stages(plan_study(study, bench=bench), bench)
    assert again == [features, cells], "the guess is remembered too"

    outcome = run_study(study, home, report=False)
    assert [stage.work for stage in outcome.spent] == ["24 images", "2 cells"]
    assert all(stage.seconds > 0 for stage in outcome.spent)
    speeds = Speeds(home)
    rate, dimensions, known = speeds.extraction(small_model)
    assert known and rate == pytest.approx(24 / outcome.spent[0].seconds)
    assert speeds.cell("probe", study.datasets[0])[1]

    features, cells = expect_stages(plan_study(study, bench=bench), bench)
    assert (features.work, cells.work) == ("0 images", "0 cells"), "all of it is there"
    more = Study("s", study.models, study.datasets, {"probe": {"seeds": [3], "solver": "ncm"}}, study.extraction)
    features, cells = expect_stages(plan_study(more, bench=bench), bench)
    assert (features.work, cells.work, cells.known) == ("0 images", "1 cells", True)
    (home / "results.sqlite").unlink()
    for manifest in (home / "features").rglob("manifest.json"):
        manifest.unlink()
    features, _ = expect_stages(plan_study(study, bench=bench), bench)
    assert features.known and features.seconds == pytest.approx(24 / rate)
    assert features.disk == 24 * (2 * dimensions + 16)


def test_workers_divide_the_time_and_multiply_the_memory(tmp_path: Path) -> None:
    speeds = Speeds(tmp_path)
    speeds.learn_model("m", 1000, 10.0, 512)
    speeds.learn_cells("probe", "d", [1.0, 3.0])
    one, two = (expect_features(speeds, {"m": 500}, 4, workers) for workers in (1, 2))
    assert (one.seconds, two.seconds, one.disk) == (5.0, 2.5, 500 * (512 * 4 + 16))
    assert two.memory == 2 * one.memory
    cells = expect_cells(speeds, [("probe", "d")] * 4, {"d": 10**9}, 2)
    assert (cells.seconds, cells.known) == (4.0, True)
    assert cells.memory > 2 * 2 * 10**9
    assert expect_cells(speeds, [("probe", "other")], {}, 1).seconds == 2.0, "as on other datasets"


@pytest.mark.parametrize("text", ["", "[]", '{"models": 3, "cells": {}, "gflops": 1}', '{"models": {"m": []}}'])
def test_a_damaged_file_is_nothing_learnt(text: str, tmp_path: Path) -> None:
    (tmp_path / SPEEDS).write_text(text)
    assert Speeds(tmp_path).extraction("m")[2] is False


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    speeds = Speeds(tmp_path)
    speeds.learn_model("m", 10, 2.0, 7)
    speeds.learn_model("none", 0, 2.0, 7)
    speeds.save()
    assert Speeds(tmp_path).models == {"m": (5.0, 7)}
    assert json.loads((tmp_path / SPEEDS).read_text())["models"] == {"m": [5.0, 7]}


def test_it_is_said_in_words() -> None:
    assert [in_seconds(s) for s in (3.21, 119.0, 600.0, 9000.0)] == ["3.2 s", "119.0 s", "10.0 minutes", "2.5 hours"]
    line = stage_line(Stage("features", "24 images", 2.0, 1000, 10**9))
    assert line == "features: 24 images in about 2.0 s, 1.0 kB of disk, 1.0 GB of memory (as measured in this home)"
    assert "a guess" in stage_line(Stage("cells", "2 cells", 2.0, known=False))
    said = against([Stage("features", "", 4.0, known=False)], [Stage("features", "", 5.0)])
    assert said == ["features: 5.0 s, 4.0 s predicted by a guess"]
    assert against([Stage("features", "", 0.1)], [Stage("features", "", 0.2)]) == []
