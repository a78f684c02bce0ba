"""Find and read the original files of VTAB's datasets; `tasks.toml` lists where they are.

`read_original` returns the official splits under the names that TFDS gives them, in the order in which TFDS records
them (`record_order`): the first 800 and the first 200 are then the authors' own. If not, `Examples.own` states why.
Each reader yields its splits as (name, examples, what TFDS calls the examples).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from unseen.core.arrays import AnyArray, BoolArray
from unseen.core.errors import DataError
from unseen.core.guard import guarded, reader
from unseen.core.pickles import load_plain_pickle
from unseen.data.columns import read_lines
from unseen.data.images import find_images, subfolders
from unseen.data.matlab import read_matlab
from unseen.data.sources.vtab import original_readers as readers
from unseen.data.sources.vtab.examples import Examples, from_bytes, from_files, from_pixels
from unseen.data.sources.vtab.original_readers import Splits
from unseen.data.sources.vtab.tasks import class_names, folder_labels, original_places
from unseen.data.sources.vtab.tfds import RecordFile, Records, first_number, image_bytes, text


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


def read_original(data: str, place: Path) -> dict[str, Examples]:
    """Return the official splits of a dataset, read from the place that `find_original` returned."""
    if place.is_file():
        raise DataError(f"{place} is packed, and single images cannot be read out of it: unpack it first (tar -xf).")
    found = READERS[data](place)
    return {split: part if keys == () else part.as_recorded(split, keys) for split, part, keys in found}


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
    repeated = np.repeat(labels, list(map(len, files)))
    pairs = [(classes[label], name.rpartition("/")[2]) for label, name in zip(repeated, names, strict=True)]
    return from_files(place, names, {"label": repeated}, classes), pairs


def _read_one_set(place: Path, data: str) -> Splits:
    """Read a folder per class: one set that VTAB cuts in three. TFDS' key: class and file name."""
    examples, pairs = _read_folder(place, data)
    yield "train", examples, ["_".join(pair) for pair in pairs]


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
    examples = replace(examples, own=own, certain=path is None)
    for split, rows in (("train", np.flatnonzero(train)), ("test", np.flatnonzero(~train))):
        yield split, examples.take(rows), ["/".join(pairs[row]) for row in rows]


def _sampled_rows(labels: AnyArray, per_class: int = 30) -> BoolArray:
    generator = np.random.RandomState(1234)
    chosen = np.zeros(len(labels), bool)
    for label in dict.fromkeys(labels.tolist()):
        rows = np.flatnonzero(labels == label)
        chosen[generator.choice(rows, min(per_class, len(rows)), replace=False)] = True
    return chosen


def _listed_rows(path: Path, names: Sequence[str]) -> BoolArray:
    number = {name.lower(): row for row, name in enumerate(names)}
    chosen = np.zeros(len(names), bool)
    for line, name in read_lines(path):
        if name.lower() not in number:
            raise DataError(f"{path}, line {line}: there is no image {name!r}.")
        chosen[number[name.lower()]] = True
    return chosen


def _in_class_folders(place: Path, data: str, names: Sequence[str]) -> Examples:
    labels = folder_labels(data, [name.rpartition("/")[0] for name in names], place)
    return from_files(place, names, {"label": labels}, class_names(data))


def _read_dtd(place: Path) -> Splits:
    """Read the first of ten published folds, which VTAB takes. TFDS' key: the path."""
    for split, short in (("train", "train"), ("validation", "val"), ("test", "test")):
        names = [line for _, line in read_lines(place / "labels" / f"{short}1.txt")]
        yield split, _in_class_folders(place / "images", "dtd", names), names


_SUN_LISTS = {"train": "sun397_tfds_tr.txt", "validation": "sun397_tfds_va.txt", "test": "sun397_tfds_te.txt"}


def _read_sun397(place: Path) -> Splits:
    """Read folders by first letter and class, `a/abbey/sun_*.jpg`; some classes are one folder deeper.

    The published split is three lists that come with TFDS (`sun397_tfds_tr.txt`, `_va.txt`, `_te.txt`). They are used
    if they are beside the images; otherwise the images are split 70 : 10 : 20. TFDS' key: the path after a slash.

    Differs:    TFDS shrinks images to 120,000 pixels and encodes them again; here they are unchanged. It leaves out one
                listed image that it cannot decode, which would be number 66,481 of train: not among the first 800
    """
    lists = {split: [p for p in (place / n, place.parent / n) if p.exists()] for split, n in _SUN_LISTS.items()}
    if all(lists.values()):
        for split, paths in lists.items():
            names = [line.lstrip("/") for _, line in read_lines(paths[0])]
            yield split, _in_class_folders(place, "sun397", names), [f"/{name}" for name in names]
        return
    names = [
        name
        for letter in subfolders(place)
        for name in find_images(place / letter, f"{letter}/", links=lambda path: path.count("/") == 1).names
    ]
    if not names:
        raise DataError(f"{place} has no images in folders such as a/abbey.")
    every = _in_class_folders(place, "sun397", names).as_recorded("", [f"/{name}" for name in names])
    own = f"its splits are drawn here: {', '.join(_SUN_LISTS.values())} of TFDS are not beside the images"
    parts = np.split(np.arange(len(names)), [round(0.7 * len(names)), round(0.8 * len(names))])
    for split, rows in zip(_SUN_LISTS, parts, strict=True):
        yield split, replace(every.take(rows), own=own), ()


def _read_pets(place: Path) -> Splits:
    """Read `trainval.txt` and `test.txt`, lines of image, class (from 1), species and breed.

    TFDS' key: the file name. It encodes five damaged files again; here they are unchanged.
    """
    lists = {"train": "trainval.txt", "test": "test.txt"}
    parsed = {split: _parse_pets(place / "annotations" / name) for split, name in lists.items()}
    breeds = {label: image.rpartition("_")[0] for rows in parsed.values() for image, label in rows}
    classes = [breeds.get(label, str(label)) for label in range(max(breeds) + 1)]
    for split, rows in parsed.items():
        names = [f"{image}.jpg" for image, _ in rows]
        yield split, from_files(place / "images", names, {"label": [label for _, label in rows]}, classes), names


def _parse_pets(path: Path) -> list[tuple[str, int]]:
    rows = []
    for number, line in read_lines(path):
        parts = line.split()
        if line.startswith("#"):
            continue
        if len(parts) != 4 or not parts[1].isdecimal():
            raise DataError(f"{path}, line {number}: {line!r} is not image, class, species and breed.")
        rows.append((parts[0], int(parts[1]) - 1))
    if not rows:
        raise DataError(f"{path} lists no image.")
    return rows


def _numbers(variable: object) -> AnyArray:
    return np.asarray(variable).reshape(-1).astype(np.int64)


def _read_flowers102(place: Path) -> Splits:
    """Read numbered images, their classes in `imagelabels.mat` (from 1) and the splits in `setid.mat` (from 1).

    TFDS' key: the file name.
    """
    variables = {"train": "trnid", "validation": "valid", "test": "tstid"}
    labels = _numbers(read_matlab(place / "imagelabels.mat", ("labels",))["labels"])
    sets = read_matlab(place / "setid.mat", tuple(variables.values()))
    folder = "jpg" if (place / "jpg").is_dir() or not (place / "images" / "jpg").is_dir() else "images/jpg"
    for split, variable in variables.items():
        numbers = _numbers(sets[variable])
        if len(numbers) and (numbers.min() < 1 or numbers.max() > len(labels)):
            raise DataError(f"{place / 'setid.mat'}: {variable} names image {numbers.max()} of {len(labels)}.")
        keys = [f"image_{number:05d}.jpg" for number in numbers]
        yield split, from_files(place, [f"{folder}/{key}" for key in keys], {"label": labels[numbers - 1] - 1}), keys


def _read_svhn(place: Path) -> Splits:
    """Read cropped digits, `train_32x32.mat` and `test_32x32.mat`; the digit 0 is stored as class 10.

    TFDS' key: the number of the image.
    """
    for split in ("train", "test"):
        path = place / f"{split}_32x32.mat"
        content = read_matlab(path, ("X", "y"))
        images, labels = np.asarray(content["X"]), _numbers(content["y"]) % 10
        if images.shape != (32, 32, 3, len(labels)):
            raise DataError(f"{path}: X has shape {images.shape}; (32, 32, 3, {len(labels)}) was expected.")
        pixels = images.transpose(3, 0, 1, 2).__getitem__
        yield split, from_pixels(split, pixels, {"label": labels}, list("0123456789")), None


_CIFAR_RECORD = 2 + 3 * 32 * 32


def _read_cifar100(place: Path) -> Splits:
    """Read `cifar-100-python` (pickles), `cifar-100-matlab` or `cifar-100-binary`; fine labels.

    The pickles are read by a loader that builds plain arrays and nothing else. A record of the binary form is the
    coarse label, the fine label and 3,072 pixels, channel after channel. TFDS' key: the number of the image.
    """
    for split in ("train", "test"):
        with guarded(place / split, "a CIFAR-100 file"):
            content = _read_cifar(place, split)
            rows, labels = np.asarray(content["data"], np.uint8), _numbers(content["fine_labels"])
            images = rows.reshape(len(labels), 3, 32, 32).transpose(0, 2, 3, 1)
            found = from_pixels(split, images.__getitem__, {"label": labels}, _cifar_classes(place))
        yield split, found, None


def _read_cifar(place: Path, split: str) -> dict[str, object]:
    binary = place / f"{split}.bin"
    if (place / f"{split}.mat").exists():
        return dict(read_matlab(place / f"{split}.mat", ("data", "fine_labels")))
    if not binary.exists():
        return _cifar_pickle(place / split)
    values = np.fromfile(binary, np.uint8)
    if not len(values) or len(values) % _CIFAR_RECORD:
        raise DataError(
            f"{binary} has {len(values):,} bytes, no whole number of images of {_CIFAR_RECORD:,}. Get it again."
        )
    rows = values.reshape(-1, _CIFAR_RECORD)
    return {"data": rows[:, 2:], "fine_labels": rows[:, 1]}


def _cifar_pickle(path: Path) -> dict[str, Any]:
    """Return the dictionary of a pickle with text keys: Python 2 wrote bytes."""
    return {_decoded(key): value for key, value in load_plain_pickle(path).items()}


def _cifar_classes(place: Path) -> list[str]:
    if (place / "fine_label_names.txt").exists():
        return [line for _, line in read_lines(place / "fine_label_names.txt")]
    known = _cifar_pickle(place / "meta") if (place / "meta").exists() else {}
    return [_decoded(name) for name in known.get("fine_label_names", [])]


def _decoded(value: object) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def _read_clevr(place: Path) -> Splits:
    """Read pictures and their scenes; depth is the third of an object's `pixel_coords`. TFDS' key: the file name."""
    for split, short in (("train", "train"), ("validation", "val")):
        names, fields = _read_scenes(place / "scenes" / f"CLEVR_{short}_scenes.json")
        files = names or find_images(place / "images" / short, "").names  # TFDS pairs them with scenes by name
        if len(files) != len(fields["objects"]):
            raise DataError(f"{place}: {len(fields['objects'])} {split} scenes, and {len(files)} pictures.")
        yield split, from_files(place, [f"images/{short}/{file}" for file in files], fields), files


@reader("a file of CLEVR scenes")
def _read_scenes(path: Path) -> tuple[list[str], dict[str, AnyArray]]:
    """Return the pictures that the scenes name, if all do, and the number and smallest depth of their objects."""
    scenes = json.loads(path.read_text(encoding="utf-8"))["scenes"]
    depths = [[thing["pixel_coords"][2] for thing in scene["objects"]] for scene in scenes]
    # TFDS stores them in single precision, which decides on which side of a bound a value falls.
    closest = np.array([min(values, default=np.inf) for values in depths], np.float32)
    names = [str(scene["image_filename"]) for scene in scenes if "image_filename" in scene]
    return names if len(names) == len(scenes) else [], {"objects": np.array(list(map(len, depths))), "closest": closest}


def _read_dmlab(place: Path) -> Splits:
    """Read TFRecord files with `image`, `filename` and `label`, as VTAB's authors ship them. TFDS' key: `filename`."""
    for split in ("train", "validation", "test"):
        paths = sorted(place.glob(f"dmlab-{split}.tfrecord*"))
        if not paths:
            raise DataError(f"{place} has no file dmlab-{split}.tfrecord*. Unpack the whole archive.")
        records = Records([RecordFile(path) for path in paths])
        rows = [(first_number(record, "label"), text(record, "filename")) for record in records]
        names, keys = [f"{split}/{i:06d}" for i in range(len(rows))], [key for _, key in rows if key is not None]
        found = from_bytes(names, partial(_frame, records), {"label": [label for label, _ in rows]})
        if len(keys) < len(rows):
            yield split, replace(found, own="its records lack their file names", certain=False), ()
        else:
            yield split, found, keys


def _frame(records: Records, i: int) -> bytes:
    return image_bytes(records[i])


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
