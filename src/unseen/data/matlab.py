"""MATLAB files, version 5 and 7.3 (HDF5), as plain arrays and lists of strings; anything else is refused.

Differs:    HDF5 stores arrays with their axes reversed: they are turned back, so that both versions look as they do in
            MATLAB. Structures, objects and function handles are refused without being read. SciPy's reader has no
            limit on depth and size, so a hostile file could end the process
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unseen.core.arrays import AnyArray
from unseen.core.errors import DataError, MissingExtraError
from unseen.core.files import map_file
from unseen.core.guard import allowance, guarded, inflate, inflate_start
from unseen.core.isolate import Trial, file_states, try_isolated

Variable = AnyArray | list[str]

_HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
_PLAIN = "numbers and cells of strings are accepted."


def read_matlab(path: Path, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Variable]:
    """Read the named variables of a MATLAB file: arrays in MATLAB's shape, cells of strings as lists.

    Raises:
        DataError: the file is missing, damaged or cut short, lacks a required variable, or one is not a plain array.
    """
    wanted = (*required, *optional)
    with guarded(path, "a MATLAB file", advice="It is damaged or was cut short: copy it again."):
        data = memoryview(map_file(path))
        if _HDF5_MAGIC in (bytes(data[:8]), bytes(data[512:520])):
            try_hdf5(path, f"{__name__}:check_hdf5", *wanted)
            found = _read_hdf5(path, wanted)
        else:
            values = read_variables(data, wanted, path)
            found = {name: _plain(path, name, value) for name, value in values.items()}
    if missing := [name for name in required if name not in found]:
        raise DataError(f"{path} has no variable {missing[0]!r}. It has: {', '.join(sorted(found)) or 'none of use'}.")
    return found


def _plain(path: Path, name: str, value: Value) -> Variable:
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, str):
        return [value.strip()]
    strings = ["" if isinstance(cell, np.ndarray) and not cell.size else cell for cell in value]
    if other := next((cell for cell in strings if not isinstance(cell, str)), None):
        what = "a structure" if isinstance(other, dict) else f"a cell of {type(other).__name__}"
        raise DataError(f"{path}: variable {name!r} is {what}; {_PLAIN}")
    return strings


def _h5py() -> Any:
    try:
        import h5py
    except ImportError:
        raise MissingExtraError("h5py, which reads HDF5 and MATLAB 7.3 files,", "zsl") from None
    return h5py


def hdf5_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays at the root of an HDF5 file."""
    _h5py()
    try_hdf5(path, f"{__name__}:check_shapes")
    return check_shapes(path)


def check_shapes(path: str | Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays at the root of an HDF5 file, without a process with limits."""
    h5py = _h5py()
    with h5py.File(path, "r") as file:
        return {name: file[name].shape for name in file if file.get(name, getclass=True) is h5py.Dataset}


def _read_hdf5(path: Path, names: tuple[str, ...]) -> dict[str, Variable]:
    h5py = _h5py()
    found: dict[str, Variable] = {}
    with h5py.File(path, "r") as file:
        for name in names:
            where = f"{path}: variable {name!r}"
            link = file.get(name, getlink=True)
            if link is None:
                continue
            item = file[name] if isinstance(link, h5py.HardLink) else None
            if item is None or (isinstance(item, h5py.Dataset) and (item.external or item.is_virtual)):
                raise DataError(f"{where} is in another file, which is not followed.")
            if not isinstance(item, h5py.Dataset):
                raise DataError(f"{where} is a structure; {_PLAIN}")
            if item.nbytes > allowance(path.stat().st_size):
                raise DataError(f"{where} would be {item.nbytes:,} bytes, which no file of its size should be.")
            if h5py.check_ref_dtype(item.dtype) is not None:
                found[name] = [_hdf5_string(where, file[cell]) for cell in item[()].T.ravel(order="F")]
            elif item.dtype.kind in "fiub":
                found[name] = np.asarray(item[()]).T
            elif h5py.check_string_dtype(item.dtype) is not None:
                found[name] = _hdf5_texts(where, item, allowance(path.stat().st_size)).T
            else:
                raise DataError(f"{where} is of type {item.dtype}; numbers are accepted.")
    return found


def check_hdf5(path: str, *names: str) -> None:
    """Read variables of a MATLAB file of version 7.3."""
    _read_hdf5(Path(path), names)


def try_hdf5(path: Path, check: str, *arguments: str) -> None:
    """Read an HDF5 file in a process with limits."""
    size = path.stat().st_size
    given = (str(path), *arguments)
    try_isolated(Trial(check, given, str(path), "an HDF5 file", ("h5py",), size, allowance(size)), file_states(path))


def _hdf5_texts(where: str, item: Any, limit: int) -> AnyArray:
    """Return texts; those of variable length may repeat a long text, so that their sum is bounded."""
    values: list[str] = []
    flat = item.asstr().reshape(-1) if hasattr(item.asstr(), "reshape") else item.asstr()
    for row in flat:
        values += np.ravel(row).tolist()
        limit -= sum(map(len, np.ravel(row).tolist()))
        if limit < 0:
            raise DataError(f"{where} holds more text than a file of its size should.")
    return np.array(values, object).reshape(item.shape)


def _hdf5_string(where: str, item: Any) -> str:
    codes = np.asarray(item[()])
    if codes.dtype.kind != "u":
        raise DataError(f"{where}: a cell holds {codes.dtype}, not a string.")
    return "" if item.attrs.get("MATLAB_empty", 0) else "".join(map(chr, codes.T.ravel(order="F")))


#: Rows of a structure: field to value. Cells come as lists, texts as strings (or lists of their rows).
Value = AnyArray | str | list[Any]

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

    def damaged(self, why: str) -> DataError:
        return DataError(f"{self.what} is damaged or was cut short: {why}. Copy it again.")

    def take(self, count: int) -> memoryview:
        if self.place + count > len(self.data):
            raise self.damaged("it ends within a variable")
        piece = self.data[self.place : self.place + count]
        self.place += count
        return piece

    def element(self) -> tuple[int, memoryview]:
        """Return type and data of the next element."""
        word, size = np.frombuffer(self.take(8), f"{self.order}u4").tolist()
        if word >> 16:  # a short element: type and size share a word, the data is in the other
            kind, size = word & 0xFFFF, word >> 16
            if size > 4:
                raise self.damaged(f"a short element of {size} bytes")
            return kind, self.data[self.place - 4 : self.place - 4 + size]
        data = self.take(size)
        if word != _COMPRESSED:
            self.place = min(len(self.data), self.place + -size % 8)
        return word, data

    def inner(self, data: bytes | memoryview) -> _Bytes:
        return _Bytes(memoryview(data), self.order, self.what)

    def numbers(self) -> AnyArray:
        kind, data = self.element()
        return self.as_numbers(kind, data)

    def as_numbers(self, kind: int, data: memoryview) -> AnyArray:
        if kind not in _NUMBERS:
            raise self.damaged(f"an element of type {kind}")
        dtype = np.dtype(f"{self.order}{_NUMBERS[kind]}")
        return np.frombuffer(data[: len(data) // dtype.itemsize * dtype.itemsize], dtype)


@dataclass(frozen=True)
class _Head:
    """What precedes the values of an array."""

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
    found: dict[str, Value] = {}
    while file.place + 8 <= len(data):
        kind, content = file.element()
        if kind == _COMPRESSED:
            # As much as the longest head takes, to see whether the variable is requested.
            if _head(file.inner(inflate_start(content, _HEAD_BYTES, what)[8:])).name not in names:
                continue
            kind, content = file.inner(inflate(content, allowance(len(data)), what)).element()
        matrix = file.inner(content)
        if kind == _MATRIX and (head := _head(matrix)).name in names:
            found[head.name] = _value(matrix, head, 0)
    return found


def _head(matrix: _Bytes) -> _Head:
    flags, shape = matrix.numbers(), matrix.numbers().tolist()
    _, name = matrix.element()
    if len(flags) < 1 or not 2 <= len(shape) <= 32 or any(not isinstance(n, int) or n < 0 for n in shape):
        raise matrix.damaged(f"an array of shape {shape}")
    word = int(flags[0])
    return _Head(word & 0xFF, bool(word >> 8 & _COMPLEX), tuple(shape), bytes(name).decode("latin-1"))


def _value(matrix: _Bytes, head: _Head, depth: int) -> Value:
    if depth > _DEEPEST:
        raise DataError(f"{matrix.what}: {head.name!r} is nested more than {_DEEPEST} deep.")
    if head.kind in _NUMERIC and not head.is_complex:
        return _fill(matrix.numbers(), head, matrix)
    if head.kind == _CHAR:
        return _text(matrix, head)
    if head.kind not in (_CELL, _STRUCT):
        kind = "complex" if head.is_complex else _REFUSED.get(head.kind, f"of class {head.kind}")
        raise DataError(f"{matrix.what}: variable {head.name!r} is {kind}; numbers, texts and cells are accepted.")
    fields: list[str] = []
    if head.kind == _STRUCT:
        width, names = matrix.numbers(), bytes(matrix.element()[1])
        if len(width) != 1 or not 0 < int(width[0]) <= 1024:
            raise matrix.damaged(f"the names of the fields of {head.name!r}")
        step = int(width[0])
        fields = [names[i : i + step].split(b"\0")[0].decode("latin-1") for i in range(0, len(names), step)]
    if head.size * 8 > len(matrix.data):  # each member takes at least a tag
        raise matrix.damaged(f"{head.size:,} members in {len(matrix.data):,} bytes")
    if head.kind == _CELL:
        return [_next(matrix, depth) for _ in range(head.size)]
    return [{field: _next(matrix, depth) for field in fields} for _ in range(head.size)]


def _next(matrix: _Bytes, depth: int) -> Value:
    kind, data = matrix.element()
    if kind != _MATRIX:
        raise matrix.damaged(f"type {kind} where an array should be")
    if not len(data):
        return np.zeros((0, 0))
    inner = matrix.inner(data)
    return _value(inner, _head(inner), depth + 1)


def _fill(values: AnyArray, head: _Head, matrix: _Bytes) -> AnyArray:
    if len(values) != head.size:
        raise matrix.damaged(f"{len(values):,} values of {head.name!r} for {head.shape}")
    return values.astype(values.dtype.newbyteorder("="), copy=False).reshape(head.shape, order="F")


def _text(matrix: _Bytes, head: _Head) -> str | list[str]:
    """Return one row of letters as a text, several rows as a list."""
    kind, data = matrix.element()
    if kind in _ENCODINGS:
        order = "" if kind == 16 else "-le" if matrix.order == "<" else "-be"
        letters = list(bytes(data).decode(_ENCODINGS[kind] + order, "replace"))
    else:
        codes = matrix.as_numbers(kind, data).tolist()
        letters = [chr(code) if 0 <= code < 0x110000 else "\ufffd" for code in codes]
    if not head.size:
        return ""
    table = _fill(np.array(letters, "U1"), head, matrix).reshape(head.shape[0], -1, order="F")
    rows = ["".join(row) for row in table.tolist()]
    return rows[0] if len(rows) == 1 else rows
