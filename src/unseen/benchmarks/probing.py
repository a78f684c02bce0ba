"""Probes over the splits of a dataset: options, the choice of validation images, and shared runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from unseen.benchmarks.workbench import SplitRows
from unseen.core.arrays import AnyArray, IntArray
from unseen.core.errors import UsageError
from unseen.core.identity import Natural, Positive, check_options, option
from unseen.core.records import Cell, Result
from unseen.features.rows import FeatureRows
from unseen.probes.solvers import SEEDS, solver_version
from unseen.results.grid import pack_correct
from unseen.stats import Interval

if TYPE_CHECKING:
    from unseen.features import Extraction
    from unseen.probes import ProbeResult

SolverName = Literal["logistic", "paper", "ridge", "knn", "ncm", "fast"]
Shots = Positive | Literal["all"]
Validation = Literal["own", "drawn"]

#: Features (row-sliceable) and labels or targets of one split.
Arrays = tuple[Any, AnyArray]


@dataclass(frozen=True)
class FeatureOptions:
    """Options of every benchmark that fits a model on features."""

    layer: str = option("pooled", help="Features to use: pooled, logits, or the name of a module.")
    validation: Validation = option(
        "own",
        help="own: select on the dataset's validation split where it has one; drawn: on a fifth of train.",
        rare=True,
    )
    square_root: bool = option(False, help="Take square roots of the features before they are scaled.", rare=True)
    memory_limit: Natural = option(
        0,
        neutral="rows that are read again at every pass give the same classifier",
        help="Memory for copies of features in MB; larger ones are read from disk. 0: a quarter of the memory.",
        rare=True,
    )

    @property
    def memory(self) -> int | None:
        """The memory limit in bytes; None for the default."""
        return self.memory_limit * 1_000_000 or None


@dataclass(frozen=True)
class ProbeOptions(FeatureOptions):
    """Options of every benchmark that fits classifiers."""

    solver: SolverName = option("logistic", help="The classifier.")
    shots: tuple[Shots, ...] = option(("all",), axis="shots", help="Training images per class: numbers, or all.")
    seeds: tuple[int, ...] = option(
        SEEDS, axis="seed", count=SEEDS, help="The number of seeds (5), or the seeds (22,37 or 22,)."
    )

    def __post_init__(self) -> None:
        check_options(self)
        if self.solver == "fast":
            object.__setattr__(self, "solver", "logistic")
        if not self.seeds or not self.shots:
            raise UsageError("a probe needs at least one seed and one number of shots.")

    def idle(self) -> Collection[str]:
        """Return `square_root` if it is off, so that results from before this option keep their ids."""
        return () if self.square_root else ("square_root",)

    def components(self, point: Mapping[str, object]) -> Mapping[str, int]:

        return {self.solver: solver_version(self.solver)}


def probe_cells(
    cells: Sequence[Cell],
    parts: Mapping[str, SplitRows],
    options: ProbeOptions,
    *,
    classes: int,
    details: Mapping[str, object],
    how: Extraction,
) -> Iterator[Result]:
    """Yield the results of cells that differ in shots and seed, over the same rows.

    Args:
        how: settings of the extraction: probes use its device if that is a GPU.
    """
    splits = {name: (rows.features, rows.labels) for name, rows in parts.items()}
    records = probe_splits(
        splits,
        solver=options.solver,
        shots=tuple(dict.fromkeys(cell.parameters["shots"] for cell in cells)),
        seeds=tuple(dict.fromkeys(cell.parameters["seed"] for cell in cells)),
        validation=options.validation,
        square_root=options.square_root,
        device=probe_device(how),
        memory_limit=options.memory,
        groups=_groups(parts, options.validation),
    )
    about = {
        "classes": classes,
        "train_images": len(splits["train"][1]),
        "test_images": len(splits["test"][1]),
        "chance": 1 / classes,
        **details,
    }
    for cell in cells:
        yield probe_result(cell, records[cell.parameters["shots"], cell.parameters["seed"]], about)


def _groups(parts: Mapping[str, SplitRows], validation: Validation) -> IntArray | None:
    """Return the groups of the training rows, followed by those of validation rows that are pooled with them."""
    used = [
        parts[name].groups for name in ("train", "val") if name in parts and (name == "train" or validation == "drawn")
    ]
    known = [each for each in used if each is not None]
    return np.concatenate(known) if known and len(known) == len(used) else None


def probe_splits(
    splits: Mapping[str, Arrays],
    *,
    solver: SolverName,
    shots: Sequence[Shots],
    seeds: Sequence[int],
    validation: Validation,
    **how: Any,
) -> dict[tuple[Shots, int], ProbeResult]:
    """Return one record per shots and seed.

    Args:
        validation: "own" selects on the dataset's validation split if it has one; "drawn" pools it with train and
            holds out a fifth of each class, by seed, as ImageNet-CoG does.
        how: of `evaluate_probe`: `device`, `memory_limit` in bytes, `square_root`, `groups`.
    """
    from unseen.probes import evaluate_probe

    splits = pool_validation(splits) if validation == "drawn" else splits
    held = splits.get("val", (None, None))
    settled = "val" in splits and solver in ("ridge", "knn", "ncm")  # the others draw starts or folds by seed

    def run(counts: Sequence[Shots], numbers: Sequence[int]) -> list[ProbeResult]:
        return evaluate_probe(
            *splits["train"],
            *splits["test"],
            solver=solver,
            shots=counts,
            seeds=numbers,
            validation_features=held[0],
            validation_labels=held[1],
            **how,
        )

    # More shots than any class has images are all images: the same draws, so the same record. With all images, a
    # validation split of its own and nothing random in the solver, every seed gives the same record.
    most = int(np.bincount(np.concatenate([y for name, (_, y) in splits.items() if name != "test"])).max())
    same: dict[tuple[Shots, int], tuple[Shots, int]] = {}
    for count, seed in product(shots, seeds):
        whole = count == "all" or count >= most
        same[count, seed] = "all" if whole else count, seeds[0] if whole and settled else seed
    uses = Counter(same.values())
    runs: dict[tuple[int, ...], dict[Shots, None]] = {}
    for count, _ in uses:
        runs.setdefault(tuple(seed for other, seed in uses if other == count), {})[count] = None
    records = {(r.shots, r.seed): r for numbers, counts in runs.items() for r in run(list(counts), numbers)}
    return {
        (count, seed): replace(records[key], shots=count, seed=seed, seconds=records[key].seconds / uses[key])
        for (count, seed), key in same.items()
    }


def probe_device(how: Extraction) -> str:
    """Return the device of probes: the GPU that extracts the features, else the CPU."""
    from unseen.backbones.runtimes import best_device

    device = best_device() if how.device == "auto" else how.device
    return device if device.startswith("cuda") else "cpu"


def pool_validation(splits: Mapping[str, Arrays]) -> Mapping[str, Arrays]:
    """Return splits whose validation rows, if there are any, are part of the training rows."""
    if "val" not in splits:
        return splits
    (train, known), (held, labels) = splits["train"], splits["val"]
    pooled = FeatureRows.of(train).join(held), np.concatenate([known, labels])
    return {"train": pooled, "test": splits["test"]}


def probe_result(cell: Cell, record: ProbeResult, details: Mapping[str, object]) -> Result:
    """Return the result of a cell, with `details` of its dataset."""
    expected = record.expected_interval()
    metrics = bounded("top1", record.interval())
    metrics |= {"top5": record.top5, "mean_per_class": float(np.nanmean(record.per_class))}
    metrics |= {"log_loss": record.log_loss, "calibration_error": record.calibration_error}
    if expected is not None:
        metrics |= {"expected_se": record.expected_se or 0.0, **bounded("expected", expected)}
    optional = {name: getattr(record, name) for name in ("note", "expected_shots", "expectation")}
    return Result(
        cell=cell,
        metrics=metrics,
        seconds=record.seconds,
        sweep=tuple(trial.to_dict() for trial in record.trials),
        details={
            **details,
            **record.details(),
            **{name: value for name, value in optional.items() if value},
            "train_size": record.train_size,
            "validation_size": record.validation_size,
            "correct": pack_correct(record.correct),
        },
    )


def bounded(name: str, interval: Interval) -> dict[str, float]:
    """Return a metric with the limits of its interval, if it has any."""
    limits = {f"{name}_low": interval.low, f"{name}_high": interval.high} if interval.known else {}
    return {name: interval.value, **limits}
