"""One part file: rows of features with their labels and image indices, in the safetensors format.

Written here rather than by the safetensors library for three reasons: the bytes must not depend on that library's
version, the array must not be copied on the way to the disk, and NumPy must be able to map the file, which
the library's reader does not do. The bytes are those that `safetensors.numpy.save` gives today (a test holds it).

    8 bytes   length of the header, little-endian
    header    JSON: name -> dtype, shape, offsets; padded with blanks to a multiple of 8
    data      index (n,) int64, labels (n,) int64, features (n, d) float16 or float32; little-endian, no gaps

A part without rows has features of shape (0, 0), float32, whatever the model: its bytes cannot depend on whether an
earlier image has told how long a row is.

A part that was written before those in front of it lies loose: a note beside it, `part-00007.json`, is its line of the
manifest until the manifest has reached it.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import time
from dataclasses import asdict, dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from unseen.core.errors import CorruptPartError
from unseen.core.files import Block, write_whole
from unseen.core.guard import read_patiently
from unseen.features.manifest import NOTE, Part, Skipped, part_name

Check = Literal["sha256", "size"]
Reading = Literal["once", "again"]
FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.int64]
Stamp = tuple[int, int, int, int, int]

_NAMES = {np.dtype("<f2"): "F16", np.dtype("<f4"): "F32", np.dtype("<i8"): "I64"}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
_LONGEST_HEADER = 1 << 16
# A file system's clock may stand still for a while: a file that changed within this time could change again unseen.
_SETTLED_NS = 2_000_000_000

# Files that this process has hashed already and found right, by stamp and sha256.
_found_right: set[tuple[Stamp, str]] = set()


def encode_part(features: FloatArray, labels: IntArray, index: IntArray) -> list[Block]:
    """The blocks of a part file. Equal arrays give equal bytes, always."""
    if len(features) == 0:
        features = np.zeros((0, 0), np.float32)
    header: dict[str, Any] = {}
    blocks: list[Block] = []
    end = 0
    # The format wants wide types first, then names in order.
    for name, array in (("index", index), ("labels", labels), ("features", features)):
        data = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        begin, end = end, end + data.nbytes
        header[name] = {"dtype": _NAMES[data.dtype], "shape": list(data.shape), "data_offsets": [begin, end]}
        blocks.append(memoryview(data.reshape(-1).view(np.uint8).data))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little") + text, *blocks]


@dataclass(frozen=True, slots=True)
class LoosePart:
    """A part that the manifest has not reached yet, with the length and type of its rows; 0 and "" if it has none."""

    part: Part
    dim: int
    dtype: str


def note_file(folder: Path, number: int) -> Path:
    return folder / part_name(number).replace(".safetensors", ".json")


def noted(folder: Path) -> set[int]:
    """The numbers of the loose parts in a folder."""
    try:
        names = read_patiently(lambda: [path.name for path in folder.iterdir()], folder)
    except (FileNotFoundError, NotADirectoryError):
        return set()
    return {int(name[5:-5]) for name in names if NOTE.fullmatch(name)}


def save_note(folder: Path, number: int, loose: LoosePart) -> None:
    """Write the note of a part whose file is in place already."""
    write_whole(note_file(folder, number), json.dumps(asdict(loose)))


def load_note(folder: Path, number: int) -> LoosePart | None:
    """The note of a loose part whose file is there in full; None where there is none."""
    try:
        values = json.loads(read_patiently(note_file(folder, number).read_bytes, folder))
        part = values["part"]
        skipped = tuple(Skipped(**image) for image in part["skipped"])
        loose = LoosePart(Part(**{**part, "skipped": skipped}), values["dim"], values["dtype"])
        open_part(folder, loose.part, dim=loose.dim, dtype=loose.dtype, check="size")
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError, CorruptPartError):
        return None
    return loose


@dataclass(frozen=True, slots=True)
class PartFile:
    """A part file that was checked, with its small columns read and its features ready to be mapped.

    Attributes:
        stamp: device, inode, size and times of the file that was checked.
        offset: where the features begin in the file.
    """

    path: Path
    stamp: Stamp
    offset: int
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    labels: IntArray
    index: IntArray

    def map(self) -> FloatArray:
        """The features, memory-mapped and read-only.

        Raises:
            CorruptPartError: the file is gone, or is not the file that was checked.
        """
        with _opened(self.path) as file:
            if _stamp(file) != self.stamp:
                raise CorruptPartError(f"{self.path} has changed since it was opened. Open the features again.")
            if self.shape[0] == 0:
                return np.zeros(self.shape, self.dtype)
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        count = self.shape[0] * self.shape[1]
        return np.frombuffer(pages, self.dtype, count, self.offset).reshape(self.shape)


def open_part(
    folder: Path, part: Part, *, dim: int, dtype: str, check: Check = "sha256", reading: Reading = "once"
) -> PartFile:
    """Open a part file and see that it is the one that the manifest lists.

    Args:
        check: "sha256" compares all bytes; "size" compares sizes, the header and the indices.
        reading: "once" per process reads the bytes for their sha256; "again" reads them whatever was found before.

    Raises:
        CorruptPartError: it is missing, or its bytes are not those that were written.
    """
    return read_patiently(lambda: _read_part(folder / part.file, part, dim, dtype, check, reading), folder / part.file)


def _read_part(path: Path, part: Part, dim: int, dtype: str, check: Check, reading: Reading) -> PartFile:
    with _opened(path) as file:
        stamp = _stamp(file)
        if (size := stamp[2]) != part.bytes:
            raise _corrupt(path, f"it has {size} bytes, the manifest says {part.bytes}")
        if check == "sha256" and (reading == "again" or (stamp, part.sha256) not in _found_right):
            _check_sha256(file, stamp, part.sha256, path)
        shape = (part.rows, dim) if part.rows else (0, 0)
        kind = np.dtype(dtype if part.rows else "float32").newbyteorder("<")
        offset = _check_header(file, path, shape, kind) + 16 * part.rows  # after the indices and the labels
        if offset + kind.itemsize * math.prod(shape) != size:
            raise _corrupt(path, "its header leaves no room for its data, or too much")
        index, labels = _column(file, part.rows), _column(file, part.rows)
    if not np.array_equal(index, _expected_index(part)):
        raise _corrupt(path, "its image indices are not those of the manifest")
    return PartFile(path, stamp, offset, shape, kind, labels.astype(np.int64), index.astype(np.int64))


def _column(file: BufferedReader, rows: int) -> IntArray:
    """The next `rows` whole numbers."""
    return np.frombuffer(file.read(8 * rows), "<i8")


def _expected_index(part: Part) -> IntArray:
    images = np.arange(part.first, part.last + 1, dtype=np.int64)
    return images[~np.isin(images, [image.index for image in part.skipped])] if part.skipped else images


def _check_sha256(file: BufferedReader, stamp: Stamp, expected: str, path: Path) -> None:
    now = time.time_ns()
    found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise _corrupt(path, f"its sha256 is {found[:12]}..., the manifest says {expected[:12]}...")
    if now - max(stamp[3:]) > _SETTLED_NS:
        _found_right.add((stamp, expected))


def _check_header(file: BufferedReader, path: Path, shape: tuple[int, int], kind: np.dtype[Any]) -> int:
    """Where the data begins, after a header that says what it should; leaves `file` there."""
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    try:
        header = json.loads(file.read(min(length, _LONGEST_HEADER)))
        entry = header["features"]
        found = tuple(entry["shape"]), _DTYPES[entry["dtype"]]
        order = [header[name]["data_offsets"][0] for name in ("index", "labels", "features")]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise _corrupt(path, f"its header cannot be read ({type(error).__name__}: {error})") from error
    if found != (shape, kind) or order != [0, 8 * shape[0], 16 * shape[0]]:
        raise _corrupt(path, f"it holds features {found[0]} {found[1]}, the manifest says {shape} {kind}")
    return 8 + length


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
