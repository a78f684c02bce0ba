"""TFRecord files and the `tf.train.Example` messages in them, without TensorFlow.

Source:     the record format (length, masked CRC-32C, data, masked CRC-32C) and the protocol buffer wire format, as
            documented by their makers
Shapes:     Example { Features features = 1 }, Features { map<string, Feature> feature = 1 }, Feature is one of
            BytesList = 1, FloatList = 2, Int64List = 3, each with a repeated value = 1
Implements: the checksum of every length, so that a damaged or foreign file is noticed; contents are not summed: that
            would read every byte of files of many gigabytes, and image decoders notice damage themselves
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError
from unseen.core.files import map_file
from unseen.core.guard import reader
from unseen.core.wire import as_message, fields, masked_crc32c, varints

Feature = list[bytes] | npt.NDArray[np.float32] | npt.NDArray[np.int64]
#: Where a record's data begin and end.
Span = tuple[int, int]

_HEADER = struct.Struct("<QI")


class RecordFile:
    """A TFRecord file, memory-mapped, with the places of its records."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._map = map_file(path)
        self.spans = list(self._scan(len(self._map)))

    def __len__(self) -> int:
        return len(self.spans)

    def record(self, number: int) -> memoryview:
        """The data of a record; a view, not a copy."""
        start, stop = self.spans[number]
        return memoryview(self._map)[start:stop]

    def _scan(self, size: int) -> Iterator[Span]:
        place = 0
        while place < size:
            if place + _HEADER.size + 4 > size:
                raise DataError(f"{self.path} ends within a record: it was cut short. Copy it again.")
            length, checksum = _HEADER.unpack_from(self._map, place)
            if masked_crc32c(bytes(self._map[place : place + 8])) != checksum:
                raise DataError(f"{self.path} is not a TFRecord file, or is damaged at byte {place:,}.")
            start = place + _HEADER.size
            place = start + length + 4
            if place > size:
                raise DataError(f"{self.path} ends within a record: it was cut short. Copy it again.")
            yield start, start + length


@reader("an Example")
def parse_example(data: memoryview | bytes) -> dict[str, Feature]:
    """The features of an Example, by name.

    Raises:
        DataError: the data are not an Example.
    """
    view = memoryview(data)
    found: dict[str, Feature] = {}
    try:
        for number, features in fields(view):
            if number != 1:
                continue
            for inner, entry in fields(as_message(features)):
                if inner == 1:
                    parts = dict(fields(as_message(entry)))
                    if 2 in parts:
                        found[bytes(as_message(parts[1])).decode("utf-8")] = _feature(as_message(parts[2]))
    except (IndexError, KeyError, ValueError, struct.error) as error:
        raise DataError(f"a record is not a tf.train.Example: {error!r}") from error
    return found


def _feature(view: memoryview) -> Feature:
    for kind, content in fields(view):
        values = [value for number, value in fields(as_message(content)) if number == 1]
        if kind == 1:
            return [bytes(as_message(value)) for value in values]
        if kind == 2:  # packed floats, or one by one
            packed = b"".join(v if isinstance(v, bytes) else bytes(as_message(v)) for v in values)
            return np.frombuffer(packed, "<f4")
        if kind == 3:
            numbers: list[int] = []
            for value in values:
                numbers += [value] if isinstance(value, int) else varints(value)
            return np.array([n - (1 << 64) if n >> 63 else n for n in numbers], np.int64)
    return []


def first_number(features: Mapping[str, Feature], name: str) -> int:
    """The single integer of a feature."""
    values = features.get(name)
    if not isinstance(values, np.ndarray) or len(values) != 1:
        raise DataError(f"a record has no single number {name!r}; it has: {', '.join(features) or 'nothing'}.")
    return int(values[0])


def image_bytes(features: Mapping[str, Feature], name: str = "image") -> bytes:
    """The encoded image of a record."""
    values = features.get(name)
    if not isinstance(values, list) or len(values) != 1:
        raise DataError(f"a record has no image {name!r}; it has: {', '.join(features) or 'nothing'}.")
    return values[0]


def text(features: Mapping[str, Feature], name: str) -> str | None:
    """The single text of a feature; None where there is none."""
    values = features.get(name)
    if not isinstance(values, list) or len(values) != 1:
        return None
    return values[0].decode("utf-8", "surrogateescape")
