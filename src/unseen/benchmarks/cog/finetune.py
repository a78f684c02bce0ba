"""Fine-tuning against frozen features, level by level: is it the distance that makes a level hard?

Paper:      Sariyildiz et al., ICCV 2021, supplement C.2 and Fig. B
Implements: the same backbone fine-tuned on each domain; frozen accuracy relative to it is read off beside
Differs:    the paper does not say how it fine-tunes; here SGD as in VTAB, the learning rate chosen on validation images
            (the dataset's own, or a stratified fifth of train), then a run on all training images
Expected:   frozen features fall further behind fine-tuning from the seen concepts to L5
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from unseen.benchmarks.benchmark import Benchmark
from unseen.benchmarks.cog.domains import Domain, DomainRecipe, check_domains, domains_of
from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import UsageError
from unseen.core.identity import option
from unseen.core.options import Positive, Rate
from unseen.core.records import Cell, Result
from unseen.data import Dataset, Split
from unseen.data.subset import hold_out


@dataclass(frozen=True)
class CogFinetuneBenchmark(DomainRecipe, Benchmark):
    """Options of the fine-tuning, beside those of the domains."""

    name: ClassVar[str] = "cog-finetune"
    question: ClassVar[str] = "How far do frozen features fall behind fine-tuning, level by level?"
    paper: ClassVar[str] = "cog"
    section: ClassVar[str] = "unseen.benchmarks.cog.finetune_section:cog_finetune_section"
    command: ClassVar[str] = "cog finetune"
    version: ClassVar[int] = 2  # the corpus of the information content is pinned

    steps: Positive = option(200, help="Steps of SGD in each run.")
    rates: tuple[Rate, ...] = option((0.1, 0.01), help="Learning rates to choose from on validation images.")
    batch_size: Positive = option(32, help="Images per step.")
    seeds: tuple[int, ...] = option((22,), axis="seed", count=(22, 37, 45, 77, 93), help="One run each.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.rates or not self.seeds:
            raise UsageError("benchmark 'cog-finetune' needs at least one learning rate and one seed.")

    def check(self, dataset: Dataset) -> None:
        check_domains(dataset, self.recipe)

    def points(self, dataset: str) -> list[dict[str, Any]]:
        return [
            {"level": level, "shots": "all", "seed": seed}
            for level in self.domain_names(dataset)
            for seed in self.seeds
        ]

    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> Iterator[Result]:
        dataset = bench.dataset(cells[0].dataset)
        domains = domains_of(dataset, self.recipe).domains
        for cell in cells:
            yield self._one(cell, bench, dataset, domains[str(cell.parameters["level"])])
            # Whoever asks for the next one has stored this one: its states are of no more use.
            for state in self._states(cell, bench):
                state.unlink(missing_ok=True)

    def _states(self, cell: Cell, bench: Workbench) -> list[Any]:
        runs = [("select", rate) for rate in self.rates] + [("final", rate) for rate in self.rates]
        return [bench.home / "finetuning" / f"{cell.name_of('finetuning', *run)}.pt" for run in runs]

    def _one(self, cell: Cell, bench: Workbench, dataset: Dataset, domain: Domain) -> Result:
        from unseen.finetuning.train import finetune

        backbone = bench.backbone(cell.model)
        seed = int(cell.parameters["seed"])
        everything, test = (_restricted(dataset.split(name), domain) for name in ("train", "test"))
        own = _restricted(dataset.split("val"), domain) if "val" in dataset.splits else None
        train, validation = hold_out(everything, own, seed=seed)

        def run(rate: float, on: Split, against: Split, stage: str) -> Any:
            return finetune(
                backbone,
                on,
                against,
                classes=len(domain.concepts),
                steps=self.steps,
                learning_rate=rate,
                batch_size=self.batch_size,
                seed=seed,
                checkpoint=bench.home / "finetuning" / f"{cell.name_of('finetuning', stage, rate)}.pt",
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
                **({"skipped": final.skipped} if final.skipped else {}),
            },
        )


def _restricted(split: Split, domain: Domain) -> Split:
    """The images of the domain's classes, labels counted from 0."""
    rows = np.flatnonzero(np.isin(split.labels, domain.labels))
    return split.take(rows, labels=np.searchsorted(domain.labels, split.labels[rows]))
