"""Class lists, seen lists, and mappings from class names to synsets, as objects and as files that the user can edit.

class list   text, one class per line, so that a name may contain spaces (a number before each is dropped, as in
             `12 antelope`; several WordNet ids may share a line); or the first column of a .csv or .tsv file; or a JSON
             list
mapping      .tsv or .csv, class and wnid per line, all classes; `folder:PATH?wnids=FILE` and
             `unseen audit --mapping FILE` read it:

    # a comment
    accordion<TAB>n02672831<TAB># accordion: a portable box-shaped free-reed instrument ...
    bass<TAB>?                          open: the comments above it list the synsets to choose from
    jetski<TAB>-                        decided: WordNet has none

A class is sure if one synset leads and the name cannot mean a seen concept instead. It is open if it is ambiguous, if
only a part of its name was found (then it is a kind of the synset), or if another class has the synset already.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path

from unseen.concepts.audit import AuditRow, audit_classes
from unseen.concepts.image_evidence import Answers
from unseen.concepts.imagenet import imagenet_1k, imagenet_21k
from unseen.concepts.senses import match_classes
from unseen.concepts.wordnet import WordNet
from unseen.core.class_table import NOT_IN_WORDNET, OPEN, read_wnid_table
from unseen.core.class_table import list_unknown as list_unknown
from unseen.core.class_table import match_names as match_names
from unseen.core.errors import DataError, UsageError, closest
from unseen.core.files import write_whole
from unseen.core.guard import reader
from unseen.core.names import is_wnid

SEEN_SETS = {"imagenet-1k": ("ImageNet-1K", imagenet_1k), "imagenet-21k": ("ImageNet-21K", imagenet_21k)}
_NUMBERED = re.compile(r"^\d+[\s,;:]+(\S.*)$")
_MOST_CANDIDATES = 8
_HEADER = (
    "# Class and WordNet id per line. Replace ? by the id, or by - if WordNet has none.",
    "# Classes with ? or - stay out of a benchmark. Text after a # is a comment.",
)


@dataclass(frozen=True)
class ClassMapping:
    """The synsets of the classes of a dataset.

    Attributes:
        rows: one per class, in order: the match, and every synset that the name may mean.
    """

    rows: tuple[AuditRow, ...]

    @cached_property
    def reasons(self) -> dict[str, str]:
        """Why each open class is open."""
        holder: dict[str, str] = {}
        found: dict[str, str] = {}
        # `crocodile` precedes `crocodile_head` in any order; ids from the user or the dataset stay.
        order = {"given": 0, "exact": 1}
        for row in sorted(self.rows, key=lambda row: order.get(row.match.how, 2)):
            match, is_given = row.match, row.match.how == "given"
            if not is_given and (match.ambiguous or match.wnid is None or match.how in ("head", "spelling")):
                found[match.name] = match.reason
            elif match.wnid is not None:  # a concept can be tested once only
                first = holder.setdefault(match.wnid, match.name)
                if first != match.name and not is_given:
                    found[match.name] = f"the synset of {first!r} already"
        return found

    @cached_property
    def sure(self) -> dict[str, str]:
        """Class name to wnid, of the classes that need no check."""
        found = {row.match.name: row.match.wnid for row in self.rows}
        return {name: wnid for name, wnid in found.items() if wnid and name not in self.reasons}

    @cached_property
    def doubtful(self) -> tuple[AuditRow, ...]:
        """The classes that the user has to decide; `row.senses` are the candidates, the most likely first."""
        return tuple(row for row in self.rows if row.match.name in self.reasons)

    @cached_property
    def absent(self) -> tuple[str, ...]:
        """Classes that the user marked as missing in WordNet."""
        return tuple(row.match.name for row in self.rows if row.match.wnid is None and row.match.how == "given")

    @property
    def wnids(self) -> tuple[str | None, ...]:
        """One per class, in order; None if it is open or WordNet has none."""
        return tuple(self.sure.get(row.match.name) for row in self.rows)

    @property
    def summary(self) -> str:
        """How many classes are matched and how many are open, in one sentence."""
        text = f"{len(self.sure)} of {len(self.rows)} classes were matched to WordNet"
        if self.doubtful:
            text += f", {len(self.doubtful)} {'is' if len(self.doubtful) == 1 else 'are'} open"
        if self.absent:
            text += f", {len(self.absent)} {'has' if len(self.absent) == 1 else 'have'} no synset"
        return text + "."

    def write(self, path: str | PathLike[str]) -> None:
        """Write the mapping file atomically; .csv has commas, any other name tabs."""
        separator = "," if Path(path).suffix == ".csv" else "\t"
        lines = [line for row in self.rows for line in self._lines(row, separator)]
        write_whole(Path(path), "\n".join([*_HEADER, *lines]) + "\n")

    def _lines(self, row: AuditRow, separator: str) -> list[str]:
        name = row.match.name
        if name in self.absent:
            return [_join((name, NOT_IN_WORDNET), separator)]
        if name in self.sure:
            about = f"# {row.senses[0].lemmas[0]}: {row.senses[0].definition}" if row.senses else ""
            return [_join((name, self.sure[name], about), separator)]
        lines = ["#", f"# {name}: {self.reasons[name]}"]
        lines += [
            f"#   {sense.wnid} {', '.join(sense.lemmas)}: {sense.definition} [{sense.relation}]"
            for sense in row.senses[:_MOST_CANDIDATES]
        ]
        if len(row.senses) > _MOST_CANDIDATES:
            lines.append(f"#   and {len(row.senses) - _MOST_CANDIDATES} more")
        return [*lines, _join((name, OPEN), separator)]


def map_classes(
    names: Sequence[str],
    *,
    seen: Sequence[str] | None = None,
    mapping: Mapping[str, str] | None = None,
    wnids: Sequence[str | None] = (),
    answers: Answers | None = None,
    wordnet: WordNet | None = None,
) -> ClassMapping:
    """Match the class names of a dataset to WordNet.

    Args:
        names: class names, in the spelling of the dataset.
        seen: wnids that models were trained on, ImageNet-1K by default: a class that may be one of them is open.
        mapping: class name to wnid, as the user decided; "-" for a class that WordNet does not have.
        wnids: ids that the dataset provides, one per name, None if it has none.
        answers: of a classifier for images of the classes.
        wordnet: by default the one in the package.
    """
    trained = list(imagenet_1k()) if seen is None else list(seen)
    audit = audit_classes(names, trained, mapping=mapping, wnids=wnids, answers=answers, wordnet=wordnet)
    return ClassMapping(audit.rows)


def _join(cells: Sequence[str], separator: str) -> str:
    """Return a line of a .csv or .tsv file; only commas need quotes."""
    cells = [cell for cell in cells if cell]
    if separator == "\t":
        return separator.join(cells)
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(cells)
    return line.getvalue()


@reader("a class list")
def read_class_list(path: str | PathLike[str]) -> list[str]:
    """Read the class names of a file, in its order."""
    path = Path(path)
    text = path.read_text(encoding="utf-8-sig")
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
        words = [word for name in names for word in name.split()]
        if all(is_wnid(word) for word in words):
            names = words
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
    """Return the display name and the wnids of a seen set: a known name, or a file of wnids or class names."""
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
    """Read class names with their wnids from a mapping file, without open classes."""
    path, text = Path(path), Path(path).read_text(encoding="utf-8-sig")
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), start=1)]
    return {name: wnid for name, wnid in read_wnid_table(path, lines).items() if wnid != OPEN}
