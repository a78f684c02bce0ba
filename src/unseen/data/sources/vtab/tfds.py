"""TensorFlow Datasets that are on disk already, read without TensorFlow.

    ROOT/caltech101/3.0.1/caltech101-train.tfrecord-00000-of-00001
    ROOT/eurosat/rgb/2.0.0/eurosat-train.array_record-00000-of-00001

Records are in the order in which TFDS gives them when it does not shuffle: shard after shard. The first 800 of train
and the first 200 of val are VTAB-1k. Only the splits that a task is cut from are read.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

import numpy as np
from PIL import Image

from unseen.core.errors import DataError
from unseen.data.array_record import ArrayRecordFile
from unseen.data.decode import decode_rgb, open_image
from unseen.data.listing import read_lines
from unseen.data.sources.vtab.class_names import class_names
from unseen.data.sources.vtab.examples import Examples, column, from_bytes
from unseen.data.sources.vtab.order import is_record_order, record_order
from unseen.data.sources.vtab.tfrecord import Feature, RecordFile, first_number, image_bytes, parse_example, text

_VERSION = re.compile(r"\d+\.\d+\.\d+")
_FORMATS: Mapping[str, Callable[[Path], RecordFile | ArrayRecordFile]] = {
    "tfrecord": RecordFile,
    "array_record": ArrayRecordFile,
}
_SHARD = re.compile(
    rf".*?-(?P<split>\w+)\.(?P<format>{'|'.join(_FORMATS)})-(?P<number>\d{{5,}})-of-(?P<count>\d{{5,}})"
)
#: KITTI's first three types: Car, Van, Truck.
_VEHICLES = 3
#: Farther than any: where there is no vehicle.
NO_VEHICLE = 1000.0


def find_tfds(root: Path, name: str) -> Path | None:
    """The folder of the newest version of a builder that is prepared below `root`."""
    for base in (root, root / "tensorflow_datasets"):
        folder = base / name
        if folder.is_dir():
            versions = [p for p in folder.iterdir() if _VERSION.fullmatch(p.name) and _shards(p)]
            if versions:
                return max(versions, key=lambda p: tuple(map(int, p.name.split("."))))
    return None


def read_tfds(folder: Path, data: str, splits: Collection[str]) -> dict[str, Examples]:
    """Official splits of a prepared dataset.

    Args:
        folder: of one version.
        data: the task's images, which say how to read the annotations.
        splits: which to read; CLEVR's test split, for one, has no annotations.
    """
    shards: dict[tuple[str, str], dict[int, Path]] = {}
    counts: dict[tuple[str, str], int] = {}
    for path, match in _shards(folder):
        kind = (match["split"], match["format"])
        shards.setdefault(kind, {})[int(match["number"])] = path
        counts[kind] = int(match["count"])
    found = {}
    for split in splits:
        kinds = [kind for kind in shards if kind[0] == split]
        whole = [kind for kind in kinds if len(shards[kind]) == counts[kind]]
        if not kinds:
            raise DataError(f"{folder} has no records of split {split!r}. Copy the whole folder.")
        if not whole:
            missing = next(number for number in range(counts[kinds[0]]) if number not in shards[kinds[0]])
            raise DataError(
                f"{folder}: shard {missing} of {counts[kinds[0]]} of split {split!r} is missing. Copy the whole folder."
            )
        paths = [path for _, path in sorted(shards[whole[0]].items())]
        found[split] = _read_split(split, [_FORMATS[whole[0][1]](path) for path in paths], folder, data)
    return found


def _shards(folder: Path) -> list[tuple[Path, re.Match[str]]]:
    return [(path, match) for path in sorted(folder.iterdir()) if (match := _SHARD.fullmatch(path.name))]


def _read_split(split: str, files: Sequence[RecordFile | ArrayRecordFile], folder: Path, data: str) -> Examples:
    starts = [0, *accumulate(len(file) for file in files)]
    fields_of = FIELDS.get(data, _class_fields)

    def features(i: int) -> dict[str, Feature]:
        shard = bisect_right(starts, i) - 1
        return parse_example(files[shard].record(i - starts[shard]))

    latest = lru_cache(maxsize=64)(features)  # an image and its key are often asked for one after the other
    rows, names = [], []
    for i in range(starts[-1]):
        record = features(i)
        rows.append(fields_of(record))
        names.append(_key(record, data))
    columns = {name: column(np.array([row[name] for row in rows])) for name in (rows[0] if rows else ())}
    examples = from_bytes(
        [f"{split}/{i:06d}" for i in range(starts[-1])],
        lambda i: image_bytes(latest(i)),
        columns,
        _class_names(folder),
        _SHOW.get(data, open_image),
    )
    if all(name is None for name in names):
        if data not in _NUMBERED:
            return examples
        numbers = [str(i) for i in range(len(names))]
        return replace(examples, keys=[numbers[i] for i in record_order(numbers, split)])
    keys = [name or "" for name in names]
    own = "" if is_record_order(keys, split) else "its records are not in the order in which TFDS writes them"
    return replace(examples, keys=keys, own=own or _OWN.get(data, ""))


def _key(record: Mapping[str, Feature], data: str) -> str | None:
    """What TFDS called an example when it sorted them, where the record still tells."""
    name = text(record, _KEYS.get(data, "file_name"))
    if name is None:
        return None
    if data in _NUMBERED:
        digits = name.rpartition("_")[2]
        return str(int(digits)) if digits.isdecimal() else None
    if data in ("eurosat", "resisc45", "caltech101"):
        label, known = first_number(record, "label"), class_names(data)
        if not 0 <= label < len(known):
            return None
        return f"{known[label]}{'/' if data == 'caltech101' else '_'}{name}"
    return name


#: In which feature the key is; "file_name" where the dataset is not named.
_KEYS: Mapping[str, str] = {
    "camelyon": "id",
    "retinopathy": "name",
    "dmlab": "filename",
    "eurosat": "filename",
    "resisc45": "filename",
    "kitti": "image/file_name",
    "caltech101": "image/file_name",
    **dict.fromkeys(("cifar100", "svhn", "dsprites", "smallnorb"), "id"),
}
#: Datasets whose key is the number of the example in its file; older versions do not record it.
_NUMBERED = ("cifar100", "svhn", "dsprites", "smallnorb")
_OWN: Mapping[str, str] = {
    "caltech101": "TFDS draws 30 images per class in the order of a directory listing, which differs between machines"
}


def _class_names(folder: Path) -> list[str]:
    path = folder / "label.labels.txt"
    return [line for _, line in read_lines(path)] if path.exists() else []


def _class_fields(features: Mapping[str, Feature]) -> dict[str, float]:
    return {"label": first_number(features, "label")}


def _clevr_fields(features: Mapping[str, Feature]) -> dict[str, float]:
    depths = np.asarray(features.get("objects/pixel_coords", []), np.float64).reshape(-1, 3)[:, 2]
    return {"objects": len(depths), "closest": float(depths.min(initial=np.inf))}


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
