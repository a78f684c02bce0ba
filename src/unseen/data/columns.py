"""What the label column of a table means: a class, one out of several labels, or a number cut into ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unseen.core.errors import DataError
from unseen.core.names import Options, as_number
from unseen.data.targets import SEVERAL, Target, label_names, value_names


def read_labels(values: Sequence[Any], options: Options, column: str, target: Target = "classes") -> list[str]:
    """Class names per row; where the target is another one, its texts.

    Options: `pick=NAME` asks of every image whether it has that label among its several; `bins=N` cuts numbers into
    ranges of about as many images each.

    Raises:
        DataError: several labels or numbers, and nothing said of them; the message says what to write.
    """
    pick, bins = options.text("pick"), options.integer("bins", at_least=2)
    texts = ["" if value is None else str(value).strip() for value in values]
    if target != "classes":
        return value_names(texts, column) if target == "values" else label_names(texts)
    if pick is not None:
        sets = [set(SEVERAL.split(text)) for text in texts]
        known = set().union(*sets)
        if pick not in known:
            raise DataError(f"no image has the label {pick!r} in column {column!r}; found {_some(known)}.")
        return [pick if pick in own else f"not {pick}" for own in sets]
    if bins is not None:
        return _ranges(texts, bins, column)
    if several := next((text for text in texts if "|" in text or ";" in text), None):
        raise DataError(
            f"column {column!r} has several labels per image, such as {several[:40]!r}. Add pick=LABEL to ask for one, "
            "or target=labels to keep them all."
        )
    numbers = [as_number(text) for text in texts]
    if any(n is not None and not float(n).is_integer() for n in numbers) and len(set(texts)) > len(texts) // 4:
        raise DataError(
            f"column {column!r} holds numbers, such as {texts[0]}. Add bins=5 to cut them into ranges, or "
            "target=values to keep them."
        )
    return texts


def one_hot_labels(columns: Mapping[str, Sequence[Any]], leave_out: str) -> list[str] | None:
    """Classes of a table that has a column of 0 and 1 for each, exactly one of them 1 per row; else None."""
    found = {}
    for name, values in columns.items():
        if name != leave_out:
            numbers = [as_number(str(value)) for value in values]
            if not set(numbers) <= {0.0, 1.0}:
                return None
            found[name] = numbers
    if len(found) < 2:
        return None
    table = np.asarray(list(found.values()), np.float64)
    if not (table.sum(0) == 1).all():
        return None
    names = list(found)
    return [names[i] for i in table.argmax(0)]


def _ranges(texts: Sequence[str], bins: int, column: str) -> list[str]:
    numbers = [as_number(text) for text in texts]
    if (bad := next((t for t, n in zip(texts, numbers, strict=True) if n is None), None)) is not None:
        raise DataError(f"bins= is for numbers; column {column!r} has {bad!r}.")
    values = np.asarray(numbers, np.float64)
    edges = np.unique(np.quantile(values, np.linspace(0, 1, bins + 1)))
    place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    width = len(str(len(edges)))
    return [f"{i + 1:0{width}d}: {edges[i]:g} to {edges[i + 1]:g}" for i in place]


def _some(names: set[str]) -> str:
    shown = sorted(names - {""})
    return ", ".join(shown[:6]) + (", ..." if len(shown) > 6 else "")
