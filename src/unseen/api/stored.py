"""`unseen.load_results`: stored results as a table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from unseen.api.answer import Answer
from unseen.backbones.load import resolve_model
from unseen.core.files import home as home_folder
from unseen.core.identity import Values
from unseen.core.records import Result
from unseen.core.run_record import RunRecord
from unseen.data.load import resolve_dataset
from unseen.results import FILE_NAME, ResultsDatabase
from unseen.results.table import merged_record


@dataclass(frozen=True, eq=False, repr=False)
class Results(Answer):
    """Results of a database, the newest of each cell.

    Attributes:
        results: in the order in which they were stored, including failures.
    """

    results: tuple[Result, ...]

    def __len__(self) -> int:
        return len(self.results)

    @property
    def record(self) -> RunRecord:
        """What the evaluations received, used and dropped, merged over all results."""
        return merged_record(self.results)

    def headline(self) -> str:
        failed = sum(not result.ok for result in self.results)
        models = {result.cell.model for result in self.results}
        datasets = {result.cell.dataset for result in self.results}
        text = f"{len(self.results)} results of {len(models)} models on {len(datasets)} datasets"
        return text + (f", {failed} failed" if failed else "")

    def rows(self) -> list[Values]:
        return [
            {
                "benchmark": result.cell.benchmark,
                "model": result.cell.model,
                "dataset": result.cell.dataset,
                **{k: v for k, v in result.cell.parameters.items() if isinstance(v, str | int | float)},
                **result.metrics,
                "seconds": result.seconds,
                "error": result.error,
            }
            for result in self.results
        ]


def load_results(
    study: str | None = None,
    *,
    benchmark: str | None = None,
    model: str | Path | None = None,
    dataset: str | Path | None = None,
    home: Path | str | None = None,
) -> Results:
    """Return the newest result of each cell in a home folder.

    Args:
        study: only results of this study, such as "demo"; those of Python calls are stored under "python".
        benchmark, model, dataset: only results of this one; plain paths of checkpoints and folders are accepted.
        home: the folder; the user's by default.

    Raises:
        StoreError: there are no results yet.
    """
    model = None if model is None else resolve_model(str(model), Path())
    dataset = None if dataset is None else resolve_dataset(str(dataset), Path())
    with ResultsDatabase(home_folder(home) / FILE_NAME, read_only=True) as database:
        found = database.latest(study=study, benchmark=benchmark, model=model, dataset=dataset)
    return Results(tuple(found))
