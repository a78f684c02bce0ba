"""`unseen.rank`: which of several checkpoints, or of several feature matrices, will transfer best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from unseen.api.answer import Answer
from unseen.api.arrays import as_array, is_matrix
from unseen.api.checkpoints import rank_checkpoints
from unseen.api.objects import STUDY, NamedObjects, workbench
from unseen.benchmarks.rank.arrays import rank_features
from unseen.benchmarks.rank.candidates import CheckpointRanking
from unseen.core.errors import UsageError
from unseen.core.run_record import RunRecord
from unseen.features import Extraction


@dataclass(frozen=True, eq=False, repr=False)
class Ranking(Answer):
    """Candidates in order, best first.

    Attributes:
        order: the ranking as the commands have it, with notes and the options behind it.
        labels: what the caller calls each model.
    """

    order: CheckpointRanking
    labels: Mapping[str, str]

    percent: ClassVar[tuple[str, ...]] = ("expected", "low", "high", "behind")

    @property
    def best(self) -> str | None:
        """The label of the recommended candidate, the one that `headline` names; None if none could be ranked."""
        return None if self.order.choice is None else self.order.choice.named(self.labels)

    @property
    def record(self) -> RunRecord:
        """What the evaluations received, used and dropped, merged over candidates."""
        return self.order.record

    def headline(self) -> str:
        return self.order.describe(self.labels)

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "rank": each.rank or None,
                "model": each.named(self.labels),
                "expected": each.expected,
                "low": each.low,
                "high": each.high,
                "behind": each.behind,
                "may_be_best": each.may_be_best,
                **each.scores,
                "mean_rank": each.mean_rank,
                "error": each.error,
            }
            for each in self.order.candidates
        ]


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
        data: labelled images as `extract` takes them; with feature matrices, the (n,) classes or values of their rows.
        study, home, how: as for `evaluate`.
        **options: of `rank_checkpoints`, such as budget=600, top=3, scores=("nleep", "logme"), seed=0; with
            feature matrices of `unseen.benchmarks.rank.arrays.rank_features`.

    Raises:
        UnseenError: no model, or data that do not fit.
    """
    if isinstance(models, Mapping) and models and all(is_matrix(value) for value in models.values()):
        arrays = {str(label): as_array(value) for label, value in models.items()}
        return Ranking(rank_features(arrays, as_array(data), **options), {})
    bench = workbench(home, how, None)
    with NamedObjects() as holder:
        named = holder.models(models)
        if not named:
            raise UsageError("name at least one checkpoint to rank.")
        dataset = holder.dataset(data)
        order = rank_checkpoints(
            dataset, list(named.values()), name=study, home=bench.home, how=bench.how, report=False, **options
        )
    return Ranking(order, {name: label for label, name in named.items()})
