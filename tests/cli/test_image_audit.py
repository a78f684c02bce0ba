"""`unseen audit --images`: within a folder, and against another one."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unseen.cli import main
from unseen.data import load_dataset


def picture(seed: int) -> Image.Image:
    rng = np.random.default_rng(seed)
    layers = [Image.fromarray(rng.integers(0, 255, (k, k, 3), np.uint8)).resize((96, 72), 3) for k in (4, 12, 30)]
    return Image.blend(Image.blend(layers[0], layers[1], 0.5), layers[2], 0.4)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two classes of pictures; one was saved twice, one again in its mirror image in the other class."""
    root = tmp_path / "photos"
    for split, count, start in (("train", 6, 0), ("test", 3, 50)):
        for label in range(2):
            folder = root / split / f"class{label}"
            folder.mkdir(parents=True)
            for i in range(count):
                picture(start + 100 * label + i).save(folder / f"{i}.png")
    shutil.copy(root / "train" / "class0" / "1.png", root / "test" / "class0" / "again.png")
    picture(2).transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(root / "train" / "class1" / "mirror.png")
    return root


def audit(*arguments: str | Path, home: Path, model: str) -> int:
    return main(["audit", "--images", *map(str, arguments), "--home", str(home), "--model", model, "--threshold", "-1"])


def test_within_a_folder(photos: Path, tmp_path: Path, small_model: str, capsys: pytest.CaptureFixture[str]) -> None:
    drop, out = tmp_path / "drop.tsv", tmp_path / "copies.json"
    files = ["--drop", str(drop), "--output", str(out)]
    assert audit(photos, *files, home=tmp_path / "home", model=small_model) == 0
    printed = capsys.readouterr().out
    assert "2 are copies of others (1 exact, 1 near)" in printed
    assert "1 test image has a copy in train." in printed
    lines = [line.split("\t") for line in drop.read_text().splitlines()]
    assert lines[0] == ["image", "split", "copy of", "its split"] and len(lines) == 3
    assert ["train/class0/1.png", "train", "test/class0/again.png", "test"] in lines, "the copy in test stays"
    written = json.loads(out.read_text())
    assert sorted(pair["kind"] for pair in written["pairs"]) == ["exact", "near"]
    assert "correlation of its pixels" in written["method"]


def test_copies_share_a_group_that_no_split_divides(
    photos: Path, tmp_path: Path, small_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table, home = tmp_path / "groups.csv", tmp_path / "home"
    assert audit(photos, "--groups", table, home=home, model=small_model) == 0
    with table.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    group = {row["image"]: row["group"] for row in rows}
    assert len(rows) == 20 and len(set(group.values())) == 18
    assert group["train/class0/1.png"] == group["test/class0/again.png"]
    assert group["train/class0/2.png"] == group["train/class1/mirror.png"]
    assert {row["label"] for row in rows} == {"class0", "class1"}
    for seed in range(5):
        data = load_dataset(f"csv:{table}?root={photos}&group=group&test=0.3&seed={seed}")
        parts = [{group[name] for name in data.split(split).names} for split in ("train", "test")]
        assert not parts[0] & parts[1]
    assert audit(photos, "--groups", table, "--against", photos, home=home, model=small_model) == 2
    assert "leave out --against" in capsys.readouterr().err


def test_against_another_set(
    photos: Path, tmp_path: Path, small_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    other, home = tmp_path / "other", tmp_path / "home"
    for label in range(2):
        (other / f"class{label}").mkdir(parents=True)
        for i in range(5):
            picture(1000 + 10 * label + i).save(other / f"class{label}" / f"{i}.png")
    picture(103).save(other / "class0" / "theirs.jpg", quality=80)
    assert audit(other, "--against", photos, home=home, model=small_model) == 0
    assert f"1 of 11 images of folder:{other} (9.09%) have a copy in folder:{photos}" in capsys.readouterr().out
    shutil.rmtree(photos)
    for gone in (f"folder:{photos}", "no-such-thing"):
        assert audit(other, "--against", gone, home=home, model=small_model) == 2
        assert gone.removeprefix("folder:") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--images", "x", "--classes", "y"], "one at a time"),
        (["packaged:emoji", "--against", "x"], "go with --images"),
        (["packaged:emoji", "--drop", "x"], "go with --images"),
    ],
)
def test_options_of_the_other_audit_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", *arguments]) == 2
    assert message in capsys.readouterr().err
