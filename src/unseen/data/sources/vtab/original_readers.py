"""Readers of the original files that need more than a list of images: KITTI, dSprites, smallNORB, retinopathy, PCam.

Each reader yields its official splits as (name, examples, what TFDS calls the examples; None: their numbers).
"""

from __future__ import annotations

import csv
import gzip
import math
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import IO, Any, cast

import numpy as np
from PIL import Image, ImageFilter

from unseen.core.arrays import AnyArray, IntArray, Pixels
from unseen.core.errors import DataError, MissingExtraError
from unseen.core.guard import allowance, guarded, read_limited, reader
from unseen.data.archives import read_zipped
from unseen.data.columns import read_lines
from unseen.data.decode import decode_rgb
from unseen.data.matlab import try_hdf5
from unseen.data.sources.vtab.examples import Examples, from_bytes, from_files, from_pixels
from unseen.data.sources.vtab.tfds import NO_VEHICLE

Splits = Iterator[tuple[str, Examples, Sequence[str] | None]]

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


class _Files:
    """Files below a folder, or inside an archive of them."""

    def __init__(self, place: Path) -> None:
        self.place = place
        if place.is_dir():
            self.archive = None
        else:
            with guarded(place, "a zip archive", advice="Get it again."):
                self.archive = zipfile.ZipFile(place)

    def names(self, folder: str) -> dict[int, str]:
        """Return the names of the files in a folder by the number in their last six digits."""
        if self.archive is None:
            paths: Iterable[Path] = (self.place / folder).iterdir()
        else:
            paths = (Path(name) for name in self.archive.namelist() if name.startswith(f"{folder}/"))
        return {int(path.stem[-6:]): path.name for path in paths if path.stem[-6:].isdecimal()}

    def lines(self, name: str) -> list[str]:
        if self.archive is None:
            return [line for _, line in read_lines(self.place / name)]
        return read_zipped(self.archive, name).decode("utf-8").splitlines()

    def examples(self, names: list[str], closest: AnyArray) -> Examples:
        archive = self.archive
        if archive is None:
            return from_files(self.place, names, {"closest": closest})
        return from_bytes(names, lambda i: read_zipped(archive, names[i]), {"closest": closest})


def read_kitti(place: Path) -> Splits:
    """Read the splits from folders, or from the archives as downloaded."""
    if (place / "training").is_dir():
        pictures = texts = _Files(place)
    else:
        pictures, texts = (_Files(place / f"data_object_{kind}_2.zip") for kind in ("image", "label"))
    images, labels = pictures.names("training/image_2"), texts.names("training/label_2")
    for split, numbers in split_by_drive(_drives(place)).items():
        files = [images.get(i, f"{i:06d}.png") for i in numbers]
        names = [f"training/label_2/{labels.get(i, f'{i:06d}.txt')}" for i in numbers]
        closest = np.array([closest_vehicle(name, texts.lines(name)) for name in names], np.float32)
        yield split, pictures.examples([f"training/image_2/{file}" for file in files], closest), files


def closest_vehicle(name: str, lines: Iterable[str]) -> float:
    """Return the depth in metres of the closest vehicle of a label file, or `NO_VEHICLE`."""
    rows = [line.split() for line in lines]
    if short := next((number for number, row in enumerate(rows, 1) if len(row) < 15), None):
        raise DataError(f"{name}, line {short}: {len(rows[short - 1])} values, at least 15 were expected.")
    with guarded(name, "a KITTI label file"):
        return min((float(row[13]) for row in rows if row[0] in _VEHICLES), default=NO_VEHICLE)


def split_by_drive(drives: list[str]) -> dict[str, list[int]]:
    """Return image numbers by split, from the drive of each image."""
    generator = np.random.RandomState(123)
    names = sorted(set(drives))
    count = max(1, _DRIVE_PERCENT * len(names) // 100)
    test = set(generator.choice(names, count, replace=False).tolist())
    rest = sorted(set(names) - test)
    validation = set(generator.choice(rest, count, replace=False).tolist()) if rest else set()
    found: dict[str, list[int]] = {"train": [], "validation": [], "test": []}
    for image, drive in enumerate(drives):
        split = "test" if drive in test else "validation" if drive in validation else "train"
        found[split].append(image)
    return found


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
    numbers, lines = (_Files(kit).lines(f"mapping/train_{name}.txt") for name in ("rand", "mapping"))
    with guarded(kit, "a mapping from images to drives"):
        found = [lines[int(number) - 1].split()[1] for number in " ".join(numbers).replace(",", " ").split()]
    if not found:
        raise DataError(f"{kit}: the mapping from images to drives is empty.")
    return found


# dSprites: one compressed file of 737,280 pictures of zeros and ones, and the classes of their factors.
#
# Both published forms are read: the NumPy archive (`.npz`) and, with the `vtab` extra, HDF5. They unpack to 3 GB:
# pictures are read once, a few thousand at a time, and stored as single bits (380 MB). The pickled `metadata` is never
# read. TFDS' key: the number of the picture.

_DSPRITES_FILE = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64"
_SPRITE_CHUNK = 4096
_MOST_BYTES = 64 << 20  # of latents; the real ones have 35 million
#: Columns of `latents_classes`: colour, shape, scale, orientation, x, y.
_ORIENTATION, _X = 3, 4


def read_dsprites(place: Path) -> Splits:
    """Read the one official split."""
    archive = place / f"{_DSPRITES_FILE}.npz"
    bits, classes = _load_sprites(archive if archive.exists() else place / f"{_DSPRITES_FILE}.hdf5")
    fields = {"x_position": classes[:, _X], "orientation": classes[:, _ORIENTATION]}
    yield "train", from_pixels("train", lambda i: np.unpackbits(bits[i]).reshape(64, 64) * np.uint8(255), fields), None


@lru_cache(maxsize=1)  # both tasks read the same pictures
@reader("dSprites' file")
def _load_sprites(path: Path) -> tuple[Pixels, IntArray]:
    if path.suffix == ".hdf5":
        with _hdf5(path, "dSprites' HDF5 file") as file:
            images = file["imgs"]
            return _pack_bits(images, np.asarray(file["latents"]["classes"]), lambda i, j: np.asarray(images[i:j]))
    with zipfile.ZipFile(path) as archive:
        with archive.open("latents_classes.npy") as stream:
            head = _array_header(stream)
            classes = np.frombuffer(read_limited(stream, _MOST_BYTES, path), head.dtype).reshape(head.shape)
        with archive.open("imgs.npy") as stream:
            head = _array_header(stream)
            return _pack_bits(head, classes, lambda i, j: np.frombuffer(stream.read((j - i) * 64 * 64), np.uint8))


def _pack_bits(images: Any, classes: AnyArray, read: Callable[[int, int], AnyArray]) -> tuple[Pixels, IntArray]:
    """Return pictures of zeros and ones as bits, read in blocks by (start, stop), and their classes.

    Args:
        images: has the shape and the type of the pictures.
    """
    count = len(classes)
    if images.shape != (count, 64, 64) or images.dtype != np.uint8 or classes.ndim != 2 or classes.shape[1] != 6:
        raise ValueError(f"imgs are {images.dtype} of shape {images.shape}, and classes have the shape {classes.shape}")
    bits = np.empty((count, 64 * 64 // 8), np.uint8)
    for start in range(0, count, _SPRITE_CHUNK):
        stop = min(start + _SPRITE_CHUNK, count)
        bits[start:stop] = np.packbits(read(start, stop).reshape(stop - start, 64 * 64), axis=1)
    return bits, classes.astype(np.int64)


def _array_header(stream: IO[bytes]) -> Any:
    """Return an empty view with the shape and type of an array in NumPy's format."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    if fortran or dtype.hasobject:
        raise ValueError(f"an array of {dtype}, {'by column' if fortran else 'by row'}")
    return np.broadcast_to(np.empty((), dtype), shape)


def _hdf5(path: Path, content: str) -> Any:
    try:
        import h5py
    except ImportError:
        raise MissingExtraError(f"h5py, which reads {content},", "vtab") from None
    try_hdf5(path, f"{__name__}:check_arrays")
    return h5py.File(path, "r")


def check_arrays(path: str) -> None:
    """Read every array of an HDF5 file once.

    Raises:
        DataError: an array is in another file, or is larger than the file allows.
    """
    import h5py

    most = allowance(Path(path).stat().st_size)

    def read(name: str, item: Any) -> None:
        if not isinstance(item, h5py.Dataset):
            return
        if item.external or item.is_virtual:
            raise DataError(f"{path}: {name!r} is in another file, which is not followed.")
        if item.nbytes > most:
            raise DataError(f"{path}: {name!r} would be {item.nbytes:,} bytes, which no file of its size should be.")
        step = max(1, (16 << 20) // max(1, item.nbytes // max(1, len(item)))) if item.shape else 1
        for start in range(0, len(item) if item.shape else 0, step):
            item[start : start + step]

    with h5py.File(path, "r") as file:
        file.visititems(read)


# smallNORB: binary matrices of pictures and of their elevation (0 to 8) and azimuth (0, 2, ... 34).
#
# Source:   the format as its authors describe it: magic number, number of dimensions, at least three sizes, then the
#           values, all little-endian. TFDS' key: the number of the pair

_NORB_STEMS = {
    "train": "smallnorb-5x46789x9x18x6x2x96x96-training",
    "test": "smallnorb-5x01235x9x18x6x2x96x96-testing",
}
_NORB_TYPES: dict[int, np.dtype[Any]] = {0x1E3D4C55: np.dtype("u1"), 0x1E3D4C54: np.dtype("<i4")}
_ELEVATION, _AZIMUTH = 1, 2


def read_smallnorb(place: Path) -> Splits:
    """Read both splits; of two cameras, the first."""
    for split, stem in _NORB_STEMS.items():
        pairs, info = read_matrix(place / f"{stem}-dat.mat"), read_matrix(place / f"{stem}-info.mat")
        if pairs.ndim != 4 or pairs.shape[0] != len(info) or info.shape[1] != 4:
            raise DataError(f"{place / stem}: pictures of shape {pairs.shape} do not fit information of {info.shape}.")
        fields = {"azimuth": info[:, _AZIMUTH] // 2, "elevation": info[:, _ELEVATION]}
        yield split, from_pixels(split, pairs[:, 0].__getitem__, fields), None


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


# Diabetic Retinopathy (Kaggle 2015): photographs of eyes, levels 0 to 4. TFDS' key: the name without extension.
#
# Paper:      the images as TFDS `btgraham-300` has them, after Ben Graham's winning entry
# Implements: the eye scaled to a radius of 300, four times the difference from a local mean plus 128, a disc of 0.9 of
#             the radius on grey, cropped to it
# Differs:    no JPEG in between (TFDS stores quality 72), and Pillow's resampling and blur instead of OpenCV's

_LEVELS = ("none", "mild", "moderate", "severe", "proliferative")
_RADIUS = 300
_DISC = 0.9


def read_retinopathy(place: Path) -> Splits:
    """Read the splits of the competition: public test images are for validation, private ones for testing."""
    tests = _read_levels(place / "retinopathy_solution.csv")
    for split, folder, rows in (
        ("train", "train", _read_levels(place / "trainLabels.csv")),
        ("validation", "test", [row for row in tests if row[2] == "Public"]),
        ("test", "test", [row for row in tests if row[2] == "Private"]),
    ):
        names = [f"{folder}/{image}.jpeg" for image, _, _ in rows]
        found = from_files(place, names, {"label": np.array([level for _, level, _ in rows], np.int64)}, _LEVELS)
        yield split, replace(found, open=partial(_open_eye, found.open)), [image for image, _, _ in rows]


def _open_eye(image: Callable[[int], Image.Image], i: int) -> Image.Image:
    return flatten_eye(decode_rgb(image(i)))


def flatten_eye(image: Image.Image, radius: int = _RADIUS) -> Image.Image:
    """Return an eye of known size under even light, on grey."""
    brightness = np.asarray(image, np.float64)[image.height // 2].sum(axis=1)
    half = np.count_nonzero(brightness > brightness.mean() / 10) / 2
    scale = radius / (half if half >= 1 else image.height / 2)  # a black middle: take the whole height for the eye
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    eye = image.resize(size, Image.Resampling.BILINEAR)
    local = np.asarray(eye.filter(ImageFilter.GaussianBlur(radius / 30)), np.float32)
    even = np.clip(4 * (np.asarray(eye, np.float32) - local) + 128, 0, 255)
    disc = int(radius * _DISC)
    y, x = np.ogrid[: size[1], : size[0]]
    inside = (x - size[0] // 2) ** 2 + (y - size[1] // 2) ** 2 <= disc**2
    pixels = np.where(inside[..., None], even, 128).astype(np.uint8)
    top, left = max(size[1] // 2 - disc, 0), max(size[0] // 2 - disc, 0)
    return Image.fromarray(pixels[top : size[1] // 2 + disc, left : size[0] // 2 + disc])


@reader("a table with image and level")
def _read_levels(path: Path) -> list[tuple[str, int, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return [(row["image"], int(row["level"]), row.get("Usage", "")) for row in csv.DictReader(stream)]


# PatchCamelyon: HDF5 files of patches and of labels, per split. Needs the `vtab` extra (h5py).
# TFDS' key: split and number.


def read_camelyon(place: Path) -> Splits:
    """Read the three splits."""
    for split, short in (("train", "train"), ("validation", "valid"), ("test", "test")):
        images, found = (_patches(place / f"camelyonpatch_level_2_split_{short}_{kind}.h5", kind) for kind in "xy")
        labels = np.asarray(found).reshape(-1).astype(np.int64)
        if images.shape != (len(labels), 96, 96, 3):
            raise DataError(f"{place}: split {short!r} has {images.shape} images and {len(labels)} labels.")
        examples = from_pixels(split, partial(_patch, images, Lock()), {"label": labels}, ("no tumour", "tumour"))
        yield split, examples, [f"{short}_{i}" for i in range(len(labels))]


def _patch(images: Any, lock: Lock, i: int) -> Pixels:
    with lock:  # HDF5 is not thread-safe
        return np.asarray(images[i], np.uint8)


@reader("an HDF5 file of PatchCamelyon")
def _patches(path: Path, name: str) -> Any:
    if not path.exists() and path.with_name(path.name + ".gz").exists():
        raise DataError(f"{path.name}.gz is packed: unpack it first (gunzip -k), its patches are read one by one.")
    return _hdf5(path, "PatchCamelyon")[name]
