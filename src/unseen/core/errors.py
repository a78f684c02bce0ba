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
    │   └── DiskFullError         the disk is full; everything written so far is intact
    ├── OutOfMemoryError      the memory of the device is too small for the settings of a training
    ├── UnavailableError      a transient error of a disk, mount or machine; the file itself may be fine
    ├── WorkerLostError       workers or the scheduler of a cluster died; finished results are stored
    ├── MissingExtraError     an optional dependency is not installed
    └── CellsFailedError      a run ended with failed cells

`UnseenWarning` is the category of every warning.

A message states what failed, what was found, what is allowed and what to do next. The command line prints it on
one line and exits with `exit_code`: 2 for usage and data, 3 if a run ended with failed cells.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
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
        suggestions: known names similar to the requested one, best first.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str], *, hint: str = "") -> None:
        choices = list(known)
        self.kind = kind
        self.name = name
        self.suggestions: Sequence[str] = tuple(closest(name, choices))
        advice = (suggest(name, sorted(choices), most=8), hint)
        super().__init__(" ".join([f"unknown {kind} {name!r}.", *filter(None, advice)]))


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
    """The feature store or the results database failed."""


class StoreWarning(Warning):
    """A warning about the results database: skipped rows, a lock."""


class CorruptPartError(StoreError):
    """The bytes on disk are not the bytes that were written."""


class DiskFullError(StoreError):
    """The disk is full; everything written so far is intact."""


class OutOfMemoryError(UnseenError):
    """The memory of the device is too small for these settings."""


class UnavailableError(UnseenError):
    """A transient I/O error persisted after retries; the file itself may be fine."""


class WorkerLostError(UnseenError):
    """Workers or the scheduler of a cluster died; finished results are stored."""


class MissingExtraError(UnseenError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} is not installed. Install it with: pip install 'unseen[{extra}]'")


class UnseenWarning(UserWarning):
    """Every warning that `unseen` emits on purpose."""


class CellsFailedError(UnseenError):
    """A run that ended with failed cells; the reasons are in the results."""

    exit_code: ClassVar[int] = 3


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its class name if it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def suggest(name: str, known: Collection[str], *, most: int = 100) -> str:
    """Return a sentence with the known names similar to `name`, else with at most `most` known names."""
    if near := closest(name, known):
        return f"Did you mean {' or '.join(map(repr, near))}?"
    more = ", ..." if len(known) > most else ""
    return f"Known: {', '.join(list(known)[:most])}{more}." if known else ""


def closest(name: str, choices: Iterable[str], *, count: int = 3) -> list[str]:
    """Return names similar to `name`, best first, for did-you-mean suggestions."""
    by_lower = {choice.lower(): choice for choice in choices}
    return [by_lower[hit] for hit in get_close_matches(name.lower(), by_lower, n=count, cutoff=0.6)]
