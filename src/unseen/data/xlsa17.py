"""`xlsa17:SUN|CUB|AWA1|AWA2|APY`: the zero-shot datasets with their published features, attributes and splits.

Paper:      Xian et al., TPAMI 2018, sections 4 and 5 [P]; layout of its release `xlsa17`
Layout:     ROOT/NAME/{res101.mat, att_splits.mat, testclasses.txt, trainvalclasses.txt, {train,val}classes{1,2,3}.txt};
            ROOT may also be the folder of NAME itself, or hold `data/NAME`; ROOT/standard_split/NAME/*.txt for SS
Root:       option `root=`, else the environment variable UNSEEN_XLSA17, else HOME/data/xlsa17
Splits:     PS: `trainval`, `test_seen`, `test_unseen` are the locs of att_splits.mat, which must partition 1..N.
            SS: `trainval` holds every image of the training classes, `test_unseen` those of the test classes
Images:     `images=FOLDER` finds the files that res101.mat names below a folder, so that any model can replace res101
Differs:    folds come from the class lists, never from `train_loc` and `val_loc`, which differ between public copies
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from unseen.data.dataset import Dataset, IntArray, Split
from unseen.data.decode import open_image
from unseen.data.matlab import read_matlab
from unseen.data.names import Options
from unseen.errors import DataError, UnknownNameError
from unseen.home import home
from unseen.records import DatasetCard, digest

FloatArray = npt.NDArray[np.float64]
FeatureArray = npt.NDArray[np.float32]

NAMES = ("SUN", "CUB", "AWA1", "AWA2", "APY")
FEATURES = "res101"
TRAINVAL, TEST_SEEN, TEST_UNSEEN = "trainval", "test_seen", "test_unseen"
_LOCS = (TRAINVAL, TEST_SEEN, TEST_UNSEEN)
_IMAGES = {"SUN": 14340, "CUB": 11788, "AWA1": 30475, "AWA2": 37322, "APY": 15339}
_CLASSES = {"SUN": 717, "CUB": 200, "AWA1": 50, "AWA2": 50, "APY": 32}


@dataclass(frozen=True, eq=False)
class ClassFold:
    """Validation classes held out of the training classes, by class index."""

    train: IntArray
    val: IntArray


@dataclass(frozen=True, eq=False)
class AttributeSplits:
    """What att_splits.mat holds, counted from 0 and checked.

    Attributes:
        class_names: in the order of the labels.
        attributes: (classes, attributes), l2-normalised rows as published.
        locs: image indices of `trainval`, `test_seen` and `test_unseen`, which partition all images.
    """

    class_names: Sequence[str]
    attributes: FloatArray
    locs: dict[str, IntArray]

    @property
    def images(self) -> int:
        return sum(len(loc) for loc in self.locs.values())


@dataclass(frozen=True, eq=False)
class ZeroShotDataset(Dataset):
    """A dataset that brings class embeddings, validation folds of classes, and features.

    Attributes:
        attributes: (classes, attributes).
        folds: class folds to tune on.
        given_features: name of published features to a function from split name to (n, d) float32.
        protocol: "PS" or "SS".
        splits_digest: of att_splits.mat: tells releases of the split (PS 1.0, PS 2.0) apart.
    """

    attributes: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    folds: tuple[ClassFold, ...] = ()
    given_features: dict[str, Callable[[str], FeatureArray]] = field(default_factory=dict)
    protocol: str = "PS"
    splits_digest: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.attributes) != len(self.class_names):
            raise DataError(
                f"{self.id!r} has {len(self.class_names)} classes but {len(self.attributes)} rows of attributes. "
                "Classes of a zero-shot dataset cannot be drawn by the option classes=."
            )


class Xlsa17Source:
    """Loads `xlsa17:NAME`."""

    def cards(self) -> Iterable[DatasetCard]:
        for name in NAMES:
            yield DatasetCard(
                id=f"xlsa17:{name}",
                name="aPY" if name == "APY" else name,
                group="zero-shot",
                paper="gbu",
                splits=_LOCS,
                classes=_CLASSES[name],
                images=_IMAGES[name],
                source="xlsa17",
                citation="Xian et al., Zero-shot learning: the good, the bad and the ugly, TPAMI 2018",
                notes="root= folder of the release; split=PS or SS; images= folder of the images",
            )

    def load(self, name: str, options: Options) -> Dataset:
        if name not in NAMES:
            raise UnknownNameError("xlsa17 dataset", name, NAMES)
        root, protocol = options.text("root"), options.choice("split", ("PS", "SS"))
        images, standard = options.text("images"), options.text("standard")
        options.finish()
        folder = _folder(name, root)
        splits = read_attribute_splits(folder / "att_splits.mat")
        labels, files, features = _read_features(folder / f"{FEATURES}.mat", len(splits.class_names))
        if protocol == "SS":
            lists = _standard_folder(folder, name, standard)
            locs = standard_locs(lists, splits.class_names, labels)
        else:
            lists, locs = folder, splits.locs
            check_labels(splits, labels, folder)
        folds = read_folds(lists, splits.class_names, labels[locs[TEST_UNSEEN]])
        open_file = _opener(images, files, name)
        return ZeroShotDataset(
            card=DatasetCard(id=options.dataset, name=name, group="zero-shot", paper="gbu"),
            class_names=list(splits.class_names),
            splits={split: _split(loc, labels, files, open_file, images) for split, loc in locs.items()},
            attributes=splits.attributes,
            folds=folds,
            given_features={FEATURES: lambda split: features()[locs[split]]},
            protocol=protocol,
            splits_digest=_file_digest(folder / "att_splits.mat"),
        )


SOURCE = Xlsa17Source()


def read_attribute_splits(path: Path) -> AttributeSplits:
    """Read and check att_splits.mat.

    Raises:
        DataError: swapped axes, attributes that are not numbers, locs that count from 0 or overlap or leave a gap.
    """
    found = read_matlab(path, ("att", "allclasses_names", *(f"{loc}_loc" for loc in _LOCS)))
    names = found["allclasses_names"]
    if not isinstance(names, list):
        raise DataError(f"{path}: allclasses_names is not a list of strings.")
    if len(set(names)) != len(names):
        raise DataError(f"{path}: a class is named twice in allclasses_names.")
    attributes = np.asarray(found["att"], np.float64)
    if attributes.ndim != 2 or attributes.shape[1] != len(names):
        swapped = attributes.ndim == 2 and attributes.shape[0] == len(names)
        why = "The axes are swapped: transpose it." if swapped else "Embedding and class list do not belong together."
        raise DataError(
            f"{path}: att has shape {attributes.shape}; (attributes, {len(names)} classes) is needed. {why}"
        )
    if bad := np.flatnonzero(~np.isfinite(attributes).all(axis=0)).tolist():
        raise DataError(f"{path}: {len(bad)} classes have attributes that are not numbers, such as {names[bad[0]]!r}.")
    locs = {loc: _loc(path, f"{loc}_loc", np.asarray(found[f"{loc}_loc"])) for loc in _LOCS}
    every = np.concatenate(list(locs.values()))
    distinct, counts = np.unique(every, return_counts=True)
    if (counts > 1).any():
        raise DataError(
            f"{path}: {int((counts > 1).sum())} images are in two of trainval_loc, test_seen_loc and test_unseen_loc, "
            f"such as image {int(distinct[counts > 1][0]) + 1}. The three must be disjoint."
        )
    if distinct[-1] != len(distinct) - 1:
        raise DataError(
            f"{path}: the locs name {len(distinct)} images, up to number {int(distinct[-1]) + 1}. Together they must "
            "be 1..N without a gap."
        )
    return AttributeSplits(names, np.ascontiguousarray(attributes.T), locs)


def _loc(path: Path, name: str, values: npt.NDArray[np.generic]) -> IntArray:
    loc = np.asarray(values).ravel()
    if not len(loc):
        raise DataError(f"{path}: {name} is empty.")
    if loc.dtype.kind == "f" and not (loc == np.rint(loc)).all():
        raise DataError(f"{path}: {name} holds numbers that are not whole.")
    numbers = loc.astype(np.int64)
    if numbers.min() < 1:
        raise DataError(
            f"{path}: {name} starts at {int(numbers.min())}. These files count images from 1: add 1 to the locs."
        )
    return np.asarray(numbers - 1)


def check_labels(splits: AttributeSplits, labels: IntArray, folder: Path) -> None:
    """Raise where the labels do not fit the splits: another number of images, or a test class that is trained on."""
    if len(labels) != splits.images:
        raise DataError(
            f"{folder}: {FEATURES}.mat has {len(labels)} images, the locs of att_splits.mat {splits.images}."
        )
    train, seen, unseen = (np.unique(labels[splits.locs[loc]]) for loc in _LOCS)
    for other, what in ((train, "training images"), (seen, "test images of seen classes")):
        if len(both := np.intersect1d(unseen, other)):
            raise DataError(
                f"{folder}: {len(both)} test classes are not unseen, such as {splits.class_names[both[0]]!r}: "
                f"they have {what} too. Test classes must be disjoint from the training classes."
            )
    if len(alone := np.setdiff1d(seen, train)):
        raise DataError(f"{folder}: {splits.class_names[alone[0]]!r} is a seen test class without a training image.")


def read_folds(folder: Path, class_names: Sequence[str], unseen_labels: IntArray) -> tuple[ClassFold, ...]:
    """The three folds of training classes from the class lists, checked against the test classes."""
    listed = {name: read_classes(folder / f"{name}.txt", class_names) for name in ("trainvalclasses", "testclasses")}
    seen, unseen = set(listed["trainvalclasses"].tolist()), set(listed["testclasses"].tolist())
    if both := seen & unseen:
        raise DataError(f"{folder}: {class_names[min(both)]!r} is in testclasses.txt and in trainvalclasses.txt.")
    if set(np.unique(unseen_labels).tolist()) != unseen:
        raise DataError(f"{folder}: testclasses.txt does not name the classes of the test images.")
    folds = []
    for number in (1, 2, 3):
        train = read_classes(folder / f"trainclasses{number}.txt", class_names)
        val = read_classes(folder / f"valclasses{number}.txt", class_names)
        if np.intersect1d(train, val).size or not (set(train.tolist()) | set(val.tolist())) <= seen:
            raise DataError(
                f"{folder}: fold {number} must divide the classes of trainvalclasses.txt into train and val."
            )
        folds.append(ClassFold(train, val))
    return tuple(folds)


def read_classes(path: Path, class_names: Sequence[str]) -> IntArray:
    """Class indices of a list with one name per line."""
    try:
        names = path.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read the class list {path}: {error}.") from None
    index = {name: i for i, name in enumerate(class_names)}
    for name in names:
        if name not in index:
            raise DataError(f"{path}: {name!r} is not among the {len(index)} classes of att_splits.mat.")
    return np.asarray(sorted(index[name] for name in names), np.int64)


def standard_locs(lists: Path, class_names: Sequence[str], labels: IntArray) -> dict[str, IntArray]:
    """SS: every image of a training class trains, every image of a test class tests."""
    train = read_classes(lists / "trainvalclasses.txt", class_names)
    test = read_classes(lists / "testclasses.txt", class_names)
    return {TRAINVAL: np.flatnonzero(np.isin(labels, train)), TEST_UNSEEN: np.flatnonzero(np.isin(labels, test))}


def _read_features(path: Path, classes: int) -> tuple[IntArray, list[str], Callable[[], FeatureArray]]:
    """Labels from 0, file names, and a function that gives (n, d) features, read when first needed."""
    if not path.is_file():
        raise DataError(f"there is no {path}. It is part of the xlsa17 release, with the labels and features.")
    found = read_matlab(path, ("labels",), ("image_files",))
    labels = np.asarray(found["labels"]).ravel().astype(np.int64) - 1
    if labels.min() < 0 or labels.max() >= classes:
        raise DataError(f"{path}: labels from {labels.min() + 1} to {labels.max() + 1}; 1 to {classes} are needed.")
    if len(empty := np.flatnonzero(np.bincount(labels, minlength=classes) == 0)):
        raise DataError(f"{path}: {len(empty)} of {classes} classes have no image, the first is number {empty[0] + 1}.")
    files = found.get("image_files") or [f"{i:06d}" for i in range(len(labels))]
    if not isinstance(files, list) or len(files) != len(labels):
        raise DataError(f"{path}: image_files must name {len(labels)} files.")

    @cache
    def features() -> FeatureArray:
        values = np.asarray(read_matlab(path, ("features",))["features"])
        if values.ndim != 2 or values.shape[1] != len(labels):
            swapped = values.ndim == 2 and values.shape[0] == len(labels)
            why = "The axes are swapped: transpose it." if swapped else ""
            raise DataError(f"{path}: features has shape {values.shape}; (d, {len(labels)} images) is needed. {why}")
        rows = np.ascontiguousarray(values.T, np.float32)
        if not np.isfinite(rows).all():
            raise DataError(f"{path}: features hold values that are not numbers.")
        return rows

    return labels, files, features


def _split(
    loc: IntArray, labels: IntArray, files: Sequence[str], open_file: Callable[[str], Image.Image], images: str | None
) -> Split:
    names = [files[i] for i in loc]
    return Split(
        names=names,
        labels=labels[loc],
        open=lambda i: open_file(names[i]),
        fingerprint=digest([images or "", names, labels[loc].tolist()], length=32),
    )


def _opener(images: str | None, files: Sequence[str], name: str) -> Callable[[str], Image.Image]:
    """Opens an image by the name that the release gives it, the path on its authors' machine."""
    if images is None:

        def refuse(_file: str) -> Image.Image:
            raise DataError(f"xlsa17:{name} has features but no images. Give their folder: xlsa17:{name}?images=FOLDER")

        return refuse
    root = Path(images).expanduser()
    parts = files[0].replace("\\", "/").split("/")
    depth = next((k for k in range(1, len(parts)) if (root / "/".join(parts[k:])).is_file()), None)
    if depth is None:
        raise DataError(
            f"{root} does not hold {files[0]!r} or any ending of it. Give the folder above the class folders."
        )
    return lambda file: open_image(root / "/".join(file.replace("\\", "/").split("/")[depth:]))


def _folder(name: str, root: str | None) -> Path:
    base = Path(root).expanduser() if root else Path(os.environ.get("UNSEEN_XLSA17") or home() / "data" / "xlsa17")
    for folder in (base / name, base / "data" / name, base):
        if (folder / "att_splits.mat").is_file():
            return folder
    raise DataError(
        f"no {name}/att_splits.mat in {base}. Unpack the xlsa17 release there, or name its folder: "
        f"xlsa17:{name}?root=FOLDER, or UNSEEN_XLSA17=FOLDER."
    )


def _standard_folder(folder: Path, name: str, standard: str | None) -> Path:
    given = [Path(standard).expanduser() / name, Path(standard).expanduser()] if standard else []
    for lists in (*given, folder.parent / "standard_split" / name, folder.parent.parent / "standard_split" / name):
        if (lists / "testclasses.txt").is_file():
            return lists
    raise DataError(
        f"the standard split of {name} needs its class lists in standard_split/{name}/ beside the release, "
        "or in the folder of the option standard=."
    )


def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
