"""Readers of the original files that need more than a list of images: KITTI, dSprites, smallNORB, retinopathy, PCam."""

from __future__ import annotations

import csv
import gzip
import math
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFilter

from unseen.core.errors import DataError, MissingExtraError
from unseen.core.guard import allowance, read_limited, read_member, reader
from unseen.data.columns import read_lines
from unseen.data.decode import MAX_BYTES, decode_rgb
from unseen.data.sources.vtab.examples import Examples, from_bytes, from_files, from_pixels
from unseen.data.sources.vtab.tfds import NO_VEHICLE

Bits = npt.NDArray[np.uint8]
#: What a damaged or encrypted zip archive raises.
_ZIP_ERRORS = (OSError, ValueError, zipfile.BadZipFile, NotImplementedError, RuntimeError)

# KITTI, object detection: the depth of the closest car, van or truck; images of one drive stay in one split.
#
#     training/image_2/000000.png, training/label_2/000000.txt, mapping/train_{rand,mapping}.txt, or the three archives
#     data_object_image_2.zip, data_object_label_2.zip, devkit_object.zip as they are downloaded
#
# Source:   TFDS' rule: a tenth of the drives for test, a tenth for validation, sampled by NumPy's old generator
#           from 123. Its key: the name of the image; an image and its label belong together by the last six digits
# Differs:  nothing: with the development kit's mapping of images to drives the splits are the published ones

_KITTI_IMAGES, _KITTI_LABELS, _KITTI_KIT = "data_object_image_2.zip", "data_object_label_2.zip", "devkit_object.zip"
_VEHICLES = ("Car", "Van", "Truck")
_DRIVE_PERCENT = 10  # of the drives, for each of validation and test


def read_kitti(place: Path) -> dict[str, Examples]:
    """Read the splits from folders, or from the archives as downloaded."""
    if (place / "training").is_dir():
        images = _by_number((place / "training" / "image_2").glob("*.png"))
        labels = _by_number((place / "training" / "label_2").glob("*.txt"))
        return _kitti_splits(
            _drives(place), images, labels, lambda name: read_lines(place / name), partial(from_files, place)
        )
    try:
        pictures, texts = zipfile.ZipFile(place / _KITTI_IMAGES), zipfile.ZipFile(place / _KITTI_LABELS)
        return _kitti_splits(
            _drives_of_kit(place / _KITTI_KIT),
            _by_number(Path(name) for name in pictures.namelist() if name.startswith("training/")),
            _by_number(Path(name) for name in texts.namelist() if name.startswith("training/")),
            lambda name: enumerate(_member(texts, name).decode("utf-8").splitlines(), 1),
            lambda names, fields: from_bytes(names, partial(_zipped_image, pictures, names), fields),
        )
    except _ZIP_ERRORS as error:
        raise DataError(f"the archives in {place} cannot be read: {error!r}. Get them again.") from error


def _kitti_splits(
    drives: list[str],
    images: dict[int, str],
    labels: dict[int, str],
    lines: Callable[[str], Iterable[tuple[int, str]]],
    examples: Callable[[list[str], dict[str, npt.ArrayLike]], Examples],
) -> dict[str, Examples]:
    """Return the splits by drive.

    Args:
        images, labels: file names by number.
        lines: returns the numbered lines of a label file.
        examples: makes examples of the names of images and their fields.
    """
    found = {}
    for split, numbers in split_by_drive(drives).items():
        files = [images.get(i, f"{i:06d}.png") for i in numbers]
        texts = [f"training/label_2/{labels.get(i, f'{i:06d}.txt')}" for i in numbers]
        closest = np.array([closest_vehicle(name, lines(name)) for name in texts], np.float32)
        part = examples([f"training/image_2/{file}" for file in files], {"closest": closest})
        found[split] = part.as_recorded(split, files)
    return found


def _by_number(paths: Iterable[Path]) -> dict[int, str]:
    """Return file names by the number in their last six digits."""
    return {int(path.stem[-6:]): path.name for path in paths if path.stem[-6:].isdecimal()}


def _zipped_image(archive: zipfile.ZipFile, names: Sequence[str], i: int) -> bytes:
    try:
        return _member(archive, names[i])
    except _ZIP_ERRORS as error:
        raise DataError(f"cannot be read out of its archive: {error}") from error


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        size = archive.getinfo(name).file_size
    except KeyError:
        raise DataError(f"{archive.filename} has no {name!r}.") from None
    if size > MAX_BYTES:
        raise DataError(f"a file of {size:,} bytes; the limit is {MAX_BYTES:,}")
    return read_member(archive, name)


def closest_vehicle(name: str, lines: Iterable[tuple[int, str]]) -> float:
    """Return the depth in metres of the closest vehicle of a label file, or `NO_VEHICLE`."""
    closest = NO_VEHICLE
    for number, line in lines:
        parts = line.split()
        if len(parts) < 15:
            raise DataError(f"{name}, line {number}: {len(parts)} values, at least 15 were expected.")
        if parts[0] in _VEHICLES:
            try:
                closest = min(closest, float(parts[13]))
            except ValueError:
                raise DataError(f"{name}, line {number}: {parts[13]!r} is not a depth.") from None
    return closest


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
    folders = (place / "mapping", place / "devkit_object" / "mapping", place / "training" / "mapping")
    folder = next((each for each in folders if each.exists()), None)
    if folder is None:
        return _drives_of_kit(place / _KITTI_KIT)
    lines = [line for _, line in read_lines(folder / "train_mapping.txt")]
    return _mapped([line for _, line in read_lines(folder / "train_rand.txt")], lines, folder)


def _drives_of_kit(path: Path) -> list[str]:
    if not path.exists():
        raise DataError(
            f"{path.parent} has images and labels, but not which drive each image is from. Put devkit_object.zip, or "
            "mapping/train_rand.txt and mapping/train_mapping.txt of it, beside them: images of one drive look alike, "
            "and must not be split."
        )
    try:
        with zipfile.ZipFile(path) as kit:
            numbers, lines = (
                _member(kit, f"mapping/train_{name}.txt").decode("utf-8").splitlines() for name in ("rand", "mapping")
            )
    except _ZIP_ERRORS as error:
        raise DataError(f"{path} cannot be read: {error!r}. Get it again.") from error
    return _mapped(numbers, lines, path)


def _mapped(numbers: list[str], lines: list[str], place: Path) -> list[str]:
    try:
        found = [lines[int(number) - 1].split()[1] for number in " ".join(numbers).replace(",", " ").split()]
    except (ValueError, IndexError) as error:
        raise DataError(f"{place}: the mapping from images to drives cannot be read: {error!r}.") from error
    if not found:
        raise DataError(f"{place}: the mapping from images to drives is empty.")
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


def read_dsprites(place: Path) -> dict[str, Examples]:
    """Read the one official split."""
    archive = place / f"{_DSPRITES_FILE}.npz"
    bits, classes = _load_sprites(archive if archive.exists() else place / f"{_DSPRITES_FILE}.hdf5")
    fields = {"x_position": classes[:, _X], "orientation": classes[:, _ORIENTATION]}
    found = from_pixels("train", lambda i: np.unpackbits(bits[i]).reshape(64, 64) * np.uint8(255), fields)
    return {"train": found.as_recorded("train")}


@lru_cache(maxsize=1)  # both tasks read the same pictures
def _load_sprites(path: Path) -> tuple[Bits, npt.NDArray[np.int64]]:
    try:
        if path.suffix == ".hdf5":
            with _hdf5(path, "dSprites' HDF5 file") as file:
                classes, images = np.asarray(file["latents"]["classes"]).astype(np.int64), file["imgs"]
                if images.shape != (len(classes), 64, 64) or classes.ndim != 2 or classes.shape[1] != 6:
                    raise ValueError(f"imgs of shape {images.shape} and classes of shape {classes.shape}")
                return _pack_bits(lambda start, stop: np.asarray(images[start:stop], np.uint8), len(classes)), classes
        with zipfile.ZipFile(path) as archive:
            with archive.open("latents_classes.npy") as stream:
                shape, dtype = _array_header(stream)
                classes = np.frombuffer(read_limited(stream, _MOST_BYTES, path), dtype).reshape(shape).astype(np.int64)
            with archive.open("imgs.npy") as stream:
                shape, dtype = _array_header(stream)
                if shape != (len(classes), 64, 64) or dtype != np.uint8:
                    raise ValueError(f"imgs are {dtype} of shape {shape}, not uint8 of shape ({len(classes)}, 64, 64)")
                pictures = partial(_next_pictures, stream)
                return _pack_bits(pictures, len(classes)), classes
    except (*_ZIP_ERRORS, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is not the dSprites archive: {error!r}. Get it again.") from error


def _next_pictures(stream: IO[bytes], start: int, stop: int) -> Bits:
    return np.frombuffer(stream.read((stop - start) * 64 * 64), np.uint8)


def _pack_bits(pictures: Callable[[int, int], Bits], count: int) -> Bits:
    """Return pictures of zeros and ones as bits, read in blocks by (start, stop)."""
    bits = np.empty((count, 64 * 64 // 8), np.uint8)
    for start in range(0, count, _SPRITE_CHUNK):
        stop = min(start + _SPRITE_CHUNK, count)
        bits[start:stop] = np.packbits(pictures(start, stop).reshape(stop - start, 64 * 64), axis=1)
    return bits


def _array_header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    if fortran or dtype.hasobject:
        raise ValueError(f"an array of {dtype}, {'by column' if fortran else 'by row'}")
    return shape, dtype


def _hdf5(path: Path, content: str) -> Any:
    try:
        import h5py
    except ImportError:
        raise MissingExtraError(f"h5py, which reads {content},", "vtab") from None
    return h5py.File(path, "r")


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


def read_smallnorb(place: Path) -> dict[str, Examples]:
    """Read both splits; of two cameras, the first."""
    found = {}
    for split, stem in _NORB_STEMS.items():
        pairs, info = read_matrix(place / f"{stem}-dat.mat"), read_matrix(place / f"{stem}-info.mat")
        if pairs.ndim != 4 or pairs.shape[0] != len(info) or info.shape[1] != 4:
            raise DataError(f"{place / stem}: pictures of shape {pairs.shape} do not fit information of {info.shape}.")
        fields = {"azimuth": info[:, _AZIMUTH] // 2, "elevation": info[:, _ELEVATION]}
        found[split] = from_pixels(split, pairs[:, 0].__getitem__, fields).as_recorded(split)
    return found


@reader("a smallNORB matrix")
def read_matrix(path: Path) -> npt.NDArray[Any]:
    """Read a binary matrix; `.gz` is unpacked into memory, an unpacked file is mapped."""
    packed = path.with_name(path.name + ".gz")
    try:
        if path.exists():
            with path.open("rb") as stream:
                dtype, shape, start = _norb_header(stream.read(4096), path)
            return np.memmap(path, dtype, "r", start, shape)
        with gzip.open(packed) as stream:
            data = read_limited(cast("IO[bytes]", stream), allowance(packed.stat().st_size), packed)
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"cannot read {path} or its .gz: {error}.") from error
    dtype, shape, start = _norb_header(data[:4096], packed)
    if len(data) != start + math.prod(shape) * dtype.itemsize:
        raise DataError(f"{packed} promises an array of {shape}, but has {len(data):,} bytes. Get it again.")
    return np.frombuffer(data, dtype, offset=start).reshape(shape)


def _norb_header(data: bytes, path: Path) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    if len(data) < 8:
        raise DataError(f"{path} is too short to be a smallNORB matrix.")
    magic, count = np.frombuffer(data, "<i4", 2).tolist()
    if magic not in _NORB_TYPES or not 0 < count <= 8:
        raise DataError(f"{path} is not a smallNORB matrix: it begins with {magic:#x}.")
    sizes = np.frombuffer(data, "<i4", max(count, 3), offset=8).tolist()
    return _NORB_TYPES[magic], tuple(sizes[:count]), 8 + 4 * max(count, 3)


# Diabetic Retinopathy (Kaggle 2015): photographs of eyes, levels 0 to 4. TFDS' key: the name without extension.
#
# Paper:      the images as TFDS `btgraham-300` has them, after Ben Graham's winning entry
# Implements: the eye scaled to a radius of 300, four times the difference from a local mean plus 128, a disc of 0.9 of
#             the radius on grey, cropped to it
# Differs:    no JPEG in between (TFDS stores quality 72), and Pillow's resampling and blur instead of OpenCV's

_LEVELS = ("none", "mild", "moderate", "severe", "proliferative")
_RADIUS = 300
_DISC = 0.9


def read_retinopathy(place: Path) -> dict[str, Examples]:
    """Read the splits of the competition: public test images are for validation, private ones for testing."""
    tests = _read_levels(place / "retinopathy_solution.csv")
    rows = {
        "train": [("train", row) for row in _read_levels(place / "trainLabels.csv")],
        "validation": [("test", row) for row in tests if row[2] == "Public"],
        "test": [("test", row) for row in tests if row[2] == "Private"],
    }
    found = {}
    for split, some in rows.items():
        names = [f"{folder}/{image}.jpeg" for folder, (image, _, _) in some]
        labels = np.array([level for _, (_, level, _) in some], np.int64)
        raw = from_files(place, names, {"label": labels}, _LEVELS)
        eyes = replace(raw, open=partial(_open_eye, raw.open))
        found[split] = eyes.as_recorded(split, [image for _, (image, _, _) in some])
    return found


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


def _read_levels(path: Path) -> list[tuple[str, int, str]]:
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            return [(row["image"], int(row["level"]), row.get("Usage", "")) for row in csv.DictReader(stream)]
    except (OSError, KeyError, ValueError) as error:
        raise DataError(f"{path} is not a table with image and level: {error!r}.") from error


# PatchCamelyon: HDF5 files of patches and of labels, per split. Needs the `vtab` extra (h5py).
# TFDS' key: split and number.

_PCAM_FILE = "camelyonpatch_level_2_split_{}_{}.h5"


def read_camelyon(place: Path) -> dict[str, Examples]:
    """Read the three splits."""
    found = {}
    for split, short in (("train", "train"), ("validation", "valid"), ("test", "test")):
        images = _patches(place / _PCAM_FILE.format(short, "x"), "x")
        labels = np.asarray(_patches(place / _PCAM_FILE.format(short, "y"), "y")).reshape(-1).astype(np.int64)
        if images.shape != (len(labels), 96, 96, 3):
            raise DataError(f"{place}: split {short!r} has {images.shape} images and {len(labels)} labels.")
        examples = from_pixels(split, partial(_patch, images, Lock()), {"label": labels}, ("no tumour", "tumour"))
        found[split] = examples.as_recorded(split, [f"{short}_{i}" for i in range(len(labels))])
    return found


def _patch(images: Any, lock: Lock, i: int) -> npt.NDArray[np.uint8]:
    with lock:  # HDF5 reads one thing at a time
        return np.asarray(images[i], np.uint8)


def _patches(path: Path, name: str) -> Any:
    if not path.exists() and path.with_name(path.name + ".gz").exists():
        raise DataError(f"{path.name}.gz is packed: unpack it first (gunzip -k), its patches are read one by one.")
    try:
        return _hdf5(path, "PatchCamelyon")[name]
    except (OSError, KeyError, ValueError, RuntimeError) as error:
        raise DataError(f"cannot read {path}: {error}.") from error
