"""Rank arrays: feature matrices of the same images by name, and classes, values or several labels to predict.

For values and several labels two scores exist: cross-validated R^2 or precision of a ridge regression, which the answer
is based on, and LogME.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from unseen.benchmarks.rank.answer import answer
from unseen.benchmarks.rank.candidates import CheckpointRanking
from unseen.benchmarks.rank.details import EXPECTED, POOLED, RankDetails
from unseen.benchmarks.rank.protocol import DEFAULT_SCORES, check_prefer
from unseen.benchmarks.rank.scoring import ScoredImages, score_result
from unseen.benchmarks.workbench import SplitRows
from unseen.core.arrays import AnyArray, IntArray
from unseen.core.errors import DataError, UnseenError, UsageError
from unseen.core.identity import Values, digest
from unseen.core.records import Cell, Result
from unseen.data.dataset import CLASS, NUMBER, SEVERAL, Target
from unseen.ranking.cards import find_score

Kind = Literal["auto", "classes", "values", "labels"]
_TARGETS: dict[str, Target] = {"classes": CLASS, "values": NUMBER, "labels": SEVERAL}


def rank_features(
    features: Mapping[str, ArrayLike],
    targets: ArrayLike,
    *,
    kind: Kind = "auto",
    scores: Sequence[str] = DEFAULT_SCORES,
    seed: int = 0,
    metric: Literal["accuracy", "balanced"] = "accuracy",
    prefer: str = "",
    groups: ArrayLike | None = None,
) -> CheckpointRanking:
    """Rank feature matrices by the expected accuracy of a linear head on them.

    Args:
        features: (n, d) by name, rows of the same images in the same order; d may differ.
        targets: (n,) classes, (n,) or (n, t) values, or (n, t) labels of 0 and 1; (n, 1) is the same as (n,). Rows
            without any label are dropped.
        kind: of the targets; "auto" takes whole numbers and texts for classes, 0 and 1 in several columns for labels
            and other numbers for values.
        scores: transferability scores to compute in addition; for classes only.
        seed, metric, prefer: as for `unseen rank`.
        groups: (n,) group of each row, such as the video of a frame; cross-validation divides no group.

    Raises:
        DataError: arrays that do not belong together.
        UsageError: no array, or a score that needs the model itself.
    """
    if not features:
        raise UsageError('name at least one array of features to rank, such as {"mine": X}.')
    check_prefer(prefer)
    wanted = np.asarray(targets)
    wanted = wanted[:, 0] if wanted.ndim == 2 and wanted.shape[1] == 1 else wanted
    target = _TARGETS[kind_of(wanted) if kind == "auto" else kind]
    arrays = {name: np.asarray(rows) for name, rows in features.items()}
    for name, rows in arrays.items():
        if rows.ndim != 2 or len(rows) != len(wanted):
            raise DataError(f"{name!r} has features of shape {rows.shape}; there are {len(wanted)} targets.")
    together = None if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
    if together is not None and len(together) != len(wanted):
        raise DataError(f"there are {len(together)} groups for {len(wanted)} targets: give the group of every row.")
    for name in scores:
        if find_score(name).needs_head or find_score(name).needs_training:
            raise UsageError(f"{name} needs the model itself; arrays have none.")
    if target != CLASS:
        scores = ("logme",)
        if metric != "accuracy":
            raise UsageError(f"a balanced accuracy is for classes; the targets are {kind_of(wanted)}.")
    options: Values = {"layer": POOLED, "split": "train", "sample": 0, "seed": seed}
    options |= {"metric": metric} if metric != "accuracy" else {}
    results: list[Result] = []
    for name, rows in arrays.items():
        images = _ArrayImages(rows, wanted, target, together)
        for score in dict.fromkeys((EXPECTED, *scores)):
            cell = Cell("rank", name, "arrays", {"score": score, **options}, revision=images.revision)
            try:
                results.append(score_result(cell, find_score(score), images, seed=seed))
            except UnseenError as error:
                results.append(Result(cell, error=str(error)))
    return answer(results, prefer=prefer)


class _ArrayImages(ScoredImages):
    """Feature rows and their targets in place of a checkpoint and its images."""

    def __init__(self, rows: AnyArray, targets: AnyArray, kind: Target, groups: IntArray | None) -> None:
        self.split, count = "train", len(rows)
        labels, names = np.zeros(count, np.int64), np.empty(0)
        if kind == CLASS:
            names, index = np.unique(targets, return_inverse=True)
            targets = labels = index.astype(np.int64).reshape(-1)
        self._features = {POOLED: SplitRows(rows, labels, np.arange(count), count)}
        split = SimpleNamespace(targets=targets, names=[f"row {i}" for i in range(count)], groups=groups)
        self.dataset: Any = SimpleNamespace(target=kind, split=lambda _split: split, class_names=names)
        self.about = RankDetails(total=count)
        self.revision = f"{_content(rows)[:12]}+{_content(targets)[:12]}"


def kind_of(targets: AnyArray) -> Literal["classes", "values", "labels"]:
    """Return the kind of targets, by their shape and type."""
    if targets.ndim == 1:
        return "values" if targets.dtype.kind == "f" and not (targets == np.rint(targets)).all() else "classes"
    return "labels" if np.isin(targets, (0, 1)).all() else "values"


def _content(values: AnyArray) -> str:
    if values.dtype.hasobject:
        return digest(values.tolist())
    buffer = hashlib.sha256(np.ascontiguousarray(values).view(np.uint8).data).hexdigest()
    return digest([str(values.dtype), list(values.shape), buffer])
