"""Convert exceptions of file readers into one error, bound what files unpack to, and retry transient I/O errors.

Libraries raise many kinds of exceptions for a damaged or hostile file. `guarded` converts all of them into the error
that the caller names; errors of this package pass unchanged. `allowance` bounds the size of unpacked data.

A missing or malformed file is bad: the reader skips it and records the reason. An input error, a stale handle, too many
open files or missing memory are no property of the file: `patiently` retries, and if the error persists the run ends.
A transient error of a disk therefore never changes results.
"""

from __future__ import annotations

import errno
import json
import time
import zipfile
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

#: Permanent errors of a name or a file.
_LASTING = frozenset(
    {
        *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL, errno.ESPIPE),
        *(errno.EOVERFLOW, errno.ENXIO, errno.EILSEQ),
        # Of writing: a retry gives neither space nor permission.
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EPERM, errno.EEXIST, errno.ENOTEMPTY),
    }
)
_PROBE = 64 << 20


@contextmanager
def guarded(what: object, kind: str, *, error: type[UnseenError] = DataError, advice: str = "") -> Iterator[None]:
    """Convert any exception of another library into an error that names the file and its expected format.

    Args:
        what: the file, for the message.
        kind: what it was read as, such as "a MATLAB file".
        error: raised if the file is at fault.
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
            text = f"cannot read {what}: {found.strerror}"
        elif isinstance(found, json.JSONDecodeError):
            text = f"{what} is not valid JSON: {found.msg} at line {found.lineno}"
        elif isinstance(found, UnicodeDecodeError):
            text = f"{what} cannot be read as {kind}: not UTF-8 text (byte {found.start})"
        else:
            details = ": ".join(filter(None, [type(found).__name__, " ".join(str(found).split())[:200].rstrip(".")]))
            text = f"{what} cannot be read as {kind} ({details})"
        raise error(f"{text}. {advice}".rstrip()) from found


def reader(kind: str, *, error: type[UnseenError] = DataError) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function that reads the file in its first argument with `guarded`.

    Args:
        kind: what the file is read as, such as "a class list".
        error: raised if the file is at fault.
    """

    def decorate(read: Callable[P, T]) -> Callable[P, T]:
        @wraps(read)
        def behind(*arguments: P.args, **options: P.kwargs) -> T:
            with guarded(arguments[0] if arguments else next(iter(options.values())), kind, error=error):
                return read(*arguments, **options)

        return behind

    return decorate


def allowance(size: int) -> int:
    """Return how many bytes a file of `size` bytes may unpack to."""
    return _TIMES * size + _MORE


def read_limited(stream: IO[bytes], limit: int, what: object) -> bytes:
    """Read all of a stream, such as a member of an archive, up to `limit` bytes.

    Raises:
        DataError: there are more.
    """
    pieces: list[bytes] = []
    left = limit
    while piece := stream.read(min(_CHUNK, left + 1)):
        left -= len(piece)
        if left < 0:
            raise DataError(
                f"{what} unpacks to more than {limit:,} bytes, which no file of its size should: is it a bomb?"
            )
        pieces.append(piece)
    return b"".join(pieces)


def read_member(archive: zipfile.ZipFile, member: str | zipfile.ZipInfo) -> bytes:
    """Read a member of a zip archive, up to its `allowance`.

    Raises:
        DataError: it unpacks to more.
        KeyError: there is no such member.
    """
    info = archive.getinfo(member) if isinstance(member, str) else member
    with archive.open(info) as stream:
        return read_limited(stream, allowance(info.compress_size), info.filename)


def patiently(act: Callable[[], T]) -> T:
    """Call `act`, and retry it after errors that may be transient; raise the last error if all attempts fail."""
    for wait in WAITS:
        try:
            return act()
        except (UnseenError, OSError, MemoryError) as error:
            if passing_reason(error) is None:
                raise
        time.sleep(wait)
    return act()


def read_patiently(read: Callable[[], T], what: object) -> T:
    """Call `read` with retries; errors of a bad file are raised unchanged.

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
            "it is not skipped. See to the disk, the mount or the limits, and run the same command to resume."
        ) from error


def passing_reason(error: BaseException | None) -> str | None:
    """Return why an error or one of its causes may be transient; None if it is permanent."""
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
    """Return whether the machine is out of memory, rather than a file requesting an absurd amount."""
    try:
        bytearray(_PROBE)
    except MemoryError:
        return True
    return False
