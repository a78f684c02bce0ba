"""CoG: how does a representation keep up as concepts move away from those it was trained on?

Paper:      Sariyildiz et al., "Concept generalization in visual representation learning", ICCV 2021 [P]
Implements: section 3.4: a linear classifier per concept domain (the seen concepts, each level of unseen ones), with
            all images and with N per concept, on frozen l2-normalised features; several seeds
Differs:    a dataset that brings a validation split has it pooled with train, unless validation="own" selects on it
Expected:   accuracy falls from level to level (Fig. 3a of [P])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import groupby
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from unseen.benchmarks.cog.domains import Domain, DomainRecipe, Domains, make_domains
from unseen.benchmarks.probe_results import probe_result
from unseen.benchmarks.probing import (
    SEEDS,
    Arrays,
    Shots,
    SolverName,
    Validation,
    check_settings,
    probe_splits,
    split_arrays,
)
from unseen.benchmarks.workbench import Workbench
from unseen.core.records import Cell, Result
from unseen.data import Dataset


@dataclass(frozen=True)
class CogBenchmark(DomainRecipe):
    """Options of the CoG benchmark, in a study's `[benchmarks.cog]` or of `unseen cog run`, with those of the domains.

    Attributes:
        solver, shots, seeds, layer, validation: of the probes; validation images are drawn by seed, as published.
        balanced: training images per class, the same for all; 0 means all there are (732 in supplement A.4).
    """

    name: ClassVar[str] = "cog"
    question: ClassVar[str] = "How does accuracy fall as concepts move away from the seen ones?"
    paper: ClassVar[str] = "cog"

    solver: SolverName = "fast"
    shots: tuple[Shots, ...] = ("all",)
    seeds: tuple[int, ...] = SEEDS
    layer: str = "pooled"
    validation: Validation = "drawn"
    balanced: int = 0

    def __post_init__(self) -> None:
        check_settings(self.name, self.solver, self.shots, self.seeds, self.validation)

    def plan(self, model: str, dataset: str) -> list[Cell]:
        # What is not the default is part of the cell; the default need not be said.
        changed = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.name not in ("shots", "seeds", "solver", "layer", "controls") and getattr(self, f.name) != f.default
        }
        return [
            Cell(
                self.name,
                model,
                dataset,
                {"solver": self.solver, "layer": self.layer, "level": level, "shots": shots, "seed": seed, **changed},
            )
            for level in self.domain_names(dataset)
            # Control levels only answer whether levels are harder than chance draws, which all images tell.
            for shots in (("all",) if level.startswith("R") else self.shots)
            for seed in self.seeds
        ]

    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> list[Result]:
        dataset = bench.dataset(cells[0].dataset)
        domains = _domains(dataset, self.recipe)
        splits, skipped = split_arrays(cells[0].model, dataset, bench, self.layer)
        results: list[Result] = []
        for level, group in groupby(cells, key=lambda cell: str(cell.parameters["level"])):
            results += self._evaluate_level(list(group), domains, level, splits, skipped)
        return results

    def _evaluate_level(
        self,
        cells: Sequence[Cell],
        domains: Domains,
        level: str,
        splits: Mapping[str, Arrays],
        skipped: Mapping[str, int],
    ) -> list[Result]:
        domain = domains.domains[level]
        parts = {name: restrict(arrays, domain.labels) for name, arrays in splits.items()}
        if self.balanced:
            parts["train"] = _balance(parts["train"], self.balanced, self.draw_seed)
        found = probe_splits(
            parts,
            solver=self.solver,
            shots=tuple(dict.fromkeys(cell.parameters["shots"] for cell in cells)),
            seeds=tuple(dict.fromkeys(cell.parameters["seed"] for cell in cells)),
            validation=self.validation,
        )
        details = _details(domain, parts, domains.account) | ({"skipped": dict(skipped)} if skipped else {})
        wanted = [found[cell.parameters["shots"], cell.parameters["seed"]] for cell in cells]
        return [probe_result(cell, record, details) for cell, record in zip(cells, wanted, strict=True)]


@lru_cache(maxsize=4)
def _domains(dataset: Dataset, recipe: DomainRecipe) -> Domains:
    """The domains of a dataset: its own where it comes in levels, else cut by the recipe."""
    return make_domains(dataset, recipe)


def restrict(arrays: Arrays, classes: npt.NDArray[np.int64]) -> Arrays:
    """The rows of some classes (ascending), labels counted from 0 in their order."""
    features, labels = arrays
    place = np.searchsorted(classes, labels)
    inside = classes[np.minimum(place, len(classes) - 1)] == labels
    if inside.all():
        return features, place
    rows = np.flatnonzero(inside)
    return features[rows], place[rows]


def _balance(arrays: Arrays, count: int, seed: int) -> Arrays:
    """At most `count` images per class, by a seeded draw (supplement A.4)."""
    features, labels = arrays
    generator = np.random.default_rng([seed, 2])
    order = generator.permutation(len(labels))
    kept = [order[labels[order] == label][:count] for label in np.unique(labels)]
    rows = np.sort(np.concatenate(kept))
    return features[rows], labels[rows]


def _details(domain: Domain, parts: Mapping[str, Arrays], account: Mapping[str, Any]) -> dict[str, Any]:
    by_label = sorted(domain.concepts, key=lambda concept: concept.label)
    return {
        "classes": len(domain.concepts),
        "chance": 1 / len(domain.concepts),
        "train_images": len(parts["train"][1]),
        "test_images": len(parts["test"][1]),
        "similarity": domain.mean_similarity,
        "concepts": [
            {"id": c.id, "name": c.name, "similarity": c.similarity, "nearest": c.nearest_name or c.nearest}
            for c in by_label
        ],
        "train_per_class": np.bincount(parts["train"][1], minlength=len(by_label)).tolist(),
        "domains": dict(account),
    }
