"""A mapping from class names to synsets, as an object and as a file that a person can finish.

The file has one line per class, all of them, and goes back as it is wherever a mapping is read
(`folder:PATH?wnids=FILE`, `unseen audit --mapping FILE`):

    # a comment
    accordion<TAB>n02672831<TAB># accordion: a portable box-shaped free-reed instrument ...
    bass<TAB>?                          open: above it stand the synsets to choose from, as comments
    jetski<TAB>-                        settled: WordNet has none

A class is sure if one synset leads and nothing speaks for a seen concept instead. It is open if it is ambiguous, if
only a part of its name was found (then it is a kind of the synset), or if another class has the synset already.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path

from unseen.concepts.audit import Audit, AuditRow, audit_classes
from unseen.concepts.imagenet import imagenet_1k
from unseen.concepts.senses import NOT_IN_WORDNET
from unseen.concepts.wordnet import WordNet
from unseen.core.files import write_whole

OPEN = "?"
_MOST_CANDIDATES = 8
_HEADER = (
    "# Class and WordNet id per line. Write the id in place of ? where you know it, or - where WordNet has none.",
    "# Classes with ? or - stay out of a benchmark. Whatever follows a # is a comment.",
)


@dataclass(frozen=True)
class ClassMapping:
    """What the classes of a dataset were matched to.

    Attributes:
        rows: one per class, in the order given: the match, and every synset that the name may mean.
        left: classes that a person has left open.
    """

    rows: tuple[AuditRow, ...]
    left: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(row.match.name for row in self.rows)

    @cached_property
    def sure(self) -> dict[str, str]:
        """Class name to wnid, of the classes that need nobody's look."""
        return {
            row.match.name: row.match.wnid for row in self.rows if row.match.wnid is not None and not self.reason(row)
        }

    @cached_property
    def doubtful(self) -> tuple[AuditRow, ...]:
        """The classes for a person to settle; `row.senses` are the candidates, the most likely first."""
        return tuple(row for row in self.rows if self.reason(row))

    @cached_property
    def absent(self) -> tuple[str, ...]:
        """Classes that a person has settled as not in WordNet."""
        return tuple(row.match.name for row in self.rows if row.match.wnid is None and row.match.how == "given")

    @property
    def wnids(self) -> tuple[str | None, ...]:
        """One per class, in the order given; None where it is open or WordNet has none."""
        return tuple(self.sure.get(row.match.name) for row in self.rows)

    @cached_property
    def repeated(self) -> dict[str, str]:
        """Classes whose synset another class has already, and that class: a concept can be tested once only."""
        holder: dict[str, str] = {}
        found: dict[str, str] = {}
        # `crocodile` goes before `crocodile_head`, wherever they stand; what a person or the dataset says stays.
        order = {"given": 0, "exact": 1}
        for row in sorted(self.rows, key=lambda row: order.get(row.match.how, 2)):
            match = row.match
            if match.wnid is None or self.why_open(row):
                continue
            first = holder.setdefault(match.wnid, match.name)
            if first != match.name and match.how != "given":
                found[match.name] = first
        return found

    def why_open(self, row: AuditRow) -> str:
        """Why a class is open, in words, or "" if it is not (see `repeated` for one more reason)."""
        match = row.match
        if match.how == "given":
            return ""
        if match.ambiguous or match.wnid is None or match.how in ("head", "spelling"):
            return match.reason
        return "left open" if match.name in self.left else ""

    def reason(self, row: AuditRow) -> str:
        """Why a class is open, in words, whatever the reason, or "" if it is not."""
        other = self.repeated.get(row.match.name)
        return f"the synset of {other!r} already" if other else self.why_open(row)

    @property
    def summary(self) -> str:
        """One sentence: how many classes are matched, and how many are open."""
        text = f"{len(self.sure)} of {len(self.rows)} classes were matched to WordNet"
        if self.doubtful:
            text += f", {len(self.doubtful)} {'is' if len(self.doubtful) == 1 else 'are'} open"
        if self.absent:
            text += f", {len(self.absent)} {'has' if len(self.absent) == 1 else 'have'} no synset"
        return text + "."

    def write(self, path: str | PathLike[str]) -> None:
        """Write the mapping file, whole or not at all; .csv has commas, any other name tabs."""
        write_whole(Path(path), "\n".join([*_HEADER, *self._text(path, self.names)]) + "\n")

    def append(self, path: str | PathLike[str], names: Sequence[str]) -> None:
        """Add the lines of some classes to a file that has the others; what stands there stays as it is."""
        if names:
            before = Path(path).read_text(encoding="utf-8-sig").rstrip("\n")
            write_whole(Path(path), "\n".join([before, *self._text(path, names)]) + "\n")

    def left_open(self, names: Iterable[str]) -> ClassMapping:
        """The same, with some classes open because a person has left them so."""
        return ClassMapping(self.rows, self.left.union(names))

    def _text(self, path: str | PathLike[str], names: Sequence[str]) -> list[str]:
        separator = "," if Path(path).suffix == ".csv" else "\t"
        return [line for row in self.rows if row.match.name in names for line in self._lines(row, separator)]

    def _lines(self, row: AuditRow, separator: str) -> list[str]:
        name = row.match.name
        if name in self.absent:
            return [_join((name, NOT_IN_WORDNET), separator)]
        if name in self.sure:
            about = f"# {row.senses[0].lemmas[0]}: {row.senses[0].definition}" if row.senses else ""
            return [_join((name, self.sure[name], about), separator)]
        lines = ["#", f"# {name}: {self.reason(row)}"]
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
    wordnet: WordNet | None = None,
) -> ClassMapping:
    """Match the class names of a dataset to WordNet.

    Args:
        names: class names, as the dataset writes them.
        seen: wnids trained on, ImageNet-1K by default: a class that may be one of them is open.
        mapping: class name to wnid, settled by a person; "-" for a class that WordNet does not have.
        wnids: what the dataset itself says, one per name, None where it says nothing.
        wordnet: by default the one in the package.
    """
    trained = list(imagenet_1k()) if seen is None else list(seen)
    return mapping_of(audit_classes(names, trained, mapping=mapping, wnids=wnids, wordnet=wordnet))


def mapping_of(audit: Audit) -> ClassMapping:
    """The mapping that an audit went by."""
    return ClassMapping(audit.rows)


def _join(cells: Sequence[str], separator: str) -> str:
    """A line of a .csv or .tsv file; only commas need quotes."""
    kept = [cell for cell in cells if cell]
    if separator == "\t":
        return separator.join(kept)
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(kept)
    return line.getvalue()
