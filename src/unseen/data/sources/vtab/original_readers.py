"""Readers of the original files that need more than a list of images: KITTI, dSprites, smallNORB, PCam.

Each reader returns one official split: its examples, and what TFDS calls them (None: their numbers).
"""

from __future__ import annotations

import gzip
import math
import zipfile
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import IO, Any, cast

import numpy as np

from unseen.core.arrays import AnyArray, IntArray, Pixels
from unseen.core.errors import DataError
from unseen.core.guard import allowance, guarded, read_limited, reader
from unseen.data.archives import read_zipped
from unseen.data.matlab import hdf5_array, open_hdf5
from unseen.data.sources.vtab.examples import Examples, from_bytes, from_files, from_pixels
from unseen.data.sources.vtab.tfds import NO_VEHICLE

Part = tuple[Examples, Sequence[str] | None]

# KITTI, object detection: the depth of the closest car, van or truck; images of one drive stay in one split.
#
#     training/image_2/000000.png, training/label_2/000000.txt, mapping/train_{rand,mapping}.txt, or the three archives
#     data_object_image_2.zip, data_object_label_2.zip, devkit_object.zip as they are downloaded
#
# Source:   TFDS' rule: a tenth of the drives for test, a tenth for validation, sampled by NumPy's old generator
#           from 123. Its key: the name of the image; an image and its label belong together by the last six digits
# Differs:  nothing: with the development kit's mapping of images to drives the splits are the published ones

_VEHICLES = ("Car", "Van", "Truck")
_DRIVE_PERCENT = 10  # of the drives, for each of validation and test


_Files = Path | zipfile.Path


def _opened(place: Path) -> _Files:
    """Return a folder, or an archive of files."""
    if place.is_dir():
        return place
    with guarded(place, "a zip archive", advice="Get it again."):
        return zipfile.Path(place)


def _content(files: _Files, name: str) -> bytes:
    if isinstance(files, zipfile.Path):
        return read_zipped(files.root, name)
    with guarded(files / name, "a file of KITTI"):
        return (files / name).read_bytes()


def _numbered(files: _Files, folder: str) -> dict[int, str]:
    """Return the names of the files in a folder by the number in their last six digits."""
    names = (path.name for path in files.joinpath(folder).iterdir())
    return {int(stem): name for name in names if (stem := name.partition(".")[0][-6:]).isdecimal()}


def read_kitti(place: Path, split: str) -> Part:
    """Read a split from folders, or from the archives as downloaded."""
    whole = (place / "training").is_dir()
    pictures, texts = (_opened(place if whole else place / f"data_object_{kind}_2.zip") for kind in ("image", "label"))
    images, labels = _numbered(pictures, "training/image_2"), _numbered(texts, "training/label_2")
    numbers = split_by_drive(_drives(place))[split]
    files = [images.get(i, f"{i:06d}.png") for i in numbers]
    names = [f"training/image_2/{file}" for file in files]
    paths = [f"training/label_2/{labels.get(i, f'{i:06d}.txt')}" for i in numbers]
    depths = [closest_vehicle(path, _content(texts, path).decode("utf-8").splitlines()) for path in paths]
    fields = {"closest": np.array(depths, np.float32)}
    if isinstance(pictures, Path):
        return from_files(place, names, fields), files
    return from_bytes(names, lambda i: _content(pictures, names[i]), fields), files


def closest_vehicle(name: str, lines: Iterable[str]) -> float:
    """Return the depth in metres of the closest vehicle of a label file, or `NO_VEHICLE`."""
    rows = [line.split() for line in lines]
    if short := next((number for number, row in enumerate(rows, 1) if len(row) < 15), None):
        raise DataError(f"{name}, line {short}: {len(rows[short - 1])} values, at least 15 were expected.")
    with guarded(name, "a KITTI label file"):
        return min((float(row[13]) for row in rows if row[0] in _VEHICLES), default=NO_VEHICLE)


def split_by_drive(drives: Sequence[str]) -> dict[str, list[int]]:
    """Return image numbers by split, from the drive of each image."""
    generator = np.random.RandomState(123)
    split = dict.fromkeys(sorted(drives), "train")
    count = max(1, _DRIVE_PERCENT * len(split) // 100)
    for name in ("test", "validation"):
        if left := [drive for drive, used in split.items() if used == "train"]:
            split |= dict.fromkeys(generator.choice(left, count, replace=False).tolist(), name)
    return {
        name: [image for image, drive in enumerate(drives) if split[drive] == name]
        for name in ("train", "validation", "test")
    }


def _drives(place: Path) -> list[str]:
    """Return the drive of each image, from the unpacked development kit or its archive."""
    bases = (place, place / "devkit_object", place / "training")
    kit = next((base for base in bases if (base / "mapping").exists()), place / "devkit_object.zip")
    if not kit.exists():
        raise DataError(
            f"{place} has images and labels, but not which drive each image is from. Put devkit_object.zip, or "
            "mapping/train_rand.txt and mapping/train_mapping.txt of it, beside them: images of one drive look alike, "
            "and must not be split."
        )
    files = _opened(kit)
    with guarded(kit, "a mapping from images to drives"):
        numbers, lines = (
            _content(files, f"mapping/train_{name}.txt").decode("utf-8").splitlines() for name in ("rand", "mapping")
        )
        rows = [line.split() for line in lines if line.strip()]
        found = [rows[int(number) - 1][1] for number in " ".join(numbers).replace(",", " ").split()]
    if not found:
        raise DataError(f"{kit}: the mapping from images to drives is empty.")
    return found


# dSprites: one compressed HDF5 file of 737,280 pictures of zeros and ones, and the classes of their factors. Needs the
# `vtab` extra (h5py).
#
# It unpacks to 3 GB: pictures are read once, a few thousand at a time, and stored as single bits (380 MB). TFDS' key:
# the number of the picture.

_SPRITE_CHUNK = 4096
#: Columns of `latents/classes`: colour, shape, scale, orientation, x, y.
_ORIENTATION, _X = 3, 4


def read_dsprites(place: Path, part: str) -> Part:
    """Read the one official split."""
    bits, classes = _load_sprites(place / "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.hdf5")
    fields = {"x_position": classes[:, _X], "orientation": classes[:, _ORIENTATION]}
    return from_pixels(part, lambda i: np.unpackbits(bits[i]).reshape(64, 64) * np.uint8(255), fields), None


@lru_cache(maxsize=1)  # both tasks read the same pictures
@reader("dSprites' file")
def _load_sprites(path: Path) -> tuple[Pixels, IntArray]:
    """Return pictures of zeros and ones as bits, and their classes."""
    with open_hdf5(path, "vtab") as file:
        images = hdf5_array(path, file, "imgs")
        classes = np.asarray(hdf5_array(path, file, "latents/classes")).astype(np.int64)
        count = len(classes)
        if images.shape != (count, 64, 64) or images.dtype != np.uint8 or classes.shape != (count, 6):
            raise ValueError(f"imgs are {images.dtype} of {images.shape}, and classes have the shape {classes.shape}")
        bits = np.empty((count, 64 * 64 // 8), np.uint8)
        for start in range(0, count, _SPRITE_CHUNK):
            rows = np.asarray(images[start : start + _SPRITE_CHUNK]).reshape(-1, 64 * 64)
            bits[start : start + len(rows)] = np.packbits(rows, axis=1)
        return bits, classes


# smallNORB: binary matrices of pictures and of their elevation (0 to 8) and azimuth (0, 2, ... 34).
#
# Source:   the format as its authors describe it: magic number, number of dimensions, at least three sizes, then the
#           values, all little-endian. TFDS' key: the number of the pair

_NORB_TYPES: dict[int, np.dtype[Any]] = {0x1E3D4C55: np.dtype("u1"), 0x1E3D4C54: np.dtype("<i4")}
_ELEVATION, _AZIMUTH = 1, 2


def read_smallnorb(place: Path, part: str) -> Part:
    """Read a split; of two cameras, the first."""
    split, stem = part.split()
    pairs, info = read_matrix(place / f"{stem}-dat.mat"), read_matrix(place / f"{stem}-info.mat")
    if pairs.ndim != 4 or pairs.shape[0] != len(info) or info.shape[1] != 4:
        raise DataError(f"{place / stem}: pictures of shape {pairs.shape} do not fit information of {info.shape}.")
    fields = {"azimuth": info[:, _AZIMUTH] // 2, "elevation": info[:, _ELEVATION]}
    return from_pixels(split, pairs[:, 0].__getitem__, fields), None


@reader("a smallNORB matrix")
def read_matrix(path: Path) -> AnyArray:
    """Read a binary matrix; `.gz` is unpacked into memory, an unpacked file is mapped."""
    packed = path.with_name(path.name + ".gz")
    if path.exists():
        data: Any = np.memmap(path, np.uint8, "r")
    else:
        with gzip.open(packed) as stream:
            data = read_limited(cast("IO[bytes]", stream), allowance(packed.stat().st_size), packed)
    magic, count = np.frombuffer(data, "<i4", 2).tolist()
    if magic not in _NORB_TYPES or not 0 < count <= 8:
        raise DataError(f"{path} is not a smallNORB matrix: it begins with {magic:#x}.")
    dtype, start = _NORB_TYPES[magic], 8 + 4 * max(count, 3)
    shape = tuple(np.frombuffer(data, "<i4", count, offset=8).tolist())
    if len(data) != start + math.prod(shape) * dtype.itemsize:
        raise DataError(f"cannot read {path}: an array of {shape} in {len(data):,} bytes. Get it again.")
    return np.frombuffer(data, dtype, offset=start).reshape(shape)


# PatchCamelyon: HDF5 files of patches and of labels, per split. Needs the `vtab` extra (h5py).
# TFDS' key: split and number.


def read_camelyon(place: Path, part: str) -> Part:
    """Read a split."""
    split, short = part.split()
    images, found = (_patches(place / f"camelyonpatch_level_2_split_{short}_{kind}.h5", kind) for kind in "xy")
    labels = np.asarray(found).reshape(-1).astype(np.int64)
    if images.shape != (len(labels), 96, 96, 3):
        raise DataError(f"{place}: split {split!r} has {images.shape} images and {len(labels)} labels.")
    examples = from_pixels(split, partial(_patch, images, Lock()), {"label": labels}, ("no tumour", "tumour"))
    return examples, [f"{short}_{i}" for i in range(len(labels))]


def _patch(images: Any, lock: Lock, i: int) -> Pixels:
    with lock:  # HDF5 is not thread-safe
        return np.asarray(images[i], np.uint8)


@reader("an HDF5 file of PatchCamelyon")
def _patches(path: Path, name: str) -> Any:
    if not path.exists() and path.with_name(path.name + ".gz").exists():
        raise DataError(f"{path.name}.gz is packed: unpack it first (gunzip -k), its patches are read one by one.")
    return hdf5_array(path, open_hdf5(path, "vtab"), name)
