"""Record results: each once, in the database of the home, with its environment; those of workers through the inbox.
Write the report of a study, or of any stored results.

Leases decide which run does which work, so that runs on one home share their work instead of doing it twice.

The inbox is a folder of small files. A worker writes each result as a file of its own, complete or not at all, as soon
as it is known; the process that runs the study collects them when a task ends. It works wherever workers share the home
folder, with any engine. The finished results of a killed worker stay there, and the next run collects those of a killed
run.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from datetime import date as Date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from unseen import __version__
from unseen.benchmarks.benchmark import citations_of, command_of
from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import StoreError
from unseen.core.files import write_whole
from unseen.core.identity import digest, neutral_options
from unseen.core.records import Result
from unseen.features.store import take_lock
from unseen.results import ResultsDatabase
from unseen.results.rows import to_json
from unseen.run.study import Study

if TYPE_CHECKING:
    from unseen.reports.blocks import Headline
    from unseen.reports.page import Page

Record = Callable[[Result], None]


class ResultWriter:
    """Append each result of a study to the database once.

    Attributes:
        ids: the cells whose results this run has stored.
    """

    def __init__(self, database: ResultsDatabase, study: str, on_result: Record | None = None) -> None:
        self.database, self.study, self.on_result = database, study, on_result
        self.ids: set[str] = set()

    def __call__(self, result: Result) -> None:
        if result.cell.id in self.ids:
            return
        self.ids.add(result.cell.id)
        self.database.append(self.study, result)
        if self.on_result is not None:
            self.on_result(result)


class Leases:
    """The leases of one run, in the folder `HOME/leases`; used in a `with` block, which releases all at its end.

    A run acquires the lease of a piece of work before it begins and releases it at the end. Each run locks a file of
    its own; a lease is a hard link to that file, so it is free as soon as the run's process ends, on any machine. A
    lease is a hint: a run that works without one does the same work again and gets the same result.

    Attributes:
        owner: the name of the run.
    """

    def __init__(self, home: Path) -> None:
        self.folder, self.owner = home / "leases", secrets.token_hex(8)
        self._own = self._file_of(self.owner)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        while not self._own.exists():  # another run may remove it before it is locked
            self._stack.close()
            self._stack.enter_context(take_lock(self._own))
        for path in self.folder.iterdir():
            _remove_if_free(path)
        return self

    def __exit__(self, *_error: object) -> None:
        for path in [path for path in self.folder.glob("*") if self._is_own(path)]:
            path.unlink(missing_ok=True)
        self._stack.close()

    def acquire(self, work: Iterable[str]) -> list[str]:
        """Acquire the leases of those pieces of work that no other run holds, and return them."""
        return [each for each in work if self._take(self.folder / digest(each))]

    def release(self, work: Iterable[str]) -> None:
        """Release pieces of work: they are done, or will not be done."""
        for path in (self.folder / digest(each) for each in work):
            if self._is_own(path):
                path.unlink(missing_ok=True)

    def is_alive(self, owner: str) -> bool:
        """Return whether the run of that name is still working."""
        return owner == self.owner or not _remove_if_free(self._file_of(owner))

    def _file_of(self, owner: str) -> Path:
        return self.folder / f"{owner}.lock"

    def _take(self, path: Path) -> bool:
        try:
            path.hardlink_to(self._own)
        except FileExistsError:
            return self._is_own(path) or (_remove_if_free(path) and self._take(path))
        except OSError:  # a file system without links: runs do not share their work
            return True
        return True

    def _is_own(self, path: Path) -> bool:
        with suppress(FileNotFoundError):
            return path.samefile(self._own)
        return False


def _remove_if_free(path: Path) -> bool:
    """Remove a file unless a process holds the lock on it; return whether it is gone."""
    if path.exists():
        with suppress(StoreError, PermissionError), take_lock(path, timeout=0):
            path.unlink(missing_ok=True)
    return not path.exists()


class Inbox:
    """The folder `HOME/inbox`."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "inbox"

    def write(self, result: Result, study: str, owner: str = "") -> None:
        """Write a result for the run called `owner` to collect."""
        content = to_json("result", {"study": study, "owner": owner, "result": result.to_dict()})
        # Not flushed to the disk: a power cut costs one cell, which the next run evaluates again.
        write_whole(self.folder / f"{result.cell.id}.json", content, flush=False)

    def collect(self, study: str, record: Record, accept: Callable[[str], bool] = lambda _owner: True) -> None:
        """Record and remove the results of a study whose owner is accepted."""
        for path in sorted(self.folder.glob("*.json")) if self.folder.is_dir() else ():
            try:
                values = json.loads(path.read_text(encoding="utf-8"))
                if values["study"] != study or not accept(str(values.get("owner", ""))):
                    continue
                result = Result.from_dict(values["result"])
            except (OSError, ValueError, KeyError, TypeError):
                continue  # collected by another process, or not a file of the inbox
            record(result)
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove the folder if it is empty."""
        with suppress(OSError):
            self.folder.rmdir()


# ---- the report ------------------------------------------------------------------------------------------------------


def make_report(results: Sequence[Result], *, title: str, date: Date | None = None, **material: Any) -> Page:
    """Return the report of some results: the section of each benchmark, then failures and provenance.

    Args:
        material: `cards`, `dataset_cards`, `picture` and `options` of `unseen.reports.blocks.Material`.
    """
    from unseen.reports.page import Material, make_page  # imports altair

    content = Material(results, command=command_of, papers=citations_of, **material)
    return make_page(content, title=title, date=date)


def write_report(results: Sequence[Result], path: Path | str, **options: Any) -> Path:
    """Write the report of some results; `options` are those of `make_report`."""
    return make_report(results, **options).write(path)


#: Last line of the report of a study: the digest of its inputs, and its headlines.
_INPUTS = re.compile(r"\n<!-- inputs (\w+) (\[.*\]) -->\s*$")
#: Bytes at the end of a report that contain the line.
_END = 1 << 16


def write_study_report(results: Sequence[Result], study: Study, bench: Workbench, path: Path) -> list[Headline]:
    """Write the report of a study, with the measured cards of its models and pictures of its classes.

    A file that was written from the same inputs by the same version is kept.

    Returns:
        The headlines of the report.
    """
    from unseen.reports.blocks import Headline

    cards = bench.cards(result.cell.model for result in results if result.ok)
    title, dataset_cards = study.title or study.name, {name: bench.dataset(name).card for name in study.datasets}
    options = {each.name: neutral_options(each) for each in study.protocols}
    values = [each.to_dict() for each in (*cards.values(), *dataset_cards.values(), *results)]
    known = json.dumps([__version__, title, options, values], sort_keys=True, default=str)
    inputs = hashlib.sha256(known.encode()).hexdigest()
    if (stored := _INPUTS.search(_end_of(path))) and stored[1] == inputs:
        return [Headline(**each) for each in json.loads(stored[2])]
    from unseen.reports.page import class_pictures  # imports jinja2

    picture = class_pictures(bench.dataset)
    page = make_report(results, title=title, cards=cards, dataset_cards=dataset_cards, picture=picture, options=options)
    headlines = [headline for _, headline in page.headlines]
    answers = json.dumps([asdict(each) for each in headlines]).replace("-->", "--\\u003e")
    replace(page, ending=f"\n<!-- inputs {inputs} {answers} -->\n").write(path)
    return headlines


def _end_of(path: Path) -> str:
    """Return the end of a file, or "" if it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - _END, 0))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def report_path(study: Study, bench: Workbench) -> Path:
    """Return the default path of the report of a study."""
    return bench.home / "reports" / f"{file_name(study.name)}.html"


def file_name(text: str) -> str:
    """Return the name of a study as the name of a file, without parts that lead to another folder."""
    return re.sub(r"[^\w.-]+", "-", text).strip(".-") or "study"
