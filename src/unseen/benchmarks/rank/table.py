"""How well scores agree with fine-tuned accuracy, like the paper's tables: one row per score, means over tasks.

Paper:      Li et al., "Ranking neural checkpoints" (NeuCRaB), Tables 1 to 3, CVPR 2021 [P]
Implements: Recall@1, Rel@1, Recall@3, Rel@3, Pearson, Kendall, GFLOPs without the forward pass; weighted tau and
            seconds in addition
Differs:    a score is evaluated over the checkpoints that it has a value for, on the tasks with at least two of them;
            the row states their number
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass

import numpy as np

from unseen.benchmarks.rank.details import RankDetails, RankParameters
from unseen.benchmarks.rank.info import TRUTH
from unseen.core.errors import DataError
from unseen.core.records import Result
from unseen.metrics import pearson, recall_at_k, relative_accuracy_at_k, weighted_tau
from unseen.ranking.cards import SCORES, Sizes, combine_terms, find_score, paper_flops
from unseen.results import comparable
from unseen.stats import kendall_tau

#: A checkpoint: its name, and what was behind the name when a result was computed.
Checkpoint = tuple[str, str]


@dataclass(frozen=True)
class RankingRow:
    """How well one score ranked the checkpoints. Correlations in [-1, 1], shares in [0, 1].

    Attributes:
        layer: of the features; "" for a score that has no layer of its own.
        tasks, pairs: how many tasks, and how many (checkpoint, task) pairs, the row is made of.
        gflops, seconds: mean per (checkpoint, task), without the forward pass.
        paper_gflops: the same as the paper counts it (`unseen.ranking.cards.paper_flops`), a fifth of the images
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

    @property
    def metrics(self) -> dict[str, float]:
        """The numbers of the row that are known."""
        return {k: v for k, v in asdict(self).items() if isinstance(v, float) and math.isfinite(v)}


def ranking_rows(results: Iterable[Result], models: Collection[str] | None = None) -> list[RankingRow]:
    """Return one row per score (and layer) that has values, in the order of `unseen ls scores`.

    Args:
        results: of the rank benchmark, ground truth among them.
        models: a group of checkpoints; all by default.

    Raises:
        DataError: nothing was fine-tuned, or the results of one score are of several settings.
    """
    own = [r for r in results if r.ok and r.cell.benchmark == "rank" and (models is None or r.cell.model in models)]
    by: dict[tuple[str, str], list[Result]] = {}
    for result in own:
        parameters = RankParameters.read(result.cell.parameters)
        by.setdefault((parameters.score, parameters.layer or ""), []).append(result)
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
        values.append(combine_terms(card, [list(RankDetails.read(r.details).terms) for r in scored]))
        accuracies.append([known[_checkpoint(r)] for r in scored])
    if not values:
        return None
    details = [RankDetails.read(r.details) for r in results]
    return RankingRow(
        score=score,
        name=card.name,
        recall_at_1=recall_at_k(values, accuracies, 1),
        relative_at_1=relative_accuracy_at_k(values, accuracies, 1),
        recall_at_3=recall_at_k(values, accuracies, 3),
        relative_at_3=relative_accuracy_at_k(values, accuracies, 3),
        pearson=pearson(values, accuracies),
        kendall=float(np.mean([kendall_tau(v, a) for v, a in zip(values, accuracies, strict=True)])),
        weighted=weighted_tau(values, accuracies),
        gflops=float(np.mean([d.gflops for d in details])),
        seconds=float(
            np.mean(
                [
                    r.seconds if d.score_seconds is None else d.score_seconds
                    for r, d in zip(results, details, strict=True)
                ]
            )
        ),
        tasks=len(values),
        pairs=sum(len(task) for task in values),
        layer=layer,
        paper_gflops=float(np.mean([_paper_gflops(score, d) for d in details])),
    )


def _paper_gflops(score: str, details: RankDetails) -> float:
    if not details.images or not details.classes or details.dimensions is None:  # an older result does not state them
        return math.nan
    sizes = Sizes(details.images, details.dimensions, details.classes, details.head)
    found = paper_flops(score, sizes, float(details.flops or 0), details.images / 5)
    return math.nan if found is None else found / 1e9
