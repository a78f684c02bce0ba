"""Plans: counts of images and cells, to do and cached."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unseen.benchmarks.workbench import Workbench
from unseen.cli import main
from unseen.run.execute import run_study
from unseen.run.study import Study, count_images, plan_study


@pytest.fixture
def study(images: Path, small_model: str) -> Study:
    return Study("s", (small_model,), (f"folder:{images}",), {"probe": {"seeds": [1, 2], "solver": "ncm"}})


def test_images_are_counted_once_per_model_and_cached_ones_apart(study: Study, home: Path) -> None:
    bench = Workbench(home, how=study.extraction)
    assert count_images(plan_study(study, bench=bench), bench) == (24, 0)
    run_study(study, home, report=False)
    assert count_images(plan_study(study, bench=bench), bench) == (0, 0), "no cell remains that needs features"
    more = Study("s", study.models, study.datasets, {"probe": {"seeds": [3], "solver": "ncm"}})
    assert count_images(plan_study(more, bench=bench), bench) == (0, 24)


def test_images_of_a_ranking_are_counted(images: Path, home: Path, small_model: str) -> None:
    def counts(**options: object) -> tuple[int, int]:
        study = Study("s", (small_model,), (f"folder:{images}",), {"rank": {"scores": ["logme"], **options}})
        bench = Workbench(home, how=study.extraction)
        found = count_images(plan_study(study, bench=bench), bench)
        run_study(study, home, report=False)
        return found

    total = len(list(images.rglob("*.png")))
    first, cached = counts()
    assert 0 < first < total and cached == 0, "the training split"
    assert counts(seed=1) == (0, first)
    assert counts(sample=12, seed=2) == (12, 0)
    assert counts(sample=12, seed=2, metric="balanced") == (0, 12)


def test_a_dry_run_reports_counts(
    images: Path, home: Path, small_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["probe", str(images), "--models", small_model, "--seeds", "1", "--dry-run", "--home", str(home)]
    assert main([*arguments, "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)["counts"]
    expected = {"models": 1, "datasets": 1, "cells": 1, "cached_cells": 0, "images": 24, "cached_images": 0}
    assert counts == expected
    assert main(arguments) == 0
    line = "1 model on 1 dataset: 1 cell to evaluate, 0 cached; 24 images to extract, 0 cached"
    assert line in capsys.readouterr().out
    assert not (home / "speeds.json").exists()
