"""Fine-tuning against frozen features, level by level: is it the distance that makes a level hard?

Paper:      Sariyildiz et al., ICCV 2021, supplement C.2 and Fig. B
Implements: the same backbone fine-tuned on each domain; frozen accuracy relative to it is read off beside
Differs:    the paper does not say how it fine-tunes; here SGD as in VTAB, the learning rate chosen on validation images
            (the dataset's own, or a fifth of train), then a run on all training images
Expected:   frozen features fall further behind fine-tuning from the seen concepts to L5
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from unseen.benchmarks.cog.domains import Domain, DomainRecipe, make_domains
from unseen.benchmarks.workbench import Workbench
from unseen.core.records import Cell, Result, digest
from unseen.data import Dataset, Split


@dataclass(frozen=True)
class CogFinetuneBenchmark(DomainRecipe):
    """Options of the fine-tuning, beside those of the domains.

    Attributes:
        steps: of SGD, in each run.
        rates: learning rates to choose from on validation images.
    """

    name: ClassVar[str] = "cog-finetune"
    question: ClassVar[str] = "How far do frozen features fall behind fine-tuning, level by level?"
    paper: ClassVar[str] = "cog"

    steps: int = 200
    rates: tuple[float, ...] = (0.1, 0.01)
    batch_size: int = 32
    seeds: tuple[int, ...] = (22,)

    def plan(self, model: str, dataset: str) -> list[Cell]:
        shared = {"steps": self.steps, "rates": list(self.rates), "batch_size": self.batch_size}
        return [
            Cell(self.name, model, dataset, {**shared, "level": level, "shots": "all", "seed": seed})
            for level in self.domain_names(dataset)
            for seed in self.seeds
        ]

    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> list[Result]:
        dataset = bench.dataset(cells[0].dataset)
        domains = make_domains(dataset, self.recipe).domains
        return [self._one(cell, bench, dataset, domains[str(cell.parameters["level"])]) for cell in cells]

    def _one(self, cell: Cell, bench: Workbench, dataset: Dataset, domain: Domain) -> Result:
        from unseen.finetuning.train import finetune

        backbone = bench.backbone(cell.model)
        seed = int(cell.parameters["seed"])
        train, validation, everything, test = _splits(dataset, domain, seed)

        def run(rate: float, on: Split, against: Split, stage: str) -> Any:
            name = digest([cell.id, stage, rate])
            return finetune(
                backbone,
                on,
                against,
                classes=len(domain.concepts),
                steps=self.steps,
                learning_rate=rate,
                batch_size=self.batch_size,
                seed=seed,
                checkpoint=bench.home / "finetuning" / f"{name}.safetensors",
            )

        tried = [(rate, run(rate, train, validation, "select")) for rate in self.rates]
        best = max(tried, key=lambda pair: pair[1].top1)[0]
        final = run(best, everything, test, "final")
        return Result(
            cell=cell,
            metrics={"top1": float(final.top1)},
            seconds=float(final.seconds + sum(outcome.seconds for _, outcome in tried)),
            sweep=tuple({"lr": rate, "value": float(outcome.top1)} for rate, outcome in tried),
            details={
                "classes": len(domain.concepts),
                "chance": 1 / len(domain.concepts),
                "similarity": domain.mean_similarity,
                "train_images": len(everything),
                "test_images": len(test),
                "best": {"lr": best},
            },
        )


def _splits(dataset: Dataset, domain: Domain, seed: int) -> tuple[Split, Split, Split, Split]:
    """Images of a domain to tune on, to validate on, both together, and to test on."""
    train = _restricted(dataset.split("train"), domain)
    test = _restricted(dataset.split("test"), domain)
    if "val" in dataset.splits:
        validation = _restricted(dataset.split("val"), domain)
        return train, validation, train, test
    order = np.random.default_rng([seed, 3]).permutation(len(train))
    held = max(len(train) // 5, 1)
    return train.take(np.sort(order[held:])), train.take(np.sort(order[:held])), train, test


def _restricted(split: Split, domain: Domain) -> Split:
    """The images of the domain's classes, labels counted from 0."""
    rows = np.flatnonzero(np.isin(split.labels, domain.labels))
    return split.take(rows, labels=np.searchsorted(domain.labels, split.labels[rows]))
