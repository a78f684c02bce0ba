"""The classes of datasets that come as folders: `class_names.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError


@cache
def class_names(data: str) -> tuple[str, ...]:
    """Folders of a dataset in the order of their labels; empty where a dataset does not come as folders."""
    return _lists().get(data, ())


def labels_of(data: str, folders: Sequence[str], place: Path) -> npt.NDArray[np.int64]:
    """The label of each folder, whatever the case.

    Raises:
        DataError: a folder that is no class of this dataset.
    """
    number = {name.lower(): label for label, name in enumerate(class_names(data))}
    for folder in folders:
        if folder.lower() not in number:
            raise DataError(
                f"{place}: {folder!r} is none of the {len(number)} classes of this dataset, which are "
                f"{', '.join(class_names(data)[:3])} and so on. Move it away, or get the data again."
            )
    return np.array([number[folder.lower()] for folder in folders], np.int64)


@cache
def _lists() -> dict[str, tuple[str, ...]]:
    text = (files("unseen.data.sources.vtab") / "class_names.toml").read_text(encoding="utf-8")
    return {data: tuple(names.split()) for data, names in tomllib.loads(text).items()}
