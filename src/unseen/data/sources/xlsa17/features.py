"""Features of the zero-shot datasets: the published ones, or anybody's own in a file of the same order.

Layout:     NAME/res101.mat: `features` (d, n), `labels` (n) from 1, `image_files`. Own features, `features=FILE`, there
            or anywhere: FILE.mat as res101.mat; FILE.h5 (or .hdf5) and FILE.npz with `features` (n, d); FILE.npy,
            (n, d). Rows are in the order of the release. Labels come from the file if it has any, else from res101.mat
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError, UsageError
from unseen.data.dataset import IntArray
from unseen.data.matlab import read_matlab

FeatureArray = npt.NDArray[np.float32]
PUBLISHED = "res101"
SUFFIXES = (".mat", ".h5", ".hdf5", ".npz", ".npy")


def features_file(folder: Path, own: str | None) -> Path:
    """The file of the features: the published one, or a user's own, beside it or anywhere."""
    path = folder / f"{PUBLISHED}.mat"
    if own is not None:
        given = Path(own).expanduser()
        path = given if given.is_file() else folder / given
        if path.suffix not in SUFFIXES:
            raise UsageError(f"features={own}: a file that ends in {', '.join(SUFFIXES)} is needed.")
    if not path.is_file():
        what = (
            "It is part of the xlsa17 release, with the labels and features." if own is None else "(option features=)"
        )
        raise DataError(f"there is no {path}. {what}")
    return path


def read_features(path: Path, folder: Path, classes: int) -> tuple[IntArray, list[str], Callable[[], FeatureArray]]:
    """Labels from 0, file names, and a function that gives (n, d) features, read when first needed."""
    found = _read(path, (), ("labels", "image_files"))
    published = folder / f"{PUBLISHED}.mat"
    if "labels" not in found and path != published:
        if not published.is_file():
            raise DataError(f"{path} has no labels, and there is no {published} to take them from.")
        found = {**read_matlab(published, ("labels",), ("image_files",)), **found}
        path_of_labels = published
    else:
        path_of_labels = path
    if "labels" not in found:
        raise DataError(f"{path} has no variable 'labels'.")
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
    def features() -> FeatureArray:
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
    """Variables of a file of any of the formats; in .npy there is nothing but features."""
    if path.suffix == ".mat":
        return dict(read_matlab(path, required, optional))
    if path.suffix in (".h5", ".hdf5"):  # MATLAB 7.3 is HDF5 with reversed axes, which are turned back here
        return {
            name: value.T if isinstance(value, np.ndarray) else value
            for name, value in read_matlab(path, required, optional).items()
        }
    try:
        if path.suffix == ".npy":
            found: dict[str, Any] = {"features": np.load(path, allow_pickle=False, mmap_mode="r")}
        else:
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as loaded:
                found = {name: loaded[name] for name in (*required, *optional) if name in loaded.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, KeyError) as error:
        raise DataError(f"cannot read features from {path}: {error}.") from None
    for name, value in found.items():
        if name != "image_files" and value.dtype.kind not in "fiub":
            raise DataError(f"{path}: {name} holds {value.dtype}, not numbers.")
    if missing := [name for name in required if name not in found]:
        raise DataError(f"{path} has no array {missing[0]!r}.")
    if "image_files" in found:
        found["image_files"] = [str(each) for each in np.asarray(found["image_files"]).ravel()]
    return found
