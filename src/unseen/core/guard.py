"""The guard that every reader of somebody's file stands behind, and patience with what fails only for a while.

Libraries raise what they trip over in a damaged or hostile file: dozens of kinds of error, some of which are nobody's
business to list. Inside `guarded` all of them become the one error that the caller names, and errors of ours pass. What
a file may unpack to is bounded by `allowance`.

A file that is gone or whose bytes make no sense is bad: whoever reads it skips it and says so. An input error, a stale
handle, too many open files or no memory say nothing about the file: `patiently` tries the same act again a little
later, and where it still fails the work ends. So a hiccup of a disk never becomes data.
"""

from __future__ import annotations

import errno
import json
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import IO, ParamSpec, TypeVar

from unseen.core.errors import DataError, UnavailableError, UnseenError

P = ParamSpec("P")
T = TypeVar("T")

#: A file may unpack to this many times its size, and this many bytes more: real data stay far below, bombs do not.
_TIMES, _MORE = 200, 64 << 20
_CHUNK = 1 << 20

#: Seconds before the second, third and fourth attempt.
WAITS = (0.05, 0.3, 1.0)

#: What the system says of a name or a file, today and tomorrow.
_LASTING = frozenset(
    {
        *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL, errno.ESPIPE),
        *(errno.EOVERFLOW, errno.ENXIO, errno.EILSEQ),
        # Of writing: waiting makes no room and gives no leave.
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EPERM, errno.EEXIST, errno.ENOTEMPTY),
    }
)
_PROBE = 64 << 20


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


def read_member(archive: zipfile.ZipFile, member: str | zipfile.ZipInfo) -> bytes:
    """All of a member of a zip archive, as far as `allowance` goes.

    Raises:
        DataError: it unpacks to more.
        KeyError: there is no such member.
    """
    info = archive.getinfo(member) if isinstance(member, str) else member
    with archive.open(info) as stream:
        return read_limited(stream, allowance(info.compress_size), info.filename)


def _bomb(what: object, limit: int) -> DataError:
    return DataError(f"{what} unpacks to more than {limit:,} bytes, which no file of its size should: is it a bomb?")


def patiently(act: Callable[[], T]) -> T:
    """What `act` gives, tried again where it fails for a reason that may pass; its last error where all tries fail."""
    for wait in WAITS:
        try:
            return act()
        except (UnseenError, OSError, MemoryError) as error:
            if passing_reason(error) is None:
                raise
        time.sleep(wait)
    return act()


def read_patiently(read: Callable[[], T], what: object) -> T:
    """What `read` gives; whatever it raises of a bad file comes through.

    Args:
        what: the file, for the message.

    Raises:
        UnavailableError: a disk, a mount or the machine fails, not the file, and went on failing.
    """
    try:
        return patiently(read)
    except (UnseenError, OSError, MemoryError) as error:
        reason = passing_reason(error)
        if reason is None or isinstance(error, UnavailableError):
            raise
        raise UnavailableError(
            f"{what} cannot be read at present: {reason}, {len(WAITS) + 1} times. That says nothing about the file, so "
            "it is not skipped. See to the disk, the mount or the limits, and run the same command to go on."
        ) from error


def passing_reason(error: BaseException | None) -> str | None:
    """Why an error may pass, by what it was raised from; None where it lasts."""
    known: set[int] = set()
    while error is not None and id(error) not in known:
        known.add(id(error))
        if isinstance(error, MemoryError):
            return "the memory is used up" if _memory_is_short() else None
        if isinstance(error, OSError) and error.errno is not None and error.errno not in _LASTING:
            return (error.strerror or str(error)).lower()
        error = error.__cause__ or error.__context__
    return None


def _memory_is_short() -> bool:
    """Whether it is the machine that has no memory, and not a file that asked for more than anybody has."""
    try:
        bytearray(_PROBE)
    except MemoryError:
        return True
    return False
