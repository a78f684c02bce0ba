"""Results of VTAB that are stored already, and what is known of their models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unseen.core.records import ModelCard, Result


def stored_results(study: str, home: Path | None) -> list[Result]:
    """The newest successes of a study's VTAB cells, and of its probes, which tell how models do on ImageNet."""
    from unseen.benchmarks.vtab.info import IMAGENET_BENCHMARK
    from unseen.core.files import home as home_folder
    from unseen.results import FILE_NAME, ResultsDatabase

    with ResultsDatabase(home_folder(home) / FILE_NAME, read_only=True) as database:
        return [
            result
            for benchmark in ("vtab", IMAGENET_BENCHMARK)
            for result in database.latest(study=study, benchmark=benchmark, include_failed=False)
        ]


def cards_of(results: Sequence[Result], home: Path | None) -> dict[str, ModelCard]:
    """The measured cards of the models that still load."""
    from unseen.benchmarks import Workbench
    from unseen.core.errors import UnseenError
    from unseen.core.files import home as home_folder

    bench, cards = Workbench(home_folder(home)), {}
    for model in dict.fromkeys(result.cell.model for result in results):
        try:
            cards[model] = bench.card(model)
        except UnseenError:  # its numbers are shown all the same
            continue
    return cards
