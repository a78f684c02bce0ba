"""Every error that `unseen` raises on purpose.

    UnseenError
    ├── UsageError            a name, option or study file that cannot be understood
    │   ├── UnknownNameError      not in a registry (carries did-you-mean suggestions)
    │   └── StudyError            a broken study.toml
    ├── DataError             images, labels, splits, tables or ontologies that are missing or malformed
    │   └── TaxonomyError         a cycle, an unknown id, several roots
    ├── BackboneError         a model that cannot be built
    │   └── CheckpointError       weights that do not fit, or that are not safe to load
    ├── StoreError            the feature store or the results database
    │   ├── CorruptPartError      bytes on disk are not the bytes that were written
    │   └── DiskFullError         no room to go on; everything written so far is whole
    ├── UnavailableError      a disk, mount or machine that fails for now; nothing is known against the file
    ├── WorkerLostError       workers, or the scheduler of a cluster, that are gone; what was finished is kept
    ├── MissingExtraError     an optional dependency is not installed
    └── CellsFailedError      a run ended, but some of its cells did not

A message says what failed, what was found, what is allowed and what to do next. The command line prints it on
one line and leaves with `exit_code`: 2 for usage and data, 3 where a run ended with failed cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import ClassVar


class UnseenError(Exception):
    """Base of every error raised on purpose."""

    exit_code: ClassVar[int] = 2


class UsageError(UnseenError, ValueError):
    """A name, option or file that the user gave cannot be understood."""


class UnknownNameError(UsageError):
    """A name that no registry knows.

    Attributes:
        suggestions: known names that look like the one asked for, best first.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str], *, hint: str = "") -> None:
        choices = list(known)
        self.kind = kind
        self.name = name
        self.suggestions: Sequence[str] = tuple(closest(name, choices))
        if self.suggestions:
            advice = f" Did you mean {' or '.join(repr(s) for s in self.suggestions)}?"
        elif choices:
            shown = ", ".join(sorted(choices)[:8]) + (", ..." if len(choices) > 8 else "")
            advice = f" Known: {shown}."
        else:
            advice = ""
        super().__init__(f"unknown {kind} {name!r}.{advice}{' ' + hint if hint else ''}")


class StudyError(UsageError):
    """A study file that is not valid TOML or has keys that mean nothing."""


class DataError(UnseenError, ValueError):
    """Images, labels, splits or tables that are missing or malformed."""


class TaxonomyError(DataError):
    """An ontology that is not a rooted directed acyclic graph, or an id that is not in it."""


class BackboneError(UnseenError):
    """A model that cannot be built."""


class CheckpointError(BackboneError):
    """Weights that do not fit the architecture, or a file that is not safe to load."""


class StoreError(UnseenError):
    """The feature store or the results database cannot do what was asked."""


class CorruptPartError(StoreError):
    """The bytes on disk are not the bytes that were written."""


class DiskFullError(StoreError):
    """There is no room to go on. Everything that was written before is whole."""


class UnavailableError(UnseenError):
    """A disk, a mount or the machine failed, and went on failing. It says nothing about the file."""


class WorkerLostError(UnseenError):
    """Workers died, or the scheduler of a cluster is gone. What was finished is kept."""


class MissingExtraError(UnseenError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} is not installed. Install it with: pip install 'unseen[{extra}]'")


class CellsFailedError(UnseenError):
    """A run that ended with failed cells; the reasons are in the results."""

    exit_code: ClassVar[int] = 3


def first_line(error: BaseException) -> str:
    """What somebody else's error says first; its kind where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def closest(name: str, choices: Iterable[str], *, count: int = 3) -> list[str]:
    """Names that look like `name`, best first: what an error message offers as did-you-mean."""
    by_lower = {choice.lower(): choice for choice in choices}
    return [by_lower[hit] for hit in get_close_matches(name.lower(), by_lower, n=count, cutoff=0.6)]
