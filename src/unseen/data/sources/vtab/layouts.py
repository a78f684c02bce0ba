"""Two layouts in which VTAB circulates: the VTAB-1k folder, and the webdataset shards of CLIP_benchmark.

The VTAB-1k folder has images and lists per task. If it has only the joint list and the test list, its first 800 are
train and its last 200 are val.

    ROOT/cifar/images/...
    ROOT/cifar/train800.txt            "images/train800/000000.jpg 12" per line
    ROOT/cifar/val200.txt              "images/val200/000000.jpg 3"
    ROOT/cifar/train800val200.txt      "images/train800val200/000000.jpg 12": the same 1,000 in that order, renamed
    ROOT/cifar/test.txt

A webdataset shard has `s0000000.webp` (or png, jpg) and `s0000000.cls`, a class counted from 0. CLIP_benchmark wrote
them from the authors' train and test, without val, in the order in which TFDS reads several shards at once, which is
not the order of its records: the 1,000 examples taken here are not the authors'.

    ROOT/wds_vtab-caltech101/train/0.tar, 1.tar, ..., nshards.txt
    ROOT/wds_vtab-caltech101/test/0.tar, ..., nshards.txt
    ROOT/wds_vtab-caltech101/classnames.txt
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from unseen.core.errors import DataError
from unseen.data.archives import index_tar
from unseen.data.columns import read_lines
from unseen.data.sources.vtab.examples import Examples, from_bytes, from_files
from unseen.data.sources.vtab.tasks import VtabTask
from unseen.data.sources.wds import expand, image_reader, read_samples, sample_label

#: How many of the 1,000 examples are train and val.
TRAIN, VAL = 800, 200
_SINGLE = {"train": "train800.txt", "val": "val200.txt"}
_JOINT, _TEST = "train800val200.txt", "test.txt"
Listed = tuple[list[str], list[int]]


def find_1k(root: Path, name: str) -> Path | None:
    """Return the folder with the lists of a task, or None."""
    for folder in (root / name, root / "vtab-1k" / name):
        if (folder / _TEST).exists() and (_has_single(folder) or (folder / _JOINT).exists()):
            return folder
    return None


def _has_single(folder: Path) -> bool:
    return all((folder / name).exists() for name in _SINGLE.values())


def read_1k(folder: Path) -> dict[str, Examples]:
    """Return train, val and test of one task."""
    own = "they are what the lists of the folder name"
    return {
        split: replace(from_files(folder, names, {"label": labels}), own=own, certain=False)
        for split, (names, labels) in (_read_train(folder) | {"test": _read_list(folder / _TEST)}).items()
    }


def _read_train(folder: Path) -> dict[str, Listed]:
    if _has_single(folder):
        return {split: _read_list(folder / name) for split, name in _SINGLE.items()}
    names, labels = _read_list(folder / _JOINT)
    if len(names) != TRAIN + VAL:
        raise DataError(
            f"{folder / _JOINT} lists {len(names):,} images; {TRAIN + VAL:,} were expected, {TRAIN} of train and "
            f"then {VAL} of val. Get the folder again, or put {' and '.join(_SINGLE.values())} beside it."
        )
    return {"train": (names[:TRAIN], labels[:TRAIN]), "val": (names[TRAIN:], labels[TRAIN:])}


_MOST_DIGITS = 9


def _read_list(path: Path) -> Listed:
    names, labels = [], []
    for number, line in read_lines(path):
        name, _, label = line.rpartition(" ")
        if not name or not label.isdecimal() or len(label) > _MOST_DIGITS:
            raise DataError(
                f"{path}, line {number}: {line[:80]!r} is not an image and a class number with a space between."
            )
        names.append(name.strip())
        labels.append(int(label))
    if not names:
        raise DataError(f"{path} lists no image.")
    return names, labels


def find_wds(root: Path, name: str) -> Path | None:
    """Return the folder of a task with shards to train and test on, or None."""
    for folder in (root / f"wds_vtab-{name}", root / "clip-benchmark" / f"wds_vtab-{name}"):
        if any((folder / "train").glob("*.tar")) and any((folder / "test").glob("*.tar")):
            return folder
    return None


def read_wds(folder: Path, task: VtabTask, size: str) -> dict[str, Examples]:
    """Return train, val and test; val is the 200 after the first 800 of train, or its last tenth."""
    path = folder / "classnames.txt"
    names = [line for _, line in read_lines(path)] if path.exists() else []
    whole, test = (_read_shards(folder / split, task, names) for split in ("train", "test"))
    end = round(len(whole) * 90 / 100) if size == "full" else min(TRAIN, len(whole))
    return {"train": whole.take(np.arange(end)), "val": whole.take(np.arange(end, len(whole))), "test": test}


def _read_shards(folder: Path, task: VtabTask, class_names: list[str]) -> Examples:
    noted = folder / "nshards.txt"
    text = read_lines(noted)[0][1] if noted.exists() and noted.stat().st_size else ""
    count = int(text) if text.isdecimal() else len(list(folder.glob("*.tar")))
    shards = [list(read_samples(index_tar(path))) for path in expand(f"{folder}/{{0..{count - 1}}}.tar")]
    names = [f"{folder.name}/{n}/{row.name.rpartition('/')[2]}" for n, rows in enumerate(shards) for row in rows]
    samples = [sample for rows in shards for sample in rows]
    classes = [sample_label(sample, "") for sample in samples]
    if other := next((each for each in classes if isinstance(each, str)), None):
        raise DataError(f"{folder}: the label {other[:16]!r} is not the number of a class.")
    labels = np.array(classes, np.int64)
    if len(labels) and labels.max() >= task.classes and task.rule.width > 1:
        labels = task.rule(labels, task.classes)  # dSprites' shards have all 32 positions and 40 orientations
    own = "they are the first of the shards, whose order is not that of TFDS' records"
    return replace(from_bytes(names, image_reader(samples).read, {"label": labels}, class_names), own=own)
