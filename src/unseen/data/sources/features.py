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
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import IO, NoReturn

import numpy as np
import numpy.typing as npt

from unseen.core.arrays import AnyArray, FloatArray, IntArray
from unseen.core.class_table import list_unknown
from unseen.core.errors import DataError, UsageError
from unseen.core.guard import allowance, guarded
from unseen.core.identity import digest, file_digest
from unseen.core.names import Options
from unseen.core.records import DatasetCard
from unseen.data.columns import read_lines
from unseen.data.dataset import Dataset, Split
from unseen.data.load import DatasetSource
from unseen.data.matlab import hdf5_shapes, read_matlab
from unseen.data.user_data import Division, LabelledImages, divide

SUFFIXES = (".npz", ".h5", ".hdf5", ".npy")
ZERO_SHOT = ("trainval", "test_seen", "test_unseen")
_USUAL = ("train", "val", "test")
_FEATURES, _LABELS, _ATTRIBUTES, _SPLIT, _FOLDS = "features", "labels", "attributes", "split", "folds"
_TEXTS = ("class_names", "descriptions", "wnids", _SPLIT, "image_files")
_LAYOUT = (_LABELS, _ATTRIBUTES, _FOLDS, *_TEXTS)
_BLOCK = 65536  # rows that are checked at once


@dataclass(frozen=True, eq=False)
class ClassFold:
    """Classes to train on and classes to validate on."""

    train: IntArray
    val: IntArray


@dataclass(frozen=True)
class Matrix:
    """An array that is read on first use; only its shape is known before."""

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
    folds: tuple[ClassFold, ...] = ()
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
        missing = _LABELS if matrices else _FEATURES
        known = ", ".join(map(repr, given)) or "no array"
        raise DataError(f"{where}there is no array {missing!r}; found {known}. {_needed(missing)}")
    texts = {name: _texts(given[name], f"{where}{name}") for name in _TEXTS if name in given}
    shapes = {
        name: tuple(np.shape(value) if not isinstance(value, Matrix) else value.shape) for name, value in given.items()
    }
    labels = np.asarray(given[_LABELS])
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    _check_shapes(shapes, len(labels), labels.shape, where)
    names = _class_names(texts.get("class_names"), shapes, labels, where)
    if names is not None:
        labels = _class_numbers(labels, names, shapes.get(_ATTRIBUTES), where)
    features = {name: _checked(rows, f"{where}features") for name, rows in matrices.items()}
    images = texts["image_files"].tolist() if "image_files" in texts else [f"{i:08d}" for i in range(len(labels))]
    first = next(iter(features.values()))
    everything = Split(
        names=images,
        labels=np.zeros(len(labels), np.int64),
        open=_refuse,
        fingerprint=digest([*content, images]) if content else "",
        content_key=None if content else lambda i: np.ascontiguousarray(first()[i]).tobytes(),
        feature_rows=np.arange(len(labels)),
    )
    parts = _parts(texts.get(_SPLIT), len(labels), where)
    if ZERO_SHOT[-1] in parts:
        assert names is not None
        _check_zero_shot(parts, labels, names, where)
        splits = {part: everything.take(rows, labels[rows]) for part, rows in parts.items()}
        data = Dataset(DatasetCard(id=title, name=title), names, splits)
    else:
        one = LabelledImages((), class_names=names, title=title)
        data = divide(
            {
                part: replace(one, split=everything.take(rows), labels=labels[rows].tolist())
                for part, rows in parts.items()
            },
            division,
            group=_FEATURES,
        )
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


def _needed(name: str) -> str:
    if name == _LABELS:
        return "Add labels, (n,) class numbers or names, or give a file: features:FILE?labels=FILE."
    return "Add features, (n, d) numbers, one row per image."


def _refuse(_number: int) -> NoReturn:
    raise DataError("the dataset has features but no images, so that no other model can be applied to it.")


# ---- checks ----------------------------------------------------------------------------------------------------------


def _check_shapes(shapes: Mapping[str, tuple[int, ...]], n: int, labels: tuple[int, ...], where: str) -> None:
    for name in (name for name in shapes if name.startswith(_FEATURES)):
        shape = shapes[name]
        if len(shape) != 2 or 0 in shape:
            raise DataError(f"{where}{name} must be a table with one row per image, not empty; found shape {shape}.")
        if len(labels) != 1:
            raise DataError(f"{where}labels must have shape ({shape[0]},), one per row of features; found {labels}.")
        if shape[0] != n:
            swapped = " The axes of the features are swapped: transpose them." if shape[1] == n else ""
            raise DataError(f"{where}there are {shape[0]} rows of {name} and {n} labels.{swapped}")
    for name in (_SPLIT, "image_files"):
        if name in shapes and shapes[name] != (n,):
            raise DataError(f"{where}{name} has shape {shapes[name]}; ({n},) is needed, one text per row of features.")


def _class_names(
    given: AnyArray | None, shapes: Mapping[str, tuple[int, ...]], labels: AnyArray, where: str
) -> list[str] | None:
    """Return the names of the classes; numbers if they have none, and None if the labels alone give the classes."""
    tables = {name: shapes[name] for name in (_ATTRIBUTES, "descriptions", "wnids") if name in shapes}
    if given is None:
        if not tables and _SPLIT not in shapes:
            return None
        if labels.dtype.kind not in "iu":
            raise DataError(f"{where}labels are {labels.dtype}; with a class table they need class_names to refer to.")
        names = [str(i) for i in range(next((shape[0] for shape in tables.values()), int(labels.max(initial=0)) + 1))]
    else:
        names = [str(name) for name in given]
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise DataError(f"{where}the class name {twice[0]!r} occurs twice; class names must be different.")
    for name, shape in tables.items():
        what = "class embeddings have" if name == _ATTRIBUTES else f"{name} has"
        if not shape or shape[0] != len(names):
            swapped = " The axes are swapped: transpose them." if shape[1:] == (len(names),) else ""
            raise DataError(f"{where}{what} shape {shape} and there are {len(names)} class names.{swapped}")
    return names


def class_rows(values: AnyArray, names: Sequence[str], where: str = "") -> IntArray:
    """Return class numbers unchanged, and class names as their numbers.

    Raises:
        DataError: a name that is no class.
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
    classes, shape = np.unique(rows), f"shape {table}: {len(names)} classes"
    swapped = f" Class embeddings of shape {table} look transposed: they need one row per class."
    if classes[0] < 0 or classes[-1] >= len(names):
        if table and table[1:] == (classes[-1] + 1,):
            advice = swapped
        elif classes[0] == 1 and classes[-1] == len(names):
            advice = " Labels count classes from 0: subtract 1."
        else:
            advice = " Labels are rows of the class embeddings, counted from 0."
        against = f"class embeddings have {shape}" if table else f"there are {len(names)} class names"
        raise DataError(f"{where}labels go from {classes[0]} to {classes[-1]}, and {against}.{advice}")
    if table and len(empty := np.setdiff1d(np.arange(len(names)), classes)):
        advice = swapped if table[1:] == (len(classes),) else " Remove their rows, and count labels anew."
        raise DataError(
            f"{where}{len(empty)} of {len(names)} classes have no image: {', '.join(repr(names[i]) for i in empty[:5])}"
            f"{' and more' if len(empty) > 5 else ''}.{advice}"
        )
    return rows


def _checked(rows: Given, what: str) -> Callable[[], AnyArray]:
    """Return a function that reads features on first use, as float32, and checks them."""

    @cache
    def read() -> AnyArray:
        values = rows.read() if isinstance(rows, Matrix) else np.asarray(rows)
        if values.dtype.kind not in "fiub":
            raise DataError(f"{what} must be numbers; found {values.dtype}.")
        if values.dtype != np.float32:
            values = values.astype(np.float32)
        for start in range(0, len(values), _BLOCK):
            if len(bad := np.flatnonzero(~np.isfinite(values[start : start + _BLOCK]).all(1))):
                raise DataError(f"{what} hold values that are not finite numbers, first in row {start + bad[0]}.")
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


def _check_zero_shot(parts: Mapping[str, IntArray], labels: IntArray, names: Sequence[str], where: str) -> None:
    seen, unseen = (np.unique(labels[parts[part]]) for part in (ZERO_SHOT[0], ZERO_SHOT[2]))
    if len(both := np.intersect1d(seen, unseen)):
        raise DataError(
            f"{where}{names[both[0]]!r} has images in trainval and in test_unseen; an unseen class has none."
        )
    if len(lost := np.setdiff1d(labels[parts.get(ZERO_SHOT[1], [])], seen)):
        raise DataError(f"{where}{names[lost[0]]!r} has images in test_seen and none in trainval.")


def _descriptions(texts: AnyArray | None) -> list[list[str]]:
    if texts is None:
        return []
    return [[text.strip() for text in row if text.strip()] for row in texts.reshape(len(texts), -1).tolist()]


def _class_folds(folds: Given | None, data: Dataset, where: str) -> tuple[ClassFold, ...]:
    if folds is None:
        return ()
    marks = np.asarray(folds)
    if ZERO_SHOT[0] not in data.splits:
        raise DataError(f"{where}folds need a split of zero-shot learning: {', '.join(ZERO_SHOT)}.")
    if marks.ndim != 2 or marks.shape[1] != len(data.class_names) or not np.isin(marks, (0, 1)).all():
        raise DataError(f"{where}folds must be 0 or 1, (folds, {len(data.class_names)} classes); found {marks.shape}.")
    seen = np.unique(data.splits[ZERO_SHOT[0]].labels)
    return tuple(ClassFold(np.setdiff1d(seen, np.flatnonzero(row)), np.flatnonzero(row)) for row in marks)


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
                    shape = _shape(stream)
                found[name] = _later(name, shape, partial(_read_member, path, info))
        return found


def _shape(stream: IO[bytes]) -> tuple[int, ...]:
    """Return the shape in the header of an .npy file."""
    read = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
    return tuple(read[min(np.lib.format.read_magic(stream)[0], 2)](stream)[0])


def _later(name: str, shape: tuple[int, ...], read: Callable[[], AnyArray]) -> AnyArray | Matrix:
    return Matrix(shape, read) if name.startswith(_FEATURES) else read() if name in _LAYOUT else np.empty(shape, bool)


def _read_member(path: Path, info: zipfile.ZipInfo) -> AnyArray:
    with guarded(path, "arrays"), zipfile.ZipFile(path) as archive, archive.open(info) as stream:
        return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


def _read_hdf5(path: Path, name: str) -> AnyArray:
    values = read_matlab(path, (name,))[name]
    # MATLAB 7.3 is HDF5 with reversed axes, which are reversed again here.
    return values.T if isinstance(values, np.ndarray) else np.array(values)


def _only_array(path: Path) -> AnyArray:
    with guarded(path, "labels"):
        return np.asarray(np.load(path, allow_pickle=False))
