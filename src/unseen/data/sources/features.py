"""`features:FILE.npz|.h5|.npy`: your own features of any images, with their labels, as a dataset.

Arrays:     features      (n, d) numbers, one row per image; or features_NAME, one array per model
            labels        (n,) class numbers from 0, class names, or numbers to predict
            class_names   (c,) texts, one per class number
            attributes    (c, a) numbers: class embeddings for zero-shot learning
            descriptions  (c,) or (c, k) texts for prompts; empty texts are ignored
            wnids         (c,) WordNet ids; an empty text for a class without one
            split         (n,) texts: train, val, test; or trainval, test_seen, test_unseen of zero-shot learning
            folds         (f, c) 0/1: the validation classes of each fold of the training classes
            image_files   (n,) texts
Options:    `labels=FILE` if the file has none (an .npy has features only): an .npy, or a text file with one label per
            line; `test=`, `val=` and `seed=` sample the splits if there is no `split`
Checks:     arrays are read without pickle; their shapes must belong together; what a file unpacks to is bounded
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import struct
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
import numpy.typing as npt

from unseen.core.arrays import AnyArray, FloatArray, IntArray
from unseen.core.class_table import list_unknown
from unseen.core.errors import DataError, UsageError
from unseen.core.files import release_pages
from unseen.core.guard import allowance, guarded
from unseen.core.identity import digest, file_digest
from unseen.core.names import Options
from unseen.core.records import DatasetCard
from unseen.data.columns import read_lines
from unseen.data.dataset import Dataset, Split
from unseen.data.load import DatasetSource
from unseen.data.matlab import hdf5_blocks, hdf5_shapes, read_matlab
from unseen.data.subset import Division
from unseen.data.user_data import LabelledImages, divide

SUFFIXES = (".npz", ".h5", ".hdf5", ".npy")
ZERO_SHOT = ("trainval", "test_seen", "test_unseen")
_USUAL = ("train", "val", "test")
_FEATURES, _LABELS, _ATTRIBUTES, _SPLIT, _FOLDS = "features", "labels", "attributes", "split", "folds"
_TEXTS = ("class_names", "descriptions", "wnids", _SPLIT, "image_files")
_LAYOUT = (_LABELS, _ATTRIBUTES, _FOLDS, *_TEXTS)
_BLOCK = 8192  # rows that are checked at once
_NAME_LENGTH = 26  # where the header of a member of a zip archive has the lengths of its name and its extra field


@dataclass(frozen=True, eq=False)
class Fold:
    """Classes to train on and classes to validate on: disjoint, and none of them a test class."""

    train: IntArray
    val: IntArray


@dataclass(frozen=True)
class Matrix:
    """An array that is opened on first use, as a memory map; only its shape is known before."""

    shape: tuple[int, ...]
    read: Callable[[], AnyArray]


Given = npt.ArrayLike | Matrix


@dataclass(frozen=True, eq=False)
class FeatureDataset(Dataset):
    """A dataset that has features of its images, and may have class embeddings, descriptions and folds of classes.

    Attributes:
        given_features: by name of the model, a function that returns the features of all images; `Split.feature_rows`
            are its rows.
        attributes: (classes, attributes), or None.
        descriptions: texts per class; empty if there are none.
        folds: folds of classes to tune on; empty if they are sampled.
        protocol: the split of zero-shot learning that the data are divided by, "PS" or "SS"; "" if they have none.
        splits_digest: of the attributes and locs of a release of the paper, which distinguishes releases.
    """

    given_features: Mapping[str, Callable[[], AnyArray]] = field(default_factory=dict)
    attributes: FloatArray | None = None
    descriptions: Sequence[Sequence[str]] = ()
    folds: tuple[Fold, ...] = ()
    protocol: str = ""
    splits_digest: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        for what, rows in ((_ATTRIBUTES, self.attributes), ("descriptions", self.descriptions or None)):
            if rows is not None and len(rows) != len(self.class_names):
                raise DataError(
                    f"{self.id!r} has {len(self.class_names)} classes but {len(rows)} rows of {what}. "
                    "Classes of a dataset with class embeddings cannot be sampled by the option classes=."
                )

    def side_information(self) -> object:
        """Return attributes, class folds and descriptions, which methods learn from; None if there are none."""
        rows = np.empty((0, 0)) if self.attributes is None else self.attributes
        attributes = hashlib.sha256(np.ascontiguousarray(rows).tobytes()).hexdigest()
        folds = [[fold.train.tolist(), fold.val.tolist()] for fold in self.folds]
        texts = [[list(own) for own in self.descriptions]] if self.descriptions else []
        found = [attributes, folds, self.protocol, self.splits_digest, *texts]
        return found if self.attributes is not None or self.protocol or texts else None


class FeaturesSource(DatasetSource):
    """Loads `features:FILE`."""

    pattern, hint = "features:FILE.npz", "your own features and labels (.npz, .h5, .npy); no model is needed"
    paths = ("", _LABELS)

    def load(self, name: str, options: Options) -> Dataset:
        labels, (division, _) = options.text(_LABELS), Division.read(options)
        options.finish()
        path = Path(name).expanduser()
        arrays = read_arrays(path)
        content = [file_digest(path)]
        if labels is not None:
            file = Path(labels).expanduser()
            lines = file.suffix not in SUFFIXES
            arrays[_LABELS] = np.array([line for _, line in read_lines(file)]) if lines else _only_array(file)
            content.append(file_digest(file))
        return feature_dataset(arrays, division, title=path.stem, content=content, where=f"{path}: ")


def given_names(path: Path) -> list[str]:
    """Return the names of the models whose features a file has."""
    return list(_matrices(read_arrays(path), path.stem))


def _matrices(arrays: Mapping[str, Given], title: str) -> dict[str, Given]:
    """Return features by the name of their model: that of the array, or of the file."""
    own = re.sub(r"[^\w.+-]+", "-", title)
    found = {name: rows for name, rows in arrays.items() if name.startswith(_FEATURES)}
    return {name[len(_FEATURES) + 1 :] or own: rows for name, rows in found.items()}


def feature_dataset(
    arrays: Mapping[str, Given | None],
    division: Division,
    *,
    title: str = _FEATURES,
    content: Sequence[str] = (),
    where: str = "",
) -> FeatureDataset:
    """Return arrays of the documented layout as a dataset.

    Args:
        arrays: by name, array-likes or `Matrix`.
        division: how train, val and test are sampled if there is no `split`.
        title: the name of the data, and of the model of the array `features`.
        content: digests of the files; by default rows are compared by their values.
        where: the file, for messages.

    Raises:
        DataError: arrays that do not belong together.
    """
    given = {name: value for name, value in arrays.items() if value is not None}
    matrices = _matrices(given, title)
    if not matrices or _LABELS not in given:
        raise DataError(
            f"{where}there is no array {_LABELS if matrices else _FEATURES!r}; found {', '.join(given) or 'none'}. "
            "Needed are features, (n, d) numbers, and labels, (n,) class numbers or names (or the option labels=FILE)."
        )
    texts = {name: _texts(given[name], f"{where}{name}") for name in _TEXTS if name in given}
    shapes = {name: value.shape if isinstance(value, Matrix) else np.shape(value) for name, value in given.items()}
    labels = np.asarray(given[_LABELS])
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    _check_shapes(shapes, len(labels), labels.shape, where)
    names = _class_names(texts.get("class_names"), shapes, labels, where)
    if names is not None:
        labels = _class_numbers(labels, names, shapes.get(_ATTRIBUTES), where)
    features = {name: _checked(rows, f"{where}features", len(labels)) for name, rows in matrices.items()}
    images = texts["image_files"].tolist() if "image_files" in texts else [f"{i:08d}" for i in range(len(labels))]
    first = next(iter(features.values()))
    everything = Split(
        names=images,
        labels=np.zeros(len(labels), np.int64),
        open=_refuse,
        fingerprint=digest([*content, images]) if content else "",
        content_key=None if content else lambda i: np.asarray(first()[i], np.float32).tobytes(),
        feature_rows=np.arange(len(labels)),
    )
    parts = _parts(texts.get(_SPLIT), len(labels), where)
    if ZERO_SHOT[-1] in parts:
        assert names is not None
        check_classes({part: labels[rows] for part, rows in parts.items()}, names, where)
        splits = {part: everything.take(rows, labels[rows]) for part, rows in parts.items()}
        data = Dataset(DatasetCard(id=title, name=title), names, splits)
    else:
        one = LabelledImages((), class_names=names, title=title)
        images_of = {
            part: replace(one, split=everything.take(rows), labels=labels[rows].tolist())
            for part, rows in parts.items()
        }
        data = divide(images_of, division, group=_FEATURES)
    ignored = [name for name in given if name not in _LAYOUT and not name.startswith(_FEATURES)]
    read = [
        f"{name} {' x '.join(f'{size:,}' for size in shape)}" for name, shape in shapes.items() if name not in ignored
    ]
    notes = [f"arrays: {', '.join(read)}", f"ignored: {', '.join(ignored)}" if ignored else ""]
    attributes = given.get(_ATTRIBUTES)
    return FeatureDataset(
        card=DatasetCard(id=title, name=title, group=_FEATURES, notes="; ".join(filter(None, notes))),
        class_names=list(data.class_names),
        splits=data.splits,
        wnids=[str(wnid) or None for wnid in texts["wnids"]] if "wnids" in texts else (),
        target=data.target,
        record=data.record,
        untested=data.untested,
        given_features=features,
        attributes=None if attributes is None else np.asarray(attributes, np.float64),
        descriptions=_descriptions(texts.get("descriptions")),
        folds=_class_folds(given.get(_FOLDS), data, where),
        protocol="PS" if ZERO_SHOT[-1] in parts else "",
    )


def _refuse(_number: int) -> NoReturn:
    raise DataError("the dataset has features but no images, so that no other model can be applied to it.")


# ---- checks ----------------------------------------------------------------------------------------------------------


def _check_shapes(shapes: Mapping[str, tuple[int, ...]], n: int, labels: tuple[int, ...], where: str) -> None:
    if len(labels) != 1:
        raise DataError(f"{where}labels must have shape ({n},), one per row of features; found {labels}.")
    for name, shape in shapes.items():
        if name.startswith(_FEATURES) and shape:  # of a MATLAB file it is unknown before the file is read
            _check_rows(f"{where}{name}", shape, n)
        if name in (_SPLIT, "image_files") and shape != (n,):
            raise DataError(f"{where}{name} has shape {shape}; ({n},) is needed, one text per row of features.")


def _check_rows(what: str, shape: tuple[int, ...], labels: int) -> None:
    if len(shape) != 2 or 0 in shape:
        raise DataError(f"{what} must be a table with one row per image, not empty; found shape {shape}.")
    if shape[0] != labels:
        swapped = " The axes of the features are swapped: transpose them." if shape[1] == labels else ""
        raise DataError(f"{what}: there are {shape[0]} rows of features and {labels} labels.{swapped}")


def _class_names(
    given: AnyArray | None, shapes: Mapping[str, tuple[int, ...]], labels: AnyArray, where: str
) -> list[str] | None:
    """Return the names of the classes; numbers if they have none, and None if the labels alone give the classes."""
    tables = {name: shapes[name] for name in (_ATTRIBUTES, "descriptions", "wnids") if name in shapes}
    if given is not None:
        names = [str(name) for name in given]
    elif not tables and _SPLIT not in shapes:
        return None
    elif labels.dtype.kind not in "iu":
        raise DataError(f"{where}labels are {labels.dtype}; with a class table they need class_names to refer to.")
    else:
        names = [str(i) for i in range(next((shape[0] for shape in tables.values()), int(labels.max(initial=0)) + 1))]
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise DataError(f"{where}the class name {twice[0]!r} occurs twice; class names must be different.")
    for name, shape in tables.items():
        if shape[:1] != (len(names),):
            swapped = " The axes are swapped: transpose them." if shape[1:] == (len(names),) else ""
            raise DataError(f"{where}{name} has shape {shape} and there are {len(names)} class names.{swapped}")
    return names


def class_rows(values: AnyArray, names: Sequence[str], where: str = "") -> IntArray:
    """Return class numbers unchanged, and class names as their numbers.

    Raises:
        DataError: a name that is not a class.
    """
    if values.dtype.kind in "iu" or (values.dtype.kind == "f" and bool((values == np.rint(values)).all())):
        return values.astype(np.int64)
    index = {name: i for i, name in enumerate(names)}
    unknown = dict.fromkeys(str(label) for label in values.tolist() if str(label) not in index)
    if unknown:
        raise DataError(f"{where}{list_unknown(list(unknown), names)}: not among the {len(names)} class names.")
    return np.asarray([index[str(label)] for label in values.tolist()], np.int64)


def _class_numbers(labels: AnyArray, names: Sequence[str], table: tuple[int, ...] | None, where: str) -> IntArray:
    """Return the class number of each image.

    Raises:
        DataError: a label without a class or, with class embeddings, a class without an image.
    """
    rows = class_rows(labels, names, where)
    classes = np.unique(rows)
    table_words = f"class embeddings have shape {table}: {len(names)} classes" if table else f"{len(names)} class names"
    swapped = " Class embeddings look transposed: they need one row per class."
    if classes[0] < 0 or classes[-1] >= len(names):
        from_one = ": subtract 1" if classes[0] == 1 and classes[-1] == len(names) else ""
        advice = f" Labels count classes from 0{from_one}."
        advice = swapped if table and table[1:] == (classes[-1] + 1,) else advice
        raise DataError(f"{where}labels go from {classes[0]} to {classes[-1]}, and {table_words}.{advice}")
    if table and len(empty := np.setdiff1d(np.arange(len(names)), classes)):
        advice = swapped if table[1:] == (len(classes),) else " Remove their rows, and count labels anew."
        shown = ", ".join(repr(names[i]) for i in empty[:5])
        raise DataError(f"{where}{len(empty)} of {len(names)} classes have no image, such as {shown}.{advice}")
    return rows


def _checked(rows: Given, what: str, images: int) -> Callable[[], AnyArray]:
    """Return a function that opens features on first use and checks them block by block; they stay on the disk."""

    @cache
    def read() -> AnyArray:
        values = rows.read() if isinstance(rows, Matrix) else np.asarray(rows)
        if values.dtype.kind not in "fiub":
            raise DataError(f"{what} must be numbers; found {values.dtype}.")
        _check_rows(what, values.shape, images)
        for start in range(0, len(values), _BLOCK):
            block = values[start : start + _BLOCK]
            if len(bad := np.flatnonzero(~np.isfinite(block).all(1))):
                raise DataError(f"{what} hold values that are not finite numbers, first in row {start + bad[0]}.")
            release_pages(block)
        return values

    return read


def _texts(values: Given, what: str) -> AnyArray:
    """Return an array of texts."""
    array = np.asarray(values)
    if array.dtype.kind == "S":
        with guarded(what, "UTF-8 text"):
            array = np.char.decode(array, "utf-8")
    if array.dtype.kind not in "UO" or not all(isinstance(each, str) for each in array.ravel().tolist()):
        raise DataError(f"{what} must be texts; found {array.dtype}. Save it as an array of strings (dtype U).")
    return array


def _parts(split: AnyArray | None, n: int, where: str) -> dict[str, IntArray]:
    """Return the rows of each split; all are train if there are none."""
    if split is None:
        return {"train": np.arange(n)}
    found = {str(name) for name in split.tolist()}
    if not (found <= set(_USUAL) or (found <= set(ZERO_SHOT) and {ZERO_SHOT[0], ZERO_SHOT[2]} <= found)):
        raise DataError(
            f"{where}split holds {', '.join(map(repr, sorted(found)[:6]))}; {', '.join(_USUAL)} are possible, or "
            f"{', '.join(ZERO_SHOT)} for zero-shot learning."
        )
    order = [name for name in (*_USUAL, *ZERO_SHOT) if name in found]
    return {name: np.flatnonzero(split == name) for name in order}


def check_classes(parts: Mapping[str, IntArray], names: Sequence[str], where: str = "") -> None:
    """Raise a `DataError` if a test class is trained on, or a seen test class is not; `parts` are labels by split."""
    train, old, new = (np.unique(parts.get(part, ())) for part in ZERO_SHOT)
    if len(both := np.intersect1d(train, new).astype(int)):
        raise DataError(
            f"{where}{len(both)} test classes are not unseen, such as {names[both[0]]!r}: they have training images "
            "too. Test classes must be disjoint from the training classes."
        )
    if len(lost := np.setdiff1d(old, train).astype(int)):
        raise DataError(f"{where}{names[lost[0]]!r} is tested as a seen class but has no training image.")


def _descriptions(texts: AnyArray | None) -> list[list[str]]:
    if texts is None:
        return []
    return [[text.strip() for text in row if text.strip()] for row in texts.reshape(len(texts), -1).tolist()]


def _class_folds(folds: Given | None, data: Dataset, where: str) -> tuple[Fold, ...]:
    if folds is None:
        return ()
    marks = np.asarray(folds)
    if ZERO_SHOT[0] not in data.splits:
        raise DataError(f"{where}folds need a split of zero-shot learning: {', '.join(ZERO_SHOT)}.")
    if marks.ndim != 2 or marks.shape[1] != len(data.class_names) or not np.isin(marks, (0, 1)).all():
        raise DataError(f"{where}folds must be 0 or 1, (folds, {len(data.class_names)} classes); found {marks.shape}.")
    seen = np.unique(data.splits[ZERO_SHOT[0]].labels)
    return tuple(Fold(np.setdiff1d(seen, np.flatnonzero(row)), np.flatnonzero(row)) for row in marks)


# ---- files -----------------------------------------------------------------------------------------------------------


def read_arrays(path: Path) -> dict[str, AnyArray | Matrix]:
    """Return the arrays of a file by name: features as `Matrix`, read later, others as arrays.

    Raises:
        DataError: the file is missing or damaged, needs pickle, or unpacks to more than a file of its size should.
        UsageError: another kind of file.
    """
    if path.suffix not in SUFFIXES:
        raise UsageError(f"features:{path}: a file that ends in {', '.join(SUFFIXES)} is needed.")
    with guarded(path, "arrays"):
        if path.suffix == ".npy":
            array = np.load(path, mmap_mode="r", allow_pickle=False)
            return {_FEATURES: Matrix(array.shape, lambda: array)}
        if path.suffix != ".npz":
            return {
                name: _later(name, shape, partial(_read_hdf5, path, name)) for name, shape in hdf5_shapes(path).items()
            }
        found = {}
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                name = info.filename.removesuffix(".npy")
                if info.file_size > allowance(info.compress_size):
                    raise DataError(
                        f"{path}: {name} would be {info.file_size:,} bytes, which no file of its size should be."
                    )
                with archive.open(info) as stream:
                    shape = _header(stream)[0]
                found[name] = _later(name, shape, partial(_map_member, path, info))
        return found


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, whether columns are consecutive, and type of the array in an .npy file, from its header."""
    read = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
    return read[min(np.lib.format.read_magic(stream)[0], 2)](stream)


def _later(name: str, shape: tuple[int, ...], read: Callable[[], AnyArray]) -> AnyArray | Matrix:
    if name.startswith(_FEATURES):
        return Matrix(shape, read)
    return np.array(read()) if name in _LAYOUT else np.empty(shape, bool)


def _map_member(path: Path, info: zipfile.ZipInfo) -> AnyArray:
    """Return an array of an .npz file as a memory map; a compressed one is unpacked to a temporary file first."""
    with (
        guarded(path, "arrays"),
        path.open("rb") as stored,
        tempfile.TemporaryFile() as unpacked,
        zipfile.ZipFile(path) as archive,
    ):
        if info.compress_type == zipfile.ZIP_STORED:
            file: IO[bytes] = stored
            file.seek(info.header_offset + _NAME_LENGTH)
            file.seek(sum(struct.unpack("<HH", file.read(4))), os.SEEK_CUR)  # the name and an extra field
        else:
            file = unpacked
            with archive.open(info) as stream:
                shutil.copyfileobj(stream, file)
            file.seek(0)
        shape, columns, dtype = _header(file)
        if dtype.hasobject:
            raise DataError(f"{path}: {info.filename} needs pickle, which can run code. Save it as numbers or texts.")
        return np.memmap(file, dtype, "r", file.tell(), shape, "F" if columns else "C")


def _read_hdf5(path: Path, name: str) -> AnyArray:
    """Return features of an HDF5 file as a memory map of a temporary file, and other arrays in memory."""
    if not name.startswith(_FEATURES):
        values = read_matlab(path, (name,))[name]
        # MATLAB 7.3 is HDF5 with reversed axes, which are reversed again here.
        return values.T if isinstance(values, np.ndarray) else np.array(values)
    with tempfile.TemporaryFile() as file:
        for block in hdf5_blocks(path, name):
            file.write(block.tobytes())
        file.flush()
        return np.memmap(file, block.dtype, "r").reshape(-1, *block.shape[1:])


def _only_array(path: Path) -> AnyArray:
    with guarded(path, "labels"):
        return np.asarray(np.load(path, allow_pickle=False))
