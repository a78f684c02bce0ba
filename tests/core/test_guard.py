"""Files that mean harm: whatever they do to a reader, one line comes out, soon, and in little memory."""

from __future__ import annotations

import errno
import io
import pickle
import struct
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest

from unseen.core import guard
from unseen.core.errors import CheckpointError, DataError, UnavailableError
from unseen.core.guard import guarded, inflate, read_limited
from unseen.core.pickles import RefusedPickle, load_plain_pickle, scan_pickle


@pytest.mark.parametrize(
    "error", [KeyError("x"), RecursionError(), struct.error("short"), zlib.error("bad"), SystemError()]
)
def test_every_error_becomes_ours(error: Exception) -> None:
    told = r"^w\.pth cannot be read as a checkpoint \(.*\)\. Copy it again\.$"
    guard = guarded("w.pth", "a checkpoint", error=CheckpointError, advice="Copy it again.")
    with pytest.raises(CheckpointError, match=told), guard:
        raise error


def test_errors_of_ours_and_interrupts_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "WAITS", ())
    for error in (DataError("mine"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as caught, guarded("f", "a file"):
            raise error
        assert caught.value is error
    with pytest.raises(UnavailableError), guarded("f", "a file"):
        raise OSError(errno.EIO, "Input/output error")
    with pytest.raises(DataError, match=r"cannot read nothing\.txt: No such file"), guarded("nothing.txt", "a file"):
        Path("nothing.txt").read_bytes()


def test_bombs_are_measured_while_they_unpack() -> None:
    bomb = zlib.compress(bytes(100 << 20), 9)
    tracemalloc.start()
    with pytest.raises(DataError, match="is it a bomb"):
        inflate(bomb, 20 << 20, "f.mat")
    assert tracemalloc.get_traced_memory()[1] < 130 << 20
    tracemalloc.stop()
    with pytest.raises(DataError, match="is it a bomb"):
        read_limited(io.BytesIO(bytes(100)), 99, "f.zip")
    assert read_limited(io.BytesIO(bytes(99)), 99, "f.zip") == bytes(99)


def test_a_memo_bomb_reserves_nothing(tmp_path: Path) -> None:
    (tmp_path / "bomb.pkl").write_bytes(b"\x80\x02Nr" + struct.pack("<I", 1 << 27) + b".")
    tracemalloc.start()
    with pytest.raises(DataError, match="numbers an object 134,217,728, more than it has bytes"):
        load_plain_pickle(tmp_path / "bomb.pkl")
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    (tmp_path / "text.pkl").write_bytes(b"Np134217728\n.")
    with pytest.raises(DataError, match="numbers an object"):
        load_plain_pickle(tmp_path / "text.pkl")


DEEP = b"}" + b"N" + b"\x85" * 200_000 + b"N" + b"s."
#: Each turn makes a tuple of a list of the tuple before it, and keeps it under a number.
THROUGH_LISTS = (
    b"\x80\x02N\x85q\x00" + b"".join(b"]q\x01h\x00ac__builtin__\ntuple\nh\x01\x85Rq\x00" for _ in range(300)) + b"."
)


@pytest.mark.parametrize("data", [DEEP, THROUGH_LISTS], ids=["tuples", "through lists"])
def test_deep_tuples_do_not_reach_the_stack(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "deep.pkl").write_bytes(data)
    with pytest.raises(DataError, match="nested more than"):
        load_plain_pickle(tmp_path / "deep.pkl")


@pytest.mark.parametrize("protocol", range(6))
def test_ordinary_pickles_are_accepted(protocol: int) -> None:
    values = {
        "names": [f"n{i:08d}" for i in range(500)],
        "nested": ((1, (2, (3, "x"))), {"a": [1.5, None, True, b"bytes", 2**80]}),
        "array": np.arange(1000.0).reshape(10, 100),
        "sets": {frozenset({1, 2}), frozenset()},
    }
    values["itself"] = values["names"]  # the same list twice, by the memo
    data = pickle.dumps(values, protocol)
    scan(data)
    scan(data + b"what follows is another's")
    for cut in range(0, len(data) - 1, 997):
        with pytest.raises(ValueError, match=r".+"):
            scan(data[:cut])


def test_what_a_file_may_unpack_to_follows_its_size() -> None:
    assert guard.allowance(0) == 64 << 20
    assert guard.allowance(1 << 20) == (200 + 64) << 20
    assert guard.allowance(3 << 20) == (600 + 64) << 20


def test_what_may_pass_is_tried_again_and_what_lasts_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(guard.time, "sleep", waited.append)
    left = [OSError(errno.EIO, "Input/output error")] * 3

    def read() -> str:
        if left:
            raise left.pop()
        return "read"

    assert guard.read_patiently(read, "f") == "read"
    assert waited == sorted(waited) == list(guard.WAITS) and sum(waited) < 2
    left += [OSError(errno.EIO, "Input/output error")] * 4
    with pytest.raises(UnavailableError, match=r"^f cannot be read at present: input/output error, 4 times\."):
        guard.read_patiently(read, "f")
    waited.clear()
    left += [FileNotFoundError(errno.ENOENT, "gone")]
    with pytest.raises(FileNotFoundError):
        guard.patiently(read)
    assert waited == [] and guard.patiently(read) == "read"


def test_a_reader_names_its_file_however_it_is_given() -> None:
    @guard.reader("a list")
    def read(path: str, times: int = 1) -> int:
        return times // (path == "good")

    assert read("good", times=3) == read(path="good", times=3) == 3
    for call in (lambda: read("bad", 2), lambda: read(path="bad", times=2)):
        with pytest.raises(DataError, match=r"^bad cannot be read as a list \(ZeroDivisionError"):
            call()


def scan(*parts: bytes) -> None:
    data = b"".join(parts)
    scan_pickle(io.BytesIO(data), len(data))


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x04\x8c\x05ab",  # a short text that should have five letters
        b"X\x05\x00\x00\x00ab",
        b"B\x05\x00\x00\x00ab",
        b"\x8e\x05" + bytes(7) + b"ab",
        b"J\x01\x00",
    ],
)
def test_an_argument_that_is_cut_off(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"only \d+ remain|not enough data"):
        scan(data)
    with pytest.raises(ValueError, match=r"no opcode b''|remain"):
        scan(b"X\x02\x00\x00\x00ab")


def test_a_mark_ends_the_members_of_a_tuple() -> None:
    """A hundred tuples side by side are not deep; each within the next is, also by way of DUP and the memo."""
    scan(b"(", b"(t" * 300, b"t.")
    scan(b")", b"\x85" * 100, b".")
    with pytest.raises(RefusedPickle, match="nested"):
        scan(b")", b"\x85" * 101, b".")
    with pytest.raises(RefusedPickle, match="nested"):
        scan(b"(", b"N" * 3, b"t" + b"\x85" * 100, b".")
    with pytest.raises(RefusedPickle, match="nested"):
        scan(b"N", b"2\x86" * 101, b".")
    with pytest.raises(RefusedPickle, match="nested"):
        scan(b")", b"\x85q\x000h\x00" * 101, b".")


def test_an_object_may_have_any_number_up_to_the_size_of_the_file() -> None:
    scan(b"Nq\x04.")
    for data in (b"Nq\x05.", b"Np6\n.", b"Np-1\n.", b"Npx\n."):
        with pytest.raises((RefusedPickle, ValueError), match=r"numbers an object|invalid literal"):
            scan(data)
    scan(b"Np5\n.")
    with pytest.raises(ValueError, match=r"no opcode b'.xff'"):
        scan(b"N\xff.")
    scan(b"S'" + b"x" * 700 + b"'\n.")
    with pytest.raises(ValueError, match="no opcode"):
        scan(b"S'" + b"x" * 700)


@pytest.mark.parametrize(
    "data",
    [
        b"U\x02ab",
        b"T\x02\0\0\0ab",
        b"X\x02\0\0\0ab",
        b"\x8d\x02" + bytes(7) + b"ab",
        b"\x8b\x02\0\0\0\1\2",
        b"\x8a\1\5",
    ],
)
def test_lengths_of_every_width_are_read(data: bytes) -> None:
    """A stop that is an argument's last letter is none."""
    scan(data + b".")
    with pytest.raises(ValueError, match=r"no opcode b''|remain"):
        scan(data[:-1] + b".")
