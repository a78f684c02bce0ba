"""smallNORB: binary matrices of pictures and of their elevation (0 to 8) and azimuth (0, 2, ... 34).

Source:     the format as its authors describe it: magic number, number of dimensions, at least three sizes, then the
            values, all little-endian. TFDS' key: the number of the pair
"""

from __future__ import annotations

import gzip
import math
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError
from unseen.core.guard import allowance, read_limited, reader
from unseen.data.sources.vtab.examples import Examples, from_pixels

_STEMS = {
    "train": "smallnorb-5x46789x9x18x6x2x96x96-training",
    "test": "smallnorb-5x01235x9x18x6x2x96x96-testing",
}
_TYPES: dict[int, np.dtype[Any]] = {0x1E3D4C55: np.dtype("u1"), 0x1E3D4C54: np.dtype("<i4")}
_ELEVATION, _AZIMUTH = 1, 2


def find(root: Path) -> Path | None:
    for place in (root, root / "smallnorb"):
        if any((place / f"{_STEMS['train']}-dat.mat{end}").exists() for end in ("", ".gz")):
            return place
    return None


def read(place: Path) -> dict[str, Examples]:
    found = {split: _read(place, split, stem) for split, stem in _STEMS.items()}
    return {split: part.as_recorded(split, list(map(str, range(len(part))))) for split, part in found.items()}


def _read(place: Path, split: str, stem: str) -> Examples:
    pairs, info = read_matrix(place / f"{stem}-dat.mat"), read_matrix(place / f"{stem}-info.mat")
    if pairs.ndim != 4 or pairs.shape[0] != len(info) or info.shape[1] != 4:
        raise DataError(f"{place / stem}: pictures of shape {pairs.shape} do not fit information of {info.shape}.")
    fields = {"azimuth": info[:, _AZIMUTH] // 2, "elevation": info[:, _ELEVATION]}
    return from_pixels(split, lambda i: np.asarray(pairs[i, 0]), len(info), fields)  # the first of two cameras


@reader("a smallNORB matrix")
def read_matrix(path: Path) -> npt.NDArray[Any]:
    """A binary matrix; `.gz` is unpacked into memory, an unpacked file is mapped."""
    packed = path.with_name(path.name + ".gz")
    try:
        if path.exists():
            with path.open("rb") as stream:
                dtype, shape, start = _header(stream.read(4096), path)
            return np.memmap(path, dtype, "r", start, shape)
        with gzip.open(packed) as stream:
            data = read_limited(cast("IO[bytes]", stream), allowance(packed.stat().st_size), packed)
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"cannot read {path} or its .gz: {error}.") from error
    dtype, shape, start = _header(data[:4096], packed)
    if len(data) != start + math.prod(shape) * dtype.itemsize:
        raise DataError(f"{packed} promises an array of {shape}, but has {len(data):,} bytes. Get it again.")
    return np.frombuffer(data, dtype, offset=start).reshape(shape)


def _header(data: bytes, path: Path) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    if len(data) < 8:
        raise DataError(f"{path} is too short to be a smallNORB matrix.")
    magic, count = np.frombuffer(data, "<i4", 2).tolist()
    if magic not in _TYPES or not 0 < count <= 8:
        raise DataError(f"{path} is not a smallNORB matrix: it begins with {magic:#x}.")
    sizes = np.frombuffer(data, "<i4", max(count, 3), offset=8).tolist()
    return _TYPES[magic], tuple(sizes[:count]), 8 + 4 * max(count, 3)
