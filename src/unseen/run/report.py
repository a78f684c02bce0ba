"""Write the report of a study, or of any stored results."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unseen import __version__
from unseen.benchmarks.benchmark import BENCHMARKS, command_of
from unseen.benchmarks.citations import citations_of
from unseen.benchmarks.workbench import Workbench
from unseen.core.identity import neutral_options
from unseen.core.records import Result
from unseen.results.info import info_of
from unseen.run.study import Study

if TYPE_CHECKING:
    from unseen.reports.blocks import Headline
    from unseen.reports.page import Page


def make_report(results: Sequence[Result], **options: Any) -> Page:
    """Return the report of some results: the section of each benchmark, then failures and provenance.

    Args:
        options: `title`, `cards`, `dataset_cards`, `picture`, `date` of `unseen.reports.make_page`.
    """
    from unseen.reports import make_page  # imports altair

    known = {"sections": section_of, "command": command_of, "papers": citations_of, "order": tuple(BENCHMARKS)}
    return make_page(results, **{**known, **options})


def write_report(results: Sequence[Result], path: Path | str, **options: object) -> Path:
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
    carded = ([card.to_dict() for card in each.values()] for each in (cards, dataset_cards))
    known = [__version__, title, options, *carded]
    values = [result.to_dict() for result in results]
    inputs = hashlib.sha256(json.dumps([known, values], sort_keys=True, default=str).encode()).hexdigest()
    if (stored := _INPUTS.search(_end_of(path))) and stored[1] == inputs:
        return [Headline(**each) for each in json.loads(stored[2])]
    from unseen.reports.page import ClassPictures  # imports jinja2

    picture = ClassPictures(bench.dataset)
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


def section_of(benchmark: str) -> str:
    """Return the "module:function" that makes a benchmark's section; that of plain scores if it is not installed."""
    return info_of(benchmark).section
