"""The wire format against messages written by hand, and CRC-32C against its published check value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unseen.core.wire import as_message, fields, masked_crc32c, varint, varints


def encode(number: int) -> bytes:
    parts = []
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_numbers_come_back(numbers: list[int]) -> None:
    assert varints(b"".join(map(encode, numbers))) == numbers


def test_all_kinds_of_fields() -> None:
    message = b"\x08\x96\x01" + b"\x12\x03abc" + b"\x1d\x01\x00\x00\x00" + b"\x21" + bytes(8)
    found = [(number, bytes(v) if isinstance(v, memoryview) else v) for number, v in fields(message)]
    assert found == [(1, 150), (2, b"abc"), (3, b"\x01\x00\x00\x00"), (4, bytes(8))]
    assert [type(v) for _, v in fields(message)] == [int, memoryview, bytes, bytes], "only what may be long is a view"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (b"\x12\x05abc", "longer than its message"),
        (b"\x1d\x01", "longer than its message"),
        (b"\x0b", "kind 3"),
        (b"\x08" + b"\xff" * 11, "64 bits"),
    ],
)
def test_rubbish_is_refused(message: bytes, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        list(fields(message))


def test_a_number_cut_short_and_a_number_for_a_message() -> None:
    with pytest.raises(IndexError):
        varint(b"\x80", 0)
    with pytest.raises(ValueError, match="number where a message"):
        as_message(7)


def test_checksum() -> None:
    crc = 0xE3069283  # of "123456789", in every catalogue of checksums
    assert masked_crc32c(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_the_largest_number_is_read_and_none_beyond_it() -> None:
    assert varint(encode(2**64 - 1), 0) == (2**64 - 1, 10)
    with pytest.raises(ValueError, match="more than 64 bits"):
        varint(b"\xff" * 10 + b"\x01", 0)
    with pytest.raises(IndexError):
        varint(b"\xff" * 3, 0)
