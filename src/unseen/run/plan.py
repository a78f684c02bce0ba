"""Plan a study: its cells, which of them have results already, and what the others read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from unseen.backbones.load import check_backbone
from unseen.benchmarks.benchmark import Benchmark, group_cells
from unseen.benchmarks.workbench import GIVEN, Workbench, given_models
from unseen.core.errors import UnknownNameError, UnseenError
from unseen.core.files import home as home_folder
from unseen.core.identity import parameters_of
from unseen.core.records import Cell
from unseen.results import FILE_NAME, ResultsDatabase
from unseen.run.study import Study


@dataclass(frozen=True)
class Plan:
    """The cells of a study.

    Attributes:
        cells: all cells, ordered by model, dataset and benchmark.
        done: ids of the cells that have a result.
        groups: the other cells, each group with its benchmark; the cells of a group have one model and one dataset.
    """

    study: Study
    cells: tuple[Cell, ...]
    done: frozenset[str]
    groups: tuple[tuple[Benchmark, tuple[Cell, ...]], ...] = ()

    @property
    def remaining(self) -> list[Cell]:
        """The cells without a result."""
        return [cell for cell in self.cells if cell.id not in self.done]


def plan_study(
    study: Study,
    home: Path | None = None,
    *,
    bench: Workbench | None = None,
    database: ResultsDatabase | None = None,
) -> Plan:
    """Return every cell of the study, ordered by model, dataset, benchmark; check all names and load no model.

    Args:
        home: folder of features and results; the user's by default.
        bench: a workbench of this home that has loaded datasets already.
        database: the results of the home if they are open already: a process opens them once.

    Raises:
        UnseenError: a model, dataset, file or option that does not exist or does not fit.
    """
    bench = bench or Workbench(home_folder(home), how=study.extraction)
    for dataset in study.datasets:
        for benchmark in study.protocols:
            if not benchmark.only or dataset in benchmark.only:
                data = bench.dataset(dataset)
                benchmark.suited(data).check(data)
    for model in study.models:
        check_backbone(model)
    planned = list(_cells_by_benchmark(study, bench))
    cells = tuple(cell for _, some in planned for cell in some)
    with ResultsDatabase(bench.home / FILE_NAME) if database is None else nullcontext(database) as opened:
        done = frozenset(opened.done(cells))
    groups = [
        (benchmark, tuple(group))
        for benchmark, some in planned
        for group in group_cells(cell for cell in some if cell.id not in done)
    ]
    return Plan(study, cells, done, tuple(groups))


def count_images(plan: Plan, bench: Workbench) -> tuple[int, int]:
    """Return how many images the remaining cells need from their models, and for how many the features are cached.

    An image counts once for each model. A group of cells whose features cannot be determined counts nothing: its
    evaluation reports the reason.
    """
    found: dict[tuple[str, ...], tuple[int, bool]] = {}
    for benchmark, group in plan.groups:
        with suppress(UnseenError):
            model = group[0].model
            for wanted in benchmark.features(group, bench):
                for dataset, split in bench.extractions(model, wanted.dataset, wanted.split):
                    images = dataset.split(split)
                    stored = bench.store.manifests(model, dataset.features_id, split)
                    cached = any(one.complete and one.key.fingerprint == images.fingerprint for one in stored)
                    found[model, dataset.features_id, split, images.fingerprint] = len(images), cached
    cached_images = sum(count for count, cached in found.values() if cached)
    return sum(count for count, _ in found.values()) - cached_images, cached_images


def _cells_by_benchmark(study: Study, bench: Workbench) -> Iterator[tuple[Benchmark, list[Cell]]]:
    """Yield the cells of each model, dataset and benchmark, with the revision of the weights and the data."""
    extraction = parameters_of(study.extraction)
    given = {dataset: given_models(dataset) for dataset in study.datasets}
    for model in study.models:
        found = [dataset for dataset, models in given.items() if model in models]
        if model.startswith(GIVEN) and not found:
            raise UnknownNameError("features of the datasets", model, [each for own in given.values() for each in own])
        for dataset in found or study.datasets:
            for protocol in study.protocols:
                if protocol.only and dataset not in protocol.only:
                    continue
                benchmark = protocol.suited(bench.dataset(dataset))
                cells = benchmark.plan(model, dataset)
                if not cells:
                    continue
                revision = bench.revision(model, dataset, benchmark.other_datasets())
                yield (
                    benchmark,
                    [
                        replace(cell, revision=revision, parameters={**cell.parameters, "extraction": extraction})
                        for cell in cells
                    ],
                )
