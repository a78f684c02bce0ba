"""MATLAB files, version 5 and 7.3 (HDF5), as plain arrays and lists of strings; nothing else is let in.

Differs:    HDF5 stores arrays with their axes reversed: they are turned back, so that both versions look as they do in
            MATLAB. Structures, objects and function handles are refused without being read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError, MissingExtraError
from unseen.core.files import map_file
from unseen.core.guard import allowance, guarded, inflate, inflate_start

Variable = npt.NDArray[Any] | list[str]

_HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"


def read_matlab(path: Path, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Variable]:
    """Read the named variables of a MATLAB file: arrays in MATLAB's shape, cells of strings as lists.

    Raises:
        DataError: the file is missing, damaged or cut short, lacks a required variable, or one is not a plain array.
    """
    wanted = (*required, *optional)
    with guarded(path, "a MATLAB file", advice="It is damaged or was cut short: copy it again."):
        data = memoryview(map_file(path))
        modern = _HDF5_MAGIC in (bytes(data[:8]), bytes(data[512:520]))
        found = _read_hdf5(path, wanted) if modern else _read_v5(data, path, wanted)
    if missing := [name for name in required if name not in found]:
        raise DataError(f"{path} has no variable {missing[0]!r}. It has: {', '.join(sorted(found)) or 'none of use'}.")
    return found


def _read_v5(data: memoryview, path: Path, names: tuple[str, ...]) -> dict[str, Variable]:
    return {name: _plain(path, name, value) for name, value in read_variables(data, names, path).items()}


def _plain(path: Path, name: str, value: Value) -> Variable:
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, str):
        return [value.strip()]
    strings = []
    for cell in value:
        if isinstance(cell, np.ndarray) and not cell.size:
            cell = ""
        if isinstance(cell, dict):
            raise DataError(f"{path}: variable {name!r} is a structure; numbers and cells of strings are accepted.")
        if not isinstance(cell, str):
            raise DataError(f"{path}: variable {name!r} holds a {type(cell).__name__}; cells of strings are accepted.")
        strings.append(cell)
    return strings


def _read_hdf5(path: Path, names: tuple[str, ...]) -> dict[str, Variable]:
    try:
        import h5py
    except ImportError:
        raise MissingExtraError("h5py, which reads MATLAB 7.3 files,", "zsl") from None
    found: dict[str, Variable] = {}
    with h5py.File(path, "r") as file:
        for name in names:
            link = file.get(name, getlink=True)
            if link is None:
                continue
            if not isinstance(link, h5py.HardLink):
                raise DataError(f"{path}: variable {name!r} is in another file, which is not followed.")
            item = file[name]
            if not isinstance(item, h5py.Dataset):
                raise DataError(f"{path}: variable {name!r} is a structure; numbers and cells of strings are accepted.")
            if item.external or item.is_virtual:
                raise DataError(f"{path}: the values of {name!r} are in another file, which is not followed.")
            if item.nbytes > allowance(path.stat().st_size):
                raise DataError(
                    f"{path}: {name!r} would be {item.nbytes:,} bytes, which no file of its size should be."
                )
            if h5py.check_ref_dtype(item.dtype) is not None:
                found[name] = [_hdf5_string(path, name, file[reference]) for reference in item[()].T.ravel(order="F")]
            elif item.dtype.kind in "fiub":
                found[name] = np.asarray(item[()]).T
            else:
                raise DataError(f"{path}: variable {name!r} is of type {item.dtype}; numbers are accepted.")
    return found


def _hdf5_string(path: Path, name: str, item: Any) -> str:
    codes = np.asarray(item[()])
    if codes.dtype.kind != "u":
        raise DataError(f"{path}: a cell of {name!r} holds {codes.dtype}, not a string.")
    if item.attrs.get("MATLAB_empty", 0):
        return ""
    return "".join(map(chr, codes.T.ravel(order="F")))


#: Rows of a structure: field to value. Cells come as lists, texts as strings (or lists of their rows).
Value = npt.NDArray[Any] | str | list[Any]

_MATRIX, _COMPRESSED = 14, 15
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_ENCODINGS = {16: "utf-8", 17: "utf-16", 18: "utf-32"}
_CELL, _STRUCT, _CHAR = 1, 2, 4
_NUMERIC = range(6, 16)
_REFUSED = {3: "an object", 5: "a sparse array", 16: "a function handle", 17: "an object"}
_COMPLEX = 0x08
_DEEPEST = 8
_HEAD_BYTES = 4096


@dataclass
class _Bytes:
    """A stretch of a file that is read from front to back."""

    data: memoryview
    order: str
    what: object
    place: int = 0

    def take(self, count: int) -> memoryview:
        if count < 0 or self.place + count > len(self.data):
            raise DataError(f"{self.what} is damaged or was cut short: copy it again.")
        piece = self.data[self.place : self.place + count]
        self.place += count
        return piece

    def element(self) -> tuple[int, memoryview]:
        """Return type and data of the next element."""
        word, size = np.frombuffer(self.take(8), f"{self.order}u4").tolist()
        if word >> 16:  # a short element: type and size share a word, the data is in the other
            kind, size = word & 0xFFFF, word >> 16
            if size > 4:
                raise DataError(f"{self.what} is damaged: a short element of {size} bytes.")
            return kind, self.data[self.place - 4 : self.place - 4 + size]
        data = self.take(size)
        if word != _COMPRESSED:
            self.place = min(len(self.data), self.place + -size % 8)
        return word, data

    def inner(self, data: memoryview) -> _Bytes:
        return _Bytes(data, self.order, self.what)

    def numbers(self) -> npt.NDArray[Any]:
        kind, data = self.element()
        if kind not in _NUMBERS:
            raise DataError(f"{self.what} is damaged: type {kind} where numbers should be.")
        dtype = np.dtype(f"{self.order}{_NUMBERS[kind]}")
        return np.frombuffer(data[: len(data) // dtype.itemsize * dtype.itemsize], dtype)


@dataclass(frozen=True)
class _Head:
    """What an array says of itself before its values."""

    kind: int
    is_complex: bool
    shape: tuple[int, ...]
    name: str

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=object))


def read_variables(data: memoryview, names: tuple[str, ...], what: object) -> dict[str, Value]:
    """Read the named variables of a file; others are not unpacked.

    Args:
        data: the whole file, mapped or read.
        what: the file, for messages.

    Raises:
        DataError: it is no such file, damaged, unpacks to more than it should, or holds something else than values.
    """
    mark = bytes(data[126:128])
    if len(data) < 128 or mark not in (b"IM", b"MI"):
        raise DataError(f"{what} is no MATLAB file of version 5 or later: save it with -v7.")
    file = _Bytes(data, "<" if mark == b"IM" else ">", what, 128)
    limit = allowance(len(data))
    found: dict[str, Value] = {}
    while file.place + 8 <= len(data):
        kind, content = file.element()
        if kind == _COMPRESSED:
            # As much as the longest head takes, to see whether the variable is requested.
            start = _matrix(file.inner(memoryview(inflate_start(content, _HEAD_BYTES, what))), cut=True)
            if start is None or _head(start).name not in names:
                continue
            matrix = _matrix(file.inner(memoryview(inflate(content, limit, what))))
        else:
            matrix = file.inner(content) if kind == _MATRIX else None
        if matrix is not None and (head := _head(matrix)).name in names:
            found[head.name] = _value(matrix, head, 0)
    return found


def _matrix(unpacked: _Bytes, *, cut: bool = False) -> _Bytes | None:
    """Read the array in a compressed element; with `cut` only its beginning was unpacked."""
    if cut:
        kind, _ = np.frombuffer(unpacked.take(8), f"{unpacked.order}u4").tolist()
        return unpacked.inner(unpacked.data[8:]) if kind == _MATRIX else None
    kind, data = unpacked.element()
    return unpacked.inner(data) if kind == _MATRIX else None


def _head(matrix: _Bytes) -> _Head:
    flags, shape = matrix.numbers(), matrix.numbers().tolist()
    _, name = matrix.element()
    if len(flags) < 1 or not 2 <= len(shape) <= 32 or any(not isinstance(n, int) or n < 0 for n in shape):
        raise DataError(f"{matrix.what} is damaged: an array of shape {shape}.")
    word = int(flags[0])
    return _Head(word & 0xFF, bool(word >> 8 & _COMPLEX), tuple(shape), bytes(name).decode("latin-1"))


def _value(matrix: _Bytes, head: _Head, depth: int) -> Value:
    if depth > _DEEPEST:
        raise DataError(f"{matrix.what}: {head.name!r} is nested more than {_DEEPEST} deep.")
    if head.kind in _NUMERIC and not head.is_complex:
        return _fill(matrix.numbers(), head, matrix)
    if head.kind == _CHAR:
        return _text(matrix, head)
    if head.kind == _CELL:
        return [_next(matrix, depth) for _ in _members(matrix, head)]
    if head.kind == _STRUCT:
        width = matrix.numbers()
        names = bytes(matrix.element()[1])
        if len(width) != 1 or not 0 < int(width[0]) <= 1024:
            raise DataError(f"{matrix.what} is damaged: the names of the fields of {head.name!r}.")
        step = int(width[0])
        fields = [names[i : i + step].split(b"\0")[0].decode("latin-1") for i in range(0, len(names), step)]
        return [{field: _next(matrix, depth) for field in fields} for _ in _members(matrix, head)]
    kind = "complex" if head.is_complex else _REFUSED.get(head.kind, f"of class {head.kind}")
    raise DataError(f"{matrix.what}: variable {head.name!r} is {kind}; numbers, texts and cells are accepted.")


def _members(matrix: _Bytes, head: _Head) -> range:
    """Read the members of a cell or structure; each takes at least a tag."""
    if head.size * 8 > len(matrix.data):
        raise DataError(f"{matrix.what} is damaged: {head.size:,} members in {len(matrix.data):,} bytes.")
    return range(head.size)


def _next(matrix: _Bytes, depth: int) -> Value:
    kind, data = matrix.element()
    if kind != _MATRIX:
        raise DataError(f"{matrix.what} is damaged: type {kind} where an array should be.")
    if not len(data):
        return np.zeros((0, 0))
    inner = matrix.inner(data)
    return _value(inner, _head(inner), depth + 1)


def _fill(values: npt.NDArray[Any], head: _Head, matrix: _Bytes) -> npt.NDArray[Any]:
    if len(values) != head.size:
        raise DataError(f"{matrix.what} is damaged: {len(values):,} values of {head.name!r} for {head.shape}.")
    return values.astype(values.dtype.newbyteorder("="), copy=False).reshape(head.shape, order="F")


def _text(matrix: _Bytes, head: _Head) -> str | list[str]:
    """Return one row of letters as a text, several rows as a list."""
    kind, data = matrix.element()
    if kind in _ENCODINGS:
        order = "" if kind == 16 else "-le" if matrix.order == "<" else "-be"
        letters = np.array(list(bytes(data).decode(_ENCODINGS[kind] + order, "replace")), dtype="U1")
    elif kind in _NUMBERS:
        dtype = np.dtype(f"{matrix.order}{_NUMBERS[kind]}")
        codes = np.frombuffer(data[: len(data) // dtype.itemsize * dtype.itemsize], dtype)
        letters = np.array([chr(c) if 0 <= c < 0x110000 else "\ufffd" for c in codes.tolist()], dtype="U1")
    else:
        raise DataError(f"{matrix.what} is damaged: type {kind} where a text should be.")
    if not head.size:
        return ""
    rows = ["".join(row) for row in _fill(letters, head, matrix).reshape(head.shape[0], -1, order="F").tolist()]
    return rows[0] if len(rows) == 1 else rows
