"""TensorFlow Datasets that are on disk already, read without TensorFlow.

    ROOT/caltech101/3.0.1/caltech101-train.tfrecord-00000-of-00001
    ROOT/eurosat/rgb/2.0.0/eurosat-train.array_record-00000-of-00001

Records are in the order in which TFDS returns them when it does not shuffle: shard after shard. The first 800 of train
and the first 200 of val are VTAB-1k. Only the splits that a task is cut from are read.

Source:     the record format (length, masked CRC-32C, data, masked CRC-32C) and the protocol buffer wire format, as
            documented by their makers
Shapes:     Example { Features features = 1 }, Features { map<string, Feature> feature = 1 }, Feature is one of
            BytesList = 1, FloatList = 2, Int64List = 3, each with a repeated value = 1
Implements: the checksum of every length, so that a damaged or unrelated file is noticed; contents are not summed: that
            would read every byte of files of many gigabytes, and image decoders notice damage themselves
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import Image

from unseen.core.arrays import AnyArray, Float32Array, IntArray
from unseen.core.errors import DataError
from unseen.core.files import map_file
from unseen.core.guard import guarded
from unseen.core.wire import Value, as_message, fields, masked_crc32c, varints
from unseen.data.array_record import ArrayRecordFile
from unseen.data.columns import read_lines
from unseen.data.dataset import locator
from unseen.data.decode import decode_rgb, open_image
from unseen.data.sources.vtab.examples import Examples, from_bytes, is_record_order, record_order
from unseen.data.sources.vtab.tasks import class_names, files_of

Feature = list[bytes] | Float32Array | IntArray
T = TypeVar("T")

_HEADER = struct.Struct("<QI")


class RecordFile:
    """A memory-mapped TFRecord file, and where its records are."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._map = map_file(path)
        self.spans = list(self._scan(len(self._map)))

    def __len__(self) -> int:
        return len(self.spans)

    def record(self, number: int) -> memoryview:
        """Return a view of the data of a record."""
        start, stop = self.spans[number]
        return memoryview(self._map)[start:stop]

    def _scan(self, size: int) -> Iterator[tuple[int, int]]:
        place = 0
        while place < size:
            start, length = place + _HEADER.size, 0
            if start <= size:
                length, checksum = _HEADER.unpack_from(self._map, place)
                if masked_crc32c(bytes(self._map[place : place + 8])) != checksum:
                    raise DataError(f"{self.path} is not a TFRecord file, or is damaged at byte {place:,}.")
            place = start + length + 4
            if place > size:
                raise DataError(f"{self.path} ends within a record: it was cut short. Copy it again.")
            yield start, start + length


def parse_example(data: memoryview | bytes) -> dict[str, Feature]:
    """Return the features of an Example by name.

    Raises:
        DataError: the data are not an Example.
    """
    found: dict[str, Feature] = {}
    with guarded("a record", "a tf.train.Example"):
        for features in _repeated(memoryview(data)):
            for entry in _repeated(features):
                parts = dict(fields(entry))
                if 2 in parts:
                    found[bytes(as_message(parts[1])).decode("utf-8")] = _feature(as_message(parts[2]))
    return found


def _repeated(message: Value) -> list[Value]:
    """Return the values of the first field of a message."""
    return [value for number, value in fields(as_message(message)) if number == 1]


def _feature(view: memoryview) -> Feature:
    for kind, content in fields(view):
        values = _repeated(content)
        if kind == 1:
            return [bytes(as_message(value)) for value in values]
        if kind == 2:  # packed floats, or one by one
            packed = b"".join(v if isinstance(v, bytes) else bytes(as_message(v)) for v in values)
            return np.frombuffer(packed, "<f4")
        if kind == 3:
            numbers = [n for value in values for n in ([value] if isinstance(value, int) else varints(value))]
            return np.array(numbers, np.uint64).astype(np.int64)
    return []


def _single(features: Mapping[str, Feature], name: str, kind: type[T]) -> T:
    """Return the single value of a feature.

    Raises:
        DataError: there is none, or it is of another kind.
    """
    values = features.get(name, [])
    value = values[0] if len(values) == 1 else None
    if not isinstance(value, kind):
        raise DataError(
            f"a record has no single {name!r} of {kind.__name__}; it has: {', '.join(features) or 'nothing'}."
        )
    return value


def first_number(features: Mapping[str, Feature], name: str) -> int:
    """Return the single integer of a feature."""
    return int(_single(features, name, np.int64))


def image_bytes(features: Mapping[str, Feature]) -> bytes:
    """Return the encoded image of a record."""
    return _single(features, "image", bytes)


def text(features: Mapping[str, Feature], name: str) -> str | None:
    """Return the single text of a feature, or None."""
    return _single(features, name, bytes).decode("utf-8", "surrogateescape") if name in features else None


class Records:
    """The parsed Examples of several files, file after file."""

    def __init__(self, files: Sequence[RecordFile | ArrayRecordFile]) -> None:
        self.files, self._locate = files, locator(map(len, files))

    def __len__(self) -> int:
        return sum(map(len, self.files))

    def __getitem__(self, i: int) -> dict[str, Feature]:
        shard, number = self._locate(i)
        return parse_example(self.files[shard].record(number))

    def __iter__(self) -> Iterator[dict[str, Feature]]:
        return map(self.__getitem__, range(len(self)))


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
#: Depth of an image without vehicle: farther than any.
NO_VEHICLE = 1000.0


def find_tfds(root: Path, name: str) -> Path | None:
    """Return the folder of the newest version of a builder that is prepared below `root`, or None."""
    for base in (root, root / "tensorflow_datasets"):
        folder = base / name
        if folder.is_dir():
            versions = [p for p in folder.iterdir() if _VERSION.fullmatch(p.name) and _shards(p)]
            if versions:
                return max(versions, key=lambda p: tuple(map(int, p.name.split("."))))
    return None


def read_tfds(folder: Path, data: str, splits: Collection[str]) -> dict[str, Examples]:
    """Return official splits of a prepared dataset.

    Args:
        folder: of one version.
        data: the task's images, which decide how to read the annotations.
        splits: which to read; CLEVR's test split, for one, has no annotations.
    """
    found = {}
    for split in splits:
        shards: dict[tuple[str, int], dict[int, Path]] = {}
        for path, match in _shards(folder):
            if match["split"] == split:
                shards.setdefault((match["format"], int(match["count"])), {})[int(match["number"])] = path
        if not shards:
            raise DataError(f"{folder} has no records of split {split!r}. Copy the whole folder.")
        (form, count), paths = max(shards.items(), key=lambda each: len(each[1]) == each[0][1])
        if missing := [number for number in range(count) if number not in paths]:
            raise DataError(
                f"{folder}: shard {missing[0]} of {count} of split {split!r} is missing. Copy the whole folder."
            )
        files = [_FORMATS[form](path) for _, path in sorted(paths.items())]
        found[split] = _read_split(split, files, folder, data)
    return found


def _shards(folder: Path) -> list[tuple[Path, re.Match[str]]]:
    return [(path, match) for path in sorted(folder.iterdir()) if (match := _SHARD.fullmatch(path.name))]


def _read_split(split: str, files: Sequence[RecordFile | ArrayRecordFile], folder: Path, data: str) -> Examples:
    records = Records(files)
    cached = lru_cache(maxsize=64)(records.__getitem__)  # an image and its key are often read one after the other
    read = [(_fields(record, data), _key(record, data)) for record in records]
    rows, names = [row for row, _ in read], [name for _, name in read]
    columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
    path = folder / "label.labels.txt"
    examples = from_bytes(
        [f"{split}/{i:06d}" for i in range(len(records))],
        lambda i: image_bytes(cached(i)),
        columns,
        [line for _, line in read_lines(path)] if path.exists() else [],
        _black_and_white if data == "dsprites" else open_image,
    )
    if all(name is None for name in names):
        if not files_of(data).numbered:
            return examples
        numbers = list(map(str, range(len(names))))
        return replace(examples, keys=[numbers[i] for i in record_order(numbers, split)])
    keys = [name or "" for name in names]
    own = "" if is_record_order(keys, split) else "its records are not in the order in which TFDS writes them"
    return replace(examples, keys=keys, own=own or _OWN.get(data, ""), certain=False)


def _key(record: Mapping[str, Feature], data: str) -> str | None:
    """Return what TFDS called an example when it sorted them, or None if the record does not contain it."""
    files, known = files_of(data), class_names(data)
    name = text(record, files.key)
    if name is not None and files.numbered:
        digits = name.rpartition("_")[2]
        return str(int(digits)) if digits.isdecimal() else None
    if name is not None and data in _WITH_CLASS:
        label = first_number(record, "label")
        return f"{known[label]}{_WITH_CLASS[data]}{name}" if 0 <= label < len(known) else None
    return name


#: Datasets whose key is the class and the name, with what is between them.
_WITH_CLASS: Mapping[str, str] = {"caltech101": "/", "eurosat": "_", "resisc45": "_"}
_OWN: Mapping[str, str] = {
    "caltech101": "TFDS draws 30 images per class in the order of a directory listing, which differs between machines"
}


#: Annotations of datasets that have several numbers per example, after "label_".
_LABELS = {"dsprites": ("x_position", "orientation"), "smallnorb": ("azimuth", "elevation")}


def _fields(record: Mapping[str, Feature], data: str) -> dict[str, float]:
    """Return the numbers that labels are made of."""

    def depths(name: str) -> AnyArray:
        return np.asarray(record.get(name, []), np.float64).reshape(-1, 3)[:, 2]

    if data == "clevr":
        found = depths("objects/pixel_coords")
        return {"objects": len(found), "closest": float(found.min(initial=np.inf))}
    if data == "kitti":
        kinds = np.asarray(record.get("objects/type", []), np.int64)
        return {"closest": float(depths("objects/location")[kinds < _VEHICLES].min(initial=NO_VEHICLE))}
    if data in _LABELS:
        return {name: first_number(record, f"label_{name}") for name in _LABELS[data]}
    return {"label": first_number(record, "label")}


def _black_and_white(data: bytes) -> Image.Image:
    """Decode an image of dSprites, whose pixels are 0 and 1."""
    pixels = np.asarray(decode_rgb(open_image(data)))
    return Image.fromarray(np.asarray(np.minimum(pixels, 1) * 255, np.uint8))
