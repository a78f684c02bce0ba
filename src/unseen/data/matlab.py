"""MATLAB files, version 5 and 7.3 (HDF5), as plain arrays and lists of strings; nothing else is let in.

Differs:    HDF5 stores arrays with their axes reversed: they are turned back, so that both versions look as they do in
            MATLAB. Structures, objects and function handles are refused without being read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError, MissingExtraError
from unseen.core.files import map_file
from unseen.core.guard import allowance, guarded
from unseen.data.matlab_v5 import Value, read_variables

Variable = npt.NDArray[Any] | list[str]

_HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"


def read_matlab(path: Path, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Variable]:
    """The named variables of a MATLAB file: numbers as arrays in MATLAB's shape, cells of strings as lists.

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
