"""KITTI, object detection: the depth of the closest car, van or truck; images of one drive stay in one split.

Source:     TFDS' rule: a tenth of the drives for test, a tenth for validation, drawn by NumPy's old generator from 123
Differs:    nothing: with the development kit's mapping of images to drives the splits are the published ones
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unseen.core.errors import DataError
from unseen.data.listing import read_lines
from unseen.data.sources.vtab.examples import Examples, first_folder, from_files
from unseen.data.sources.vtab.tfds import NO_VEHICLE

VEHICLES = ("Car", "Van", "Truck")
_SHARE = 10  # percent of the drives, for each of validation and test


def find(root: Path) -> Path | None:
    places = (root, root / "kitti", root / "Kitti" / "raw", root / "KITTI")
    return next((p for p in places if (p / "training" / "label_2").is_dir()), None)


def read(place: Path) -> dict[str, Examples]:
    splits = split_by_drive(_drives(place))
    found = {}
    for split, images in splits.items():
        closest = np.array(
            [closest_vehicle(place / "training" / "label_2" / f"{i:06d}.txt") for i in images], np.float32
        )
        names = [f"training/image_2/{i:06d}.png" for i in images]
        found[split] = from_files(place, names, {"closest": closest}).shuffled()
    return found


def closest_vehicle(path: Path) -> float:
    """Depth in metres of the closest vehicle of a label file; 1000 where there is none."""
    closest = NO_VEHICLE
    for number, line in read_lines(path):
        parts = line.split()
        if len(parts) < 15:
            raise DataError(f"{path}, line {number}: {len(parts)} values, at least 15 were expected.")
        if parts[0] in VEHICLES:
            closest = min(closest, float(parts[13]))
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
        raise DataError(
            f"{place} has images and labels, but not which drive each image is from. Put mapping/train_rand.txt and "
            "mapping/train_mapping.txt of devkit_object.zip beside `training`: images of one drive look alike, and "
            "must not be split."
        )
    lines = [line for _, line in read_lines(folder / "train_mapping.txt")]
    text = " ".join(line for _, line in read_lines(folder / "train_rand.txt"))
    try:
        return [lines[int(number) - 1].split()[1] for number in text.replace(",", " ").split()]
    except (ValueError, IndexError) as error:
        raise DataError(f"{folder}: the mapping from images to drives cannot be read: {error!r}.") from error
