"""The VTAB-1k folder, the order of sources, the hash that tells two copies apart, and `check_root`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unseen.core.errors import DataError, UsageError
from unseen.data import dataset_cards, load_dataset
from unseen.data.sources.vtab import check_root, content_hash, load_task, vtab_task
from unseen.data.sources.vtab.identity import shared_images


@pytest.fixture
def folder(tmp_path: Path, replicas: Any) -> Path:
    """A VTAB-1k folder with one task whole, in little: 8 + 2 + 6 images."""
    root = tmp_path / "vtab-1k"
    write_task(root / "clevr_dist", replicas)
    return root


def write_task(folder: Path, replicas: Any, classes: int = 6, shift: int = 0) -> None:
    lines: dict[str, list[str]] = {"train800": [], "val200": [], "test": []}
    value = shift
    for split, count in (("train800", 8), ("val200", 2), ("test", 6)):
        for number in range(count):
            name = f"images/{split}/{number:06d}.png"
            replicas.save(folder / name, value)
            lines[split].append(f"{name} {value % classes}")
            value += 1
    for split, rows in lines.items():
        (folder / f"{split}.txt").write_text("\n".join(rows) + "\n")
    (folder / "train800val200.txt").write_text("\n".join(lines["train800"] + lines["val200"]))


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
        ("../x.png 1", "leads out of the folder"),
        ("images/train800/000000.png 17", "none of the 6 classes"),
    ],
)
def test_bad_lines_are_explained(folder: Path, line: str, message: str) -> None:
    (folder / "clevr_dist" / "train800val200.txt").unlink()
    (folder / "clevr_dist" / "train800.txt").write_text(line + "\n")
    with pytest.raises(DataError, match=message):
        load_dataset("vtab:clevr-distance", root=folder)


def test_lists_that_contradict_one_another_are_refused(folder: Path) -> None:
    path = folder / "clevr_dist" / "train800val200.txt"
    path.write_text(path.read_text().replace("000003.png 3", "000003.png 4"))
    with pytest.raises(DataError, match="not train800"):
        load_dataset("vtab:clevr-distance", root=folder)


def test_all_examples_are_not_in_a_1k_folder(folder: Path) -> None:
    with pytest.raises(DataError, match="1,000 examples"):
        load_dataset("vtab:clevr-distance", root=folder, size="full")
    with pytest.raises(UsageError, match="option size"):
        load_dataset("vtab:clevr-distance", root=folder, size="100")
    with pytest.raises(UsageError, match="suite"):
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


def test_images_in_two_splits_are_counted(folder: Path) -> None:
    images = folder / "clevr_dist" / "images"
    (images / "test" / "000000.png").write_bytes((images / "train800" / "000005.png").read_bytes())
    found = shared_images(load_dataset("vtab:clevr-distance", root=folder))
    assert found == {("train", "val"): 0, ("train", "test"): 1, ("val", "test"): 0}


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
    assert "cannot read" in states["dtd"].advice
    missing = states["pets"]
    assert missing.state == "missing"
    assert "oxford_iiit_pet" in missing.advice
    assert missing.expected == {"train": 800, "val": 200, "test": 3669}


def test_a_whole_task_is_ready(tmp_path: Path, replicas: Any) -> None:
    folder = tmp_path / "kitti"
    replicas.save(folder / "images" / "one.png", 3, 4)
    rng = np.random.default_rng(0)
    for split, count in (("train800", 800), ("val200", 200), ("test", 711)):
        labels = rng.integers(4, size=count)
        for k in range(count):
            (folder / "images" / f"{split}{k}.png").hardlink_to(folder / "images" / "one.png")
        (folder / f"{split}.txt").write_text("".join(f"images/{split}{k}.png {v}\n" for k, v in enumerate(labels)))
    states = {status.task: status for status in check_root(tmp_path)}
    assert states["kitti-distance"].state == "ready"
    assert states["kitti-distance"].advice == ""


def test_cards_are_listed() -> None:
    cards = [card for card in dataset_cards() if card.id.startswith("vtab:")]
    assert len(cards) == 19
    assert cards[0].paper == "vtab"
