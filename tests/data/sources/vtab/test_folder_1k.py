"""The VTAB-1k folder, the order of sources, the hash that tells two copies apart, and `check_root`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from unseen.core.errors import DataError, UnknownNameError, UsageError
from unseen.data import dataset_cards, load_dataset
from unseen.data.sources.vtab import check_root, content_hash, load_task, vtab_task


@pytest.fixture
def folder(tmp_path: Path, replicas: Any) -> Path:
    """A VTAB-1k folder with one task whole, in little: 8 + 2 + 6 images."""
    root = tmp_path / "vtab-1k"
    write_task(root / "clevr_dist", replicas)
    return root


def write_task(
    folder: Path, replicas: Any, classes: int = 6, shift: int = 0, sizes: tuple[int, int, int] = (8, 2, 6)
) -> None:
    """As the folder that people pass around was written: every list has a folder of images of its own."""
    train, val, _ = sizes
    lists = {
        "train800": range(train),
        "val200": range(train, train + val),
        "train800val200": range(train + val),
        "test": range(train + val, sum(sizes)),
    }
    for split, values in lists.items():
        lines = []
        for number, value in enumerate(values):
            name = f"images/{split}/{number:06d}.png"
            replicas.save(folder / name, (value + shift) % 250, 8)
            lines.append(f"{name} {(value + shift) % classes}\n")
        (folder / f"{split}.txt").write_text("".join(lines))


def test_lists_become_splits(folder: Path, replicas: Any) -> None:
    data = load_dataset("vtab:clevr-distance", root=folder)
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 8, "val": 2, "test": 6}
    for split in data.splits.values():
        for i in range(len(split)):
            # The lists hold classes already: no rule is applied to them.
            assert split.labels[i] == replicas.value(split.open(i), "") % 6
    assert len(data.class_names) == 6


def test_a_folder_above_and_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSEEN_VTAB", str(folder.parent))
    assert len(load_dataset("vtab:clevr-distance").split("train")) == 8


@pytest.fixture
def joint(tmp_path: Path, replicas: Any) -> Path:
    """The variant that has the joint list and the test list, and no others."""
    task = tmp_path / "vtab-1k" / "clevr_dist"
    write_task(task, replicas, sizes=(800, 200, 12))
    for split in ("train800", "val200"):
        (task / f"{split}.txt").unlink()
        shutil.rmtree(task / "images" / split)
    return tmp_path / "vtab-1k"


def test_the_joint_list_alone_is_800_and_200(joint: Path, replicas: Any) -> None:
    data = load_dataset("vtab:clevr-distance", root=joint)
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 800, "val": 200, "test": 12}
    assert data.split("train").names[0] == "images/train800val200/000000.png"
    assert data.split("val").names[0] == "images/train800val200/000800.png"
    assert data.split("val").labels.tolist() == [value % 6 for value in range(800, 1000)]
    assert replicas.value(data.split("val").open(199), "") == 999 % 250
    assert "unknown, they are what the lists of the folder name" in data.card.notes
    assert data.record.provenance == "unknown"
    assert data.expected == {"train": 800, "val": 200, "test": 15000}
    path = joint / "clevr_dist" / "train800val200.txt"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(DataError, match="lists 999 images; 1,000 were expected"):
        load_dataset("vtab:clevr-distance", root=joint)


def test_both_variants_hold_the_same_thousand(tmp_path: Path, joint: Path, replicas: Any) -> None:
    write_task(tmp_path / "whole" / "clevr_dist", replicas, sizes=(800, 200, 12))
    task = vtab_task("clevr-distance")
    one, other = load_task(task, joint), load_task(task, tmp_path / "whole")
    assert other.split("val").names[0] == "images/val200/000000.png"
    assert content_hash(one) == content_hash(other)
    for split in one.splits:
        assert one.split(split).labels.tolist() == other.split(split).labels.tolist()


@pytest.mark.parametrize("variant", ["four lists", "joint list"])
def test_what_is_ready_is_run(
    tmp_path: Path, home: Path, replicas: Any, small_model: str, capsys: pytest.CaptureFixture[str], variant: str
) -> None:
    """From the folder to an accuracy, by the command that a person types; what is not whole is left out."""
    from unseen.cli import main

    root = tmp_path / "vtab-1k"
    write_task(root / "kitti", replicas, classes=4, sizes=(800, 200, 711))
    write_task(root / "clevr_dist", replicas)
    if variant == "joint list":
        for split in ("train800", "val200"):
            (root / "kitti" / f"{split}.txt").unlink()
            shutil.rmtree(root / "kitti" / "images" / split)
    options = ["--models", small_model, "--steps", "5", "--learning-rates", "0.1", "--seeds", "1", "--batch-size", "32"]
    command = ["vtab", "run", "--root", str(root), "--tasks", "ready", *options]
    assert main(command) == 0
    page = (home / "reports" / "vtab.html").read_text()
    assert "KITTI-Dist" in page
    assert "Clevr-Dist" not in capsys.readouterr().out
    (root / "kitti" / "test.txt").unlink()
    assert main(command) == 2
    assert "no task is ready below" in capsys.readouterr().err


def test_an_image_in_two_splits_is_refused(folder: Path) -> None:
    task = folder / "clevr_dist"
    (task / "train800val200.txt").unlink()
    with (task / "test.txt").open("a") as stream:
        stream.write("images/train800/000003.png 3\n")
    with pytest.raises(DataError, match="is in train and in test"):
        load_dataset("vtab:clevr-distance", root=folder)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("images/x.png", "not an image and a class"),
        ("images/x.png many", "not an image and a class"),
        ("../x.png 1", "leads out of"),
        ("images/train800/000000.png 17", "none of the 6 classes"),
    ],
)
def test_bad_lines_are_explained(folder: Path, line: str, message: str) -> None:
    (folder / "clevr_dist" / "train800val200.txt").unlink()
    (folder / "clevr_dist" / "train800.txt").write_text(line + "\n")
    with pytest.raises(DataError, match=message):
        load_dataset("vtab:clevr-distance", root=folder)


def test_all_examples_are_not_in_a_1k_folder(folder: Path) -> None:
    with pytest.raises(DataError, match="1,000 examples"):
        load_dataset("vtab:clevr-distance", root=folder, size="full")
    with pytest.raises(UsageError, match="option size"):
        load_dataset("vtab:clevr-distance", root=folder, size="100")
    with pytest.raises(UnknownNameError, match="unknown VTAB task 'mini'"):
        load_dataset("vtab:mini")


def test_the_1k_folder_comes_first_and_a_source_can_be_asked_for(folder: Path, replicas: Any) -> None:
    replicas.writers["clevr-distance"](folder)
    assert len(load_dataset("vtab:clevr-distance", root=folder).split("test")) == 6
    assert len(load_dataset("vtab:clevr-distance", root=folder, source="original").split("test")) == 24


def test_the_hash_sees_content_and_labels_but_neither_names_nor_order(
    folder: Path, tmp_path: Path, replicas: Any
) -> None:
    task = vtab_task("clevr-distance")
    first = content_hash(load_task(task, folder))
    other = tmp_path / "other"
    write_task(other / "clevr_dist", replicas)
    lists = other / "clevr_dist"
    (lists / "train800val200.txt").unlink()
    lines = (lists / "train800.txt").read_text().splitlines()
    (lists / "images" / "train800" / "000000.png").rename(lists / "images" / "renamed.png")
    lines[0] = lines[0].replace("images/train800/000000.png", "images/renamed.png")
    (lists / "train800.txt").write_text("\n".join(reversed(lines)) + "\n")
    assert content_hash(load_task(task, other)) == first
    (lists / "train800.txt").write_text("\n".join([*lines[:-1], lines[-1][:-1] + "0"]) + "\n")
    assert content_hash(load_task(task, other)) != first
    third = tmp_path / "third"
    write_task(third / "clevr_dist", replicas, shift=1)
    assert content_hash(load_task(task, third)) != first


def test_check_says_what_is_there_and_what_is_not(folder: Path, replicas: Any) -> None:
    replicas.writers["svhn"](folder)
    (folder / "dtd" / "labels").mkdir(parents=True)
    (folder / "dtd" / "labels" / "train1.txt").write_text("banded/1.jpg\n")
    states = {status.task: status for status in check_root(folder, hashes=True)}
    assert len(states) == 19
    assert states["clevr-distance"].state == "incomplete"
    assert states["clevr-distance"].advice.startswith("train has 8 of 800")
    assert len(states["clevr-distance"].hash) == 16
    assert "original files" in states["svhn"].source
    assert states["dtd"].state == "broken"
    assert "val1.txt" in states["dtd"].advice
    missing = states["pets"]
    assert missing.state == "missing"
    assert "oxford_iiit_pet" in missing.advice
    assert missing.expected == {"train": 800, "val": 200, "test": 3669}


def test_cards_are_listed() -> None:
    cards = [card for card in dataset_cards() if card.id.startswith("vtab:")]
    assert len(cards) == 19
    assert cards[0].paper == "vtab"
