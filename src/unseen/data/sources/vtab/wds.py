"""Webdataset shards of VTAB's tasks in the layout of CLIP_benchmark, read where they lie.

    ROOT/wds_vtab-caltech101/train/0.tar, 1.tar, ..., nshards.txt
    ROOT/wds_vtab-caltech101/test/0.tar, ..., nshards.txt
    ROOT/wds_vtab-caltech101/classnames.txt

A shard holds `s0000000.webp` (or png, jpg) and `s0000000.cls`, a class counted from 0. They were written from the
authors' train and test, without val, in the order in which TFDS reads several shards at once, which is not the order
of its records: the 1,000 examples taken here are not the authors'.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import numpy as np

from unseen.core.errors import DataError
from unseen.data.archives import TarIndex, index_tar
from unseen.data.listing import read_lines
from unseen.data.sources.vtab.examples import Examples, cut, from_bytes
from unseen.data.sources.vtab.tasks import VtabTask

OWN = "they are the first of the shards, whose order is not that of TFDS' records"
_SPLITS = {"train": "train", "val": "val", "validation": "val", "test": "test"}
_IMAGES = ("webp", "png", "jpg", "jpeg")


def find_wds(root: Path, name: str) -> Path | None:
    """The folder of a task, where it has shards to train on and to test on."""
    for folder in (root / f"wds_vtab-{name}", root / "clip-benchmark" / f"wds_vtab-{name}"):
        if any((folder / "train").glob("*.tar")) and any((folder / "test").glob("*.tar")):
            return folder
    return None


def read_wds(folder: Path, task: VtabTask, size: str) -> dict[str, Examples]:
    """Train, val and test; where there is no val, it is the 200 after the first 800 of train, or its last tenth."""
    path = folder / "classnames.txt"
    names = [line for _, line in read_lines(path)] if path.exists() else []
    found = {
        split: replace(_read_split(folder / short, task, names), own=OWN)
        for short, split in _SPLITS.items()
        if (folder / short).is_dir()
    }
    if "val" not in found:
        whole = found["train"]
        if size == "full":
            found |= {"train": cut(found, "train[:90%]"), "val": cut(found, "train[90%:]")}
        else:
            found |= {
                "train": whole.take(np.arange(min(800, len(whole)))),
                "val": whole.take(np.arange(len(whole))[800:]),
            }
    return {split: found[split] for split in ("train", "val", "test")}


def _read_split(folder: Path, task: VtabTask, class_names: list[str]) -> Examples:
    shards = [index_tar(path) for path in _shards(folder)]
    rows = [_rows(shard) for shard in shards]
    starts = [0, *accumulate(len(some) for some in rows)]

    def data(i: int) -> bytes:
        number = bisect_right(starts, i) - 1
        return shards[number].read(rows[number][i - starts[number]][1])

    names = [f"{folder.name}/{n}/{key}" for n, some in enumerate(rows) for key, _, _ in some]
    labels = np.array(
        [_label(shard, row[2]) for shard, some in zip(shards, rows, strict=True) for row in some], np.int64
    )
    if len(labels) and labels.max() >= task.classes and task.rule.kind == "floor":
        labels = task.rule(labels, task.classes)  # dSprites' shards have all 32 positions and 40 orientations
    return from_bytes(names, data, {"label": labels}, class_names)


def _shards(folder: Path) -> list[Path]:
    paths = {int(path.stem): path for path in folder.glob("*.tar") if path.stem.isdecimal()}
    noted = folder / "nshards.txt"
    text = read_lines(noted)[0][1] if noted.exists() and noted.stat().st_size else ""
    count = int(text) if text.isdecimal() else max(paths, default=-1) + 1
    missing = [number for number in range(count) if number not in paths]
    if missing or not paths:
        raise DataError(
            f"{folder}: shard {missing[0] if missing else 0}.tar of {count} is missing. Copy the whole folder."
        )
    return [paths[number] for number in range(count)]


def _rows(shard: TarIndex) -> list[tuple[str, int, int]]:
    """Key, image and label of each example, the two as numbers of files in the shard."""
    parts: dict[str, dict[str, int]] = {}
    for number, name in enumerate(shard.names):
        key, _, kind = name.rpartition("/")[2].partition(".")
        parts.setdefault(key, {})[kind.lower()] = number
    rows = []
    for key, kinds in parts.items():
        image = next((kinds[kind] for kind in _IMAGES if kind in kinds), None)
        if image is None or "cls" not in kinds:
            raise DataError(f"{shard.path}: {key!r} has {', '.join(kinds)}; an image and a .cls were expected.")
        rows.append((key, image, kinds["cls"]))
    return rows


def _label(shard: TarIndex, number: int) -> int:
    text = shard.read(number)[:32].strip()
    if not text.isdigit():
        raise DataError(f"{shard.path}: {shard.names[number]!r} holds {text[:16]!r}, not the number of a class.")
    return int(text)
