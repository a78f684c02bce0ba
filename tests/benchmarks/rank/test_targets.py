"""Values and several labels out of a table, through `unseen rank`: ridge and LogME, both told in their own measure."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import cross_val_predict

from unseen import rank_checkpoints
from unseen.benchmarks.workbench import Workbench
from unseen.cli import main
from unseen.core.errors import DataError, UnseenError, UsageError
from unseen.data import load_dataset
from unseen.study import Study, plan_study

GOOD, POOR = "random:test_resnet?size=32", "random:test_vit?size=32"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 images whose brightness is the value, and whose halves are bright or not: two labels."""
    root = tmp_path_factory.mktemp("tables")
    draw = np.random.default_rng(0)
    rows = []
    for i in range(60):
        left, right, level = draw.random() < 0.5, draw.random() < 0.5, draw.random()
        pixels = draw.normal(60 + 120 * level, 8, (32, 32, 3))
        pixels[:, :16] += 60 * left
        pixels[:, 16:] += 60 * right
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(root / f"{i:02d}.png")
        tags = ";".join(name for name, on in (("left", left), ("right", right)) if on)
        rows.append([f"{i:02d}.png", f"{pixels.mean():.4f}", tags, int(left), int(right)])
    for name, columns in {"values": [0, 1], "tags": [0, 2], "marks": [0, 3, 4]}.items():
        with (root / f"{name}.csv").open("w", newline="") as file:
            header = ["image", "level", "tags", "left", "right"]
            csv.writer(file).writerows([[header[c] for c in columns], *([row[c] for c in columns] for row in rows)])
    return root


def test_a_table_keeps_values_and_labels_in_every_split(folder: Path) -> None:
    data = load_dataset(f"csv:{folder}/values.csv?label=level&target=number")
    written = dict(line.split(",") for line in (folder / "values.csv").read_text().splitlines()[1:])
    for split in ("train", "test"):
        names = data.split(split).names
        assert data.split(split).targets.tolist() == [float(written[name]) for name in names]
    assert 10 <= len(data.split("test")) <= 14
    by_column = load_dataset(f"csv:{folder}/tags.csv?label=tags&target=several")
    by_marks = load_dataset(f"csv:{folder}/marks.csv?target=several")
    assert np.array_equal(by_column.split("train").targets, by_marks.split("train").targets)
    assert by_column.split("train").targets.shape[1] == 2
    assert set(np.unique(by_column.split("test").targets)) == {0.0, 1.0}


def test_values_have_an_r2_that_scikit_learn_confirms(folder: Path, tmp_path: Path) -> None:
    name = f"csv:{folder}/values.csv?label=level&target=number"
    found = rank_checkpoints(name, [GOOD, POOR], home=tmp_path, report=False)
    assert found.measure == "R2" and "R\u00b2" in found.recommendation and not found.failed
    assert found.scores == ("logme",)
    bench = Workbench(tmp_path)
    for candidate in found.candidates:
        rows = bench.split(candidate.model, name, "train")
        y = load_dataset(name).split("train").targets
        x = np.asarray(rows.features[:], np.float64)
        said = cross_val_predict(RidgeCV(np.logspace(-6, 3, 19)), x, y, cv=10)
        assert candidate.expected == pytest.approx(1 - np.mean((y - said) ** 2) / y.var(), abs=0.15)
        assert candidate.scores["logme"] == candidate.scores["logme"]


def test_several_labels_through_the_command_and_its_page(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["rank", f"csv:{folder}/tags.csv?label=tags&target=several", "--models", GOOD, POOR]
    arguments += ["--home", str(tmp_path), "--json", "--output", str(tmp_path / "page.html")]
    assert main(arguments) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["measure"] == "precision" and told["classes"] == 2
    assert all(0.5 < c["expected"] <= 1 and "logme" in c["scores"] for c in told["candidates"])
    assert "precision of a linear head" in (tmp_path / "page.html").read_text()


def test_what_does_not_go_with_targets_is_refused_before_work(folder: Path, tmp_path: Path) -> None:
    name = f"csv:{folder}/values.csv?label=level&target=number"
    with pytest.raises(UsageError, match="nleep need classes"):
        rank_checkpoints(name, [GOOD], home=tmp_path, scores=("nleep",))
    with pytest.raises(UsageError, match="fine-tuning need classes"):
        rank_checkpoints(name, [GOOD], home=tmp_path, finetune_top=1)
    with pytest.raises(DataError, match="which cog does not take"):
        plan_study(Study("s", (GOOD,), (name,), {"cog": {}}), tmp_path)
    with pytest.raises(UnseenError, match="target"):
        load_dataset(f"csv:{folder}/values.csv?label=level&target=values")
    with pytest.raises(DataError, match="holds numbers, but also"):
        load_dataset(f"csv:{folder}/tags.csv?label=tags&target=number")
    assert not (tmp_path / "features").exists()
