"""KITTI, object detection: the depth of the closest car, van or truck; images of one drive stay in one split.

    training/image_2/000000.png, training/label_2/000000.txt, mapping/train_{rand,mapping}.txt, or the three archives
    data_object_image_2.zip, data_object_label_2.zip, devkit_object.zip as they are downloaded

Source:     TFDS' rule: a tenth of the drives for test, a tenth for validation, drawn by NumPy's old generator from 123.
            Its key: the name of the image; an image and its label belong together by the last six digits
Differs:    nothing: with the development kit's mapping of images to drives the splits are the published ones
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np

from unseen.core.errors import DataError
from unseen.core.guard import read_member
from unseen.data.decode import MAX_BYTES
from unseen.data.listing import read_lines
from unseen.data.sources.vtab.examples import Examples, first_folder, from_bytes, from_files
from unseen.data.sources.vtab.tfds import NO_VEHICLE

VEHICLES = ("Car", "Van", "Truck")
IMAGES, LABELS, KIT = "data_object_image_2.zip", "data_object_label_2.zip", "devkit_object.zip"
_SHARE = 10  # percent of the drives, for each of validation and test


def find(root: Path) -> Path | None:
    places = (root, root / "kitti", root / "Kitti" / "raw", root / "KITTI")
    unpacked = next((p for p in places if (p / "training" / "label_2").is_dir()), None)
    return unpacked or next((p for p in places if (p / IMAGES).exists() and (p / LABELS).exists()), None)


def read(place: Path) -> dict[str, Examples]:
    return _read_folders(place) if (place / "training").is_dir() else _read_archives(place)


def _read_folders(place: Path) -> dict[str, Examples]:
    images = _by_number((place / "training" / "image_2").glob("*.png"))
    labels = _by_number((place / "training" / "label_2").glob("*.txt"))
    found = {}
    for split, numbers in split_by_drive(_drives(place)).items():
        files = [images.get(i, f"{i:06d}.png") for i in numbers]
        paths = [place / "training" / "label_2" / labels.get(i, f"{i:06d}.txt") for i in numbers]
        closest = np.array([closest_vehicle(path, read_lines(path)) for path in paths], np.float32)
        examples = from_files(place, [f"training/image_2/{file}" for file in files], {"closest": closest})
        found[split] = examples.as_recorded(split, files)
    return found


def _read_archives(place: Path) -> dict[str, Examples]:
    try:
        pictures, texts = zipfile.ZipFile(place / IMAGES), zipfile.ZipFile(place / LABELS)
        images = _by_number(Path(n) for n in pictures.namelist() if n.startswith("training/") and n.endswith(".png"))
        labels = _by_number(Path(n) for n in texts.namelist() if n.startswith("training/") and n.endswith(".txt"))
        found = {}
        for split, numbers in split_by_drive(_drives_of_kit(place / KIT)).items():
            files = [images.get(i, f"{i:06d}.png") for i in numbers]
            members = [f"training/label_2/{labels.get(i, f'{i:06d}.txt')}" for i in numbers]
            lines = [_member(texts, member).decode("utf-8").splitlines() for member in members]
            depths = [closest_vehicle(Path(m), enumerate(some, 1)) for m, some in zip(members, lines, strict=True)]
            names = [f"training/image_2/{file}" for file in files]
            data = partial(_image, pictures, names)
            found[split] = from_bytes(names, data, {"closest": np.array(depths, np.float32)}).as_recorded(split, files)
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise DataError(f"the archives in {place} cannot be read: {error!r}. Get them again.") from error
    return found


def _image(archive: zipfile.ZipFile, names: list[str], i: int) -> bytes:
    try:
        return _member(archive, names[i])
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise DataError(f"cannot be read out of its archive: {error}") from error


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        size = archive.getinfo(name).file_size
    except KeyError:
        raise DataError(f"{archive.filename} has no {name!r}.") from None
    if size > MAX_BYTES:
        raise DataError(f"a file of {size:,} bytes; the limit is {MAX_BYTES:,}")
    return read_member(archive, name)


def _by_number(paths: Iterable[Path]) -> dict[int, str]:
    return {int(path.stem[-6:]): path.name for path in paths if path.stem[-6:].isdecimal()}


def closest_vehicle(path: Path, lines: Iterable[tuple[int, str]]) -> float:
    """Depth in metres of the closest vehicle of a label file; 1000 where there is none."""
    closest = NO_VEHICLE
    for number, line in lines:
        parts = line.split()
        if len(parts) < 15:
            raise DataError(f"{path}, line {number}: {len(parts)} values, at least 15 were expected.")
        if parts[0] in VEHICLES:
            try:
                closest = min(closest, float(parts[13]))
            except ValueError:
                raise DataError(f"{path}, line {number}: {parts[13]!r} is not a depth.") from None
    return closest


def split_by_drive(drives: list[str]) -> dict[str, list[int]]:
    """Image numbers by split, from the drive of each image."""
    generator = np.random.RandomState(123)
    names = sorted(set(drives))
    count = max(1, _SHARE * len(names) // 100)
    test = set(generator.choice(names, count, replace=False).tolist())
    rest = sorted(set(names) - test)
    validation = set(generator.choice(rest, count, replace=False).tolist()) if rest else set()
    found: dict[str, list[int]] = {"train": [], "validation": [], "test": []}
    for image, drive in enumerate(drives):
        split = "test" if drive in test else "validation" if drive in validation else "train"
        found[split].append(image)
    return found


def _drives(place: Path) -> list[str]:
    folder = first_folder(place, "mapping", "devkit_object/mapping", "training/mapping")
    if folder is None:
        return _drives_of_kit(place / KIT)
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
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
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
