"""Probes over the splits of a dataset: which images validate, and no run done twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import UnknownNameError, UsageError
from unseen.data import Dataset

if TYPE_CHECKING:
    from unseen.probes import ProbeResult

SolverName = Literal["fast", "paper", "ridge", "knn", "ncm"]
Shots = int | Literal["all"]
Validation = Literal["own", "drawn"]
SEEDS = (22, 37, 45, 77, 93)

#: Features (row-sliceable) and labels of one split.
Arrays = tuple[Any, npt.NDArray[np.int64]]


def check_settings(benchmark: str, solver: str, shots: Sequence[Shots], seeds: Sequence[int], validation: str) -> None:
    """Refuse an unknown solver or validation, shots that are no number of images, and nothing to do."""
    if solver not in get_args(SolverName):
        raise UnknownNameError(f"solver of benchmark {benchmark!r}", solver, get_args(SolverName))
    if validation not in get_args(Validation):
        raise UnknownNameError(f"validation of benchmark {benchmark!r}", validation, get_args(Validation))
    for count in shots:
        if count != "all" and (not isinstance(count, int) or count < 1):
            raise UsageError(f"benchmark {benchmark!r}: shots {count!r} is neither a number of images nor 'all'")
    if not seeds or not shots:
        raise UsageError(f"benchmark {benchmark!r} needs at least one seed and one number of shots")


def split_arrays(
    model: str, dataset: Dataset, bench: Workbench, layer: str
) -> tuple[dict[str, Arrays], dict[str, int]]:
    """Features and labels of every split that the dataset has, and how many images of each could not be read."""
    splits: dict[str, Arrays] = {}
    skipped: dict[str, int] = {}
    for split in ("train", "val", "test"):
        if split in dataset.splits:
            stored = bench.features(model, dataset.id, split, (layer,))[layer]
            # Labels come from the dataset: two labellings of the same images share their features.
            splits[split] = stored.features, dataset.split(split).labels[stored.index]
            skipped |= {split: len(stored.skipped)} if stored.skipped else {}
    return splits, skipped


def probe_splits(
    splits: Mapping[str, Arrays],
    *,
    solver: SolverName,
    shots: Sequence[Shots],
    seeds: Sequence[int],
    validation: Validation,
) -> dict[tuple[Shots, int], ProbeResult]:
    """One record per shots and seed.

    Args:
        validation: "own" selects on the dataset's validation split where it has one; "drawn" pools it with train and
            holds out a fifth of each class, by seed, as ImageNet-CoG does.
    """
    from unseen.probes import evaluate_probe

    splits = dict(splits)
    if validation == "drawn" and "val" in splits:
        splits["train"] = _pooled(splits["train"], splits.pop("val"))
    held = splits.get("val", (None, None))
    settled = "val" in splits and solver not in ("paper", "fast")  # whose trainings start from random weights

    def run(counts: Sequence[Shots], numbers: Sequence[int]) -> list[ProbeResult]:
        return evaluate_probe(
            *splits["train"],
            *splits["test"],
            solver=solver,
            shots=counts,
            seeds=numbers,
            validation_features=held[0],
            validation_labels=held[1],
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


def _pooled(train: Arrays, held: Arrays) -> Arrays:
    features = np.concatenate([np.asarray(train[0]), np.asarray(held[0])])
    return features, np.concatenate([train[1], held[1]])
