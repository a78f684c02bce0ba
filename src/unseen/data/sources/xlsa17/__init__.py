"""`xlsa17:SUN|CUB|AWA1|AWA2|APY`: the zero-shot datasets with their published features, attributes and splits.

Paper:      Xian et al., TPAMI 2018, sections 4 and 5 [P]; layout of its release `xlsa17`
Layout:     ROOT/NAME/{res101.mat, att_splits.mat, testclasses.txt, trainvalclasses.txt, {train,val}classes{1,2,3}.txt};
            ROOT may also be the folder of NAME itself, or hold `data/NAME`; other lists for SS than the published ones
            in ROOT/standard_split/NAME/*.txt, or in the folder of the option `standard=`
Root:       option `root=`, else the environment variable UNSEEN_XLSA17, else HOME/data/xlsa17
Splits:     PS: `trainval`, `test_seen`, `test_unseen` are the locs of att_splits.mat, which must partition 1..N.
            SS: `trainval` holds every image of the training classes, `test_unseen` those of the test classes
Features:   `features=FILE` replaces the features of res101; the model is then named by the file, `xlsa17:vit` for
            vit.npy
Images:     `images=FOLDER` finds the files that res101.mat names below a folder, so that any model can replace res101
Checks:     `unseen.data.sources.xlsa17.splits`
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from PIL import Image

from unseen.core.arrays import Float32Array, IntArray
from unseen.core.errors import DataError, UnknownNameError, UsageError
from unseen.core.files import home
from unseen.core.identity import digest, file_digest
from unseen.core.names import Options
from unseen.core.records import DatasetCard
from unseen.data.dataset import Dataset, Split
from unseen.data.decode import open_image
from unseen.data.images import content_key
from unseen.data.load import DatasetSource
from unseen.data.matlab import read_matlab
from unseen.data.sources.features import FeatureDataset, Matrix, read_arrays
from unseen.data.sources.xlsa17.splits import (
    LOCS,
    TEST_UNSEEN,
    check_labels,
    read_attribute_splits,
    read_folds,
    standard_locs,
    standard_split,
)

#: Classes and images of each dataset.
_SIZES = {"SUN": (717, 14340), "CUB": (200, 11788), "AWA1": (50, 30475), "AWA2": (50, 37322), "APY": (32, 15339)}
NAMES = tuple(_SIZES)


class Xlsa17Source(DatasetSource):
    """Loads `xlsa17:NAME`."""

    paths = ("root", "images", "standard", "features")
    groups = MappingProxyType({"all": NAMES})

    def cards(self) -> Iterable[DatasetCard]:
        for name, (classes, images) in _SIZES.items():
            yield DatasetCard(
                id=f"xlsa17:{name}",
                name="aPY" if name == "APY" else name,
                group="zero-shot",
                paper="gbu",
                splits=LOCS,
                classes=classes,
                images=images,
                source="xlsa17",
                citation="Xian et al., Zero-shot learning: the good, the bad and the ugly, TPAMI 2018",
                notes="root= folder of the release; split=PS or SS; features= own file; images= folder of the images",
            )

    def load(self, name: str, options: Options) -> Dataset:
        if name not in NAMES:
            raise UnknownNameError("xlsa17 dataset", name, NAMES)
        root, protocol = options.text("root"), options.choice("split", ("PS", "SS"))
        images, standard, own = options.text("images"), options.text("standard"), options.text("features")
        options.finish()
        folder = _folder(name, root)
        splits = read_attribute_splits(folder / "att_splits.mat")
        file = features_file(folder, own)
        labels, files, features = read_features(file, folder, len(splits.class_names))
        if protocol == "PS":
            check_labels(splits, labels, folder)
            locs, folds = splits.locs, read_folds(folder, splits.class_names, labels[splits.locs[TEST_UNSEEN]])
        elif lists := _standard_folder(folder, name, standard):
            locs = standard_locs(lists, splits.class_names, labels)
            folds = read_folds(lists, splits.class_names, labels[locs[TEST_UNSEEN]])
        else:
            locs, folds = standard_split(name, splits.class_names, labels)
        find = _finder(images, files, name)
        content = file_digest(file)
        return FeatureDataset(
            card=DatasetCard(id=options.dataset, name=name, group="zero-shot", paper="gbu"),
            class_names=list(splits.class_names),
            splits={split: _split(loc, labels, files, find, content) for split, loc in locs.items()},
            attributes=splits.attributes,
            folds=folds,
            given_features={file.stem: features},
            protocol=protocol,
            splits_digest=splits.digest,
        )


def _split(
    loc: IntArray, labels: IntArray, files: Sequence[str], find: Callable[[str], Path] | None, content: str
) -> Split:
    """Return a split whose fingerprint covers the images, or without images the published features."""
    names, own = [files[i] for i in loc], labels[loc]
    if find is None:
        return Split(names, own, _refuse, fingerprint=digest([content, names, own.tolist()]), feature_rows=loc)
    found = Split(names, own, lambda i: open_image(find(names[i])), content_key=lambda i: content_key(find(names[i])))
    return replace(found, feature_rows=loc)


def _refuse(_number: int) -> Image.Image:
    raise DataError("the dataset has features but no images. Give their folder: xlsa17:NAME?images=FOLDER")


def _finder(images: str | None, files: Sequence[str], name: str) -> Callable[[str], Path] | None:
    """Return a function that finds an image by its name in the release, the path on its authors' machine."""
    if images is None:
        return None
    root = Path(images).expanduser()
    parts = files[0].replace("\\", "/").split("/")
    depth = next((k for k in range(1, len(parts)) if (root / "/".join(parts[k:])).is_file()), None)
    if depth is None:
        raise DataError(
            f"{root} does not hold {files[0]!r} or any ending of it. Give the folder above the class folders of {name}."
        )
    return lambda file: root / "/".join(file.replace("\\", "/").split("/")[depth:])


def _folder(name: str, root: str | None) -> Path:
    base = Path(root).expanduser() if root else Path(os.environ.get("UNSEEN_XLSA17") or home() / "data" / "xlsa17")
    for folder in (base / name, base / "data" / name, base):
        if (folder / "att_splits.mat").is_file():
            return folder
    raise DataError(
        f"no {name}/att_splits.mat in {base}. Unpack the xlsa17 release there, or name its folder: "
        f"xlsa17:{name}?root=FOLDER, or UNSEEN_XLSA17=FOLDER."
    )


def _standard_folder(folder: Path, name: str, standard: str | None) -> Path | None:
    """Return the folder with the user's lists, or None for those of the package."""
    given = [Path(standard).expanduser() / name, Path(standard).expanduser()] if standard else []
    for lists in (*given, folder.parent / "standard_split" / name, folder.parent.parent / "standard_split" / name):
        if (lists / "testclasses.txt").is_file():
            return lists
    if standard:
        raise DataError(f"{standard} holds no testclasses.txt, nor does {standard}/{name}.")
    return None


PUBLISHED = "res101"
SUFFIXES = (".mat", ".h5", ".hdf5", ".npz", ".npy")


def features_file(folder: Path, own: str | None) -> Path:
    """Return the file of the features: the published one, or a user's own, beside it or anywhere."""
    path = Path(own or f"{PUBLISHED}.mat").expanduser()
    path = path if own and path.is_file() else folder / path
    if path.suffix not in SUFFIXES:
        raise UsageError(f"features={own}: a file that ends in {', '.join(SUFFIXES)} is needed.")
    if not path.is_file():
        what = "(option features=)" if own else "It is part of the xlsa17 release, with the labels and features."
        raise DataError(f"there is no {path}. {what}")
    return path


def read_features(path: Path, folder: Path, classes: int) -> tuple[IntArray, list[str], Callable[[], Float32Array]]:
    """Return labels from 0, file names, and a function that reads (n, d) features on first use."""
    found, path_of_labels = _read(path, (), ("labels", "image_files")), path
    if "labels" not in found:
        path_of_labels = folder / f"{PUBLISHED}.mat"
        if not path_of_labels.is_file():
            raise DataError(f"{path} has no labels, and there is no {path_of_labels} to take them from.")
        found = {**read_matlab(path_of_labels, ("labels",), ("image_files",)), **found}
    labels = np.asarray(found["labels"]).ravel().astype(np.int64) - 1
    if not len(labels) or labels.min() < 0 or labels.max() >= classes:
        seen = f"labels from {labels.min() + 1} to {labels.max() + 1}" if len(labels) else "no labels"
        raise DataError(f"{path_of_labels}: {seen}; 1 to {classes} are needed.")
    if len(empty := np.flatnonzero(np.bincount(labels, minlength=classes) == 0)):
        first = empty[0] + 1
        raise DataError(
            f"{path_of_labels}: {len(empty)} of {classes} classes have no image, the first is number {first}."
        )
    files = found.get("image_files") or [f"{i:06d}" for i in range(len(labels))]
    if not isinstance(files, list) or len(files) != len(labels):
        raise DataError(f"{path_of_labels}: image_files must name {len(labels)} files.")

    @cache
    def features() -> Float32Array:
        values = np.asarray(_read(path, ("features",), ())["features"])
        rows = values.T if path.suffix == ".mat" else values
        if rows.ndim != 2 or len(rows) != len(labels):
            swapped = rows.ndim == 2 and rows.shape[1] == len(labels)
            why = "The axes are swapped: transpose it." if swapped else ""
            shape = f"(d, {len(labels)} images)" if path.suffix == ".mat" else f"({len(labels)} images, d)"
            raise DataError(f"{path}: features has shape {values.shape}; {shape} is needed. {why}")
        rows = np.ascontiguousarray(rows, np.float32)
        if not np.isfinite(rows).all():
            raise DataError(f"{path}: features hold values that are not numbers.")
        return rows

    return labels, files, features


def _read(path: Path, required: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, Any]:
    """Read variables of a file of any of the formats; .npy has features only."""
    if path.suffix == ".mat":
        return dict(read_matlab(path, required, optional))
    arrays = read_arrays(path)
    chosen = {name: arrays[name] for name in (*required, *optional) if name in arrays}
    values = {name: value.read() if isinstance(value, Matrix) else value for name, value in chosen.items()}
    for name, value in values.items():
        if name != "image_files" and value.dtype.kind not in "fiub":
            raise DataError(f"{path}: {name} holds {value.dtype}, not numbers.")
    if missing := [name for name in required if name not in values]:
        raise DataError(f"{path} has no array {missing[0]!r}.")
    files = [str(each) for each in values.pop("image_files", np.empty(0)).ravel()]
    return {**values, "image_files": files} if files else dict(values)
