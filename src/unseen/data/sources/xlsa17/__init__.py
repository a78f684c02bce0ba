"""`xlsa17:SUN|CUB|AWA1|AWA2|APY`: the zero-shot datasets with their published features, attributes and splits.

Paper:      Xian et al., TPAMI 2018, sections 4 and 5 [P]; layout of its release `xlsa17`
Layout:     ROOT/NAME/{res101.mat, att_splits.mat, testclasses.txt, trainvalclasses.txt, {train,val}classes{1,2,3}.txt};
            ROOT may also be the folder of NAME itself, or hold `data/NAME`; other lists for SS than the published ones
            in ROOT/standard_split/NAME/*.txt
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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from PIL import Image

from unseen.core.arrays import AnyArray, IntArray
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
from unseen.data.sources.features import ZERO_SHOT, Matrix, feature_dataset, read_arrays
from unseen.data.sources.xlsa17.splits import read_attribute_splits, read_folds, standard_split
from unseen.data.subset import Division

#: Classes and images of each dataset.
_SIZES = {"SUN": (717, 14340), "CUB": (200, 11788), "AWA1": (50, 30475), "AWA2": (50, 37322), "APY": (32, 15339)}
NAMES = tuple(_SIZES)
TRAINVAL, _, TEST_UNSEEN = ZERO_SHOT


class Xlsa17Source(DatasetSource):
    """Loads `xlsa17:NAME`."""

    paths = ("root", "images", "features")
    groups = MappingProxyType({"all": NAMES})

    def cards(self) -> Iterable[DatasetCard]:
        for name, (classes, images) in _SIZES.items():
            yield DatasetCard(
                id=f"xlsa17:{name}",
                name="aPY" if name == "APY" else name,
                group="zero-shot",
                paper="gbu",
                splits=ZERO_SHOT,
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
        folder_of_images, own = options.text("images"), options.text("features")
        options.finish()
        folder = _folder(name, root)
        splits = read_attribute_splits(folder / "att_splits.mat")
        names, file = splits.class_names, features_file(folder, own)
        arrays = read_release(file, folder)
        labels = arrays["labels"]
        split = np.full(len(labels), TRAINVAL, "U11")
        if protocol == "PS":
            if len(labels) != splits.images:
                raise DataError(
                    f"{folder}: there are labels of {len(labels)} images, the locs of att_splits.mat {splits.images}."
                )
            locs, folds = splits.locs, None
        else:
            test, folds = standard_split(name, names, folder.parent / "standard_split" / name)
            tested = np.isin(labels, test)
            locs = {TRAINVAL: np.flatnonzero(~tested), TEST_UNSEEN: np.flatnonzero(tested)}
        for part, loc in locs.items():
            split[loc] = part
        files = [f"{i:06d}" for i in range(len(labels))]
        release = {"class_names": names, "attributes": splits.attributes, "image_files": files, **arrays}
        found = feature_dataset({**release, "split": split}, Division(), title=name, where=f"{file}: ")
        (features,) = found.given_features.values()
        images = list(map(str, release["image_files"]))
        find, content = _finder(folder_of_images, images, name), file_digest(file)
        return replace(
            found,
            card=DatasetCard(id=options.dataset, name=name, group="zero-shot", paper="gbu"),
            splits={part: _split(loc, labels, images, find, content) for part, loc in locs.items()},
            folds=folds or read_folds(folder, names, np.unique(labels[locs[TRAINVAL]])),
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


def read_release(path: Path, folder: Path) -> dict[str, Any]:
    """Return features that are opened on first use, labels from 0, and `image_files` if the release names them."""
    arrays = _read(path)
    if "labels" not in arrays:  # an .npy file has features only
        path = folder / f"{PUBLISHED}.mat"
        if not path.is_file():
            raise DataError(f"the features have no labels, and there is no {path} to take them from.")
        arrays = {**read_matlab(path, ("labels",), ("image_files",)), **arrays}
    labels = np.ravel(np.asarray(arrays["labels"]))
    if labels.dtype.kind not in "fiub" or labels.min(initial=1) < 1:
        found = labels.dtype if labels.dtype.kind not in "fiub" else f"labels from {labels.min()} to {labels.max()}"
        raise DataError(f"{path}: {found}; numbers of classes, counted from 1, are needed.")
    files = {"image_files": np.ravel(np.asarray(arrays["image_files"]))} if "image_files" in arrays else {}
    return {"features": arrays.get("features"), "labels": labels.astype(np.int64) - 1, **files}


def _read(path: Path) -> Mapping[str, object]:
    """Return the arrays of a file of any of the formats, features as `Matrix`; .npy has features only."""
    if path.suffix != ".mat":
        return read_arrays(path)

    def features() -> AnyArray:
        return np.ascontiguousarray(np.transpose(read_matlab(path, ("features",))["features"]), np.float32)

    return {"features": Matrix((), features), **read_matlab(path, (), ("labels", "image_files"))}
