"""CoG: how does accuracy change with the distance of concepts to the training classes?

Paper:      Sariyildiz et al., "Concept generalization in visual representation learning", ICCV 2021 [P]
Implements: section 3.4: a linear classifier per concept domain (the seen concepts, each level of unseen ones), with
            all images and with N per concept, on frozen l2-normalised features; several seeds
Differs:    the validation split of a dataset is added to train, unless validation="own" selects on it
Expected:   accuracy falls from level to level (Fig. 3a of [P])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from unseen.benchmarks.benchmark import Benchmark
from unseen.benchmarks.cog.details import COG, CogParameters, DomainDetails
from unseen.benchmarks.cog.domains import Domain, DomainRecipe, check_domains, domains_of
from unseen.benchmarks.probing import ProbeOptions, probe_cells
from unseen.benchmarks.workbench import SplitRows, Wanted, Workbench
from unseen.core.errors import DataError
from unseen.core.identity import option
from unseen.core.options import Natural
from unseen.core.records import Cell, Result
from unseen.data import Dataset
from unseen.features.rows import FeatureRows
from unseen.results.info import BenchmarkInfo


@dataclass(frozen=True)
class CogBenchmark(DomainRecipe, ProbeOptions, Benchmark):
    """Options of the CoG benchmark, of its domains and of its probes."""

    name: ClassVar[str] = "cog"
    info: ClassVar[BenchmarkInfo] = COG
    # 2: the corpus of the information content is pinned, so that a dataset's own classes do not change it.
    version: ClassVar[int] = 2

    balanced: Natural = option(0, help="Training images per class, the same for all; 0 means all (supplement A.4).")

    def check(self, dataset: Dataset) -> None:
        check_domains(dataset, self.recipe)
        if self.validation == "own" and "val" not in dataset.splits:
            raise DataError(
                f"validation = 'own' would change nothing: {dataset.id!r} has no validation split of its own."
            )

    def points(self, dataset: str) -> list[dict[str, Any]]:
        return [
            {"level": level, "shots": shots, "seed": seed}
            for level in self.domain_names(dataset)
            for shots in self.shots
            for seed in self.seeds
        ]

    def features(self, cells: Sequence[Cell], bench: Workbench) -> list[Wanted]:
        return bench.wanted(cells[0].dataset, self.layer)

    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> Iterator[Result]:
        dataset = bench.dataset(cells[0].dataset)
        domains = domains_of(dataset, self.recipe)
        bench.recorder.add(domains.record)
        splits = bench.splits(cells[0].model, cells[0].dataset, self.layer)
        for level, group in groupby(cells, key=lambda cell: CogParameters.of(cell).level):
            domain = domains.domains[level]
            parts = {name: restrict(rows, domain.labels) for name, rows in splits.items()}
            if self.balanced:
                parts["train"] = _balance(parts["train"], self.balanced, self.draw_seed)
            details = _details(domain, parts, domains.account)
            count = len(domain.concepts)
            yield from probe_cells(list(group), parts, self, classes=count, details=details, how=bench.how)


def restrict(rows: SplitRows, classes: npt.NDArray[np.int64]) -> SplitRows:
    """Return the rows of some classes (ascending), with labels from 0 in their order."""
    place = np.searchsorted(classes, rows.labels)
    inside = classes[np.minimum(place, len(classes) - 1)] == rows.labels
    if inside.all():
        return replace(rows, labels=place)
    return _take(replace(rows, labels=place), np.flatnonzero(inside))


def _balance(rows: SplitRows, count: int, seed: int) -> SplitRows:
    """Return at most `count` images per class, by a seeded sample (supplement A.4)."""
    generator = np.random.default_rng([seed, 2])
    order = generator.permutation(len(rows.labels))
    chosen = [order[rows.labels[order] == label][:count] for label in np.unique(rows.labels)]
    return _take(rows, np.sort(np.concatenate(chosen)))


def _take(rows: SplitRows, chosen: npt.NDArray[np.int64]) -> SplitRows:
    """Return some rows, as a view of the features."""
    features = FeatureRows.of(rows.features).select(chosen)
    return replace(rows, features=features, labels=rows.labels[chosen], index=rows.index[chosen])


def _details(domain: Domain, parts: dict[str, SplitRows], account: DomainDetails) -> dict[str, Any]:
    by_label = sorted(domain.concepts, key=lambda concept: concept.label)
    return {
        "similarity": domain.mean_similarity,
        "class_names": [c.name for c in by_label],
        "concepts": [{"id": c.id, "name": c.name, "similarity": c.similarity, "nearest": c.nearest} for c in by_label],
        **{
            f"{split}_per_class": np.bincount(parts[split].labels, minlength=len(by_label)).tolist()
            for split in ("train", "test")
        },
        "domains": msgspec.to_builtins(account),
    }
