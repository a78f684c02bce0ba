"""Files that give each class a value: `class<TAB>value` lines, or commas in a .csv file; and the WordNet ids in them.

Such a file comes with a dataset (`folder:PATH?wnids=FILE`) and with the leak audit (`unseen audit --mapping FILE`), and
both read it here. # starts a comment. A WordNet id may be written as "?" (open) or "-" (WordNet has no such noun).
"""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Collection, Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from unseen.core.errors import DataError, closest
from unseen.core.names import is_wnid

OPEN, NOT_IN_WORDNET = "?", "-"
_WITHOUT_TAB = re.compile(r"(?P<name>.+?)\s+(?P<wnid>n\d+|\?|-)\s*(#.*)?")


def read_wnid_table(path: Path, lines: Iterable[tuple[int, str]]) -> dict[str, str]:
    """Return the WordNet id of each class of a file, "?" or "-".

    Args:
        path: the file, for messages; .csv files have commas.
        lines: its lines with their numbers.

    Raises:
        DataError: a line that is not a class and a WordNet id, an id that WordNet 3.0 does not have, a class twice.
    """
    comma = path.suffix.lower() == ".csv"
    found: dict[str, str] = {}
    first_line: dict[str, int] = {}
    for place, (number, line) in enumerate((n, text) for n, text in lines if text and not text.startswith("#")):
        name, value = split_line(line, comma=comma)
        wnid = value.partition("#")[0].strip()
        if place == 0 and (name.lower(), wnid.lower()) == ("class", "wnid"):
            continue
        where = f"{str(path)!r}, line {number}"
        if not name or not wnid:
            raise DataError(
                f"{where}: expected a class and a wnid, '{'class,wnid' if comma else 'class<TAB>wnid'}', found "
                f"{line[:80]!r}. Write - for a class that WordNet does not have, ? for one that is open."
            )
        if name in found:
            raise DataError(
                f"{where}: the class {name!r} is on line {first_line[name]} already. Keep one of the lines."
            )
        if wnid not in (OPEN, NOT_IN_WORDNET) and not is_wnid(wnid):
            raise DataError(
                f"{where}: {name!r} has {value[:40]!r}, which is no WordNet id such as n02123045. Write ? for a class "
                "that is open, - for one that WordNet does not have."
            )
        if is_wnid(wnid) and int(wnid[1:]) not in _nouns():
            raise DataError(f"{where}: {name!r} has {wnid}, which is not a noun of WordNet 3.0.")
        found[name], first_line[name] = wnid, number
    return found


def match_names(given: Iterable[str], known: Collection[str]) -> dict[str, str | None]:
    """Return the known name that each given name stands for, None if there is none.

    A name matches itself. Otherwise it matches the one known name that differs only in underscores instead of spaces,
    in the number of spaces, or in the Unicode form of accented letters. Upper and lower case are different names.
    """
    same: dict[str, list[str]] = {}
    for name in dict.fromkeys(known):
        same.setdefault(_separated(name), []).append(name)
    exact = set(known)
    found: dict[str, str | None] = {}
    for name in given:
        alike = same.get(_separated(name), [])
        found[name] = name if name in exact else alike[0] if len(alike) == 1 else None
    return found


def list_unknown(unknown: Collection[str], known: Collection[str], *, most: int = 5) -> str:
    """Return the first unknown names, each with the nearest known one, for an error message."""
    shown = []
    for name in list(unknown)[:most]:
        near = closest(name, known, count=1)
        shown.append(f"{name!r}" + (f" (did you mean {near[0]!r}?)" if near else ""))
    more = len(unknown) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _separated(name: str) -> str:
    return " ".join(unicodedata.normalize("NFC", name).replace("_", " ").split())


def split_line(line: str, *, comma: bool) -> tuple[str, str]:
    """Return the class and its value on one line, without further columns; "" where there is none."""
    if comma or "\t" in line:
        name, value, *_ = [*next(csv.reader([line], delimiter="," if comma else "\t")), "", ""]
    elif (found := _WITHOUT_TAB.fullmatch(line)) is not None:
        name, value = found["name"], found["wnid"]
    else:
        name, _, value = line.partition(" ")
    return name.strip(), value.strip()


@cache
def _nouns() -> frozenset[int]:
    """Return the byte offsets of the nouns of WordNet 3.0."""
    with (files("unseen.concepts") / "wordnet30.npz").open("rb") as stream, np.load(stream) as table:
        return frozenset(np.cumsum(table["offset_steps"], dtype=np.int64).tolist())
