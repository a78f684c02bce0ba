"""`unseen.rank`: which of several checkpoints, or of several feature matrices, will transfer best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from unseen.api.checkpoints import rank_checkpoints
from unseen.api.holding import STUDY, holding, name_models, workbench
from unseen.api.shown import Answer
from unseen.benchmarks.rank.answer import Candidate, CheckpointRanking, answer
from unseen.benchmarks.rank.protocol import RankBenchmark
from unseen.benchmarks.rank.scoring import score_result
from unseen.benchmarks.workbench import SplitRows
from unseen.core.errors import DataError, UnseenError, UsageError
from unseen.core.identity import digest
from unseen.core.records import Result
from unseen.features import Extraction
from unseen.ranking.cards import find_score


@dataclass(frozen=True, eq=False, repr=False)
class Ranking(Answer):
    """Candidates in order, best first.

    Attributes:
        order: the ranking as the commands have it, with notes and the options behind it.
        labels: what the caller calls each model.
    """

    order: CheckpointRanking
    labels: Mapping[str, str]

    percent: ClassVar[tuple[str, ...]] = ("first_in",)

    @property
    def best(self) -> str | None:
        """The label of the candidate to fine-tune, None where none could be ranked."""
        found = self.order.best
        return None if found is None else self._label(found)

    def headline(self) -> str:
        text = self.order.recommendation
        for name, label in self.labels.items():
            text = text.replace(name, label)
        return text

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "rank": each.rank or None,
                "model": self._label(each),
                **each.scores,
                "mean_rank": each.mean_rank,
                "low": each.low,
                "high": each.high,
                "first_in": each.first_share,
                "error": each.error,
            }
            for each in self.order.candidates
        ]

    def _label(self, candidate: Candidate) -> str:
        return candidate.label.replace(candidate.model, self.labels.get(candidate.model, candidate.model))


def rank(
    models: Mapping[str, Any] | Sequence[Any],
    data: Any,
    *,
    study: str = STUDY,
    home: Path | str | None = None,
    how: Extraction | None = None,
    **options: Any,
) -> Ranking:
    """Rank checkpoints by what their features promise, before any of them is fine-tuned.

    Args:
        models: by label, or a list: as `evaluate` takes them; or feature matrices (n, d) by label.
        data: labelled images as `extract` takes them; with feature matrices, the (n,) labels of their rows.
        study, home, how: as for `evaluate`.
        **options: of the rank benchmark, such as scores=("nleep", "logme"), resamples=40, seed=0; with models also
            `budget` (seconds) and `top`.

    Raises:
        UnseenError: no model, or data that do not fit.
    """
    if isinstance(models, Mapping) and models and all(_is_matrix(value) for value in models.values()):
        return _rank_features(models, data, options)
    bench = workbench(home, how, None)
    with holding() as holder:
        named = name_models(holder, models)
        if not named:
            raise UsageError("name at least one checkpoint to rank.")
        dataset = holder.dataset(data)
        order = rank_checkpoints(
            dataset, list(named.values()), name=study, home=bench.home, how=bench.how, report=False, **options
        )
    return Ranking(order, {name: label for label, name in named.items()})


def _is_matrix(value: Any) -> bool:
    return getattr(value, "ndim", 0) == 2 and hasattr(value, "shape") and not callable(value)


class _GivenFeatures:
    """Rows of a matrix where the rank benchmark has those of a model on images."""

    split, seconds = "train", 0.0

    def __init__(self, features: npt.NDArray[Any], labels: npt.NDArray[np.int64]) -> None:
        self._rows = SplitRows(features, labels, np.arange(len(labels)), len(labels))
        self.total = len(labels)
        self.about = {"parameters": None, "flops": None, "checkpoint": digest(_content(features))}

    def rows(self, layer: str) -> SplitRows:
        return self._rows


def _rank_features(models: Mapping[str, Any], labels: Any, options: Mapping[str, Any]) -> Ranking:
    benchmark = RankBenchmark(**options)
    classes, y = np.unique(np.asarray(labels), return_inverse=True)
    if len(classes) < 2 or len(y) <= len(classes):
        raise DataError(
            f"{len(y)} rows of {len(classes)} classes: ranking needs two classes, and more rows than those."
        )
    results: list[Result] = []
    for label, matrix in models.items():
        features = np.asarray(matrix.detach().cpu() if hasattr(matrix, "detach") else matrix, np.float32)
        if len(features) != len(y):
            raise DataError(f"{label!r} has {len(features)} rows of features; there are {len(y)} labels.")
        if not np.isfinite(features).all():
            raise DataError(f"{label!r} has features that are not finite numbers.")
        given: Any = _GivenFeatures(features, y.astype(np.int64))
        revision = f"{digest(_content(features), length=12)}+{digest(y.tolist(), length=12)}"
        for cell in benchmark.plan(str(label), "labels"):
            card = find_score(str(cell.parameters["score"]))
            if card.needs_head or card.needs_training:
                raise UsageError(f"{card.id} needs the model itself; feature matrices have none.")
            cell = replace(cell, revision=revision)
            try:
                results.append(score_result(cell, card, given, resamples=benchmark.resamples, seed=benchmark.seed))
            except UnseenError as error:
                results.append(Result(cell, error=str(error)))
    return Ranking(answer(results), {})


def _content(features: npt.NDArray[Any]) -> str:
    import hashlib

    return hashlib.sha256(np.ascontiguousarray(features).tobytes()).hexdigest()
