"""TensorFlow Datasets that are on disk already, read without TensorFlow.

    ROOT/caltech101/3.0.1/caltech101-train.tfrecord-00000-of-00001
    ROOT/eurosat/rgb/2.0.0/eurosat-train.tfrecord-00000-of-00001

Records are in the order in which TFDS gives them when it does not shuffle: shard after shard. The first 800 of train
and the first 200 of val are VTAB-1k.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

import numpy as np
from PIL import Image

from unseen.core.errors import DataError
from unseen.data.decode import decode_rgb, open_image
from unseen.data.sources.vtab.examples import Examples, column
from unseen.data.sources.vtab.tfrecord import Feature, RecordFile, first_number, image_bytes, parse_example

_VERSION = re.compile(r"\d+\.\d+\.\d+")
_SHARD = re.compile(r".*?-(?P<split>\w+)\.tfrecord-(?P<number>\d+)-of-(?P<count>\d+)")
#: KITTI's first three types: Car, Van, Truck.
_VEHICLES = 3
#: Farther than any: where there is no vehicle.
NO_VEHICLE = 1000.0


def find_tfds(root: Path, name: str) -> Path | None:
    """The folder of the newest version of a builder that is prepared below `root`."""
    for base in (root, root / "tensorflow_datasets"):
        folder = base / name
        if folder.is_dir():
            versions = [p for p in folder.iterdir() if _VERSION.fullmatch(p.name) and any(p.glob("*.tfrecord-*"))]
            if versions:
                return max(versions, key=lambda p: tuple(map(int, p.name.split("."))))
    return None


def read_tfds(folder: Path, data: str) -> dict[str, Examples]:
    """The official splits of a prepared dataset.

    Args:
        folder: of one version.
        data: the task's images, which say how to read the annotations.
    """
    shards: dict[str, dict[int, Path]] = {}
    counts: dict[str, int] = {}
    for path in sorted(folder.glob("*.tfrecord-*")):
        if match := _SHARD.fullmatch(path.name):
            shards.setdefault(match["split"], {})[int(match["number"])] = path
            counts[match["split"]] = int(match["count"])
    for split, found in shards.items():
        missing = [number for number in range(counts[split]) if number not in found]
        if missing:
            raise DataError(
                f"{folder}: shard {missing[0]} of {counts[split]} of split {split!r} is missing. Copy the whole folder."
            )
    return {s: _read_split(s, [found[k] for k in sorted(found)], folder, data) for s, found in shards.items()}


def _read_split(split: str, paths: list[Path], folder: Path, data: str) -> Examples:
    files = [RecordFile(path) for path in paths]
    starts = [0, *accumulate(len(file) for file in files)]
    fields_of = FIELDS.get(data, _class_fields)
    show = _SHOW.get(data, open_image)

    def features(i: int) -> dict[str, Feature]:
        shard = bisect_right(starts, i) - 1
        return parse_example(files[shard].record(i - starts[shard]))

    latest = lru_cache(maxsize=64)(features)  # an image and its key are often asked for one after the other
    rows = [fields_of(features(i)) for i in range(starts[-1])]
    columns = {name: column(np.array([row[name] for row in rows])) for name in (rows[0] if rows else ())}
    return Examples(
        names=[f"{split}/{i:06d}" for i in range(starts[-1])],
        fields=columns,
        open=lambda i: show(image_bytes(latest(i))),
        content_key=lambda i: hashlib.blake2b(image_bytes(latest(i)), digest_size=16).digest(),
        class_names=_class_names(folder),
    )


def _class_names(folder: Path) -> list[str]:
    path = folder / "label.labels.txt"
    return path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []


def _class_fields(features: Mapping[str, Feature]) -> dict[str, float]:
    return {"label": first_number(features, "label")}


def _clevr_fields(features: Mapping[str, Feature]) -> dict[str, float]:
    depths = np.asarray(features["objects/pixel_coords"]).reshape(-1, 3)[:, 2]
    return {"objects": len(depths), "closest": float(depths.min())}


def _kitti_fields(features: Mapping[str, Feature]) -> dict[str, float]:
    kinds = np.asarray(features.get("objects/type", []), np.int64)
    depths = np.asarray(features.get("objects/location", []), np.float64).reshape(-1, 3)[:, 2]
    return {"closest": float(depths[kinds < _VEHICLES].min(initial=NO_VEHICLE))}


def _dsprites_fields(features: Mapping[str, Feature]) -> dict[str, float]:
    return {
        "x_position": first_number(features, "label_x_position"),
        "orientation": first_number(features, "label_orientation"),
    }


def _smallnorb_fields(features: Mapping[str, Feature]) -> dict[str, float]:
    return {
        "azimuth": first_number(features, "label_azimuth"),
        "elevation": first_number(features, "label_elevation"),
    }


def _black_and_white(data: bytes) -> Image.Image:
    """dSprites' pixels are 0 and 1."""
    pixels = np.asarray(decode_rgb(open_image(data)))
    return Image.fromarray(np.asarray(np.minimum(pixels, 1) * 255, np.uint8))


FIELDS: Mapping[str, Callable[[Mapping[str, Feature]], dict[str, float]]] = {
    "clevr": _clevr_fields,
    "kitti": _kitti_fields,
    "dsprites": _dsprites_fields,
    "smallnorb": _smallnorb_fields,
}
_SHOW: Mapping[str, Callable[[bytes], Image.Image]] = {"dsprites": _black_and_white}
