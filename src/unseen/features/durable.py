"""Files that are either whole or not there.

A file is written aside under a temporary name in its own folder, flushed to the disk, renamed over its final name,
and the rename is flushed too. Whoever is killed on the way leaves the old file, or none, and a temporary file that
nobody reads. No room, no permission and a read-only disk become errors that say what to do.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from unseen.core.errors import DiskFullError, StoreError

TEMPORARY_SUFFIX = ".tmp"

_NO_ROOM = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "a file size limit",
}
_NOT_ALLOWED = {errno.EROFS, errno.EACCES, errno.EPERM}
_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)

Block = bytes | memoryview


def write_whole(path: Path, blocks: Sequence[Block]) -> str:
    """Write `blocks` as the file `path`, replacing what was there, and return their sha256 in hex.

    The caller holds the lock of the folder: one writer at a time uses the temporary name.

    Raises:
        DiskFullError: no room. The temporary file is gone and an older `path` is untouched.
        StoreError: the folder cannot be written.
    """
    aside = path.with_name(f".{path.name}{TEMPORARY_SUFFIX}")
    with explained(path, needed=sum(len(block) for block in blocks)):
        try:
            sha256 = _write_and_sync(aside, blocks)
            aside.replace(path)
        except BaseException:
            with suppress(OSError):
                aside.unlink()
            raise
        sync_folder(path.parent)
    return sha256


def _write_and_sync(path: Path, blocks: Sequence[Block]) -> str:
    sha256 = hashlib.sha256()
    descriptor = os.open(path, _WRITE_FLAGS, 0o666)
    try:
        for block in blocks:
            sha256.update(block)
            rest = memoryview(block)
            while len(rest):
                written = os.write(descriptor, rest)
                if written == 0:
                    raise OSError(errno.ENOSPC, "nothing more could be written", str(path))
                rest = rest[written:]
        # Some file systems find out only here that they have no room.
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return sha256.hexdigest()


def sync_folder(folder: Path) -> None:
    """Flush the names in `folder` (what was created, renamed or removed) to the disk."""
    if os.name == "nt":  # Windows neither needs nor allows it
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create `folder` and what is missing above it, durably.

    Somebody may be removing empty folders above at the same time, so a level that vanishes is made again.
    """
    with explained(folder):
        for _ in range(100):
            try:
                _make_levels(folder)
            except FileNotFoundError:
                continue
            return
        raise StoreError(f"cannot create {folder}: the folders above it keep vanishing. Is something removing them?")


def _make_levels(folder: Path) -> None:
    missing = [folder]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for level in reversed(missing):
        with suppress(FileExistsError):
            level.mkdir()
            sync_folder(level.parent)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "there is a file of that name", str(folder))


@contextmanager
def explained(path: Path, *, needed: int = 0) -> Iterator[None]:
    """Turn an `OSError` on the way to writing `path` into an error that says what to do."""
    try:
        yield
    except OSError as error:
        raise _explanation(error, path, needed) from error


def _explanation(error: OSError, path: Path, needed: int) -> StoreError:
    reason = error.strerror or str(error)
    if error.errno in _NO_ROOM:
        return DiskFullError(
            f"no room to write {path.name} in {path.parent}: {_NO_ROOM[error.errno]} ({reason}); it needs "
            f"{format_size(needed)} and {_free(path.parent)}. Everything written before is whole: make room there, or "
            "choose another folder with --home or UNSEEN_HOME, and run the same command to go on."
        )
    if error.errno in _NOT_ALLOWED:
        return StoreError(
            f"cannot write {path}: {reason}. Make the folder writable for this user, or choose another one with "
            "--home or UNSEEN_HOME."
        )
    return StoreError(f"cannot write {path}: {reason}.")


def _free(folder: Path) -> str:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        return f"{format_size(shutil.disk_usage(folder).free)} is free"
    except OSError:
        return "how much is free cannot be told"


def format_size(size: int) -> str:
    """A number of bytes as a person reads it: `12.3 MB`, in powers of 1000 as disks are sold."""
    if size < 1000:
        return f"{size} B"
    value = float(size)
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        if value < 999.95:
            return f"{value:.1f} {unit}"
    return f"{value / 1000:.1f} TB"
