"""Fine-tuning against frozen features, level by level: is it the distance that makes a level hard?

Paper:      Sariyildiz et al., ICCV 2021, supplement C.2 and Fig. B
Implements: the same backbone fine-tuned on each domain; frozen accuracy relative to it is read off beside
Differs:    the paper does not say how it fine-tunes; here SGD as in VTAB, on images as the frozen features saw them,
            from the linear probe of those features (or from zero), the learning rate chosen on validation images (the
            dataset's own, or a stratified fifth of train), then a run on all training images. The probe itself, with
            no step after it, is among the candidates
Expected:   frozen features fall further behind fine-tuning from the seen concepts to L5
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from unseen.benchmarks.benchmark import Benchmark
from unseen.benchmarks.cog.details import COG_FINETUNE, CogParameters
from unseen.benchmarks.cog.domains import Domain, DomainRecipe, check_domains, domains_of
from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import UsageError
from unseen.core.identity import option
from unseen.core.options import Positive, Rate
from unseen.core.records import Cell, Result
from unseen.core.run_record import split_record
from unseen.data import Dataset, Split
from unseen.data.subset import hold_out
from unseen.results.grid import pack_correct
from unseen.results.info import BenchmarkInfo

if TYPE_CHECKING:
    from unseen.finetuning.train import FinetuneOptions, FinetuneResult


@dataclass(frozen=True)
class CogFinetuneBenchmark(DomainRecipe, Benchmark):
    """Options of the fine-tuning, beside those of the domains."""

    name: ClassVar[str] = "cog-finetune"
    info: ClassVar[BenchmarkInfo] = COG_FINETUNE
    # Begins at the probe, with images as the frozen features saw them and a warm-up; the corpus is pinned.
    version: ClassVar[int] = 2

    start: Literal["zero", "probe"] = option("probe", help="Of the head: a linear probe, or zero.")
    steps: Positive = option(200, help="Steps of SGD in each run.")
    rates: tuple[Rate, ...] = option((0.01, 0.001), help="Learning rates to choose from on validation images.")
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
        domains = domains_of(dataset, self.recipe)
        bench.recorder.add(domains.record)
        for cell in cells:
            yield self._one(cell, bench, dataset, domains.domains[CogParameters.of(cell).level])
            # The caller has stored this result when it continues: its checkpoints are not needed any more.
            for state in self._states(cell, bench):
                state.unlink(missing_ok=True)

    def _options(self, bench: Workbench) -> FinetuneOptions:
        from unseen.finetuning.train import FinetuneOptions

        return FinetuneOptions(start=self.start, own_preprocessing=True, device=bench.how.device)

    def _candidates(self) -> list[tuple[float, int]]:
        """Learning rates with their steps; where the start is a probe, first the probe alone."""
        alone = [(self.rates[0], 0)] if self.start == "probe" else []
        return [*alone, *((rate, self.steps) for rate in self.rates)]

    def _states(self, cell: Cell, bench: Workbench) -> list[Path]:
        runs = [(stage, *run) for stage in ("select", "final") for run in self._candidates()]
        return [self._state(cell, bench, *run) for run in runs]

    def _state(self, cell: Cell, bench: Workbench, stage: str, rate: float, steps: int) -> Path:
        return bench.home / "finetuning" / f"{cell.name_of('finetuning', stage, rate, steps)}.pt"

    def _one(self, cell: Cell, bench: Workbench, dataset: Dataset, domain: Domain) -> Result:
        from unseen.finetuning.train import finetune

        backbone = bench.backbone(cell.model)
        seed = CogParameters.of(cell).seed
        everything, test = (_restricted(dataset.split(name), domain) for name in ("train", "test"))
        own = _restricted(dataset.split("val"), domain) if "val" in dataset.splits else None
        train, validation = hold_out(everything, own, seed=seed)

        def run(candidate: tuple[float, int], on: Split, against: Split, stage: str) -> FinetuneResult:
            rate, steps = candidate
            return finetune(
                backbone,
                on,
                against,
                classes=len(domain.concepts),
                steps=steps,
                learning_rate=rate,
                batch_size=self.batch_size,
                seed=seed,
                checkpoint=self._state(cell, bench, stage, rate, steps),
                options=self._options(bench),
            )

        tried = [(candidate, run(candidate, train, validation, "select")) for candidate in self._candidates()]
        best = max(tried, key=lambda pair: pair[1].top1)[0]  # the first of equals: the probe, if it is as good
        final = run(best, everything, test, "final")
        readable = final.predictions >= 0
        return Result(
            cell=cell,
            metrics={"top1": float(final.top1)},
            seconds=float(final.seconds + sum(outcome.seconds for _, outcome in tried)),
            sweep=tuple({**_setting(*each), "value": float(outcome.top1)} for each, outcome in tried),
            details={
                "classes": len(domain.concepts),
                "chance": 1 / len(domain.concepts),
                "similarity": domain.mean_similarity,
                "train_images": len(everything),
                "test_images": int(readable.sum()),
                "best": _setting(*best),
                "correct": pack_correct((final.predictions == test.labels)[readable]),
            },
            record=split_record({"train": everything, "test": test}, final.dropped),
        )


def _setting(rate: float, steps: int) -> dict[str, float]:
    """Return a candidate as the sweep shows it: without a step, no learning rate is used."""
    return {"lr": rate, "steps": steps} if steps else {"steps": steps}


def _restricted(split: Split, domain: Domain) -> Split:
    """The images of the domain's classes, labels counted from 0."""
    rows = np.flatnonzero(np.isin(split.labels, domain.labels))
    return split.take(rows, labels=np.searchsorted(domain.labels, split.labels[rows]))
