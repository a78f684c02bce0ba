"""ArrayRecord files, which TFDS writes today, without TensorFlow and without the `array-record` wheel.

Source:     the specification of Riegeli/records and the comments of ArrayRecord's `layout.proto`
Shapes:     file = blocks of 64 KiB, each led by 24 bytes that a reader skips; what is left is a sequence of chunks:
            hash 8, size 8, hash 8, kind 1, records 7, decoded size 8, then `size` bytes
            last block = a chunk with the postscript (1: offset of the footer, 2: magic)
            footer = a chunk of records: metadata, then one per chunk of data (1: offset, 2: decoded size, 3: records)
Implements: simple chunks, plain or compressed by zstd, brotli or snappy (pyarrow unpacks them)
Differs:    chunks are not hashed; sizes and numbers, which are stored twice, must agree. Transposed chunks, which TFDS
            does not write, are refused
"""

from __future__ import annotations

import struct
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

from unseen.core.files import map_file
from unseen.core.guard import guarded
from unseen.core.wire import fields, varint, varints
from unseen.data.dataset import locator
from unseen.data.decode import MAX_BYTES

_BLOCK, _BLOCK_HEADER = 1 << 16, 24
_CHUNK_HEADER = struct.Struct("<QQQQQ")
_SIMPLE, _TRANSPOSED = ord("r"), ord("t")
_CODECS = {ord("z"): "zstd", ord("b"): "brotli", ord("s"): "snappy"}
_MAGIC = 0x71930E704FDAE05E
_CHUNKS_KEPT = 8  # a chunk of many records is unpacked once for a row of reads


class ArrayRecordFile:
    """An ArrayRecord file, memory-mapped, with the places of its chunks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._map = map_file(path)
        with guarded(path, "an ArrayRecord file", advice="It is damaged or was cut short: copy it again."):
            self._offsets, self._counts = self._read_footer(len(self._map))
        self._locate = locator(self._counts)
        self._chunk = lru_cache(maxsize=_CHUNKS_KEPT)(self._unpack)

    def __len__(self) -> int:
        return sum(self._counts)

    def record(self, number: int) -> memoryview:
        """Return the data of a record."""
        chunk, place = self._locate(number)
        return memoryview(self._chunk(chunk)[place])

    def _unpack(self, number: int) -> list[bytes]:
        offset, expected = self._offsets[number], self._counts[number]
        with guarded(f"{self.path}, byte {offset:,},", "a chunk of records", advice="It is damaged: copy it again."):
            found = self._records(offset)
            if len(found) != expected:
                raise ValueError(f"{len(found)} records where the footer has {expected}")
            return found

    def _read_footer(self, size: int) -> tuple[list[int], list[int]]:
        """Return the offsets of the data chunks and their numbers of records."""
        if size < 2 * _BLOCK or size % _BLOCK:
            raise ValueError(f"{size:,} bytes are not a whole number of blocks")
        postscript = dict(fields(self._records(size - _BLOCK)[0]))
        if postscript.get(2) != _MAGIC:
            raise ValueError("its postscript has another magic number")
        footer = self._records(_whole(postscript.get(1, 0)))
        metadata = dict(fields(dict(fields(footer[0]))[1]))
        rows = [dict(fields(row)) for row in footer[1:]]
        offsets = [_whole(row.get(1, 0)) for row in rows]
        counts = [_whole(row.get(3, 0)) for row in rows]
        if (len(rows), sum(counts)) != (metadata.get(2, 0), metadata.get(3, 0)):
            raise ValueError("its footer contradicts itself")
        return offsets, counts

    def _records(self, offset: int) -> list[bytes]:
        header, place = self._read(offset, _CHUNK_HEADER.size)
        _, size, _, kind_and_records, decoded = _CHUNK_HEADER.unpack(header)
        if max(size, decoded) > MAX_BYTES:
            raise ValueError(f"a chunk of {max(size, decoded):,} bytes; the limit is {MAX_BYTES:,}")
        data, _ = self._read(place, size)
        kind, count = kind_and_records & 0xFF, kind_and_records >> 8
        if kind == _TRANSPOSED:
            raise ValueError("its records are transposed, which is not read here: write them without `transpose`")
        if kind != _SIMPLE:
            raise ValueError(f"a chunk of kind {kind:#x} where records should be")
        codec, (length, place) = data[0], varint(data, 1)
        sizes = varints(_inflate(codec, data[place : place + length], 10 * count))
        values = _inflate(codec, data[place + length :], decoded)
        if len(sizes) != count or sum(sizes) != len(values) or len(values) != decoded:
            raise ValueError("the sizes of its records do not add up")
        return [values[end - size : end] for end, size in zip(accumulate(sizes), sizes, strict=True)]

    def _read(self, place: int, size: int) -> tuple[bytes, int]:
        """Read `size` bytes from `place` without the headers of blocks; return them and the position after them."""
        parts = []
        while size:
            if place % _BLOCK < _BLOCK_HEADER:
                place += _BLOCK_HEADER - place % _BLOCK
            part = self._map[place : place + min(size, _BLOCK - place % _BLOCK)]
            if not part:
                raise ValueError("the file ends within a chunk")
            parts.append(part)
            place += len(part)
            size -= len(part)
        return b"".join(parts), place


def _inflate(codec: int, data: bytes, limit: int) -> bytes:
    """Unpack a buffer of a chunk, which is plain, or compressed with its size in front."""
    import pyarrow

    if codec == 0:
        return data
    if codec not in _CODECS:
        raise ValueError(f"compression of kind {codec:#x}")
    size, place = varint(data, 0)
    if size > limit:
        raise ValueError(f"a buffer of {size:,} bytes where at most {limit:,} were announced")
    return bytes(pyarrow.decompress(data[place:], size, codec=_CODECS[codec], asbytes=True)) if size else b""


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise ValueError("a message where a number should be")
    return value
