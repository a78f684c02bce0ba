"""`check_root` reports the state of any folder, and "ready" only if all of its data are complete."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unseen.core.errors import DataError
from unseen.data.sources.vtab import check_root, content_hash, load_task, ready_tasks, vtab_task

SIZES = {"train800": 800, "val200": 200, "test": 711}


@pytest.fixture
def kitti(tmp_path: Path, replicas: Any) -> Path:
    """A whole task: every image is there, as a file of its own."""
    folder = tmp_path / "kitti"
    data = {value: replicas.encoded(replicas.grey(value, 4)) for value in range(250)}
    for split, count in SIZES.items():
        (folder / "images" / split).mkdir(parents=True)
        lines = []
        for k in range(count):
            (folder / "images" / split / f"{k:06d}.png").write_bytes(data[k % 250])
            lines.append(f"images/{split}/{k:06d}.png {k % 4}\n")
        (folder / f"{split}.txt").write_text("".join(lines))
    return tmp_path


def state_of(root: Path, *, hashes: bool = False) -> Any:
    return next(status for status in check_root(root, hashes=hashes) if status.task == "kitti-distance")


def test_a_whole_task_is_ready(kitti: Path) -> None:
    status = state_of(kitti, hashes=True)
    assert (status.state, status.advice, status.lost) == ("ready", "", {})
    assert len(status.hash) == 16
    assert ready_tasks(kitti) == ["kitti-distance"]


def test_images_that_were_deleted_are_counted(kitti: Path) -> None:
    for split, count in (("train800", 100), ("test", 7)):
        for k in range(count):
            (kitti / "kitti" / "images" / split / f"{3 * k:06d}.png").unlink()
    status = state_of(kitti)
    assert status.state == "incomplete"
    assert status.lost == {"train": 100, "test": 7}
    assert "train: 100 images are missing, such as 'images/train800/000000.png' (No such file" in status.advice
    assert ready_tasks(kitti) == []
    assert state_of(kitti, hashes=True).hash == ""


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "an empty file"), (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull")],
)
def test_files_that_are_no_images_are_not_there(kitti: Path, content: bytes, reason: str) -> None:
    (kitti / "kitti" / "images" / "val200" / "000150.png").write_bytes(content)
    status = state_of(kitti)
    assert (status.state, status.lost) == ("incomplete", {"val": 1})
    assert reason in status.advice


def test_damage_inside_an_image_is_found_by_hashing(kitti: Path) -> None:
    path = kitti / "kitti" / "images" / "test" / "000700.png"
    path.write_bytes(path.read_bytes()[:50])
    assert state_of(kitti).state == "ready"  # its first bytes are an image's
    status = state_of(kitti, hashes=True)
    assert (status.state, status.lost, status.hash) == ("incomplete", {}, "")
    assert "000700.png' cannot be decoded" in status.advice
    dataset = load_task(vtab_task("kitti-distance"), kitti)
    content_hash(dataset)
    path = kitti / "kitti" / "images" / "val200" / "000007.png"
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(DataError, match=r"'images/val200/000007\.png' cannot be decoded"):
        content_hash(dataset)


def test_the_hash_sees_every_image(kitti: Path, replicas: Any) -> None:
    before = state_of(kitti, hashes=True)
    replicas.save(kitti / "kitti" / "images" / "val200" / "000199.png", 251, 4)
    after = state_of(kitti, hashes=True)
    assert before.hash != after.hash


@pytest.mark.slow
def test_the_fakes_of_tfds_do_not_stop_it(records: Path, originals: Path) -> None:
    """CLEVR's test split among them; the two forms of one dataset have the same hashes."""
    forms = [{status.task: status for status in check_root(root, hashes=True)} for root in (records, originals)]
    assert [len(form) for form in forms] == [19, 19]
    assert not [status.task for form in forms for status in form.values() if status.state == "ready"]
    same = [name for name, status in forms[0].items() if status.hash and forms[1][name].hash]
    assert len(same) >= 9
    assert [name for name, status in forms[0].items() if status.hash and name not in same] == ["retinopathy"]
    assert "clevr-count" in same
    for name in same:
        one, other = forms[0][name], forms[1][name]
        assert one.hash == other.hash
        assert one.split_hash == other.split_hash != ""
        # A handful of examples is not what the authors took, and is not called so.
        assert one.selection.startswith("not the authors', its split")


@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied", "junk"])
def test_broken_datasets_do_not_stop_it(records: Path, originals: Path, tmp_path: Path, damage: str) -> None:
    rng = np.random.default_rng(0)
    for name, source in (("records", records), ("originals", originals)):
        root = tmp_path / name
        shutil.copytree(source, root, copy_function=shutil.copyfile)
        for path in sorted(root.rglob("*")):
            path.chmod(0o755)
            if path.is_dir() or path.suffix in (".jpg", ".jpeg", ".md"):
                continue
            data = bytearray(path.read_bytes())
            if damage == "flipped":
                for place in rng.integers(0, max(len(data), 1), 1 + len(data) // 200):
                    data[place] = rng.integers(256)
            path.write_bytes(
                {"cut": data[: 2 * len(data) // 3], "emptied": b"", "junk": b"\xff\0junk" * 99}.get(damage, data)
            )
        found = list(check_root(root))
        assert len(found) == 19
        assert not [status.task for status in found if status.state == "ready"]
        assert all(status.advice for status in found)
        # Every reader says by itself what is wrong: none of them fails by accident, in a run neither.
        assert not [status.advice for status in found if "cannot be read as the files of" in status.advice]


def test_an_exception_in_a_reader_is_reported(tmp_path: Path, replicas: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from unseen.data.sources.vtab.original import READERS

    def fail(place: Path, part: str) -> Any:
        raise ZeroDivisionError("by accident")

    replicas.writers["svhn"](tmp_path)
    monkeypatch.setitem(READERS, "svhn", fail)
    states = {status.task: status for status in check_root(tmp_path)}
    assert states["svhn"].state == "broken"
    assert "ZeroDivisionError: by accident" in states["svhn"].advice
    assert len(states) == 19


def test_a_whole_dataset_of_original_files_gives_the_authors_thousand(tmp_path: Path, replicas: Any) -> None:
    """DTD has 47 classes of 120 textures; its lists give 40 of each to train, val and test."""
    from unseen.data.sources.vtab.tasks import class_names

    images, lists = tmp_path / "dtd" / "images", {"train": [], "val": [], "test": []}
    replicas.save(tmp_path / "one.jpg", 90, 8)
    for name in class_names("dtd"):
        (images / name).mkdir(parents=True)
        for k in range(120):
            (images / name / f"{name}_{k:04d}.jpg").hardlink_to(tmp_path / "one.jpg")
            lists[("train", "val", "test")[k % 3]].append(f"{name}/{name}_{k:04d}.jpg")
    (tmp_path / "dtd" / "labels").mkdir()
    for split, names in lists.items():
        (tmp_path / "dtd" / "labels" / f"{split}1.txt").write_text("\n".join(names) + "\n")
    status = next(each for each in check_root(tmp_path) if each.task == "dtd")
    assert (status.state, status.selection) == ("ready", "the authors'")
    assert len(status.split_hash) == 16
    train = load_task(vtab_task("dtd"), tmp_path).split("train")

    def hashed(name: str) -> str:
        return hashlib.md5(f"train{name}".encode()).hexdigest()

    assert list(train.names) == sorted(lists["train"], key=hashed)[:800]
    assert list(train.labels) == [class_names("dtd").index(name.partition("/")[0]) for name in train.names]
    (tmp_path / "dtd" / "labels" / "val1.txt").write_text("\n".join(lists["val"][1:]) + "\n")
    status = next(each for each in check_root(tmp_path) if each.task == "dtd")
    assert status.selection == "not the authors', its split 'validation' has 1,879 of 1,880 examples"
