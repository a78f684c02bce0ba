"""MATLAB files, version 5 and 7.3 (HDF5), as plain arrays and lists of strings; nothing else is let in.

Differs:    HDF5 stores arrays with their axes reversed: they are turned back, so that both versions look as they do in
            MATLAB. Structures, objects and function handles are refused without being read.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError, MissingExtraError

Variable = npt.NDArray[Any] | list[str]

_HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
_PLAIN = frozenset(
    (
        "double",
        "single",
        "logical",
        "char",
        "cell",
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    )
)


def read_matlab(path: Path, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Variable]:
    """The named variables of a MATLAB file: numbers as arrays in MATLAB's shape, cells of strings as lists.

    Raises:
        DataError: the file is missing, damaged or cut short, lacks a required variable, or one is not a plain array.
    """
    try:
        with path.open("rb") as stream:
            head = stream.read(520)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}.") from None
    modern = _HDF5_MAGIC in (head[:8], head[512:520])
    try:
        found = _read_hdf5(path, (*required, *optional)) if modern else _read_v5(path, (*required, *optional))
    except (DataError, MissingExtraError):
        raise
    # scipy and h5py raise whatever they trip over in a damaged file.
    except (
        OSError,
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        NotImplementedError,
        RuntimeError,
        zlib.error,
    ) as error:
        raise DataError(
            f"{path} cannot be read as a MATLAB file ({type(error).__name__}: {error}). It is damaged or was cut "
            "short: copy it again."
        ) from None
    if missing := [name for name in required if name not in found]:
        raise DataError(f"{path} has no variable {missing[0]!r}. It has: {', '.join(sorted(found)) or 'none of use'}.")
    return found


def _read_v5(path: Path, names: Sequence[str]) -> dict[str, Variable]:
    from scipy.io import loadmat, whosmat
    from scipy.io.matlab import MatReadError

    try:
        kinds = {name: kind for name, _, kind in whosmat(path)}
    except MatReadError as error:  # an Exception of its own, for a file that is shorter than its head
        raise ValueError(error) from None
    for name in names:
        if name in kinds and kinds[name] not in _PLAIN:
            raise DataError(f"{path}: variable {name!r} is a {kinds[name]}; numbers and cells of strings are accepted.")
    wanted = [name for name in names if name in kinds]
    loaded = loadmat(path, variable_names=wanted, chars_as_strings=True) if wanted else {}
    return {name: _plain(path, name, loaded[name]) for name in wanted}


def _plain(path: Path, name: str, value: npt.NDArray[Any]) -> Variable:
    if value.dtype.kind in "fiub":
        return value
    if value.dtype.kind == "U":
        return [str(text).strip() for text in value.ravel()]
    strings = []
    for cell in value.ravel():  # a cell array: each entry is itself an array
        inner = np.asarray(cell)
        if inner.dtype.kind != "U" or inner.size > 1:
            raise DataError(f"{path}: a cell of {name!r} holds {inner.dtype}, not a string.")
        strings.append(str(inner.ravel()[0]) if inner.size else "")
    return strings


def _read_hdf5(path: Path, names: Sequence[str]) -> dict[str, Variable]:
    try:
        import h5py
    except ImportError:
        raise MissingExtraError("h5py, which reads MATLAB 7.3 files,", "zsl") from None
    found: dict[str, Variable] = {}
    with h5py.File(path, "r") as file:
        for name in names:
            if name not in file:
                continue
            item = file[name]
            if not isinstance(item, h5py.Dataset):
                raise DataError(f"{path}: variable {name!r} is a structure; numbers and cells of strings are accepted.")
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
