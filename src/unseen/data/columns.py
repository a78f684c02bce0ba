"""What the label column of a table means: a class, several labels, a number; or one label, or ranges, out of those."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unseen.core.errors import DataError
from unseen.core.names import Options, as_number
from unseen.data.dataset import CLASS, NUMBER, SEVERAL, Target

#: Between the labels of one image.
_SEVERAL = re.compile(r"\s*[|;,]\s*|\s+")


def read_labels(values: Sequence[Any], options: Options, column: str) -> tuple[Target, list[Any], str]:
    """What the labels are, one per row, and what was decided of them, in words.

    Options: `target=class|several|number` says what they are, where the look of them misleads; `pick=NAME` asks of
    every image whether it has that label among its several; `bins=N` cuts numbers into ranges of about as many images
    each, which are classes.

    Raises:
        DataError: labels that are not what the options say.
    """
    pick, bins = options.text("pick"), options.integer("bins", at_least=2)
    asked = options.choice("target", ("", CLASS, SEVERAL, NUMBER))
    texts = ["" if value is None else str(value).strip() for value in values]
    if pick is not None:
        sets = [set(_SEVERAL.split(text)) for text in texts]
        known = set().union(*sets)
        if pick not in known:
            raise DataError(f"no image has the label {pick!r} in column {column!r}; found {_some(known)}.")
        return CLASS, [pick if pick in own else f"not {pick}" for own in sets], ""
    if bins is not None:
        return CLASS, _ranges(texts, bins, column), ""
    if asked == SEVERAL or (not asked and any("|" in text or ";" in text for text in texts)):
        groups = [tuple(dict.fromkeys(filter(None, _SEVERAL.split(text)))) for text in texts]
        return SEVERAL, groups, f"column {column!r} holds several labels per image (pick= asks for one of them)"
    numbers = [as_number(text) for text in texts]
    if asked == NUMBER or (not asked and _are_numbers(numbers, texts)):
        if (bad := next((t for t, n in zip(texts, numbers, strict=True) if n is None), None)) is not None:
            raise DataError(f"column {column!r} holds numbers, but also {bad!r}.")
        return NUMBER, numbers, f"column {column!r} holds numbers (bins=5 cuts them into classes)"
    return CLASS, texts, ""


def _are_numbers(numbers: Sequence[float | None], texts: Sequence[str]) -> bool:
    """Whether labels are measured rather than counted: some have a fraction, and most occur once or twice."""
    fractions = any(n is not None and math.isfinite(n) and not float(n).is_integer() for n in numbers)
    return fractions and len(set(texts)) > len(texts) // 4


def one_hot_labels(columns: Mapping[str, Sequence[Any]], leave_out: str) -> tuple[Target, list[Any]] | None:
    """Labels of a table that has a column of 0 and 1 for each: classes where every row has exactly one; else None."""
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
    names = list(found)
    if (table.sum(0) == 1).all():
        return CLASS, [names[i] for i in table.argmax(0)]
    return SEVERAL, [tuple(name for name, has in zip(names, row, strict=True) if has) for row in table.T]


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
