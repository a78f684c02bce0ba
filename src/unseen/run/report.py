"""Write the report of a study, or of any stored results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unseen.benchmarks.benchmark import BENCHMARKS, command_of
from unseen.benchmarks.citations import citations_of
from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import UnseenError
from unseen.core.identity import neutral_options
from unseen.core.records import ModelCard, Result
from unseen.results.info import info_of
from unseen.run.study import Study

if TYPE_CHECKING:
    from unseen.reports.page import Page


def make_report(results: Sequence[Result], **options: Any) -> Page:
    """Return the report of some results: the section of each benchmark, then failures and provenance.

    Args:
        options: `title`, `cards`, `dataset_cards`, `picture`, `date` of `unseen.reports.make_page`.
    """
    from unseen.reports import make_page  # imports altair

    known = {"sections": section_of, "command": command_of, "papers": citations_of, "order": tuple(BENCHMARKS)}
    return make_page(results, **{**known, **options})


def write_report(results: Sequence[Result], path: Path | str, **options: Any) -> Path:
    """Write the report of some results; `options` are those of `make_report`."""
    return make_report(results, **options).write(path)


def make_study_report(results: Sequence[Result], study: Study, bench: Workbench) -> Page:
    """Return the report of a study, with the measured cards of its models and pictures of its classes."""
    from unseen.reports.page import ClassPictures  # imports Pillow

    cards: dict[str, ModelCard] = {}
    for model in dict.fromkeys(result.cell.model for result in results if result.ok):
        try:
            cards[model] = bench.card(model)
        except UnseenError:  # the results of a model that no longer loads are still shown
            continue
    return make_report(
        results,
        title=study.title or study.name,
        cards=cards,
        dataset_cards={name: bench.dataset(name).card for name in study.datasets},
        picture=ClassPictures(bench.dataset),
        options={each.name: neutral_options(each) for each in study.protocols},
    )


def report_path(study: Study, bench: Workbench) -> Path:
    """Return the default path of the report of a study."""
    return bench.home / "reports" / f"{file_name(study.name)}.html"


def file_name(text: str) -> str:
    """Return the name of a study as the name of a file, without parts that lead to another folder."""
    return re.sub(r"[^\w.-]+", "-", text).strip(".-") or "study"


def section_of(benchmark: str) -> str:
    """Return the "module:function" that makes a benchmark's section; that of plain scores if it is not installed."""
    return info_of(benchmark).section
