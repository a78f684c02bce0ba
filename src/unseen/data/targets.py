"""Targets that are no classes: a value per image, or several labels.

Images of one target form a class whose name is that target, as the table writes it: "3.25", or "cat|dog" in the
order of the alphabet. So samples, splits and results know them as they know classes; `targets_of` turns them back into
numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError
from unseen.core.names import as_number

Target = Literal["classes", "values", "labels"]
TARGETS: tuple[Target, ...] = ("classes", "values", "labels")

_BETWEEN = "|"
#: Between the labels of one image.
SEVERAL = re.compile(r"\s*[|;,]\s*|\s+")
#: Ranges of values that a draw keeps in proportion.
_RANGES = 5


def value_names(texts: Sequence[str], column: str) -> list[str]:
    """A name per image of a column of numbers."""
    numbers = [as_number(text) for text in texts]
    if (bad := next((t for t, n in zip(texts, numbers, strict=True) if n is None), None)) is not None:
        raise DataError(f"target=values is for numbers; column {column!r} has {bad!r}.")
    return [repr(float(number)) for number in numbers if number is not None]


def label_names(texts: Sequence[str]) -> list[str]:
    """A name per image of a column of several labels; "" for an image that has none."""
    return [_BETWEEN.join(sorted({one for one in SEVERAL.split(text) if one})) for text in texts]


def column_names(columns: Mapping[str, Sequence[Any]], leave_out: str) -> list[str]:
    """A name per image of a table with a column of 0 and 1 for each label."""
    found = {}
    for name, values in columns.items():
        if name != leave_out:
            numbers = [as_number(str(value)) for value in values]
            if set(numbers) <= {0.0, 1.0}:
                found[name.replace(_BETWEEN, "/")] = numbers
    if len(found) < 2:
        raise DataError("target=labels wants label=COLUMN with several labels per image, or columns of 0 and 1.")
    rows = zip(*found.values(), strict=True)
    return [_BETWEEN.join(sorted(n for n, on in zip(found, row, strict=True) if on)) for row in rows]


def strata(names: Sequence[str], target: Target) -> list[str]:
    """What a draw keeps in proportion, per image: ranges of values, or the rarest label of an image."""
    if target == "values":
        values = np.asarray([float(name) for name in names])
        edges = np.unique(np.quantile(values, np.linspace(0, 1, _RANGES + 1)))
        return [str(place) for place in np.searchsorted(edges[1:-1], values, side="right")]
    sets = [name.split(_BETWEEN) for name in names]
    counts: dict[str, int] = {}
    for own in sets:
        for one in own:
            counts[one] = counts.get(one, 0) + 1
    return [min(own, key=lambda one: (counts[one], one)) for own in sets]


def targets_of(
    class_names: Sequence[str], labels: npt.NDArray[np.int64], target: Target
) -> tuple[npt.NDArray[np.float64], list[str]]:
    """(n,) values, or (n, t) labels of 0 and 1, and the names of their columns."""
    if target == "values":
        return np.asarray([float(name) for name in class_names])[labels], ["value"]
    sets = [{one for one in name.split(_BETWEEN) if one} for name in class_names]
    columns = sorted(set().union(*sets))
    table = np.asarray([[float(column in own) for column in columns] for own in sets])
    return table[labels], columns
