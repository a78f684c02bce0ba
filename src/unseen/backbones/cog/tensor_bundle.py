"""TensorFlow checkpoints (`NAME.index`, `NAME.data-00000-of-00001`), read without TensorFlow.

Format:     the index is a sorted string table as LevelDB writes them; its keys are variable names, its values
            `BundleEntryProto` messages: element type, shape, and where in which shard the raw little-endian bytes
            stand. The empty key holds the `BundleHeaderProto`.
Implements: uncompressed tables (TensorFlow writes no others), with the checksum of every block of the index; numeric
            tensors, whole ones only (not the slices of partitioned variables).
Differs:    checksums of the tensors themselves are not computed: a pure Python CRC of 100 MB takes minutes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unseen.core.errors import CheckpointError
from unseen.core.wire import fields, masked_crc32c, varint

_TABLE_MAGIC = 0xDB4775248B80FB57
_FOOTER_BYTES = 48
_TRAILER_BYTES = 5  # of a block: how it is compressed, and its checksum

#: `DataType` of TensorFlow to NumPy.
_TYPES: Mapping[int, str] = {
    1: "<f4", 2: "<f8", 3: "<i4", 4: "u1", 5: "<i2", 6: "i1",
    9: "<i8", 10: "?", 17: "<u2", 19: "<f2", 22: "<u4", 23: "<u8",
}  # fmt: skip


@dataclass(frozen=True)
class BundleEntry:
    """Where one variable stands."""

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    sliced: bool


class TensorBundle(Mapping[str, npt.NDArray[Any]]):
    """The variables of a checkpoint by name; each is read from disk when it is asked for.

    Args:
        path: the `.index` file, or the name of the checkpoint without it.
    """

    def __init__(self, path: Path) -> None:
        self.prefix = path.with_suffix("") if path.suffix == ".index" else path
        index = self.prefix.with_name(self.prefix.name + ".index")
        if not index.is_file():
            raise CheckpointError(f"no TensorFlow checkpoint at {self.prefix}: {index.name} is not there.")
        try:
            table = dict(read_table(index.read_bytes()))
            header = dict(fields(table.pop(b"")))
            self.shards = int(header.get(1, 1))
            if header.get(2, 0):
                raise ValueError("it was written on a big-endian machine")
            self.entries = {name.decode(): _entry(value) for name, value in table.items()}
        except (ValueError, KeyError, IndexError, TypeError, struct.error, OverflowError) as error:
            raise CheckpointError(f"{index.name} is not the index of a TensorFlow checkpoint: {error}.") from None

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        entry = self.entries[name]
        dtype = _TYPES.get(entry.dtype)
        if dtype is None or entry.sliced:
            kind = "is partitioned" if entry.sliced else f"has type {entry.dtype}"
            raise CheckpointError(f"{name} in {self.prefix.name} {kind}; whole numeric tensors can be read.")
        if math.prod(entry.shape) * np.dtype(dtype).itemsize != entry.size:
            raise CheckpointError(f"{name} in {self.prefix.name} has shape {entry.shape} but {entry.size} bytes.")
        shard = self.shard(entry.shard)
        if not shard.is_file():
            raise CheckpointError(f"{shard.name} is missing beside {self.prefix.name}.index; both are needed.")
        if entry.offset + entry.size > shard.stat().st_size:
            raise CheckpointError(f"{shard.name} is too short: {name} should end at byte {entry.offset + entry.size}.")
        with shard.open("rb") as file:
            file.seek(entry.offset)
            return np.frombuffer(file.read(entry.size), dtype=dtype).reshape(entry.shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def shard(self, number: int) -> Path:
        """The data file of one shard."""
        return self.prefix.with_name(f"{self.prefix.name}.data-{number:05d}-of-{self.shards:05d}")


def read_table(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a sorted string table, in order."""
    footer = data[-_FOOTER_BYTES:]
    if len(footer) < _FOOTER_BYTES or struct.unpack("<Q", footer[-8:])[0] != _TABLE_MAGIC:
        raise ValueError("it does not end as a table does")
    _, position = _handle(footer, 0)  # of the metaindex, which is empty
    index, _ = _handle(footer, position)
    for _, handle in _block(data, *index):
        yield from _block(data, *_handle(handle, 0)[0])


def _block(data: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    block = data[offset : offset + size + _TRAILER_BYTES]
    if len(block) < size + _TRAILER_BYTES:
        raise ValueError("a block reaches beyond the file")
    if block[size]:
        raise ValueError("a block is compressed")
    if struct.unpack("<I", block[size + 1 :])[0] != masked_crc32c(block[: size + 1]):
        raise ValueError("the checksum of a block does not match")
    restarts = struct.unpack("<I", block[size - 4 : size])[0]
    end, position, key = size - 4 * (restarts + 1), 0, b""
    while position < end:
        # Each key shares a beginning with the one before it.
        shared, position = varint(block, position)
        fresh, position = varint(block, position)
        length, position = varint(block, position)
        key = key[:shared] + block[position : position + fresh]
        position += fresh
        yield key, block[position : position + length]
        position += length


def _handle(data: bytes, position: int) -> tuple[tuple[int, int], int]:
    offset, position = varint(data, position)
    size, position = varint(data, position)
    return (offset, size), position


def _entry(message: bytes) -> BundleEntry:
    """`BundleEntryProto`: dtype 1, shape 2, shard_id 3, offset 4, size 5, crc32c 6, slices 7."""
    values: dict[int, Any] = {}
    sliced = False
    for number, value in fields(message):
        values[number] = value
        sliced = sliced or number == 7
    sides: Iterator[dict[int, Any]] = (dict(fields(dim)) for number, dim in fields(values.get(2, b"")) if number == 2)
    shape = tuple(side.get(1, 0) for side in sides)
    return BundleEntry(values.get(1, 0), shape, values.get(3, 0), values.get(4, 0), values.get(5, 0), sliced)
