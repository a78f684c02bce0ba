"""From scores and ground truth to a table like the paper's: one row per score, metrics averaged over tasks.

Paper:      Li et al., "Ranking neural checkpoints" (NeuCRaB), Tables 1 to 3, CVPR 2021 [P]
Implements: Recall@1, Rel@1, Recall@3, Rel@3, Pearson, Kendall, GFLOPs without the forward pass; weighted tau and
            seconds beside them
Differs:    a score is judged over the checkpoints that it has a value for, on the tasks where those are two or more;
            how many they were stands in the row
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from unseen.benchmarks.rank.protocol import TRUTH
from unseen.core.errors import DataError
from unseen.core.records import Result
from unseen.metrics import kendall_tau, pearson, recall_at_k, relative_accuracy_at_k, weighted_tau
from unseen.ranking.cards import SCORES, combine_terms


@dataclass(frozen=True)
class RankingRow:
    """How well one score ranked the checkpoints. Correlations in [-1, 1], shares in [0, 1].

    Attributes:
        tasks, pairs: how many tasks, and how many (checkpoint, task) pairs, the row is made of.
        gflops, seconds: mean per (checkpoint, task), without the forward pass.
    """

    score: str
    name: str
    recall_at_1: float
    relative_at_1: float
    recall_at_3: float
    relative_at_3: float
    pearson: float
    kendall: float
    weighted: float
    gflops: float
    seconds: float
    tasks: int
    pairs: int

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: NaN becomes None."""
        values = asdict(self)
        return {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in values.items()}


def ranking_rows(results: Iterable[Result], models: Collection[str] | None = None) -> list[RankingRow]:
    """One row per score that has values, in the order of `unseen ls scores`.

    Args:
        results: of the neucrab benchmark, ground truth among them.
        models: a group of checkpoints; all by default.
    """
    own = [r for r in results if r.ok and r.cell.benchmark == "neucrab" and (models is None or r.cell.model in models)]
    truth: dict[str, dict[str, float]] = {}
    for result in own:
        if result.cell.parameters["score"] == TRUTH:
            truth.setdefault(result.cell.dataset, {})[result.cell.model] = result.metrics["top1"]
    if not truth:
        raise DataError(
            "there is no fine-tuned accuracy to compare scores with. Run the benchmark with truth = true first."
        )
    rows = (_row(score, [r for r in own if r.cell.parameters["score"] == score], truth) for score in SCORES)
    return [row for row in rows if row is not None]


def _row(score: str, results: list[Result], truth: Mapping[str, Mapping[str, float]]) -> RankingRow | None:
    values, accuracies = [], []
    for task, known in truth.items():
        scored = [r for r in results if r.cell.dataset == task and r.cell.model in known]
        if len(scored) < 2:
            continue
        values.append(combine_terms(SCORES[score], [r.details["terms"] for r in scored]))
        accuracies.append([known[r.cell.model] for r in scored])
    if not values:
        return None
    return RankingRow(
        score=score,
        name=SCORES[score].name,
        recall_at_1=recall_at_k(values, accuracies, 1),
        relative_at_1=relative_accuracy_at_k(values, accuracies, 1),
        recall_at_3=recall_at_k(values, accuracies, 3),
        relative_at_3=relative_accuracy_at_k(values, accuracies, 3),
        pearson=pearson(values, accuracies),
        kendall=kendall_tau(values, accuracies),
        weighted=weighted_tau(values, accuracies),
        gflops=float(np.mean([r.metrics["gflops"] for r in results])),
        seconds=float(np.mean([r.seconds for r in results])),
        tasks=len(values),
        pairs=sum(len(task) for task in values),
    )
