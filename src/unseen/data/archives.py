"""Images inside uncompressed tar files and zip files, read without unpacking the archive.

`index_tar` reads an archive from header to header and stores name, offset and size of every file: about 9 µs per file
once the headers are in memory, so the disk decides. The index is stored in `<home>/archives/` with the archive's size
and time of change, and is built again when those differ. After that, an image is one positional read, from any number
of threads. A tar inside a tar, such as ImageNet's training images, is an archive that begins in the middle of a file.

Plain headers, which is all that ImageNet's archives have, are read here; any other archive (long names, pax records,
huge sizes) is read by the standard library, which knows every dialect and takes four times as long.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
import weakref
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from unseen.core.arrays import IntArray
from unseen.core.errors import DataError, StoreError
from unseen.core.files import home, write_whole
from unseen.core.guard import guarded, read_member, reader
from unseen.core.identity import digest
from unseen.data.decode import MAX_BYTES

FORMAT = "unseen-archive/1"

_BLOCK = 512
_REGULAR, _FOLDER = (b"0", b"\0"), b"5"
_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZ": "bzip2", b"\xfd7": "xz", b"(\xb5": "zstd"}
_OPEN_AT_ONCE = 64  # images come class by class, so few archives are in use at a time


@dataclass(frozen=True)
class TarStamp:
    """By which an archive is known to be the one that was indexed."""

    size: int
    mtime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> TarStamp:
        return cls(status.st_size, status.st_mtime_ns)


@dataclass(frozen=True, eq=False)
class TarIndex:
    """Where the files of an archive lie.

    Attributes:
        path: the file on disk; for an archive inside another, that of the outer one.
        names: of regular files, in the order of the archive; a name may occur twice, and then the last one counts.
        offsets, sizes: of their contents in `path`, in bytes.
    """

    path: Path
    stamp: TarStamp
    names: tuple[str, ...]
    offsets: IntArray
    sizes: IntArray

    def __len__(self) -> int:
        return len(self.names)

    def read(self, i: int) -> bytes:
        """Read the contents of file `i`.

        Raises:
            DataError: it is too large, or the archive has changed since it was indexed.
            OSError: the archive cannot be read.
        """
        size = int(self.sizes[i])
        if size > MAX_BYTES:
            raise DataError(f"a file of {size:,} bytes; the limit is {MAX_BYTES:,}")
        return _opened(str(self.path), self.stamp).read(int(self.offsets[i]), size)

    def nested(self, i: int) -> TarIndex:
        """Return the index of file `i`, which is itself a tar file."""
        return _index(self.path, int(self.offsets[i]), int(self.sizes[i]), self.names[i])


@reader("a tar file")
def index_tar(path: Path) -> TarIndex:
    """Return the index of an archive, from the stored index or from its headers.

    Raises:
        DataError: it is compressed, cut off, or not a tar file.
    """
    return _index(path, 0, None, "")


class _Descriptor:
    """An open archive. It is closed when no thread reads from it any more."""

    def __init__(self, path: str) -> None:
        self.number = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        self._close = weakref.finalize(self, os.close, self.number)
        self.stamp = TarStamp.of(os.fstat(self.number))
        self.path = path

    def read(self, offset: int, size: int) -> bytes:
        data = os.pread(self.number, size, offset)
        while len(data) < size:  # a read may be cut short, by a signal or at 2 GiB
            more = os.pread(self.number, size - len(data), offset + len(data))
            if not more:
                raise DataError(f"the archive {self.path!r} ends too early: {len(data):,} of {size:,} bytes are there")
            data += more
        return data


@lru_cache(maxsize=_OPEN_AT_ONCE)
def _opened(path: str, stamp: TarStamp) -> _Descriptor:
    descriptor = _Descriptor(path)
    if descriptor.stamp != stamp:
        raise DataError(f"the archive {path!r} has changed since it was indexed. Load the dataset again.")
    return descriptor


def _index(path: Path, start: int, length: int | None, inner: str) -> TarIndex:
    shown = f"{path}, {inner}" if inner else str(path)
    try:
        descriptor = _Descriptor(str(path))
    except OSError as error:
        raise DataError(f"cannot open the archive {shown}: {error.strerror}.") from error
    length = descriptor.stamp.size - start if length is None else length
    note = home() / "archives" / f"{digest([str(path.resolve()), start], length=32)}.json"
    rows = _recall(note, descriptor.stamp, length)
    if rows is None:
        rows = _walk(descriptor, start, length, shown)
        _keep(note, path, descriptor.stamp, length, rows)
    names, offsets, sizes = rows
    return TarIndex(path, descriptor.stamp, tuple(names), np.asarray(offsets, np.int64), np.asarray(sizes, np.int64))


_Rows = tuple[list[str], list[int], list[int]]


def _recall(note: Path, stamp: TarStamp, length: int) -> _Rows | None:
    """Return the stored index of an archive if it is of this very file."""
    try:
        noted = json.loads(note.read_bytes())
        known = [noted["format"], noted["size"], noted["mtime_ns"], noted["length"]]
        rows: _Rows = noted["names"], noted["offsets"], noted["sizes"]
        fits = known == [FORMAT, stamp.size, stamp.mtime_ns, length] and len({len(column) for column in rows}) == 1
    except (OSError, ValueError, KeyError, TypeError):
        return None  # not stored, or damaged: index the archive again
    return rows if fits else None


def _keep(note: Path, path: Path, stamp: TarStamp, length: int, rows: _Rows) -> None:
    names, offsets, sizes = rows
    archive = {"path": str(path), "size": stamp.size, "mtime_ns": stamp.mtime_ns, "length": length}
    content: dict[str, Any] = {"format": FORMAT, **archive, "names": names, "offsets": offsets, "sizes": sizes}
    # A stored index only saves time: images can be read with a full or read-only disk, too.
    with suppress(StoreError):
        write_whole(note, json.dumps(content, separators=(",", ":")))


def _walk(file: _Descriptor, start: int, length: int, shown: str) -> _Rows:
    """Return names, offsets and sizes, read header by header."""
    end = start + length
    head = os.pread(file.number, 2, start)
    if head in _COMPRESSED:
        raise DataError(
            f"{shown} is compressed with {_COMPRESSED[head]}, and single images cannot be read out of the middle of "
            "it. Decompress it once; the plain .tar inside need not be unpacked."
        )
    names: list[str] = []
    offsets: list[int] = []
    sizes: list[int] = []
    position = start
    while True:
        header = os.pread(file.number, _BLOCK, position) if position + _BLOCK <= end else b""
        if len(header) < _BLOCK:
            raise _cut_off(shown, names)
        kind = header[156:157]
        if not header[0] and not any(header):
            return names, offsets, sizes
        size = _octal(header[124:136])
        if not _is_whole(header):
            what = (
                "is not a tar file" if position == start else f"is damaged after {names[-1] if names else 'a folder'}"
            )
            raise DataError(f"{shown} {what}. Download or copy it again.")
        if size is None or (kind not in _REGULAR and kind != _FOLDER):
            return _walk_any(file, start, length, shown)
        if position + _BLOCK + size > end:
            raise _cut_off(shown, [*names, _name(header)])
        name = _name(header)
        if kind != _FOLDER and not name.endswith("/"):
            names.append(name)
            offsets.append(position + _BLOCK)
            sizes.append(size)
        position += _BLOCK + (size + _BLOCK - 1) // _BLOCK * _BLOCK


def _cut_off(shown: str, names: list[str]) -> DataError:
    where = f"at or after {names[-1]}" if names else "before its first file"
    return DataError(f"{shown} is cut off {where}: an unfinished download? Fetch it again.")


def _octal(field: bytes) -> int | None:
    """Return an octal number of a header; None if it is written in another way."""
    try:
        return int(field.rstrip(b"\0 ") or b"0", 8)
    except ValueError:
        return None


def _is_whole(header: bytes) -> bool:
    """Return whether the header's checksum is right; its own field counts as eight spaces."""
    return sum(header) - sum(header[148:156]) + 8 * 32 == _octal(header[148:156].strip(b"\0 "))


def _name(header: bytes) -> str:
    name = header[:100].partition(b"\0")[0]
    if header[257:263] == b"ustar\0":  # GNU's dialect keeps other things in the place of the prefix
        prefix = header[345:500].partition(b"\0")[0]
        name = prefix + b"/" + name if prefix else name
    return name.decode("utf-8", "surrogateescape")


class _Window(io.RawIOBase):
    """A part of an open file, as a file."""

    def __init__(self, file: _Descriptor, start: int, length: int) -> None:
        self._file, self._start, self._length, self._position = file, start, length, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._length}[whence]
        self._position = max(base + offset, 0)
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        left = max(self._length - self._position, 0)
        wanted = left if size is None or size < 0 else min(size, left)
        data = os.pread(self._file.number, wanted, self._start + self._position)
        self._position += len(data)
        return data


def _walk_any(file: _Descriptor, start: int, length: int, shown: str) -> _Rows:
    """Return the same for archives with other than plain headers, by the standard library."""
    try:
        with tarfile.open(fileobj=_Window(file, start, length), mode="r:") as archive:
            found = [member for member in archive if member.isreg() and not member.issparse()]
            ending = os.pread(file.number, _BLOCK, start + archive.offset)
    except (tarfile.TarError, OSError, ValueError) as error:
        raise DataError(f"{shown} cannot be read as a tar file: {error}. Download or copy it again.") from error
    if len(ending) < _BLOCK or any(ending) or archive.offset + _BLOCK > length:  # there it stops at damage unasked
        raise _cut_off(shown, [member.name for member in found])
    return (
        [member.name for member in found],
        [start + member.offset_data for member in found],
        [member.size for member in found],
    )


def read_zipped(archive: zipfile.ZipFile, member: str | zipfile.ZipInfo) -> bytes:
    """Return the content of a member of a zip archive.

    Raises:
        DataError: it is missing, too large, damaged or encrypted.
    """
    with guarded(getattr(member, "filename", member), "a file of its archive", advice="It is damaged or encrypted."):
        info = archive.getinfo(member) if isinstance(member, str) else member
        if info.file_size > MAX_BYTES:
            raise DataError(f"a file of {info.file_size:,} bytes; the limit is {MAX_BYTES:,}")
        return read_member(archive, info)
