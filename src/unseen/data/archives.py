"""Images inside uncompressed tar files and zip files, read without unpacking the archive.

`index_tar` reads an archive from header to header by the standard library and stores name, offset and size of every
file: 25 µs of CPU time per file. The index is stored in `<home>/archives/` with the archive's size and time of change,
and is built again when those differ. After that, an image is one positional read, from any number of threads. A tar
inside a tar, such as ImageNet's training images, is an archive that begins in the middle of a file.
"""

from __future__ import annotations

import json
import os
import tarfile
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from unseen.core.arrays import IntArray
from unseen.core.errors import DataError, StoreError
from unseen.core.files import home, write_whole
from unseen.core.guard import guarded, read_member, reader
from unseen.core.identity import digest
from unseen.data.decode import MAX_BYTES

FORMAT = "unseen-archive/1"

_BLOCK = 512
_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZ": "bzip2", b"\xfd7": "xz", b"(\xb5": "zstd"}


#: Size and time of change, by which an archive is known to be the one that was indexed.
Stamp = tuple[int, int]


@dataclass(frozen=True, eq=False)
class TarIndex:
    """Where the files of an archive lie.

    Attributes:
        path: the file on disk; for an archive inside another, that of the outer one.
        names: of regular files, in the order of the archive; a name may occur twice, and then the last one counts.
        offsets, sizes: of their contents in `path`, in bytes.
    """

    path: Path
    stamp: Stamp
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
        with self.path.open("rb") as stream:
            if _stamp(stream) != self.stamp:
                raise DataError(
                    f"the archive {str(self.path)!r} has changed since it was indexed. Load the dataset again."
                )
            stream.seek(int(self.offsets[i]))
            data = stream.read(size)
        if len(data) < size:
            raise DataError(f"the archive {str(self.path)!r} ends too early: {len(data):,} of {size:,} bytes are there")
        return data

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


def _stamp(stream: BinaryIO) -> Stamp:
    status = os.fstat(stream.fileno())
    return status.st_size, status.st_mtime_ns


def _index(path: Path, start: int, length: int | None, inner: str) -> TarIndex:
    with path.open("rb") as stream:
        stamp = _stamp(stream)
        length = stamp[0] - start if length is None else length
        note = home() / "archives" / f"{digest([str(path.resolve()), start], length=32)}.json"
        state = {"format": FORMAT, "size": stamp[0], "mtime_ns": stamp[1], "length": length}
        rows = _recall(note, state)
        if rows is None:
            rows = _walk(stream, start, start + length, f"{path}, {inner}" if inner else str(path))
            columns = dict(zip(_COLUMNS, rows, strict=True))
            with suppress(StoreError, OSError):  # a read-only home costs time, nothing else
                write_whole(note, json.dumps({**state, "path": str(path), **columns}).encode())
    names, offsets, sizes = rows
    return TarIndex(path, stamp, tuple(names), np.asarray(offsets, np.int64), np.asarray(sizes, np.int64))


_COLUMNS = ("names", "offsets", "sizes")
_Rows = tuple[list[str], list[int], list[int]]


def _recall(note: Path, state: dict[str, object]) -> _Rows | None:
    """Return the stored index of an archive if it is of this very file."""
    try:
        noted = json.loads(note.read_bytes())
        fits = {key: noted[key] for key in state} == state and len({len(noted[column]) for column in _COLUMNS}) == 1
        return (noted["names"], noted["offsets"], noted["sizes"]) if fits else None
    except (OSError, ValueError, KeyError, TypeError):
        return None  # not stored, or damaged: index the archive again


def _walk(stream: BinaryIO, start: int, end: int, shown: str) -> _Rows:
    """Return names, offsets and sizes of the files of an archive that begins at `start` of an open file."""
    stream.seek(start)
    head = stream.read(2)
    if head in _COMPRESSED:
        raise DataError(
            f"{shown} is compressed with {_COMPRESSED[head]}, and single images cannot be read out of the middle of "
            "it. Decompress it once; the plain .tar inside need not be unpacked."
        )
    stream.seek(start)
    found: list[tuple[str, int, int]] = []
    try:
        with tarfile.open(fileobj=stream, mode="r:") as archive:
            while (member := archive.next()) is not None:
                setattr(archive, "members", [])  # noqa: B010 - it would keep every member
                if member.isreg() and not member.issparse():
                    found.append((member.name, member.offset_data, member.size))
            last = archive.offset
    except (tarfile.TarError, ValueError) as error:
        last, reason = end, f" ({error})"
    else:
        reason = ""
    stream.seek(last)
    ending = stream.read(_BLOCK)
    if reason or last + _BLOCK > end or any(ending):  # at damage and at the end of the file it stops without an error
        whole = [name for name, offset, size in found if offset + size <= end]
        where = f"at or after {whole[-1]}" if whole else "before its first file"
        raise DataError(
            f"{shown} is not a tar file, or is damaged or cut off {where}{reason}. Download or copy it again."
        )
    return [row[0] for row in found], [row[1] for row in found], [row[2] for row in found]


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
