"""Find and read the original files of VTAB's datasets; `tasks.toml` lists where they are.

`read_original` returns the official splits under the names that TFDS gives them, in the order in which TFDS records
them (`record_order`): the first 800 and the first 200 are then the authors' own. If not, `Examples.own` states why.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError
from unseen.core.pickles import load_plain_pickle
from unseen.data.columns import read_lines
from unseen.data.images import find_images, subfolders
from unseen.data.matlab import read_matlab
from unseen.data.sources.vtab import original_readers as readers
from unseen.data.sources.vtab.examples import Examples, from_bytes, from_files, from_pixels
from unseen.data.sources.vtab.tasks import class_names, folder_labels, original_places
from unseen.data.sources.vtab.tfds import RecordFile, Records, first_number, image_bytes, text

Splits = dict[str, Examples]


def find_original(data: str, root: Path) -> Path | None:
    """Return the folder with the original files of a dataset, or its packed archive, or None."""
    places, known = original_places(data), {name.lower() for name in class_names(data)}
    for folder in (root / name for name in places.folders):
        if places.requires:
            if all(any(_matches(folder, either)) for either in places.requires):
                return folder
        elif folder.is_dir() and any(name.lower() in known for name in subfolders(folder)):
            return folder
    return next((root / archive for archive in places.archives if (root / archive).is_file()), None)


def read_original(data: str, place: Path) -> Splits:
    """Return the official splits of a dataset, read from the place that `find_original` returned."""
    if place.is_file():
        raise DataError(f"{place} is packed, and single images cannot be read out of it: unpack it first (tar -xf).")
    return READERS[data](place)


def _matches(folder: Path, alternatives: str) -> list[Path]:
    return [path for pattern in alternatives.split("|") for path in folder.glob(pattern)]


def _read_folder(place: Path, data: str) -> tuple[Examples, list[tuple[str, str]]]:
    """Return the images of all class folders by folder and name, with the class and file of each.

    Classes are spelled as by their authors: some copies have changed the case.
    """
    folders = subfolders(place)
    labels = folder_labels(data, folders, place)
    files = [find_images(place / folder, f"{folder}/").names for folder in folders]
    names = [name for some in files for name in some]
    if not names:
        raise DataError(f"{place} has no folders with images, one per class.")
    classes = class_names(data)
    repeated = np.repeat(labels, [len(some) for some in files])
    pairs = [(classes[label], name.rpartition("/")[2]) for label, name in zip(repeated.tolist(), names, strict=True)]
    return from_files(place, names, {"label": repeated}, classes), pairs


def _read_one_set(place: Path, data: str) -> Splits:
    """Read a folder per class: one set that VTAB cuts in three. TFDS' key: class and file name."""
    examples, pairs = _read_folder(place, data)
    return {"train": examples.as_recorded("train", [f"{folder}_{file}" for folder, file in pairs])}


_CALTECH_LIST = "caltech101_train.txt"


def _read_caltech101(place: Path) -> Splits:
    """Read a folder per class; 30 random images of each are for training, the others for testing.

    TFDS' key: class and file. It samples the 30 with NumPy's old generator from 1234, class after class, in the order
    in which a file system lists folders and files: on another machine they are others.

    Differs:    the sample is TFDS' with listings in alphabetical order; the authors' is not known. If you have their
                3,060 names, write them, one `class/image_0001.jpg` per line, into `caltech101_train.txt` beside the
                classes or above them
    """
    examples, pairs = _read_folder(place, "caltech101")
    path = next((p for p in (place / _CALTECH_LIST, place.parent / _CALTECH_LIST) if p.exists()), None)
    train = _listed_rows(path, examples.names) if path else _sampled_rows(examples.fields["label"])
    own = f"its training images are those of {path.name}" if path else "its 30 training images per class are drawn here"
    found = {}
    for split, rows in (("train", np.flatnonzero(train)), ("test", np.flatnonzero(~train))):
        keys = ["/".join(pairs[row]) for row in rows.tolist()]
        found[split] = replace(examples.take(rows).as_recorded(split, keys), own=own, certain=path is None)
    return found


def _sampled_rows(labels: npt.NDArray[Any], per_class: int = 30) -> npt.NDArray[np.bool_]:
    generator = np.random.RandomState(1234)
    chosen = np.zeros(len(labels), bool)
    for label in dict.fromkeys(labels.tolist()):
        rows = np.flatnonzero(labels == label)
        chosen[generator.choice(rows, min(per_class, len(rows)), replace=False)] = True
    return chosen


def _listed_rows(path: Path, names: Sequence[str]) -> npt.NDArray[np.bool_]:
    number = {name.lower(): row for row, name in enumerate(names)}
    chosen = np.zeros(len(names), bool)
    for line, name in read_lines(path):
        if name.lower() not in number:
            raise DataError(f"{path}, line {line}: there is no image {name!r}.")
        chosen[number[name.lower()]] = True
    return chosen


def _by_class_path(place: Path, data: str, split: str, names: Sequence[str], slash: str = "") -> Examples:
    """Return listed images in folders named by their class. TFDS' key: the path, for SUN397 with a slash before it."""
    labels = folder_labels(data, [name.rpartition("/")[0] for name in names], place)
    examples = from_files(place, names, {"label": labels}, class_names(data))
    return examples.as_recorded(split, [f"{slash}{name}" for name in names])


def _read_dtd(place: Path) -> Splits:
    """Read the first of ten published folds, which VTAB takes."""
    lists = {"train": "train1.txt", "validation": "val1.txt", "test": "test1.txt"}
    names = {split: [line for _, line in read_lines(place / "labels" / file)] for split, file in lists.items()}
    return {split: _by_class_path(place / "images", "dtd", split, some) for split, some in names.items()}


_SUN_LISTS = {"train": "sun397_tfds_tr.txt", "validation": "sun397_tfds_va.txt", "test": "sun397_tfds_te.txt"}


def _read_sun397(place: Path) -> Splits:
    """Read folders by first letter and class, `a/abbey/sun_*.jpg`; some classes are one folder deeper.

    The published split is three lists that come with TFDS (`sun397_tfds_tr.txt`, `_va.txt`, `_te.txt`). They are used
    if they are beside the images; otherwise the images are split 70 : 10 : 20.

    Differs:    TFDS shrinks images to 120,000 pixels and encodes them again; here they are unchanged. It leaves out one
                listed image that it cannot decode, which would be number 66,481 of train: not among the first 800
    """
    lists = {split: [p for p in (place / n, place.parent / n) if p.exists()] for split, n in _SUN_LISTS.items()}
    if all(lists.values()):
        names = {split: [line.lstrip("/") for _, line in read_lines(paths[0])] for split, paths in lists.items()}
        return {split: _by_class_path(place, "sun397", split, some, "/") for split, some in names.items()}
    folders = [
        find_images(place / letter, f"{letter}/", links=lambda path: path.count("/") == 1).names
        for letter in subfolders(place)
    ]
    if not any(folders):
        raise DataError(f"{place} has no images in folders such as a/abbey.")
    everything = _by_class_path(place, "sun397", "", [name for some in folders for name in some], "/")
    ends = [0, round(0.7 * len(everything)), round(0.8 * len(everything)), len(everything)]
    own = f"its splits are drawn here: {', '.join(_SUN_LISTS.values())} of TFDS are not beside the images"
    return {
        split: replace(everything.take(np.arange(ends[k], ends[k + 1])), own=own) for k, split in enumerate(_SUN_LISTS)
    }


def _read_pets(place: Path) -> Splits:
    """Read `trainval.txt` and `test.txt`, lines of image, class (from 1), species and breed.

    TFDS' key: the file name. It encodes five damaged files again; here they are unchanged.
    """
    lists = {"train": "trainval.txt", "test": "test.txt"}
    parsed = {split: _parse_pets(place / "annotations" / name) for split, name in lists.items()}
    breeds = {label: image.rpartition("_")[0] for rows in parsed.values() for image, label in rows}
    classes = [breeds.get(label, str(label)) for label in range(max(breeds) + 1)]
    found = {}
    for split, rows in parsed.items():
        names = [f"{image}.jpg" for image, _ in rows]
        examples = from_files(place / "images", names, {"label": np.array([label for _, label in rows])}, classes)
        found[split] = examples.as_recorded(split, names)
    return found


def _parse_pets(path: Path) -> list[tuple[str, int]]:
    rows = []
    for number, line in read_lines(path):
        if line.startswith("#"):
            continue
        parts = line.split()
        if len(parts) != 4 or not parts[1].isdecimal():
            raise DataError(f"{path}, line {number}: {line!r} is not image, class, species and breed.")
        rows.append((parts[0], int(parts[1]) - 1))
    if not rows:
        raise DataError(f"{path} lists no image.")
    return rows


def _read_flowers102(place: Path) -> Splits:
    """Read numbered images, their classes in `imagelabels.mat` (from 1) and the splits in `setid.mat` (from 1).

    TFDS' key: the file name.
    """
    variables = {"train": "trnid", "validation": "valid", "test": "tstid"}
    labels = np.asarray(read_matlab(place / "imagelabels.mat", ("labels",))["labels"]).reshape(-1).astype(np.int64)
    sets = read_matlab(place / "setid.mat", tuple(variables.values()))
    folder = "jpg" if (place / "jpg").is_dir() or not (place / "images" / "jpg").is_dir() else "images/jpg"
    found = {}
    for split, variable in variables.items():
        numbers = np.asarray(sets[variable]).reshape(-1).astype(np.int64)
        if len(numbers) and (numbers.min() < 1 or numbers.max() > len(labels)):
            raise DataError(f"{place / 'setid.mat'}: {variable} names image {numbers.max()} of {len(labels)}.")
        keys = [f"image_{number:05d}.jpg" for number in numbers.tolist()]
        examples = from_files(place, [f"{folder}/{key}" for key in keys], {"label": labels[numbers - 1] - 1})
        found[split] = examples.as_recorded(split, keys)
    return found


def _read_svhn(place: Path) -> Splits:
    """Read cropped digits, `train_32x32.mat` and `test_32x32.mat`; the digit 0 is stored as class 10.

    TFDS' key: the number of the image.
    """
    digits = [str(digit) for digit in range(10)]
    found = {}
    for split in ("train", "test"):
        path = place / f"{split}_32x32.mat"
        content = read_matlab(path, ("X", "y"))
        images, labels = np.asarray(content["X"]), np.asarray(content["y"]).reshape(-1).astype(np.int64)
        if images.shape != (32, 32, 3, len(labels)):
            raise DataError(f"{path}: X has shape {images.shape}; (32, 32, 3, {len(labels)}) was expected.")
        found[split] = from_pixels(split, images.transpose(3, 0, 1, 2).__getitem__, {"label": labels % 10}, digits)
    return {split: part.as_recorded(split) for split, part in found.items()}


_CIFAR_RECORD = 2 + 3 * 32 * 32


def _read_cifar100(place: Path) -> Splits:
    """Read `cifar-100-python` (pickles), `cifar-100-matlab` or `cifar-100-binary`; fine labels.

    The pickles are read by a loader that builds plain arrays and nothing else. A record of the binary form is the
    coarse label, the fine label and 3,072 pixels, channel after channel. TFDS' key: the number of the image.
    """
    names, found = _cifar_classes(place), {}
    for split in ("train", "test"):
        mat, binary = place / f"{split}.mat", place / f"{split}.bin"
        content: Mapping[str, Any]
        if mat.exists():
            content = read_matlab(mat, ("data", "fine_labels"))
        else:
            content = _cifar_binary(binary) if binary.exists() else _cifar_pickle(place / split)
        try:
            rows, labels = np.asarray(content["data"], np.uint8), np.asarray(content["fine_labels"]).reshape(-1)
            images = rows.reshape(len(labels), 3, 32, 32).transpose(0, 2, 3, 1)
        except (KeyError, ValueError, TypeError) as error:
            raise DataError(f"{place / split} is not a CIFAR-100 file: {error!r}.") from error
        found[split] = from_pixels(split, images.__getitem__, {"label": labels}, names).as_recorded(split)
    return found


def _cifar_binary(path: Path) -> dict[str, Any]:
    try:
        values = np.fromfile(path, np.uint8)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}.") from error
    if not len(values) or len(values) % _CIFAR_RECORD:
        raise DataError(
            f"{path} has {len(values):,} bytes, which is no whole number of images of {_CIFAR_RECORD:,}. Get it again."
        )
    rows = values.reshape(-1, _CIFAR_RECORD)
    return {"data": rows[:, 2:], "fine_labels": rows[:, 1]}


def _cifar_pickle(path: Path) -> dict[str, Any]:
    """Return the dictionary of a pickle with text keys: Python 2 wrote bytes."""
    content: Any = load_plain_pickle(path)
    if not isinstance(content, dict):
        raise DataError(f"a CIFAR-100 pickle holds a {type(content).__name__}; a dictionary was expected.")
    return {_decoded(key): value for key, value in content.items()}


def _cifar_classes(place: Path) -> list[str]:
    if (place / "fine_label_names.txt").exists():
        return [line for _, line in read_lines(place / "fine_label_names.txt")]
    if not (place / "meta").exists():
        return []
    return [_decoded(name) for name in _cifar_pickle(place / "meta").get("fine_label_names", [])]


def _decoded(value: Any) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def _read_clevr(place: Path) -> Splits:
    """Read pictures and their scenes; depth is the third of an object's `pixel_coords`. TFDS' key: the file name."""
    return {split: _read_scenes(place, split, short) for split, short in (("train", "train"), ("validation", "val"))}


def _read_scenes(place: Path, split: str, short: str) -> Examples:
    path = place / "scenes" / f"CLEVR_{short}_scenes.json"
    try:
        scenes = json.loads(path.read_text(encoding="utf-8"))["scenes"]
        files = _scene_files(place, short, scenes)
        depths = [[obj["pixel_coords"][2] for obj in scene["objects"]] for scene in scenes]
        # TFDS stores them in single precision, which decides on which side of a bound a value falls.
        closest = np.array([min(values, default=np.inf) for values in depths], np.float32)
    except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise DataError(f"{path} is not a file of CLEVR scenes: {error!r}.") from error
    fields = {"objects": np.array([len(d) for d in depths]), "closest": closest}
    return from_files(place, [f"images/{short}/{file}" for file in files], fields).as_recorded(split, files)


def _scene_files(place: Path, short: str, scenes: list[dict[str, Any]]) -> list[str]:
    """Return the picture that each scene names, otherwise the next one by name, which is how TFDS pairs them."""
    if all("image_filename" in scene for scene in scenes):
        return [str(scene["image_filename"]) for scene in scenes]
    names = find_images(place / "images" / short, "").names
    if len(names) != len(scenes):
        raise ValueError(f"{len(scenes)} scenes that name no picture, and {len(names)} pictures")
    return names


def _read_dmlab(place: Path) -> Splits:
    """Read TFRecord files with `image`, `filename` and `label`, as VTAB's authors ship them. TFDS' key: `filename`."""
    return {split: _read_frames(place, split) for split in ("train", "validation", "test")}


def _read_frames(place: Path, split: str) -> Examples:
    paths = sorted(place.glob(f"dmlab-{split}.tfrecord*"))
    if not paths:
        raise DataError(f"{place} has no file dmlab-{split}.tfrecord*. Unpack the whole archive.")
    records = Records([RecordFile(path) for path in paths])
    rows = [(first_number(record, "label"), text(record, "filename")) for record in records]
    names = [f"{split}/{i:06d}" for i in range(len(rows))]
    labels = np.array([label for label, _ in rows], np.int64)
    found = from_bytes(names, lambda i: image_bytes(records[i]), {"label": labels})
    keys = [key for _, key in rows if key is not None]
    if len(keys) < len(rows):
        return replace(found, own="its records do not tell their file names", certain=False)
    return found.as_recorded(split, keys)


READERS: dict[str, Callable[[Path], Splits]] = {
    "caltech101": _read_caltech101,
    "camelyon": readers.read_camelyon,
    "cifar100": _read_cifar100,
    "clevr": _read_clevr,
    "dmlab": _read_dmlab,
    "dsprites": readers.read_dsprites,
    "dtd": _read_dtd,
    "eurosat": partial(_read_one_set, data="eurosat"),
    "flowers102": _read_flowers102,
    "kitti": readers.read_kitti,
    "pets": _read_pets,
    "resisc45": partial(_read_one_set, data="resisc45"),
    "retinopathy": readers.read_retinopathy,
    "smallnorb": readers.read_smallnorb,
    "sun397": _read_sun397,
    "svhn": _read_svhn,
}
