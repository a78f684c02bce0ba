"""MATLAB files, version 5 to 7 (SciPy) and 7.3 (HDF5), as plain arrays and lists of strings; anything else is refused.

Both readers run in a process with limits first: SciPy's has no limit on depth and size, so that a hostile file could
end the process. HDF5 stores arrays with their axes reversed: they are turned back, so that both versions look as they
do in MATLAB.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from unseen.core.arrays import AnyArray
from unseen.core.errors import DataError
from unseen.core.extras import import_extra
from unseen.core.guard import allowance, guarded
from unseen.core.isolate import try_reader

Variable = AnyArray | list[str]

_HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
_BLOCK = 8192  # rows of an HDF5 file that are in memory at once
_AT_ONCE = 16 << 20  # bytes of it that a check reads at once
_PLAIN = "numbers and cells of strings are accepted."


def read_matlab(path: Path, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Variable]:
    """Read the named variables of a MATLAB file: arrays in MATLAB's shape, cells of strings as lists.

    Raises:
        DataError: the file is missing, damaged or cut short, lacks a required variable, or one is not a plain array.
    """
    wanted = (*required, *optional)
    with guarded(path, "a MATLAB file", advice="It is damaged or was cut short: copy it again."):
        with path.open("rb") as stream:
            head = stream.read(520)
        if _HDF5_MAGIC in (head[:8], head[512:]):
            found = _read_hdf5(path, wanted)
        else:
            values = load_variables(path, *wanted)
            found = {name: _plain(f"{path}: variable {name!r}", value) for name, value in values.items()}
    if missing := [name for name in required if name not in found]:
        raise DataError(f"{path} has no variable {missing[0]!r}. It has: {', '.join(sorted(found)) or 'none of use'}.")
    return found


def load_variables(path: Path, *names: str) -> dict[str, Any]:
    """Return the named variables of a file of version 5 to 7 as SciPy reads them, first in a process with limits.

    Raises:
        DataError: it is no such file, damaged, or takes more memory or time than a file of its size should.
    """
    with path.open("rb") as stream:
        if stream.read(128)[126:] not in (b"IM", b"MI"):
            raise DataError(f"{path} is no MATLAB file of version 5 or later: save it with -v7.")
    try_reader(f"{__name__}:load_unlimited", path, *names, kind="a MATLAB file", module="scipy.io")
    return load_unlimited(str(path), *names)


def load_unlimited(path: str, *names: str) -> dict[str, Any]:
    """Return the named variables of a file of version 5 to 7, without a process with limits."""
    from scipy.io import loadmat

    found = loadmat(path, variable_names=names)
    return {name: found[name] for name in names if name in found}


def _plain(where: str, value: Any) -> Variable:
    if isinstance(value, np.ndarray) and not value.dtype.names:
        if value.dtype.kind in "biuf":
            return value
        if value.dtype.kind in "UO":
            return [_text(where, cell) for cell in value.ravel(order="F")]
    kind = getattr(value, "dtype", type(value).__name__)
    raise DataError(f"{where} is {'a structure' if getattr(kind, 'names', None) else f'of type {kind}'}; {_PLAIN}")


def _text(where: str, cell: Any) -> str:
    """Return the text of a cell; SciPy gives an array of one text, and an empty array for an empty text."""
    text = cell.item() if isinstance(cell, np.ndarray) and cell.size == 1 else cell
    if isinstance(text, np.ndarray) and not text.size:
        return ""
    if not isinstance(text, str):
        raise DataError(f"{where} has a cell of type {getattr(cell, 'dtype', type(cell).__name__)}; {_PLAIN}")
    return text.strip()


def hdf5_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays at the root of an HDF5 file."""
    with open_hdf5(path) as file:
        import h5py

        return {name: file[name].shape for name in file if file.get(name, getclass=True) is h5py.Dataset}


def _read_hdf5(path: Path, names: tuple[str, ...]) -> dict[str, Variable]:
    with open_hdf5(path) as file:
        there = [name for name in names if file.get(name, getlink=True) is not None]
        return {name: _hdf5_variable(path, file, name) for name in there}


def _hdf5_variable(path: Path, file: Any, name: str) -> Variable:
    import h5py

    where, item = f"{path}: variable {name!r}", hdf5_array(path, file, name)
    if h5py.check_ref_dtype(item.dtype) is not None:
        return [_hdf5_string(where, file[cell]) for cell in item[()].T.ravel(order="F")]
    if item.dtype.kind in "fiub":
        return np.asarray(item[()]).T
    if h5py.check_string_dtype(item.dtype) is not None:
        return np.asarray(item.asstr()[()], object).T
    raise DataError(f"{where} is of type {item.dtype}; numbers are accepted.")


def hdf5_array(path: Path, file: Any, name: str) -> Any:
    """Return an array of an open file, not read yet.

    Raises:
        DataError: it is in another file, or a structure.
    """
    import h5py

    where = f"{path}: variable {name!r}"
    paths = accumulate(name.split("/"), "{}/{}".format)  # groups may be links, too
    if not all(isinstance(file.get(each, getlink=True), h5py.HardLink) for each in paths):
        raise DataError(f"{where} is in another file, which is not followed.")
    if not isinstance(file[name], h5py.Dataset):
        raise DataError(f"{where} is a structure; {_PLAIN}")
    return file[name]


def hdf5_blocks(path: Path, name: str) -> Iterator[AnyArray]:
    """Yield blocks of rows of an array of an HDF5 file, axes not reversed."""
    with open_hdf5(path) as file:
        item = hdf5_array(path, file, name)
        for start in range(0, len(item), _BLOCK):
            yield item[start : start + _BLOCK]


def open_hdf5(path: Path, extra: str = "zsl") -> Any:
    """Return an open HDF5 file, all of whose arrays a process with limits could read."""
    h5py = import_extra("h5py", extra)
    try_reader(f"{__name__}:check_hdf5", path, kind="an HDF5 file", module="h5py")
    return h5py.File(path, "r")


def check_hdf5(path: str) -> None:
    """Read every array of an HDF5 file once.

    Raises:
        DataError: an array is in another file, or is larger than a file of this size should hold.
    """
    import h5py

    most = allowance(Path(path).stat().st_size)

    def read(name: str, item: Any) -> None:
        if not isinstance(item, h5py.Dataset):
            return
        where = f"{path}: variable {name!r}"
        if item.external or item.is_virtual:
            raise DataError(f"{where} is in another file, which is not followed.")
        if item.nbytes > most:
            raise DataError(f"{where} would be {item.nbytes:,} bytes, which no file of its size should be.")
        step = max(1, _AT_ONCE // max(1, item.nbytes // max(1, len(item)))) if item.shape else 1
        for start in range(0, len(item) if item.shape else 0, step):
            item[start : start + step]

    with h5py.File(path, "r") as file:
        file.visititems(read)


def _hdf5_string(where: str, item: Any) -> str:
    codes = np.asarray(item[()])
    if codes.dtype.kind != "u":
        raise DataError(f"{where}: a cell holds {codes.dtype}, not a string.")
    return "" if item.attrs.get("MATLAB_empty", 0) else "".join(map(chr, codes.T.ravel(order="F")))
