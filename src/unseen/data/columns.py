"""What the label column of a table means: a class, several labels, a number; or one label, or ranges, out of those."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from unseen.core.arrays import AnyArray, FloatArray, IntArray
from unseen.core.class_table import NOT_IN_WORDNET, OPEN, list_unknown, match_names, read_wnid_table, split_line
from unseen.core.errors import DataError
from unseen.core.guard import guarded, reader
from unseen.core.names import Options, as_number
from unseen.data.dataset import CLASS, NUMBER, SEVERAL, Target

#: Between the labels of one image.
_SEVERAL = re.compile(r"\s*[|;,]\s*|\s+")


def read_labels(values: Sequence[object], options: Options, column: str) -> tuple[Target, list[object], str]:
    """Return the kind of the labels, one label per row (None for an empty cell), and a note on how they were read.

    Options: `target=class|several|number` states what they are if they look otherwise; `pick=NAME` makes two classes,
    images with and without that label; `bins=N` cuts numbers into ranges of about as many images each, which are
    classes.

    Raises:
        DataError: labels that are not what the options say.
    """
    filled = [i for i, value in enumerate(values) if not is_unlabelled(value)]
    target, known, note = _read_filled([str(values[i]).strip() for i in filled], options, column)
    labels: list[Any] = [None] * len(values)
    for i, label in zip(filled, known, strict=True):
        labels[i] = label
    return target, labels, note


def _read_filled(texts: list[str], options: Options, column: str) -> tuple[Target, Sequence[object], str]:
    pick, bins = options.text("pick"), options.integer("bins", at_least=2)
    chosen = options.choice("target", ("", CLASS, SEVERAL, NUMBER))
    if pick is not None:
        sets = [set(_SEVERAL.split(text)) for text in texts]
        known = sorted(set().union(*sets) - {""})
        if pick not in known:
            shown = ", ".join([*known[:6], *(["..."] if len(known) > 6 else [])])
            raise DataError(f"no image has the label {pick!r} in column {column!r}; found {shown}.")
        return CLASS, [pick if pick in own else f"not {pick}" for own in sets], ""
    if not bins and (chosen == SEVERAL or (not chosen and any("|" in text or ";" in text for text in texts))):
        groups = [tuple(dict.fromkeys(filter(None, _SEVERAL.split(text)))) for text in texts]
        return SEVERAL, groups, f"column {column!r} holds several labels per image (pick= selects one of them)"
    numbers = [as_number(text) for text in texts]
    # Measurements: some have a fraction, and most occur once or twice.
    fractions = any(number is not None and math.isfinite(number) and number % 1 for number in numbers)
    if bins or chosen == NUMBER or (not chosen and fractions and len(set(texts)) > len(texts) // 4):
        if None in numbers:
            raise DataError(f"column {column!r} holds numbers, but also {texts[numbers.index(None)]!r}.")
        if bins:
            edges, place = _quantile_bins(np.asarray(numbers, np.float64), bins)
            width = len(str(len(edges)))
            return CLASS, [f"{i + 1:0{width}d}: {edges[i]:g} to {edges[i + 1]:g}" for i in place], ""
        return NUMBER, numbers, f"column {column!r} holds numbers (bins=5 cuts them into classes)"
    return CLASS, texts, ""


def one_hot_labels(columns: Mapping[str, Sequence[object]], leave_out: str) -> tuple[Target, list[object]] | None:
    """Return labels of columns of 0 and 1: classes if every row has exactly one; None if there are no such columns."""
    names = [name for name in columns if name != leave_out]
    cells = [[as_number(str(value)) for value in columns[name]] for name in names]
    if len(names) < 2 or not all(cell in (0, 1) for column in cells for cell in column):
        return None
    table = np.array(cells, np.float64)
    if (table.sum(0) == 1).all():
        return CLASS, [names[i] for i in table.argmax(0)]
    return SEVERAL, [tuple(name for name, has in zip(names, row, strict=True) if has) for row in table.T]


def _quantile_bins(values: FloatArray, bins: int) -> tuple[FloatArray, IntArray]:
    """Return the edges of ranges with about as many values each, and the range of each value."""
    edges = np.unique(np.quantile(values, np.linspace(0, 1, bins + 1)))
    place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    return edges, place.astype(np.int64)


def read_lines(path: Path) -> list[tuple[int, str]]:
    """Return the numbered lines of a text file, without the empty ones."""
    with guarded(repr(str(path)), "UTF-8 text"):
        text = path.read_text(encoding="utf-8-sig")
    return [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def number_classes(
    every: Mapping[str, Sequence[Any]], named: Sequence[str] | None
) -> tuple[list[str], dict[str, IntArray]]:
    """Return class names, and class indices by split; labels that are indices of named classes stay unchanged."""
    values = [label for labels in every.values() for label in labels]
    if named is not None and all(isinstance(label, int | np.integer) and 0 <= label < len(named) for label in values):
        return [str(name) for name in named], {split: np.asarray(own, np.int64) for split, own in every.items()}
    try:
        known = sorted(set(values))
    except TypeError:
        raise DataError("labels are of several types; give texts, or whole numbers.") from None
    index = {value: i for i, value in enumerate(known)}
    found = {split: np.asarray([index[value] for value in own], np.int64) for split, own in every.items()}
    return [str(value) for value in known], found


@reader("a table of classes")
def read_table(path: Path, classes: Sequence[str]) -> dict[str, str]:
    """Read a value per class: lines of `class<TAB>value`, or with a space if the class has none.

    A file named .csv has commas instead. Lines that start with # are comments. Lines on other classes are passed over,
    so that one file serves many datasets.
    """
    wanted = set(classes)
    table: dict[str, str] = {}
    for number, line in read_lines(path):
        if line.startswith("#"):
            continue
        comma = path.suffix.lower() == ".csv"
        key, value = split_line(line, comma=comma)
        if not value:
            between = "class,value" if comma else "class<TAB>value"
            raise DataError(f"{str(path)!r}, line {number}: expected '{between}', found {line[:80]!r}")
        if key in wanted:
            table[key] = value
    if not table:
        raise DataError(_no_class(path, classes))
    return table


@reader("a mapping")
def read_wnids(path: Path, classes: Sequence[str]) -> list[str | None]:
    """Read WordNet ids by class from a file of `class<TAB>wnid` lines.

    None stands for a class that the file leaves out, leaves open ("?"), or says that WordNet does not have ("-").

    Raises:
        DataError: a line on a class that the dataset does not have, an id that WordNet does not have, a class twice.
    """
    table = read_wnid_table(path, read_lines(path))
    own = match_names(table, classes)
    unknown = [name for name, known in own.items() if known is None]
    if len(unknown) == len(table):
        raise DataError(_no_class(path, classes))
    if unknown:
        count = "a class" if len(unknown) == 1 else f"{len(unknown):,} classes"
        raise DataError(
            f"{str(path)!r} names {count} that the data do not have: {list_unknown(unknown, classes)}. Write the names "
            "as the data do, or remove the lines."
        )
    found = {own[name]: wnid for name, wnid in table.items() if wnid not in (OPEN, NOT_IN_WORDNET)}
    return [found.get(name) for name in classes]


def _no_class(path: Path, classes: Sequence[str]) -> str:
    return f"{str(path)!r} says nothing of any class of this dataset ({', '.join(sorted(classes)[:3])}, ...)"


#: Ranges of a number that every split has its share of.
_STRATA = 10
_GROUPS = (tuple, list, set, frozenset, np.ndarray)


def is_unlabelled(label: object, class_names: Sequence[str] | None = None) -> bool:
    """Return whether an image has no label: None, NaN, an empty text or group, zeros, or -1 with class names."""
    if label is None or (isinstance(label, float | np.floating) and math.isnan(label)):
        return True
    if isinstance(label, _GROUPS):
        return not _group(label, class_names)
    if isinstance(label, str):
        return not label.strip()
    return class_names is not None and isinstance(label, int | np.integer) and label == -1


def target_of(labels: Sequence[object]) -> Target:
    """Infer the kind of labels from their types: groups are several, fractions are numbers."""
    if any(isinstance(label, _GROUPS) for label in labels):
        return SEVERAL
    if any(isinstance(label, float | np.floating) and not float(label).is_integer() for label in labels):
        return NUMBER
    return CLASS


def number_targets(
    labels: Mapping[str, Sequence[Any]],
) -> tuple[list[str], dict[str, IntArray], dict[str, AnyArray]]:
    """Return names and indices of strata, and (n,) values, by split.

    Raises:
        DataError: a label is not a finite number, or all are the same.
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
    if every.min() == every.max():
        raise DataError(f"every image has the number {every[0]:g}: there is nothing to distinguish.")
    edges, place = _quantile_bins(every, _STRATA)
    strata = dict(zip(values, np.split(place, np.cumsum([len(own) for own in values.values()])[:-1]), strict=True))
    return [f"{low:g} to {high:g}" for low, high in pairwise(edges.tolist())], strata, dict(values)


def several_targets(
    labels: Mapping[str, Sequence[object]], class_names: Sequence[str] | None = None
) -> tuple[list[str], dict[str, IntArray], dict[str, AnyArray]]:
    """Return names of labels, the index of each image's rarest label, and (n, labels) booleans, by split.

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
    strata = {s: np.where(value, often, often.sum() + 1).argmin(1).astype(np.int64) for s, value in values.items()}
    return names, strata, dict(values)


def _group(label: object, class_names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names in one image's label."""
    if isinstance(label, str):
        return (label,) if label else ()
    if not isinstance(label, _GROUPS):
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
