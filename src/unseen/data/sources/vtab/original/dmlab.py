"""DMLab frames: TFRecord files with `image`, `filename` and `label`, as VTAB's authors ship them.

TFDS' key: `filename`.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import numpy as np

from unseen.core.errors import DataError
from unseen.data.sources.vtab.examples import Examples, from_bytes
from unseen.data.sources.vtab.tfrecord import Feature, RecordFile, first_number, image_bytes, parse_example, text

_SPLITS = ("train", "validation", "test")


def find(root: Path) -> Path | None:
    return next((p for p in (root, root / "dmlab") if any(p.glob("dmlab-train.tfrecord*"))), None)


def read(place: Path) -> dict[str, Examples]:
    return {split: _read(place, split) for split in _SPLITS}


def _read(place: Path, split: str) -> Examples:
    paths = sorted(place.glob(f"dmlab-{split}.tfrecord*"))
    if not paths:
        raise DataError(f"{place} has no file dmlab-{split}.tfrecord*. Unpack the whole archive.")
    files = [RecordFile(path) for path in paths]
    starts = [0, *accumulate(len(file) for file in files)]

    def features(i: int) -> dict[str, Feature]:
        shard = bisect_right(starts, i) - 1
        return parse_example(files[shard].record(i - starts[shard]))

    labels, keys = [], []
    for i in range(starts[-1]):
        record = features(i)
        labels.append(first_number(record, "label"))
        keys.append(text(record, "filename"))
    names = [f"{split}/{i:06d}" for i in range(starts[-1])]
    found = from_bytes(names, lambda i: image_bytes(features(i)), {"label": np.array(labels, np.int64)})
    if None in keys:
        return replace(found, own="its records do not tell their file names")
    return found.as_recorded(split, [key or "" for key in keys])
