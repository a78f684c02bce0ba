"""What a label says of its image: one class, several labels at once, or a number.

Images with several labels, or with a number, are drawn and counted by strata, which stand where classes do: the
rarest label of an image, or one of ten ranges of the number. What is learned are the targets themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError
from unseen.data.dataset import CLASS, NUMBER, SEVERAL, IntArray, Target

TargetArray = npt.NDArray[Any]

#: Ranges of a number that every split has its share of.
_STRATA = 10
_NO_LABEL = "(no label)"


def target_of(labels: Sequence[Any]) -> Target:
    """What labels are by their types: groups of them are several, numbers with a fraction are numbers."""
    if any(isinstance(label, tuple | list | set | frozenset | np.ndarray) for label in labels):
        return SEVERAL
    if any(isinstance(label, float | np.floating) and not float(label).is_integer() for label in labels):
        return NUMBER
    return CLASS


def number_targets(
    labels: Mapping[str, Sequence[Any]],
) -> tuple[list[str], dict[str, IntArray], dict[str, TargetArray]]:
    """Names and indices of strata, and (n,) values, by split.

    Raises:
        DataError: a label is no finite number, or all are the same.
    """
    values = {}
    for split, found in labels.items():
        try:
            values[split] = np.asarray([float(value) for value in found], np.float64)
        except (TypeError, ValueError):
            raise DataError(f"the {split} labels are numbers but for some; every image needs one.") from None
        if not np.isfinite(values[split]).all():
            raise DataError(f"the {split} labels contain NaN or infinity; every image needs a number.")
    every = np.concatenate(list(values.values()))
    edges = np.unique(np.quantile(every, np.linspace(0, 1, _STRATA + 1)))
    if len(edges) < 2:
        raise DataError(f"every image has the number {every[0]:g}: there is nothing to tell apart.")
    names = [f"{low:g} to {high:g}" for low, high in pairwise(edges.tolist())]
    last = len(names) - 1
    strata = {
        s: np.clip(np.searchsorted(edges, v, side="right") - 1, 0, last).astype(np.int64) for s, v in values.items()
    }
    return names, strata, dict(values)


def several_targets(
    labels: Mapping[str, Sequence[Any]], class_names: Sequence[str] | None = None
) -> tuple[list[str], dict[str, IntArray], dict[str, TargetArray]]:
    """Names of labels (and of having none), the index of each image's rarest, and (n, labels) booleans, by split.

    A label is a group of names, or of indices into `class_names`, or a row of 0 and 1 as long as there are names.
    """
    groups = {split: [_group(each, class_names) for each in found] for split, found in labels.items()}
    names = sorted({name for found in groups.values() for group in found for name in group})
    if class_names is not None and set(names) <= set(map(str, class_names)):
        names = [str(name) for name in class_names]
    if len(names) < 2:
        raise DataError(f"images with several labels show {len(names)} of them; two are needed.")
    place = {name: i for i, name in enumerate(names)}
    values = {}
    for split, found in groups.items():
        values[split] = np.zeros((len(found), len(names)), np.bool_)
        for row, group in enumerate(found):
            values[split][row, [place[name] for name in group]] = True
    often = sum(value.sum(0) for value in values.values())
    none = any(not value.any(1).all() for value in values.values())
    strata = {
        split: np.where(value.any(1), np.where(value, often, often.sum() + 1).argmin(1), len(names)).astype(np.int64)
        for split, value in values.items()
    }
    return names + [_NO_LABEL] * none, strata, dict(values)


def _group(label: Any, class_names: Sequence[str] | None) -> tuple[str, ...]:
    """The names in one image's label."""
    if isinstance(label, str):
        return (label,) if label else ()
    if not isinstance(label, tuple | list | set | frozenset | np.ndarray):
        return (str(label),)
    found = list(label)
    as_row = isinstance(label, np.ndarray) or (class_names is not None and len(found) == len(class_names) > 2)
    if as_row and set(found) <= {0, 1}:
        if class_names is not None and len(class_names) != len(label):
            raise DataError(f"an image has {len(label)} values of 0 and 1 for {len(class_names)} classes.")
        names = class_names or [f"{i:0{len(str(len(label)))}d}" for i in range(len(label))]
        return tuple(str(name) for name, has in zip(names, found, strict=True) if has)
    if class_names is not None and all(isinstance(i, int | np.integer) and 0 <= i < len(class_names) for i in found):
        return tuple(str(class_names[i]) for i in found)
    return tuple(str(name) for name in found)
