"""DMLab frames: TFRecord files with `image`, `filename` and `label`, as VTAB's authors ship them."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from itertools import accumulate
from pathlib import Path

import numpy as np

from unseen.core.errors import DataError
from unseen.data.decode import open_image
from unseen.data.sources.vtab.examples import Examples
from unseen.data.sources.vtab.tfrecord import Feature, RecordFile, first_number, image_bytes, parse_example

_SPLITS = ("train", "validation", "test")


def find(root: Path) -> Path | None:
    return next((p for p in (root, root / "dmlab") if any(p.glob("dmlab-train.tfrecord*"))), None)


def read(place: Path) -> dict[str, Examples]:
    return {split: _read(place, split).shuffled() for split in _SPLITS}


def _read(place: Path, split: str) -> Examples:
    paths = sorted(place.glob(f"dmlab-{split}.tfrecord*"))
    if not paths:
        raise DataError(f"{place} has no file dmlab-{split}.tfrecord*. Unpack the whole archive.")
    files = [RecordFile(path) for path in paths]
    starts = [0, *accumulate(len(file) for file in files)]

    def features(i: int) -> dict[str, Feature]:
        shard = bisect_right(starts, i) - 1
        return parse_example(files[shard].record(i - starts[shard]))

    labels = np.array([first_number(features(i), "label") for i in range(starts[-1])], np.int64)
    return Examples(
        names=[f"{split}/{i:06d}" for i in range(starts[-1])],
        fields={"label": labels},
        open=lambda i: open_image(image_bytes(features(i))),
        content_key=lambda i: hashlib.blake2b(image_bytes(features(i)), digest_size=16).digest(),
    )
