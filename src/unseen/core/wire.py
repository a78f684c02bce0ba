"""Protocol buffers and checksums as TensorFlow's files hold them, without TensorFlow.

Source:     the wire format of protocol buffers and CRC-32C, as documented by their makers
Used by:    TFRecord files (`unseen.data.sources.vtab.tfds`) and checkpoints (`unseen.backbones.cog.formats`)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

Value = memoryview | bytes | int


def varint(data: memoryview | bytes, place: int) -> tuple[int, int]:
    """Return a variable-length integer and the position after it.

    Raises:
        IndexError: the data end within it.
        ValueError: it has more than 64 bits.
    """
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
        if shift > 63:
            raise ValueError("a number has more than 64 bits")


def fields(message: Value) -> Iterator[tuple[int, Value]]:
    """Yield (field number, value): views of length-delimited fields, bytes of fixed sizes, integers of varints."""
    view, place = as_message(message), 0
    while place < len(view):
        tag, place = varint(view, place)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, place = varint(view, place)
            yield number, value
            continue
        if kind == _BYTES:
            length, place = varint(view, place)
        elif kind in (_FIXED32, _FIXED64):
            length = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"a message has a field of kind {kind}")
        if place + length > len(view):
            raise ValueError("a field is longer than its message")
        part = view[place : place + length]
        yield number, part if kind == _BYTES else bytes(part)
        place += length


def as_message(value: Value) -> memoryview:
    """Return the bytes of a message as a view."""
    if isinstance(value, int):
        raise ValueError("a number where a message should be")
    return memoryview(value)


def varints(message: Value) -> list[int]:
    """Return consecutive variable-length integers."""
    view, place, numbers = as_message(message), 0, []
    while place < len(view):
        number, place = varint(view, place)
        numbers.append(number)
    return numbers


def masked_crc32c(data: bytes) -> int:
    """Return CRC-32C as these files store it: rotated and offset."""
    table, crc = _crc_table(), 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@cache
def _crc_table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)
