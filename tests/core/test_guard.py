"""Files that mean harm: whatever they do to a reader, one line comes out, soon, and in little memory."""

from __future__ import annotations

import errno
import io
import struct
import zlib
from pathlib import Path

import pytest

from unseen.core import guard
from unseen.core.errors import CheckpointError, DataError, UnavailableError
from unseen.core.guard import guarded, read_limited
from unseen.core.pickles import load_plain_pickle


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
    with pytest.raises(DataError, match="is it a bomb"):
        read_limited(io.BytesIO(bytes(100)), 99, "f.zip")
    assert read_limited(io.BytesIO(bytes(99)), 99, "f.zip") == bytes(99)


DEEP = b"}" + b"N" + b"\x85" * 200_000 + b"N" + b"s."


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x80\x02Nr" + struct.pack("<I", 1 << 30) + b".", "takes more than .* of memory"),
        (b"Np134217728\n.", "takes more than .* of memory"),
        (DEEP, "its reader ended with SIG"),
    ],
    ids=["memo", "memo as text", "deep tuples"],
)
def test_bombs_end_the_process_with_limits_only(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "bomb.pkl").write_bytes(data)
    with pytest.raises(DataError, match=message):
        load_plain_pickle(tmp_path / "bomb.pkl")


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
