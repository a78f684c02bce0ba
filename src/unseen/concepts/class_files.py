"""The small files of the leak audit: class lists, seen lists, and the mapping in which a person settles doubts.

class list   text, one class per line (a number before each is dropped, as in `12 antelope`); or the first column of a
             .csv or .tsv file; or a JSON list
mapping      .tsv or .csv, class and wnid per line; "-" for a class that WordNet does not have, "?" for an open one; #
             starts a comment (see `unseen.concepts.mapping`, which writes such files)
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from os import PathLike
from pathlib import Path

from unseen.concepts.audit import Audit
from unseen.concepts.imagenet import imagenet_1k, imagenet_21k
from unseen.concepts.mapping import OPEN, mapping_of
from unseen.concepts.senses import NOT_IN_WORDNET, match_classes
from unseen.concepts.wordnet import WordNet
from unseen.core.errors import DataError, UsageError, closest
from unseen.core.guard import reader
from unseen.core.names import is_wnid

_NUMBERED = re.compile(r"^\d+[\s,;:]+(\S.*)$")
SEEN_SETS = {"imagenet-1k": ("ImageNet-1K", imagenet_1k), "imagenet-21k": ("ImageNet-21K", imagenet_21k)}


@reader("a class list")
def read_class_list(path: str | PathLike[str]) -> list[str]:
    """Class names of a file, in its order."""
    path = Path(path)
    text = _read(path, "class list")
    if path.suffix == ".json":
        content = json.loads(text)
        if not isinstance(content, list) or not all(isinstance(name, str) for name in content):
            raise DataError(f"{path}: a class list in JSON is a list of names.")
        names = content
    elif path.suffix in (".csv", ".tsv"):
        rows = csv.reader(text.splitlines(), delimiter="\t" if path.suffix == ".tsv" else ",")
        names = [row[0].strip() for row in rows if row and row[0].strip()]
        names = names[1:] if names and names[0].lower() in ("class", "name", "wnid", "label") else names
    else:
        names = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
        numbered = [_NUMBERED.match(name) for name in names]
        if names and all(numbered):
            names = [found[1] for found in numbered if found]
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise DataError(f"{path} lists the class {twice[0]!r} twice.")
    if not names:
        raise DataError(f"{path} has no classes. It needs one per line.")
    return names


def read_seen(value: str, wordnet: WordNet) -> tuple[str, list[str]]:
    """(name for people, wnids) of a seen set: a known name, or a file of wnids or class names."""
    if value.lower() in SEEN_SETS:
        name, synsets = SEEN_SETS[value.lower()]
        return name, list(synsets())
    if not Path(value).is_file():
        near = closest(value, SEEN_SETS)
        advice = f" Did you mean {near[0]!r}?" if near else ""
        raise UsageError(f"no seen set {value!r}: give {' or '.join(SEEN_SETS)}, or a file with one per line.{advice}")
    names = read_class_list(value)
    if all(is_wnid(name) for name in names):
        wordnet.index(names)  # an unknown id is an error with advice
        return Path(value).name, names
    matches = match_classes(wordnet, names)
    missing = [m.name for m in matches if m.wnid is None or m.how == "head"]
    if missing:
        raise DataError(
            f"{value}: {len(missing)} of {len(names)} seen classes have no synset of their own, such as "
            f"{missing[0]!r}. Write their wnids instead."
        )
    return Path(value).name, list(dict.fromkeys(m.wnid for m in matches if m.wnid is not None))


@reader("a mapping")
def read_mapping(path: str | PathLike[str]) -> dict[str, str]:
    """Class name to wnid, as a person settled it; classes that the file leaves open are left out."""
    path = Path(path)
    separator = "," if path.suffix == ".csv" else "\t"
    mapping: dict[str, str] = {}
    for number, line in enumerate(_read(path, "mapping").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = [cell.strip() for cell in next(csv.reader([line], delimiter=separator))]
        if number == 1 and [cell.lower() for cell in cells[:2]] == ["class", "wnid"]:
            continue
        if len(cells) > 1 and cells[1] == OPEN:
            continue
        if len(cells) < 2 or not (is_wnid(cells[1]) or cells[1] == NOT_IN_WORDNET):
            raise DataError(
                f"{path}, line {number}: expected a class and a wnid with a {'comma' if separator == ',' else 'tab'} "
                f"between them, found {line.strip()[:60]!r}. Write {NOT_IN_WORDNET!r} for a class that WordNet lacks, "
                f"{OPEN!r} for one that is open."
            )
        mapping[cells[0]] = cells[1]
    return mapping


def write_mapping(audit: Audit, path: str | PathLike[str]) -> int:
    """Write the mapping that an audit went by: all classes, the open ones with candidates; says how many are open."""
    mapping = mapping_of(audit)
    mapping.write(path)
    return len(mapping.doubtful)


def _read(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"cannot read the {what} {path}: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise DataError(f"the {what} {path} is not UTF-8 text (byte {error.start}). Save it as UTF-8.") from None
