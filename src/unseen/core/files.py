"""Files of our own: the home folder, writing so that no reader finds a half, and memory maps that stay small."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import secrets
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from unseen.core.errors import DataError, DiskFullError, StoreError, UsageError

_CHOSEN: ContextVar[Path | None] = ContextVar("unseen_home", default=None)


def home(path: str | os.PathLike[str] | None = None) -> Path:
    """The folder to work in: `path`, else what `at_home` has set, else `UNSEEN_HOME`, else the user's data folder."""
    import platformdirs

    if path is not None:
        return Path(path).expanduser()
    if (chosen := _CHOSEN.get()) is not None:
        return chosen
    if named := os.environ.get("UNSEEN_HOME"):
        return Path(named).expanduser()
    return Path(platformdirs.user_data_dir("unseen", appauthor=False))


@contextlib.contextmanager
def at_home(path: Path) -> Iterator[None]:
    """While in force, `home()` is `path`: sources that keep something of their own keep it there."""
    token = _CHOSEN.set(Path(path))
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def write_whole(path: Path, content: bytes | str | Iterable[bytes]) -> None:
    """Write a file under a name nobody else uses, flush it to the disk, and rename it into place.

    Args:
        content: all of it, or its pieces one by one.

    Raises:
        DiskFullError: no room; what was there before is whole.
        StoreError: it cannot be written for another reason.
        UsageError: the path is a folder.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a folder. Give the name of a file in it.")
    data = content.encode() if isinstance(content, str) else content
    pieces = [data] if isinstance(data, bytes) else data
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with aside(path) as temporary, temporary.open("wb") as stream:
            stream.writelines(pieces)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise write_error(path, error) from error


@contextlib.contextmanager
def aside(path: Path) -> Iterator[Path]:
    """A new empty file beside `path`, renamed to it where the block ends well and removed where it does not."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    # Never through a link that somebody has laid there, and with the mode that any new file gets.
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0), 0o666))
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_error(path: Path, error: OSError) -> StoreError:
    """What to say where a file could not be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFullError(f"cannot write {path}: the disk is full. Make room and run the same command to go on.")
    return StoreError(f"cannot write {path}: {error.strerror or error}.")


def map_file(path: Path) -> mmap.mmap | bytes:
    """The bytes of somebody's file, read from the disk as they are looked at; an empty file cannot be mapped.

    Raises:
        DataError: it cannot be opened.
    """
    try:
        with path.open("rb") as stream:
            return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) if stream.seek(0, 2) else b""
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}.") from error


def release_pages(array: Any) -> None:
    """Give the resident pages behind a read-only memory map back to the system; they stay in its page cache.

    Anything else, a map that may be written to among it, is left alone.
    """
    import numpy as np

    base = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:  # it might be a private map, whose changes would be lost
            return
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)
