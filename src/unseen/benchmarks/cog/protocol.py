"""CoG: how does accuracy change with the distance of concepts to the training classes? And is it the distance?

Paper:      Sariyildiz et al., "Concept generalization in visual representation learning", ICCV 2021 [P]; its
            supplement, C.2 and Fig. B [S]
Implements: section 3.4 of [P]: a linear classifier per concept domain (the seen concepts, each level of unseen ones),
            with all images and with N per concept, on frozen l2-normalised features; several seeds. C.2 of [S]: the
            same backbone fine-tuned on each domain, which frozen features are compared with
Differs:    the validation split of a dataset is added to train, unless validation="own" selects on it.
            [S] does not state how it fine-tunes; here SGD as in VTAB, on images preprocessed as for the frozen
            features, from the linear probe of those features (or from zero), the learning rate chosen on validation
            images (the dataset's own, or a stratified fifth of train), then a run on all training images. The probe
            itself, with no step after it, is among the candidates
Expected:   accuracy falls from level to level (Fig. 3a of [P]); frozen features fall further behind fine-tuning from
            the seen concepts to L5 (Fig. B of [S])
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec
import numpy as np

from unseen.benchmarks.benchmark import Benchmark
from unseen.benchmarks.cog.details import ALL, CogParameters
from unseen.benchmarks.cog.domains import Domain, DomainRecipe, check_domains, make_domains
from unseen.benchmarks.probing import ProbeOptions, Validation, probe_cells
from unseen.benchmarks.workbench import SplitRows, Wanted, Workbench
from unseen.core.arrays import IntArray
from unseen.core.errors import DataError, UsageError
from unseen.core.identity import Natural, Positive, Rate, option
from unseen.core.records import Cell, Result
from unseen.core.run_record import split_record
from unseen.data import Dataset, Split
from unseen.data.subset import hold_out
from unseen.features.rows import FeatureRows
from unseen.results.grid import pack_correct
from unseen.results.info import BenchmarkInfo, built_in_info

#: Training images of a dataset from which on a fit takes so long that it is a task of its own.
_MANY_IMAGES = 50_000

if TYPE_CHECKING:
    from unseen.finetuning.train import FinetuneResult


@dataclass(frozen=True)
class DomainBenchmark(DomainRecipe, Benchmark):
    """A benchmark with cells for each domain."""

    def __post_init__(self) -> None:
        DomainRecipe.__post_init__(self)
        Benchmark.__post_init__(self)

    def check(self, dataset: Dataset) -> None:
        check_domains(dataset, self)

    def points(self, dataset: str) -> list[dict[str, Any]]:
        points = Benchmark.points(self, dataset)
        return [{"level": level, "shots": "all", **point} for level in self.domain_names() for point in points]


@dataclass(frozen=True)
class CogBenchmark(ProbeOptions, DomainBenchmark):
    """Options of the CoG benchmark, of its domains and of its probes."""

    name: ClassVar[str] = "cog"
    info: ClassVar[BenchmarkInfo] = built_in_info("cog")
    # 2: the corpus of the information content is pinned, so that a dataset's own classes do not change it.
    version: ClassVar[int] = 2

    validation: Validation = option(
        "drawn", help="drawn: select on a fifth of train; own: on the validation split.", rare=True
    )
    balanced: Natural = option(
        0, rare=True, help="Training images per class, the same for all; 0 means all (supplement A.4)."
    )

    def __post_init__(self) -> None:
        DomainRecipe.__post_init__(self)
        ProbeOptions.__post_init__(self)

    def idle(self) -> Collection[str]:
        return (*DomainRecipe.idle(self), *ProbeOptions.idle(self))

    def check(self, dataset: Dataset) -> None:
        super().check(dataset)
        if self.validation == "own" and "val" not in dataset.splits:
            raise DataError(
                f"validation = 'own' would change nothing: {dataset.id!r} has no validation split of its own."
            )

    def features(self, cells: Sequence[Cell], bench: Workbench) -> list[Wanted]:
        return bench.wanted(cells[0].dataset, self.layer)

    def divide(self, cells: Sequence[Cell], bench: Workbench) -> Sequence[Sequence[Cell]]:
        """Return every fit alone if it takes long, those with all images first: GPUs share the fits of one model."""
        if self.solver != "paper" and len(bench.dataset(cells[0].dataset).split("train")) < _MANY_IMAGES:
            return [cells]
        return [[cell] for cell in sorted(cells, key=lambda cell: CogParameters.of(cell).shots != ALL)]

    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> Iterator[Result]:
        made = make_domains(bench.dataset(cells[0].dataset), self)
        bench.recorder.add(made.record)
        splits = bench.splits(cells[0].model, cells[0].dataset, self.layer)
        for level, group in groupby(cells, key=lambda cell: CogParameters.of(cell).level):
            domain = made.domains[level]
            parts = {name: restrict(rows, domain.labels) for name, rows in splits.items()}
            if self.balanced:
                parts["train"] = _balance(parts["train"], self.balanced, self.draw_seed)
            details = {**_details(domain, parts), "domains": msgspec.to_builtins(made.account)}
            count = len(domain.concepts)
            yield from probe_cells(list(group), parts, self, classes=count, details=details, how=bench.how)


def restrict(rows: SplitRows, classes: IntArray) -> SplitRows:
    """Return the rows of some classes (ascending), with labels from 0 in their order."""
    place = np.searchsorted(classes, rows.labels)
    inside = classes[np.minimum(place, len(classes) - 1)] == rows.labels
    relabelled = replace(rows, labels=place)
    return relabelled if inside.all() else _take(relabelled, np.flatnonzero(inside))


def _balance(rows: SplitRows, count: int, seed: int) -> SplitRows:
    """Return at most `count` images per class, by a seeded sample (supplement A.4)."""
    order = np.random.default_rng([seed, 2]).permutation(len(rows.labels))
    chosen = [order[rows.labels[order] == label][:count] for label in np.unique(rows.labels)]
    return _take(rows, np.sort(np.concatenate(chosen)))


def _take(rows: SplitRows, chosen: IntArray) -> SplitRows:
    """Return some rows, as a view of the features."""
    features = FeatureRows.of(rows.features).select(chosen)
    return replace(rows, features=features, labels=rows.labels[chosen], index=rows.index[chosen])


def _details(domain: Domain, parts: dict[str, SplitRows]) -> dict[str, Any]:
    """Return the details of a domain; lists are in the order of labels."""
    concepts = sorted(domain.concepts, key=lambda concept: concept.label)
    counts = {name: np.bincount(parts[name].labels, minlength=len(concepts)).tolist() for name in ("train", "test")}
    return {
        "similarity": domain.mean_similarity,
        "class_names": [concept.name for concept in concepts],
        "concepts": [{"id": c.id, "name": c.name, "similarity": c.similarity, "nearest": c.nearest} for c in concepts],
        **{f"{name}_per_class": per_class for name, per_class in counts.items()},
    }


@dataclass(frozen=True)
class CogFinetuneBenchmark(DomainBenchmark):
    """Options of the fine-tuning, beside those of the domains."""

    name: ClassVar[str] = "cog-finetune"
    info: ClassVar[BenchmarkInfo] = built_in_info("cog-finetune")
    # 2: starts at the probe, with the preprocessing of the frozen features and a warm-up; the corpus is pinned.
    version: ClassVar[int] = 2

    start: Literal["zero", "probe"] = option("probe", help="Start of the head: a linear probe, or zero.")
    steps: Positive = option(200, help="Steps of SGD in each run.")
    rates: tuple[Rate, ...] = option((0.01, 0.001), help="Learning rates to choose from on validation images.")
    batch_size: Positive = option(32, help="Images per step.")
    seeds: tuple[int, ...] = option((22,), axis="seed", count=(22, 37, 45, 77, 93), help="One run each.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.rates or not self.seeds:
            raise UsageError("benchmark 'cog-finetune' needs at least one learning rate and one seed.")

    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> Iterator[Result]:
        dataset = bench.dataset(cells[0].dataset)
        made = make_domains(dataset, self)
        bench.recorder.add(made.record)
        for cell in cells:
            checkpoints: list[Path] = []
            yield self._evaluate_cell(cell, bench, dataset, made.domains[CogParameters.of(cell).level], checkpoints)
            # The caller has stored this result when it continues: its checkpoints are not needed any more.
            for path in checkpoints:
                path.unlink(missing_ok=True)

    def _evaluate_cell(
        self, cell: Cell, bench: Workbench, dataset: Dataset, domain: Domain, checkpoints: list[Path]
    ) -> Result:
        from unseen.finetuning.train import FinetuneOptions, finetune  # imports torch

        seed, classes = CogParameters.of(cell).seed, len(domain.concepts)
        everything, test = (_restrict_split(dataset.split(name), domain) for name in ("train", "test"))
        own = _restrict_split(dataset.split("val"), domain) if "val" in dataset.splits else None
        train, validation = hold_out(everything, own, seed=seed)

        def run(candidate: tuple[float, int], on: Split, against: Split, stage: str) -> FinetuneResult:
            rate, steps = candidate
            checkpoints.append(bench.home / "finetuning" / f"{cell.name_of('finetuning', stage, rate, steps)}.pt")
            return finetune(
                bench.backbone(cell.model),
                on,
                against,
                classes=classes,
                steps=steps,
                learning_rate=rate,
                batch_size=self.batch_size,
                seed=seed,
                checkpoint=checkpoints[-1],
                options=FinetuneOptions(
                    start=self.start, own_preprocessing=True, device=bench.how.device, clip=0.0, backbone_rate=1.0
                ),
            )

        candidates = [(rate, self.steps) for rate in self.rates]
        if self.start == "probe":  # first the probe alone
            candidates.insert(0, (self.rates[0], 0))
        tried = [(candidate, run(candidate, train, validation, "select")) for candidate in candidates]
        best = max(tried, key=lambda pair: pair[1].top1)[0]  # the first of equals: the probe, if it is as good
        final = run(best, everything, test, "final")
        readable = final.predictions >= 0
        return Result(
            cell=cell,
            metrics={"top1": float(final.top1)},
            seconds=float(final.seconds + sum(outcome.seconds for _, outcome in tried)),
            sweep=tuple({**_setting(*each), "value": float(outcome.top1)} for each, outcome in tried),
            details={
                "classes": classes,
                "chance": 1 / classes,
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


def _restrict_split(split: Split, domain: Domain) -> Split:
    """Return the images of the domain's classes, with labels from 0."""
    rows = np.flatnonzero(np.isin(split.labels, domain.labels))
    return split.take(rows, labels=np.searchsorted(domain.labels, split.labels[rows]))
