"""dSprites: one compressed file of 737,280 pictures of zeros and ones, and the classes of their factors.

Both published forms are read: the NumPy archive (`.npz`) and, with the `vtab` extra, HDF5. They unpack to 3 GB:
pictures are read once, a few thousand at a time, and kept as single bits (380 MB). The pickled `metadata` is never
touched. TFDS' key: the number of the picture.
"""

from __future__ import annotations

import zipfile
from functools import lru_cache
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError, MissingExtraError
from unseen.core.guard import read_limited
from unseen.data.sources.vtab.examples import Examples, from_pixels

_FILE = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64"
_CHUNK = 4096
_MOST_BYTES = 64 << 20  # of latents; the real ones have 35 million
#: Columns of `latents_classes`: colour, shape, scale, orientation, x, y.
_ORIENTATION, _X = 3, 4


def find(root: Path) -> Path | None:
    places = [p / f"{_FILE}{end}" for p in (root, root / "dsprites") for end in (".npz", ".hdf5")]
    return next((place for place in places if place.exists()), None)


def read(place: Path) -> dict[str, Examples]:
    bits, classes = _load(place)
    side = 64
    found = from_pixels(
        "train",
        lambda i: np.unpackbits(bits[i]).reshape(side, side) * np.uint8(255),
        len(bits),
        {"x_position": classes[:, _X], "orientation": classes[:, _ORIENTATION]},
    )
    return {"train": found.as_recorded("train", list(map(str, range(len(bits)))))}


@lru_cache(maxsize=1)  # both tasks read the same pictures
def _load(place: Path) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    if place.suffix == ".hdf5":
        return _load_hdf5(place)
    try:
        with zipfile.ZipFile(place) as archive:
            with archive.open("latents_classes.npy") as stream:
                shape, dtype = _header(stream)
                classes = np.frombuffer(read_limited(stream, _MOST_BYTES, place), dtype).reshape(shape).astype(np.int64)
            with archive.open("imgs.npy") as stream:
                return _pack(stream, len(classes)), classes
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{place} is not the dSprites archive: {error!r}. Get it again.") from error


def _load_hdf5(place: Path) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    try:
        import h5py
    except ImportError:
        raise MissingExtraError("h5py, which reads dSprites' HDF5 file,", "vtab") from None
    try:
        with h5py.File(place, "r") as file:
            classes, images = np.asarray(file["latents"]["classes"]).astype(np.int64), file["imgs"]
            if images.shape != (len(classes), 64, 64) or classes.ndim != 2 or classes.shape[1] != 6:
                raise ValueError(f"imgs of shape {images.shape} and classes of shape {classes.shape}")
            bits = np.empty((len(classes), 64 * 64 // 8), np.uint8)
            for start in range(0, len(classes), _CHUNK):
                block = np.asarray(images[start : start + _CHUNK], np.uint8).reshape(-1, 64 * 64)
                bits[start : start + len(block)] = np.packbits(block, axis=1)
    except (OSError, KeyError, ValueError, TypeError, RuntimeError, AttributeError) as error:
        raise DataError(f"{place} is not the dSprites file: {error!r}. Get it again.") from error
    return bits, classes


def _pack(stream: IO[bytes], count: int) -> npt.NDArray[np.uint8]:
    shape, dtype = _header(stream)
    if shape != (count, 64, 64) or dtype != np.uint8:
        raise ValueError(f"imgs are {dtype} of shape {shape}, not uint8 of shape ({count}, 64, 64)")
    bits = np.empty((count, 64 * 64 // 8), np.uint8)
    for start in range(0, count, _CHUNK):
        stop = min(start + _CHUNK, count)
        block = np.frombuffer(stream.read((stop - start) * 64 * 64), np.uint8).reshape(stop - start, 64 * 64)
        bits[start:stop] = np.packbits(block, axis=1)
    return bits


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    if fortran or dtype.hasobject:
        raise ValueError(f"an array of {dtype}, {'by column' if fortran else 'by row'}")
    return shape, dtype
