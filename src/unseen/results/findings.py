"""The run records of several results, in short: what terminal, LaTeX and Markdown state beside the numbers."""

from __future__ import annotations

from collections.abc import Iterable

from unseen.core.findings import findings
from unseen.core.records import Result
from unseen.core.run_record import RunRecord


def records_by_dataset(results: Iterable[Result]) -> dict[str, RunRecord]:
    """Return one record per dataset, merged over models, and over the cells of each model."""
    cells: dict[str, dict[str, dict[str, RunRecord]]] = {}
    for result in results:
        cell = result.cell
        cells.setdefault(cell.dataset, {}).setdefault(cell.model, {})[cell.id] = result.record
    return {
        dataset: RunRecord.merged({model: RunRecord.merged(own) for model, own in models.items()})
        for dataset, models in cells.items()
    }


def merged_record(results: Iterable[Result]) -> RunRecord:
    """Return one record for all results; if they are about several datasets, splits have the dataset's name."""
    found = records_by_dataset(results)
    return RunRecord.merged(found if len(found) < 2 else {name: each.named(name) for name, each in found.items()})


def run_findings(results: Iterable[Result]) -> list[str]:
    """Return one phrase per notable fact of all results, such as "2 unreadable images", the losses first."""
    return findings(records_by_dataset(results))
