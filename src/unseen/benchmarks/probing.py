"""Probes over the splits of a dataset: options, the choice of validation images, and shared runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
class ProbeOptions:
    """Options of every benchmark that fits probes."""

    solver: SolverName = option("logistic", help="The classifier.")
    shots: tuple[Shots, ...] = option(("all",), axis="shots", help="Training images per class: numbers, or all.")
    seeds: tuple[int, ...] = option(
        SEEDS, axis="seed", count=SEEDS, help="The number of seeds (5), or the seeds (22,37 or 22,)."
    )
    layer: str = option("pooled", help="Features to use: pooled, logits, or the name of a module.")
    validation: Validation = option(
        "drawn", help="drawn: select on a fifth of train; own: on the validation split.", rare=True
    )
    square_root: bool = option(False, help="Take square roots of the features before they are scaled.", rare=True)
    memory_limit: Natural = option(
        0,
        neutral="rows that are read again at every pass give the same classifier",
        help="Memory for copies of features in MB; larger ones are read from disk. 0: a quarter of the memory.",
        rare=True,
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
    details: Mapping[str, object] | None = None,
    how: Extraction | None = None,
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
        memory_limit=options.memory_limit * 1_000_000 or None,
        groups=_groups(parts, options.validation),
    )
    about = {
        "classes": classes,
        "train_images": len(splits["train"][1]),
        "test_images": len(splits["test"][1]),
        "chance": 1 / classes,
        **(details or {}),
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

    # More shots than any class has images are all images: the same draws, so the same record.
    most = int(np.bincount(np.concatenate([y for name, (_, y) in splits.items() if name != "test"])).max())
    same_as: dict[Shots, Shots] = {count: "all" if count == "all" or count >= most else count for count in shots}
    records: dict[tuple[Shots, int], ProbeResult] = {}
    drawn = [count for count in dict.fromkeys(same_as.values()) if not (settled and count == "all")]
    if drawn:
        records = {(record.shots, record.seed): record for record in run(drawn, seeds)}
    if settled and "all" in same_as.values():
        # All images, a validation split of its own, nothing random in the solver: every seed gives the same record.
        (record,) = run(["all"], seeds[:1])
        share = record.seconds / len(seeds)
        records |= {("all", seed): replace(record, seed=seed, seconds=share) for seed in seeds}
    times = {count: sum(other == same for other in same_as.values()) for count, same in same_as.items()}
    return {
        (count, seed): replace(record, shots=count, seconds=record.seconds / times[count])
        for count, same in same_as.items()
        for seed in seeds
        for record in [records[same, seed]]
    }


def probe_device(how: Extraction | None) -> str:
    """Return the device of probes: the GPU that extracts the features, else the CPU."""
    from unseen.backbones.runtimes import best_device

    if how is None:
        return "cpu"
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
    metrics = {"top1": record.top1, "top5": record.top5, "mean_per_class": float(np.nanmean(record.per_class))}
    metrics |= limits("top1", record.interval())
    metrics |= {"log_loss": record.log_loss, "calibration_error": record.calibration_error}
    if expected is not None and record.expected is not None and record.expected_se is not None:
        metrics |= {"expected": record.expected, "expected_se": record.expected_se, **limits("expected", expected)}
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


def limits(name: str, interval: Interval) -> dict[str, float]:
    """Return the limits of the interval of a metric, as metrics."""
    return {f"{name}_low": interval.low, f"{name}_high": interval.high}
