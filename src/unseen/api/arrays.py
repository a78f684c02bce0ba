"""Probes on feature matrices: `unseen.evaluate(X, y)`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.benchmarks.benchmark import make_benchmark
from unseen.benchmarks.workbench import SplitRows
from unseen.core.arrays import AnyArray
from unseen.core.errors import DataError, UsageError
from unseen.core.extras import capture_environment
from unseen.core.records import Result
from unseen.core.run_record import Recorder
from unseen.data import Dataset
from unseen.data.user_data import LabelledImages, divide
from unseen.features.manifest import Extraction
from unseen.run.evaluate import complete_result

if TYPE_CHECKING:
    from typing_extensions import TypeIs

#: Name of the model in results on given features.
FEATURES = "features"


def is_matrix(value: object) -> TypeIs[AnyArray]:
    """Return whether a value is an array or tensor of two dimensions."""
    return getattr(value, "ndim", 0) == 2 and hasattr(value, "shape") and not callable(value)


def as_array(value: object) -> AnyArray:
    """Return an array, or a tensor on any device, as an array."""
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


@dataclass
class _ArrayBench:
    """The part of a workbench that probes use, over feature matrices."""

    data: Dataset
    rows: Mapping[str, AnyArray]
    how: Extraction = field(default_factory=lambda: Extraction(device="cpu"))
    recorder: Recorder = field(default_factory=Recorder)

    def dataset(self, name: str) -> Dataset:
        self.recorder.add(self.data.record)
        return self.data

    def splits(self, model: str, dataset: str, layer: str) -> dict[str, SplitRows]:
        found = {}
        for name, split in self.data.splits.items():
            count = len(split)
            found[name] = SplitRows(self.rows[name], split.labels, np.arange(count), count)
            self.recorder.add(found[name].record(name))
        return found


def evaluate_features(
    features: object, labels: object, test: object, *, seeds: int | Sequence[int], options: Mapping[str, object]
) -> tuple[Dataset, tuple[Result, ...]]:
    """Fit a probe on rows of features and test it; return the rows as a dataset, and one result per seed.

    Args:
        features: (n, d).
        labels: classes, numbers or several labels, one per row.
        test: (features, labels) of other rows; None holds out a fifth of every class, by the content of the rows.
        seeds: a count, or the seeds.
        options: of the probe benchmark.

    Raises:
        DataError: arrays that do not belong together, or labels that cannot be learned.
    """
    matrices = {"train": as_array(features)}
    given = {"train": _labelled(matrices["train"], labels, "train")}
    if test is not None:
        if not isinstance(test, tuple | list) or len(test) != 2 or not is_matrix(test[0]):
            raise UsageError("with features, test is (features, labels) of the test rows.")
        matrices["test"] = as_array(test[0])
        given["test"] = _labelled(matrices["test"], test[1], "test")
        widths = [matrix.shape[1] for matrix in matrices.values()]
        if len(set(widths)) > 1:
            raise DataError(f"train and test features must have the same width; found {widths[0]} and {widths[1]}.")
    dataset = divide(given, ordered=True)
    rows = {}
    for name, split in dataset.splits.items():
        assert split.whole is not None
        rows[name] = matrices.get(name, matrices["train"])[split.whole.rows]
    benchmark = make_benchmark("probe", {"seeds": seeds, **options}).suited(dataset)
    benchmark.check(dataset)
    bench: Any = _ArrayBench(dataset, rows)
    cells = [replace(cell, revision=dataset.revision) for cell in benchmark.plan(FEATURES, dataset.id)]
    environment = capture_environment()
    return dataset, tuple(complete_result(result, bench, environment) for result in benchmark.evaluate(cells, bench))


def _labelled(rows: AnyArray, labels: Any, name: str) -> LabelledImages:
    if rows.ndim != 2 or not rows.size or rows.dtype.kind not in "fiub":
        raise DataError(f"{name} features must be numbers of the shape (n, d); found {rows.dtype} of {rows.shape}.")
    if not np.isfinite(rows).all():
        raise DataError(f"{name} features contain NaN or infinity. Leave those rows out.")
    if isinstance(labels, str) or not hasattr(labels, "__len__"):
        raise DataError(f"{name} features of shape {rows.shape} need one label per row; found {type(labels).__name__}.")
    found = as_array(labels) if hasattr(labels, "ndim") else labels
    listed = found.tolist() if getattr(found, "ndim", 2) == 1 else list(found)
    if len(listed) != len(rows):
        raise DataError(f"{name} features have the shape {rows.shape}, but there are {len(listed)} labels.")
    values = np.ascontiguousarray(rows)
    return LabelledImages(
        values, listed, title=FEATURES, keys=lambda i: hashlib.blake2b(values[i].tobytes()).digest()[:16]
    )
