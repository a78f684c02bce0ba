"""The guard that every reader of somebody's file stands behind: whatever a file does to a reader, one line comes out.

Libraries raise what they trip over in a damaged or hostile file: dozens of kinds of error, some of which are nobody's
business to list. Inside `guarded` all of them become the one error that the caller names, a failing disk becomes an
`UnavailableError`, and errors of ours pass. What a file may unpack to is bounded by `allowance`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import IO, ParamSpec, TypeVar

from unseen.core.errors import DataError, UnavailableError, UnseenError
from unseen.core.patience import passing_reason

P = ParamSpec("P")
T = TypeVar("T")

#: A file may unpack to this many times its size, and this many bytes more: real data stay far below, bombs do not.
_TIMES, _MORE = 200, 64 << 20
_CHUNK = 1 << 20


@contextmanager
def guarded(what: object, kind: str, *, error: type[UnseenError] = DataError, advice: str = "") -> Iterator[None]:
    """Let errors of ours pass, and turn every other into one that names the file and what it should have been.

    Args:
        what: the file, for the message.
        kind: what it was read as, such as "a MATLAB file".
        error: raised where the file is to blame.
        advice: what to do about it.
    """
    try:
        yield
    except UnseenError:
        raise
    except Exception as found:
        if (reason := passing_reason(found)) is not None:
            raise UnavailableError(f"cannot read {what} at present: {reason}. Try again.") from found
        if isinstance(found, FileNotFoundError | IsADirectoryError | NotADirectoryError):
            raise error(f"cannot read {what}: {found.strerror}.{_then(advice)}") from found
        if isinstance(found, json.JSONDecodeError):
            raise error(f"{what} is not valid JSON: {found.msg} at line {found.lineno}.{_then(advice)}") from found
        text = " ".join(str(found).split())[:200].rstrip(".")
        told = f"{type(found).__name__}: {text}" if text else type(found).__name__
        raise error(f"{what} cannot be read as {kind} ({told}).{_then(advice)}") from found


def reader(kind: str, *, error: type[UnseenError] = DataError) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Put a function that reads the file which is its first argument behind the guard.

    Args:
        kind: what the file is read as, such as "a class list".
        error: raised where the file is to blame.
    """

    def decorate(read: Callable[P, T]) -> Callable[P, T]:
        @wraps(read)
        def behind(*arguments: P.args, **options: P.kwargs) -> T:
            with guarded(arguments[0] if arguments else next(iter(options.values())), kind, error=error):
                return read(*arguments, **options)

        return behind

    return decorate


def _then(advice: str) -> str:
    return f" {advice}" if advice else ""


def allowance(size: int) -> int:
    """Bytes that `size` bytes of a file may unpack to."""
    return _TIMES * size + _MORE


def inflate(data: bytes | memoryview, limit: int, what: object) -> bytes:
    """Unpack one zlib stream.

    Raises:
        DataError: it unpacks to more than `limit` bytes, or is damaged.
    """
    unpacked = inflate_start(data, limit + 1, what)
    if len(unpacked) > limit:
        raise _bomb(what, limit)
    return unpacked


def inflate_start(data: bytes | memoryview, count: int, what: object) -> bytes:
    """The first `count` bytes that one zlib stream unpacks to, or all where there are fewer."""
    try:
        return zlib.decompressobj().decompress(data, count)
    except zlib.error as error:
        raise DataError(f"{what} has a damaged compressed part: {error}.") from None


def read_limited(stream: IO[bytes], limit: int, what: object) -> bytes:
    """All of a stream, such as a member of an archive, up to `limit` bytes.

    Raises:
        DataError: there are more.
    """
    pieces: list[bytes] = []
    left = limit
    while piece := stream.read(min(_CHUNK, left + 1)):
        left -= len(piece)
        if left < 0:
            raise _bomb(what, limit)
        pieces.append(piece)
    return b"".join(pieces)


def _bomb(what: object, limit: int) -> DataError:
    return DataError(f"{what} unpacks to more than {limit:,} bytes, which no file of its size should: is it a bomb?")
