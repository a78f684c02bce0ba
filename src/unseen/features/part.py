"""One part file: rows of features with their labels and image indices, in the safetensors format.

Written here rather than by the safetensors library for three reasons: the bytes must not depend on that library's
version, the array must not be copied on the way to the disk, and NumPy must be able to map the file, which
the library's reader does not do. The bytes equal those of `safetensors.numpy.save` (a test compares them).

    8 bytes   length of the header, little-endian
    header    JSON: name -> dtype, shape, offsets; padded with blanks to a multiple of 8
    data      index (n,) int64, labels (n,) int64, features (n, d) float16 or float32; little-endian, no gaps

A part without rows has features of shape (0, 0) in float32 for every model: its bytes cannot depend on whether an
earlier part has rows.

Until the entry is complete, a description beside each part, `part-00007.json`, holds its checksum, the images it
covers and those it skipped. Parts are therefore independent: any process can add any of them in any order.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from unseen.core.arrays import FloatingArray, IntArray
from unseen.core.errors import CorruptPartError, StoreError
from unseen.core.files import Block, write_whole
from unseen.core.guard import read_patiently
from unseen.features.manifest import Count, Dtype, Manifest, Part, Skipped, load_manifest, part_name

Check = Literal["sha256", "size", "again"]
Stamp = tuple[int, int, int, int, int]

DESCRIPTION = re.compile(r"part-(\d{5,})\.json")
_NAMES = {np.dtype("<f2"): "F16", np.dtype("<f4"): "F32"}
_ADDRESS = re.compile(r" (?:object )?at 0x[0-9a-fA-F]+")
# A file system's clock may stand still for a while: a file that changed within this time could change again unnoticed.
_SETTLED_NS = 2_000_000_000

# Files whose sha256 this process has verified, by stamp and sha256.
_verified: set[tuple[Stamp, str]] = set()


@dataclass(frozen=True, eq=False)
class PartRows:
    """The content of one part.

    Attributes:
        first: the first image of the part.
        features: (n, d), float16 or float32.
        labels: (n,) class index per row.
        index: (n,) position of each row's image in the split, ascending.
        skipped: the images of the part that have no row.
    """

    first: int
    features: FloatingArray
    labels: IntArray
    index: IntArray
    skipped: Sequence[Skipped] = ()


#: The rows of one part, by layer.
PartLayers = dict[str, PartRows]


class Description(msgspec.Struct, frozen=True):
    """A part of an unfinished entry, with the length and type of its rows; 0 and "" if it has none."""

    part: Part
    dim: Count
    dtype: Dtype


def encode_part(features: FloatingArray, labels: IntArray, index: IntArray) -> list[Block]:
    """Return the blocks of a part file. Equal arrays always give equal bytes."""
    if len(features) == 0:
        features = np.zeros((0, 0), np.float32)
    arrays = [np.ascontiguousarray(each, each.dtype.newbyteorder("<")) for each in (index, labels, features)]
    blocks = [memoryview(each.reshape(-1).view(np.uint8).data) for each in arrays]
    return [_header(features.shape, arrays[2].dtype), *blocks]


def _header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    """Return the beginning of the file of a part whose features have this shape and type."""
    rows, end = shape[0], 0
    header: dict[str, Any] = {}
    # The format requires wide types first, then names in order.
    for name, kind, own in (("index", "I64", (rows,)), ("labels", "I64", (rows,)), ("features", _NAMES[dtype], shape)):
        begin, end = end, end + math.prod(own) * (8 if kind == "I64" else dtype.itemsize)
        header[name] = {"dtype": kind, "shape": list(own), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def write_part_file(folder: Path, rows: PartRows, manifest: Manifest) -> Description:
    """Write a part file atomically and return its description. Equal rows give equal bytes, so no lock is needed.

    Raises:
        StoreError: the rows are not those of the part, or differ in length or type from those of other parts.
        DiskFullError: the disk is full; every other part is intact.
    """
    _check_arrays(rows)
    dim, dtype = (rows.features.shape[1], rows.features.dtype.name) if len(rows.features) else (0, "")
    if dtype and manifest.dtype and (dim, dtype) != (manifest.dim, manifest.dtype):
        raise StoreError(f"rows of {dim} {dtype} do not match those of other parts: {manifest.dim} {manifest.dtype}.")
    last = min(rows.first + manifest.part_size, manifest.total) - 1
    # A message such as "cannot identify <BytesIO object at 0x7f12>" would differ between runs.
    skipped = tuple(
        Skipped(int(image.index), image.name, _ADDRESS.sub("", image.reason))
        for image in sorted(rows.skipped, key=lambda image: image.index)
    )
    _check_images(rows.first, last, rows.index, skipped)
    path = folder / part_name(rows.first // manifest.part_size)
    blocks = encode_part(rows.features, rows.labels, rows.index)
    size, sha256 = sum(len(block) for block in blocks), write_whole(path, blocks)
    part = Part(path.name, rows.first, last, rows=len(rows.features), bytes=size, sha256=sha256, skipped=skipped)
    return Description(part, dim, dtype)


def description_file(folder: Path, part: Part) -> Path:
    return folder / part.file.replace(".safetensors", ".json")


def described_parts(folder: Path) -> list[int]:
    """Return the numbers of the parts in `folder` that have a description, in order."""
    try:
        names = read_patiently(lambda: [path.name for path in folder.iterdir()], folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(match[1]) for match in map(DESCRIPTION.fullmatch, names) if match)


def save_description(folder: Path, description: Description) -> None:
    """Write the description of a part whose file is in place."""
    write_whole(description_file(folder, description.part), msgspec.json.encode(description))


def load_description(folder: Path, number: int) -> Description | None:
    """Return the description of a part; None if it cannot be read or describes another part."""
    path = folder / f"part-{number:05d}.json"
    try:
        found = msgspec.json.decode(read_patiently(path.read_bytes, path), type=Description)
    except (FileNotFoundError, ValueError, msgspec.MsgspecError):
        return None
    return found if found.part.file == part_name(number) else None


def find_parts(folder: Path) -> Manifest | None:
    """Return the manifest of an entry, including the described parts if it is not complete; None without a manifest."""
    manifest = load_manifest(folder)
    if manifest is None or manifest.complete:
        return manifest
    listed = {part.first: Description(part, manifest.dim, manifest.dtype) for part in manifest.parts}
    described = {}
    for number in described_parts(folder):
        found = load_description(folder, number)
        if found is not None and found.part.first == number * manifest.part_size:
            described[found.part.first] = found
    return with_parts(manifest, list((described | listed).values()))


def with_parts(manifest: Manifest, described: Sequence[Description]) -> Manifest:
    """Return the manifest with these parts, in the order of their images."""
    ordered = sorted(described, key=lambda each: each.part.first)
    dim, dtype = next(((each.dim, each.dtype) for each in ordered if each.part.rows), (0, ""))
    return replace(manifest, parts=tuple(each.part for each in ordered), dim=dim, dtype=dtype)


def missing_parts(folder: Path, manifest: Manifest) -> list[int]:
    """Return the first image of each part that is neither listed nor described."""
    if manifest.complete:
        return []
    described = {number * manifest.part_size for number in described_parts(folder)}
    return [first for first in manifest.missing if first not in described]


@dataclass(frozen=True, slots=True)
class PartFile:
    """A verified part file, with its small columns read and its features ready to be mapped.

    Attributes:
        stamp: device, inode, size and times of the file at the time of the check.
        offset: position of the features in the file.
    """

    path: Path
    stamp: Stamp
    offset: int
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    labels: IntArray
    index: IntArray

    def map(self) -> FloatingArray:
        """Return the features, memory-mapped and read-only.

        Raises:
            CorruptPartError: the file is missing, or is not the file that was verified.
        """
        with _opened(self.path) as file:
            if _stamp(file) != self.stamp:
                raise CorruptPartError(f"{self.path} has changed since it was opened. Open the features again.")
            if self.shape[0] == 0:
                return np.zeros(self.shape, self.dtype)
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        count = self.shape[0] * self.shape[1]
        return np.frombuffer(pages, self.dtype, count, self.offset).reshape(self.shape)


def open_part(folder: Path, part: Part, *, dim: int, dtype: str, check: Check = "sha256") -> PartFile:
    """Open a part file and verify that it is the one that `part` describes.

    Args:
        check: "sha256" compares all bytes, once per process and file; "again" compares them even if this process has
            done so before; "size" compares the size, the header and the indices only.

    Raises:
        CorruptPartError: it is missing, or its bytes differ from those that were written.
    """
    return read_patiently(lambda: _read_part(folder / part.file, part, dim, dtype, check), folder / part.file)


def _read_part(path: Path, part: Part, dim: int, dtype: str, check: Check) -> PartFile:
    with _opened(path) as file:
        stamp = _stamp(file)
        if (size := stamp[2]) != part.bytes:
            raise _corrupt(path, f"it has {size} bytes, the manifest says {part.bytes}")
        if check == "again" or (check == "sha256" and (stamp, part.sha256) not in _verified):
            _check_sha256(file, stamp, part.sha256, path)
        shape = (part.rows, dim) if part.rows else (0, 0)
        kind = np.dtype(dtype if part.rows else "float32").newbyteorder("<")
        header = _header(shape, kind)
        file.seek(0)
        offset = len(header) + 16 * part.rows  # after the indices and the labels
        if file.read(len(header)) != header or offset + kind.itemsize * math.prod(shape) != size:
            raise _corrupt(path, f"its header and size are not those of features {shape} {kind}")
        index, labels = (np.frombuffer(file.read(8 * part.rows), "<i8") for _ in range(2))
    images = np.arange(part.first, part.last + 1, dtype=np.int64)
    if not np.array_equal(index, images[~np.isin(images, [image.index for image in part.skipped])]):
        raise _corrupt(path, "its image indices are not those of the manifest")
    return PartFile(path, stamp, offset, shape, kind, labels.astype(np.int64), index.astype(np.int64))


def _check_sha256(file: BufferedReader, stamp: Stamp, expected: str, path: Path) -> None:
    now = time.time_ns()
    found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise _corrupt(path, f"its sha256 is {found[:12]}..., the manifest says {expected[:12]}...")
    if now - max(stamp[3:]) > _SETTLED_NS:
        _verified.add((stamp, expected))


def _check_arrays(rows: PartRows) -> None:
    features = rows.features
    if features.ndim != 2 or features.dtype.name not in ("float16", "float32"):
        raise StoreError(f"features must be (n, d) of float16 or float32, not {features.dtype} {features.shape}.")
    for name, array in (("labels", rows.labels), ("index", rows.index)):
        if array.shape != (len(features),) or array.dtype.name != "int64":
            raise StoreError(f"{name} must be ({len(features)},) of int64, not {array.dtype} {array.shape}.")


def _check_images(first: int, last: int, index: IntArray, skipped: Sequence[Skipped]) -> None:
    """Raise `StoreError` unless each image of the part occurs once: with a row, in order, or as skipped."""
    ascending = bool(np.all(index[1:] > index[:-1]))
    covered = np.sort(np.concatenate([index, np.array([image.index for image in skipped], np.int64)]))
    if not ascending or not np.array_equal(covered, np.arange(first, last + 1)):
        span = f"{covered[0]} to {covered[-1]}" if len(covered) else "none"
        raise StoreError(
            f"the part must cover each of the images {first} to {last} once, with ascending indices or as skipped; "
            f"it has {len(index)} rows and {len(skipped)} skipped images ({span})."
        )


def _opened(path: Path) -> BufferedReader:
    try:
        return path.open("rb")
    except OSError as error:
        raise _corrupt(path, f"it cannot be opened ({error.strerror or error})") from error


def _stamp(file: BufferedReader) -> Stamp:
    status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _corrupt(path: Path, reason: str) -> CorruptPartError:
    return CorruptPartError(
        f"{path} is not the file that was written: {reason}. Remove the entry with "
        f"`unseen features rm {path.parent.name}` and extract again."
    )
