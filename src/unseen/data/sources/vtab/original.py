"""Find and read the original files of VTAB's datasets.

`tasks.toml` is the table: folders, required files and archives of each dataset, and which part of the files is which
official split. `READERS` has one function per dataset, which reads one split: its examples and what TFDS calls them
(None: their numbers; none: they keep their order). `read_original` puts them in the order in which TFDS records them
(`record_order`): the first 800 and the first 200 are then the authors' own. If not, `Examples.own` states why.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

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
from unseen.data.sources.vtab.original_readers import Part
from unseen.data.sources.vtab.tasks import class_names, files_of, folder_labels, vtab_task
from unseen.data.sources.vtab.tfds import RecordFile, Records, first_number, image_bytes, text


def find_original(data: str, root: Path) -> Path | None:
    """Return the folder with the original files of a dataset, or None."""
    places, known = files_of(data), {name.lower() for name in class_names(data)}
    for folder in (root / name for name in places.folders):
        if places.requires:
            if all(any(_matches(folder, either)) for either in places.requires):
                return folder
        elif folder.is_dir() and any(name.lower() in known for name in subfolders(folder)):
            return folder
    return None


def read_original(data: str, place: Path) -> dict[str, Examples]:
    """Return the official splits of a dataset, read from the place that `find_original` returned."""
    read, found = READERS[data], {}
    for split, part in files_of(data).splits.items():
        examples, keys = read(place, part)
        found[split] = examples if keys == () else examples.as_recorded(split, keys)
    return found


def _matches(folder: Path, alternatives: str) -> list[Path]:
    return [path for pattern in alternatives.split("|") for path in folder.glob(pattern)]


def _lines(path: Path) -> list[str]:
    return [line for _, line in read_lines(path)]


def _read_folder(place: Path, data: str) -> tuple[Examples, list[tuple[str, str]]]:
    """Return the images of all class folders by folder and name, with the class and file of each.

    Classes are spelled as by their authors: some copies have changed the case.
    """
    folders, classes = subfolders(place), class_names(data)
    found = [
        (f"{folder}/{name}", label, (classes[label], name.rpartition("/")[2]))
        for folder, label in zip(folders, folder_labels(data, folders, place).tolist(), strict=True)
        for name in find_images(place / folder, "").names
    ]
    if not found:
        raise DataError(f"{place} has no folders with images, one per class.")
    names, labels, pairs = (list(column) for column in zip(*found, strict=True))
    return from_files(place, names, {"label": labels}, classes), pairs


def _read_one_set(data: str, place: Path, _part: str) -> Part:
    """Read a folder per class: one set that VTAB cuts in three. TFDS' key: class and file name."""
    examples, pairs = _read_folder(place, data)
    return examples, ["_".join(pair) for pair in pairs]


_CALTECH_LIST = "caltech101_train.txt"


def _read_caltech101(place: Path, part: str) -> Part:
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
    rows = np.flatnonzero(train == (part == "train"))
    return replace(examples, own=own, certain=path is None).take(rows), ["/".join(pairs[row]) for row in rows]


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


def _read_dtd(place: Path, part: str) -> Part:
    """Read the first of ten published folds, which VTAB takes. TFDS' key: the path."""
    names = _lines(place / "labels" / part)
    return _in_class_folders(place / "images", "dtd", names), names


def _read_sun397(place: Path, part: str) -> Part:
    """Read folders by first letter and class, `a/abbey/sun_*.jpg`, by the three lists that come with TFDS.

    TFDS' key: the path after a slash.

    Differs:    TFDS shrinks images to 120,000 pixels and encodes them again; here they are unchanged. It leaves out one
                listed image that it cannot decode, which would be number 66,481 of train: not among the first 800
    """
    path = next((p for p in (place.parent / part, place / part) if p.exists()), None)
    if path is None:
        raise DataError(f"{part} is not beside {place}. Images need the lists: {vtab_task('sun397').expects}.")
    names = [line.lstrip("/") for line in _lines(path)]
    return _in_class_folders(place, "sun397", names), [f"/{name}" for name in names]


def _read_pets(place: Path, part: str) -> Part:
    """Read lines of image, class (from 1), species and breed.

    TFDS' key: the file name. It encodes five damaged files again; here they are unchanged.
    """
    path = place / "annotations" / part
    with guarded(path, "lines of image, class, species and breed"):
        lines = [line.split() for line in _lines(path) if not line.startswith("#")]
        rows = [(image, int(label) - 1) for image, label, _, _ in lines]
    if not rows:
        raise DataError(f"{path} lists no image.")
    names, labels = [f"{image}.jpg" for image, _ in rows], [label for _, label in rows]
    breeds = {label: image.rpartition("_")[0] for image, label in rows}
    classes = [breeds.get(label, str(label)) for label in range(vtab_task("pets").classes)]
    return from_files(place / "images", names, {"label": labels}, classes), names


def _numbers(variable: object) -> AnyArray:
    return np.asarray(variable).reshape(-1).astype(np.int64)


def _read_flowers102(place: Path, part: str) -> Part:
    """Read numbered images, their classes in `imagelabels.mat` (from 1) and the splits in `setid.mat` (from 1).

    TFDS' key: the file name.
    """
    labels = _numbers(read_matlab(place / "imagelabels.mat", ("labels",))["labels"])
    numbers = _numbers(read_matlab(place / "setid.mat", (part,))[part])
    folder = "jpg" if (place / "jpg").is_dir() or not (place / "images" / "jpg").is_dir() else "images/jpg"
    if len(numbers) and (numbers.min() < 1 or numbers.max() > len(labels)):
        raise DataError(f"{place / 'setid.mat'}: {part} names image {numbers.max()} of {len(labels)}.")
    keys = [f"image_{number:05d}.jpg" for number in numbers]
    return from_files(place, [f"{folder}/{key}" for key in keys], {"label": labels[numbers - 1] - 1}), keys


def _read_svhn(place: Path, part: str) -> Part:
    """Read cropped digits; the digit 0 is stored as class 10. TFDS' key: the number of the image."""
    path = place / f"{part}_32x32.mat"
    content = read_matlab(path, ("X", "y"))
    images, labels = np.asarray(content["X"]), _numbers(content["y"]) % 10
    if images.shape != (32, 32, 3, len(labels)):
        raise DataError(f"{path}: X has shape {images.shape}; (32, 32, 3, {len(labels)}) was expected.")
    return from_pixels(part, images.transpose(3, 0, 1, 2).__getitem__, {"label": labels}, list("0123456789")), None


_CIFAR_RECORD = 2 + 3 * 32 * 32


def _read_cifar100(place: Path, part: str) -> Part:
    """Read `cifar-100-python` (pickles) or `cifar-100-binary`; fine labels. TFDS' key: the number of the image.

    The pickles are read by a loader that builds plain arrays and nothing else. A record of the binary form is the
    coarse label, the fine label and 3,072 pixels, channel after channel.
    """
    binary, path = place / f"{part}.bin", place / "fine_label_names.txt"
    with guarded(place / part, "a CIFAR-100 file"):
        if binary.exists():
            values = np.fromfile(binary, np.uint8)
            if not len(values) or len(values) % _CIFAR_RECORD:
                raise DataError(
                    f"{binary} has {len(values):,} bytes, no whole number of images of {_CIFAR_RECORD:,}. Get it again."
                )
            rows, classes = values.reshape(-1, _CIFAR_RECORD), _lines(path) if path.exists() else []
            pixels, labels = rows[:, 2:], _numbers(rows[:, 1])
        else:
            content, meta = _unpickle(place / part), _unpickle(place / "meta") if (place / "meta").exists() else {}
            pixels, labels = np.asarray(content["data"], np.uint8), _numbers(content["fine_labels"])
            classes = [_decoded(name) for name in meta.get("fine_label_names", [])]
        images = pixels.reshape(len(labels), 3, 32, 32).transpose(0, 2, 3, 1)
        return from_pixels(part, images.__getitem__, {"label": labels}, classes), None


def _unpickle(path: Path) -> dict[str, list[object]]:
    """Return the dictionary of a pickle with text keys: Python 2 wrote bytes."""
    return {_decoded(key): value for key, value in load_plain_pickle(path).items()}


def _decoded(value: object) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def _read_clevr(place: Path, part: str) -> Part:
    """Read pictures and their scenes; depth is the third of an object's `pixel_coords`. TFDS' key: the file name."""
    names, fields = _read_scenes(place / "scenes" / f"CLEVR_{part}_scenes.json")
    files = names or find_images(place / "images" / part, "").names  # TFDS pairs them with scenes by name
    if len(files) != len(fields["objects"]):
        raise DataError(f"{place}: {len(fields['objects'])} {part} scenes, and {len(files)} pictures.")
    return from_files(place, [f"images/{part}/{file}" for file in files], fields), files


@reader("a file of CLEVR scenes")
def _read_scenes(path: Path) -> tuple[list[str], dict[str, AnyArray]]:
    """Return the pictures that the scenes name, if all do, and the number and smallest depth of their objects."""
    scenes = json.loads(path.read_text(encoding="utf-8"))["scenes"]
    depths = [[thing["pixel_coords"][2] for thing in scene["objects"]] for scene in scenes]
    # TFDS stores them in single precision, which decides on which side of a bound a value falls.
    closest = np.array([min(values, default=np.inf) for values in depths], np.float32)
    names = [str(scene["image_filename"]) for scene in scenes if "image_filename" in scene]
    return names if len(names) == len(scenes) else [], {"objects": np.array(list(map(len, depths))), "closest": closest}


def _read_dmlab(place: Path, part: str) -> Part:
    """Read TFRecord files with `image`, `filename` and `label`, as VTAB's authors ship them. TFDS' key: `filename`."""
    paths = sorted(place.glob(f"dmlab-{part}.tfrecord*"))
    if not paths:
        raise DataError(f"{place} has no file dmlab-{part}.tfrecord*. Unpack the whole archive.")
    records = Records([RecordFile(path) for path in paths])
    rows = [(first_number(record, "label"), text(record, "filename")) for record in records]
    names, keys = [f"{part}/{i:06d}" for i in range(len(rows))], [key for _, key in rows if key is not None]
    found = from_bytes(names, lambda i: image_bytes(records[i]), {"label": [label for label, _ in rows]})
    if len(keys) < len(rows):
        return replace(found, own="its records lack their file names", certain=False), ()
    return found, keys


READERS: Mapping[str, Callable[[Path, str], Part]] = {
    "caltech101": _read_caltech101,
    "camelyon": readers.read_camelyon,
    "cifar100": _read_cifar100,
    "clevr": _read_clevr,
    "dmlab": _read_dmlab,
    "dsprites": readers.read_dsprites,
    "dtd": _read_dtd,
    "eurosat": partial(_read_one_set, "eurosat"),
    "flowers102": _read_flowers102,
    "kitti": readers.read_kitti,
    "pets": _read_pets,
    "resisc45": partial(_read_one_set, "resisc45"),
    "smallnorb": readers.read_smallnorb,
    "sun397": _read_sun397,
    "svhn": _read_svhn,
}
