"""The home folder, atomic and durable writes, and memory maps.

A file is written under a unique temporary name, flushed to the disk and renamed to its final name; the rename is
flushed too. A killed process leaves the old file, or none, and a temporary file that is never read. A full disk and
missing permission become errors that state what to do.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import http
import http.client
import mmap
import os
import secrets
import shutil
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from unseen.core.errors import DataError, DiskFullError, StoreError, UnseenError, UsageError
from unseen.core.guard import patiently

TEMPORARY_SUFFIX = ".tmp"

Block = bytes | memoryview

_CHOSEN: ContextVar[Path | None] = ContextVar("unseen_home", default=None)
_NO_ROOM = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "a file size limit",
}
_NOT_ALLOWED = {errno.EROFS, errno.EACCES, errno.EPERM}
# Never follow a link, and use the default mode of new files.
_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def home(path: str | os.PathLike[str] | None = None) -> Path:
    """Return the home folder: `path`, else that of `at_home`, else `UNSEEN_HOME`, else the user's data folder."""
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
    """Make `home()` return `path` inside the context."""
    token = _CHOSEN.set(Path(path))
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def write_whole(path: Path, content: Block | str | Iterable[Block], *, flush: bool = True) -> str:
    """Write a file, replacing what was there, and return the sha256 of its bytes in hex.

    Args:
        content: all of it, or its pieces one by one.
        flush: whether it must outlive a power cut; a killed process leaves a whole file either way.

    Raises:
        DiskFullError: no room; what was there before is whole.
        StoreError: it cannot be written for another reason.
        UsageError: the path is a folder.
    """
    data = content.encode() if isinstance(content, str) else content
    pieces = [data] if isinstance(data, bytes | memoryview) else data
    again = isinstance(pieces, Sequence)  # pieces of an iterator cannot be read a second time
    with explained(path, needed=sum(len(piece) for piece in pieces) if again else 0):
        if patiently(path.is_dir):
            raise UsageError(f"{path} is a folder. Give the name of a file in it.")
        _make_folder(path.parent)
        return patiently(lambda: _write_aside(path, pieces, flush)) if again else _write_aside(path, pieces, flush)


def _write_aside(path: Path, pieces: Iterable[Block], flush: bool = True) -> str:
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}{TEMPORARY_SUFFIX}")
    descriptor = os.open(temporary, _WRITE_FLAGS, 0o666)
    try:
        try:
            sha256 = _write_and_sync(descriptor, pieces, path, flush)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    if flush:
        sync_folder(path.parent)
    return sha256


def _write_and_sync(descriptor: int, pieces: Iterable[Block], path: Path, flush: bool) -> str:
    sha256 = hashlib.sha256()
    for piece in pieces:
        sha256.update(piece)
        rest = memoryview(piece)
        while len(rest):
            written = os.write(descriptor, rest)
            if written == 0:
                raise OSError(errno.ENOSPC, "nothing more could be written", str(path))
            rest = rest[written:]
    # Some file systems find out only here that they have no room.
    if flush:
        os.fsync(descriptor)
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

    Another process may remove empty folders above at the same time, so a missing level is created again.
    """
    with explained(folder):
        _make_folder(folder)


def _make_folder(folder: Path) -> None:
    for _ in range(100):
        try:
            patiently(lambda: _make_levels(folder))
        except FileNotFoundError:
            continue
        return
    raise StoreError(f"cannot create {folder}: the folders above it keep vanishing. Is something removing them?")


def _make_levels(folder: Path) -> None:
    missing = [folder] if not folder.is_dir() else []
    while missing and not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for level in reversed(missing):
        with contextlib.suppress(FileExistsError):
            level.mkdir()
            sync_folder(level.parent)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "there is a file of that name", str(folder))


@contextlib.contextmanager
def explained(path: Path, *, needed: int = 0) -> Iterator[None]:
    """Turn an `OSError` while writing `path` into an error with the next step to take."""
    try:
        yield
    except OSError as error:
        raise _explanation(error, path, needed) from error


def _explanation(error: OSError, path: Path, needed: int) -> StoreError:
    reason = error.strerror or str(error)
    if error.errno in _NO_ROOM:
        needs = f"it needs {format_size(needed) if needed else 'a little'} and "
        return DiskFullError(
            f"no room to write {path.name} in {path.parent}: {_NO_ROOM[error.errno]} ({reason}); {needs}"
            f"{_free(path.parent)}. Everything written before is whole: make room there, or "
            "choose another folder with --home or UNSEEN_HOME, and run the same command to resume."
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
        return "the free space is unknown"


def format_size(size: int) -> str:
    """Format a number of bytes, such as `12.3 MB`, in powers of 1000."""
    if size < 1000:
        return f"{size} B"
    value, unit = size / 1000, "kB"
    for larger in ("MB", "GB", "TB"):
        if value >= 999.95:
            value, unit = value / 1000, larger
    return f"{value:.1f} {unit}"


@cache
def read_toml(package: str, name: str) -> dict[str, Any]:
    """Return a table that a package contains as a file; do not change it."""
    return tomllib.loads(files(package).joinpath(name).read_text(encoding="utf-8"))


def map_file(path: Path) -> mmap.mmap | bytes:
    """Map a file into memory; an empty file gives empty bytes.

    Raises:
        DataError: it cannot be opened.
    """
    try:
        with path.open("rb") as stream:
            return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) if stream.seek(0, 2) else b""
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}.") from error


def release_pages(array: object) -> None:
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


# ---- downloads -------------------------------------------------------------------------------------------------------

_CHUNK = 1 << 20
_TIMEOUT_SECONDS = 60


class DownloadError(UnseenError):
    """The download failed, or the file is not the published one."""


@dataclass(frozen=True)
class Checksum:
    """What is published about a file; 0 and "" if unknown.

    Attributes:
        size: in bytes.
        sha256, md5: in hex; a sha256 may be its beginning, as torch puts it into file names.
    """

    size: int = 0
    sha256: str = ""
    md5: str = ""

    def __bool__(self) -> bool:
        return bool(self.sha256 or self.md5)

    def difference(self, path: Path) -> str:
        """Return how a file differs from the published one; "" if it does not."""
        if self.size and path.stat().st_size != self.size:
            return f"{path.stat().st_size:,} instead of {self.size:,} bytes"
        for kind, expected in (("sha256", self.sha256), ("md5", self.md5)):
            if expected:
                with path.open("rb") as stream:
                    found = hashlib.file_digest(stream, kind).hexdigest()
                if not found.startswith(expected):
                    return f"{kind} {found}, not {expected}..."
        return ""


def download(
    url: str, target: Path, checksum: Checksum | None = None, progress: Callable[[int, int], None] | None = None
) -> Path:
    """Download `url` to `target` unless that exists. Two processes do not download the same file at once.

    A download that breaks off resumes if the checksum of the file is known; otherwise it starts again.

    Args:
        progress: called with the received bytes and the size of the file, 0 if it is unknown.

    Raises:
        DownloadError: the address does not answer, the download breaks off, or the file differs from the published one.
    """
    from filelock import FileLock

    if not url.startswith(("https://", "http://")):
        raise DownloadError(f"{url} is not an address that can be fetched.")
    known = checksum or Checksum()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(target.name + ".lock")):
            if not target.is_file():
                part = target.with_name(target.name + ".part")
                _fetch(url, part, known, progress)
                if difference := known.difference(part):
                    part.unlink()
                    raise DownloadError(f"{url} gave another file than the published one: {difference}.")
                part.replace(target)
    except urllib.error.HTTPError as error:
        raise DownloadError(f"{url} answers {error.code} ({error.reason}).") from error
    except (urllib.error.URLError, http.client.HTTPException) as error:
        raise DownloadError(f"{url} cannot be reached ({getattr(error, 'reason', error)}).") from error
    except OSError as error:
        raise DownloadError(f"{url} could not be fetched to {target.parent} ({error}).") from error
    return target


def _fetch(url: str, part: Path, known: Checksum, progress: Callable[[int, int], None] | None) -> None:
    """Download a file, or the rest of it after the bytes of `part`."""
    done = part.stat().st_size if known and part.is_file() else 0
    if done and done == known.size:
        return
    headers = {"User-Agent": "unseen"} | ({"Range": f"bytes={done}-"} if done else {})
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - http(s) by the caller's check
    with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:  # noqa: S310
        resumed = done > 0 and response.status == http.HTTPStatus.PARTIAL_CONTENT
        rest = int(response.headers.get("Content-Length") or 0)
        with part.open("ab" if resumed else "wb") as file:
            start = file.tell()
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                if progress is not None:
                    progress(file.tell(), start + rest if rest else 0)
            size, expected = file.tell(), start + rest if rest else file.tell()
            os.fsync(file.fileno())
    if size != expected:
        if not known:
            part.unlink()
        raise DownloadError(f"{url} broke off after {size} of {expected} bytes.")
