"""Text files beside the images: lists of "path label" lines, and tables from a class to its name or WordNet id."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from unseen.core.errors import DataError
from unseen.core.guard import reader
from unseen.core.names import is_wnid
from unseen.data.dataset import IntArray

_NO_WNID = ("?", "-")  # what mapping files write for a class that is open, or that WordNet does not have
# The label is the last word; a tab before it lets it hold spaces. The path may hold anything.
_LINE = re.compile(r"(?P<path>.+)\t\s*(?P<label>[^\t]+)|(?P<path2>.+?)\s*[,\s]\s*(?P<label2>[^,\s]+)")


def read_lines(path: Path) -> list[tuple[int, str]]:
    """Numbered lines of a text file, without the empty ones."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"there is no file {str(path)!r}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {str(path)!r} as UTF-8 text: {error}") from error
    return [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


@reader("a list of images")
def read_list(path: Path, root: Path) -> tuple[list[str], list[str]]:
    """The paths and labels of a list file, whose lines are `relative/path label`.

    Between the two stands a tab, a comma or white space; the label is an integer or the name of a class, without
    spaces unless a tab comes before it.
    """
    paths: list[str] = []
    labels: list[str] = []
    for number, line in read_lines(path):
        match = _LINE.fullmatch(line)
        if match is None:
            raise DataError(f"{str(path)!r}, line {number}: expected 'path label', found {line[:80]!r}")
        paths.append((match["path"] or match["path2"]).strip())
        labels.append((match["label"] or match["label2"]).strip())
    if not paths:
        raise DataError(f"the list {str(path)!r} is empty")
    if not (root / paths[0]).is_file():
        raise DataError(
            f"{str(path)!r}: its first image {paths[0]!r} is not there. Paths are taken relative to {str(root)!r}."
        )
    return paths, labels


def number_labels(
    lists: Mapping[str, Sequence[str]], names: Sequence[str] | None
) -> tuple[list[str], dict[str, IntArray]]:
    """Class names, and labels as class indices, of the lists of several splits.

    Integers are indices already, counted from 0; other labels are class names, numbered in alphabetical order or in
    that of `names`.
    """
    every = [label for labels in lists.values() for label in labels]
    if all(label.lstrip("-").isdecimal() for label in every):
        low, high = min(map(int, every)), max(map(int, every))
        if low < 0 or (names is not None and high >= len(names)):
            allowed = f"from 0 to {len(names) - 1}" if names is not None else "0 or more"
            raise DataError(f"labels go from {low} to {high}, but must be {allowed}")
        found = {split: np.asarray([int(label) for label in labels], np.int64) for split, labels in lists.items()}
        return list(names) if names is not None else [str(i) for i in range(high + 1)], found
    ordered = list(names) if names is not None else sorted(set(every))
    index = {name: i for i, name in enumerate(ordered)}
    if unknown := sorted(set(every) - set(index)):
        raise DataError(f"the label {unknown[0]!r} is not among the {len(ordered)} class names")
    return ordered, {split: np.asarray([index[n] for n in labels], np.int64) for split, labels in lists.items()}


@reader("a table of classes")
def read_table(path: Path, classes: Sequence[str]) -> dict[str, str]:
    """What a file says of each class: lines of `class<TAB>value`, or with spaces where the class has none.

    A file named .csv has commas instead. Lines that start with # are comments. Lines on other classes are passed over,
    so that one file serves many datasets.
    """
    wanted = set(classes)
    table: dict[str, str] = {}
    for number, line in read_lines(path):
        if line.startswith("#"):
            continue
        key, value = _cells(line, comma=path.suffix.lower() == ".csv")
        if not value:
            between = "class,value" if path.suffix.lower() == ".csv" else "class<TAB>value"
            raise DataError(f"{str(path)!r}, line {number}: expected '{between}', found {line[:80]!r}")
        if key in wanted:
            table[key] = value
    if not table:
        shown = ", ".join(sorted(wanted)[:3])
        raise DataError(f"{str(path)!r} says nothing of any class of this dataset ({shown}, ...)")
    return table


def _cells(line: str, *, comma: bool) -> tuple[str, str]:
    """The class and its value, without further columns."""
    if comma:
        key, value, *_ = [*next(csv.reader([line])), "", ""]
    elif "\t" in line:
        key, value, *_ = [*line.split("\t"), ""]
    else:
        key, _, value = line.partition(" ")
    return key.strip(), value.strip()


@reader("a mapping")
def read_wnids(path: Path, classes: Sequence[str]) -> list[str | None]:
    """WordNet ids by class, from a file of `class<TAB>wnid` lines such as a mapping file has.

    None stands for a class that the file leaves out, leaves open ("?"), or says that WordNet does not have ("-").
    """
    found: dict[str, str | None] = {}
    for name, value in read_table(path, classes).items():
        wnid = value.partition("#")[0].strip()
        if wnid not in _NO_WNID and not is_wnid(wnid):
            raise DataError(
                f"{str(path)!r}: {name!r} has {value[:40]!r}, which is no WordNet id such as n02123045. Write ? for a "
                "class that is open, - for one that WordNet does not have."
            )
        found[name] = None if wnid in _NO_WNID else wnid
    return [found.get(name) for name in classes]
