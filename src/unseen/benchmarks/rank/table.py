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
from dataclasses import dataclass
from typing import Any

import numpy as np

from unseen.benchmarks.rank.protocol import TRUTH
from unseen.core.errors import DataError
from unseen.core.records import Result
from unseen.metrics import kendall_tau, pearson, recall_at_k, relative_accuracy_at_k, weighted_tau
from unseen.ranking.cards import SCORES, combine_terms, find_score
from unseen.ranking.cost import Sizes, paper_flops
from unseen.results import comparable

#: A checkpoint: its name, and what was behind the name when a result was computed.
Checkpoint = tuple[str, str]


@dataclass(frozen=True)
class RankingRow:
    """How well one score ranked the checkpoints. Correlations in [-1, 1], shares in [0, 1].

    Attributes:
        layer: of the features; "" for a score that has no layer of its own.
        tasks, pairs: how many tasks, and how many (checkpoint, task) pairs, the row is made of.
        gflops, seconds: mean per (checkpoint, task), without the forward pass.
        paper_gflops: the same as the paper counts it (`unseen.ranking.cost.paper_flops`), a fifth of the images
            standing for its test images; NaN for a score that it does not have.
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
    layer: str = ""
    paper_gflops: float = math.nan


def ranking_rows(results: Iterable[Result], models: Collection[str] | None = None) -> list[RankingRow]:
    """One row per score (and layer) that has values, in the order of `unseen ls scores`.

    Args:
        results: of the rank benchmark, ground truth among them.
        models: a group of checkpoints; all by default.

    Raises:
        DataError: nothing was fine-tuned, or the results of one score are of several settings.
    """
    own = [r for r in results if r.ok and r.cell.benchmark == "rank" and (models is None or r.cell.model in models)]
    by: dict[tuple[str, str], list[Result]] = {}
    for result in own:
        parameters = result.cell.parameters
        by.setdefault((str(parameters["score"]), str(parameters.get("layer", ""))), []).append(result)
    for (score, _), found in by.items():
        _check_alike(score, found)
    truth: dict[str, dict[Checkpoint, float]] = {}
    for result in by.pop((TRUTH, ""), []):
        truth.setdefault(result.cell.dataset, {})[_checkpoint(result)] = result.metrics["top1"]
    if not truth:
        raise DataError(
            "there is no fine-tuned accuracy to compare scores with. Run the benchmark with truth = true first."
        )
    order = {score: place for place, score in enumerate(SCORES)}
    rows = (_row(*key, by[key], truth) for key in sorted(by, key=lambda key: (order.get(key[0], len(order)), key[0])))
    return [row for row in rows if row is not None]


def _checkpoint(result: Result) -> Checkpoint:
    return result.cell.model, result.cell.revision


def _check_alike(score: str, results: Collection[Result]) -> None:
    """Refuse what must not stand in one row: other options, another version, other images under the same name."""
    groups = comparable(results, axes=(), over=(), place=lambda _cell: {})
    if len(groups) > 1:
        found = "; ".join(group.words for group in groups)
        raise DataError(f"the results of {score!r} do not belong into one table: {found}. Choose those of one run.")


def _row(
    score: str, layer: str, results: list[Result], truth: Mapping[str, Mapping[Checkpoint, float]]
) -> RankingRow | None:
    card = find_score(score)
    values, accuracies = [], []
    for task, known in truth.items():
        scored = [r for r in results if r.cell.dataset == task and _checkpoint(r) in known]
        if len(scored) < 2:
            continue
        values.append(combine_terms(card, [r.details["terms"] for r in scored]))
        accuracies.append([known[_checkpoint(r)] for r in scored])
    if not values:
        return None
    return RankingRow(
        score=score,
        name=card.name,
        recall_at_1=recall_at_k(values, accuracies, 1),
        relative_at_1=relative_accuracy_at_k(values, accuracies, 1),
        recall_at_3=recall_at_k(values, accuracies, 3),
        relative_at_3=relative_accuracy_at_k(values, accuracies, 3),
        pearson=pearson(values, accuracies),
        kendall=kendall_tau(values, accuracies),
        weighted=weighted_tau(values, accuracies),
        gflops=float(np.mean([r.details["gflops"] for r in results])),
        seconds=float(np.mean([r.details.get("score_seconds", r.seconds) for r in results])),
        tasks=len(values),
        pairs=sum(len(task) for task in values),
        layer=layer,
        paper_gflops=float(np.mean([_paper_gflops(score, r.details) for r in results])),
    )


def _paper_gflops(score: str, details: Mapping[str, Any]) -> float:
    try:
        images, forward = float(details["images"]), float(details["flops"] or 0)
        sizes = Sizes(images, float(details["dimensions"]), float(details["classes"]), float(details.get("head", 1000)))
    except KeyError:  # an older result does not say
        return math.nan
    found = paper_flops(score, sizes, forward, images / 5)
    return math.nan if found is None else found / 1e9
