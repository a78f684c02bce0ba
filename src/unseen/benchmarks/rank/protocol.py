"""NeuCRaB: how well does a cheap score foretell which checkpoint fine-tunes best?

Paper:      Li et al., "Ranking neural checkpoints" (NeuCRaB), CVPR 2021 [P]
Implements: per checkpoint and task: every score on the training images, Eq. (2), and the fine-tuned accuracy, Eq. (1);
            `neucrab_table` compares them over tasks by the metrics of section 2.3
Differs:    pools, tasks and budgets are those of the study file, so that a laptop can run one; scores that [P] could
            not know are there too
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, ClassVar

import numpy as np

from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import UnseenError, UsageError
from unseen.core.records import Cell, ModelCard, Result
from unseen.data import Dataset
from unseen.ranking.cards import SCORES, ScoreCard, find_score, score_terms
from unseen.ranking.cost import finetune_flops, score_flops

TRUTH = "truth"


@dataclass(frozen=True)
class NeucrabBenchmark:
    """Options of the ranking benchmark, as a study's `[benchmarks.neucrab]` gives them.

    Attributes:
        scores: ids, or "all".
        truth: whether to fine-tune for the ground truth.
        learning_rates, steps: the sweep of the ground truth; every pair is tried.
        batch_size: of fine-tuning.
        early_learning_rate: of the early-stopped fine-tuning scores.
        layer: which features.
        seed: of scores that draw, of the validation images and of fine-tuning.
    """

    name: ClassVar[str] = "neucrab"
    question: ClassVar[str] = "Which score foretells what fine-tuning will reach?"
    paper: ClassVar[str] = "neucrab"

    scores: tuple[str, ...] = ("all",)
    truth: bool = True
    learning_rates: tuple[float, ...] = (0.05, 0.005)
    steps: tuple[int, ...] = (500,)
    batch_size: int = 32
    early_learning_rate: float = 0.01
    layer: str = "pooled"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in self.score_names():
            find_score(name)
        if self.truth and (not self.learning_rates or not self.steps):
            raise UsageError("benchmark 'neucrab': the ground truth needs at least one learning rate and one length.")

    def score_names(self) -> tuple[str, ...]:
        """The scores asked for, each once."""
        return tuple(SCORES) if "all" in self.scores else tuple(dict.fromkeys(self.scores))

    def plan(self, model: str, dataset: str) -> list[Cell]:
        common: dict[str, Any] = {"layer": self.layer, "seed": self.seed}
        cells = []
        for name in self.score_names():
            parameters = {"score": name, **common}
            if find_score(name).needs_training:
                parameters |= {"batch_size": self.batch_size, "learning_rate": self.early_learning_rate}
            cells.append(Cell(self.name, model, dataset, parameters))
        if self.truth:
            sweep = {"learning_rates": list(self.learning_rates), "steps": list(self.steps)}
            cells.append(
                Cell(
                    self.name,
                    model,
                    dataset,
                    {"score": TRUTH, "seed": self.seed, "batch_size": self.batch_size, **sweep},
                )
            )
        return cells

    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> Iterator[Result]:
        head = any(find_score(name).needs_head for name in self.score_names())
        task = _Task(bench, cells[0].model, bench.dataset(cells[0].dataset), self.layer, head=head)
        for cell in cells:
            yield _one(cell, task)


class _Task:
    """One checkpoint on one task; features are read when the first score asks for them."""

    def __init__(self, bench: Workbench, model: str, dataset: Dataset, layer: str, *, head: bool) -> None:
        self.bench, self.model, self.dataset, self.layer = bench, model, dataset, layer
        self.layers = (layer, "logits") if head and bench.backbone(model).has_head else (layer,)
        self.card: ModelCard = bench.card(model)
        self._features: dict[str, Any] = {}

    def rows(self, layer: str) -> tuple[Any, Any]:
        """Features of the training images at a layer, and their labels."""
        if layer not in self._features:
            # All layers in one pass; a layer that the checkpoint does not have is asked for alone, and refused.
            wanted = self.layers if layer in self.layers else (layer,)
            for name, rows in self.bench.layers(self.model, self.dataset.id, "train", wanted).items():
                self._features[name] = rows.features.to_array(), rows.labels
        return self._features[layer]  # type: ignore[no-any-return]


def _one(cell: Cell, task: _Task) -> Result:
    """One score or the ground truth; what one score cannot do (LEEP without a head) is no failure of the others."""
    score = cell.parameters["score"]
    began = perf_counter()
    try:
        if score == TRUTH:
            return _truth(cell, task)
        card = find_score(score)
        return _trained_score(cell, card, task) if card.needs_training else _feature_score(cell, card, task)
    except UnseenError as error:
        return Result(cell, error=str(error), seconds=perf_counter() - began)


def _truth(cell: Cell, task: _Task) -> Result:
    from unseen.benchmarks.rank.truth import fine_tuned_truth

    p = cell.parameters
    found = fine_tuned_truth(
        task.bench.backbone(task.model),
        task.dataset,
        steps=p["steps"],
        learning_rates=p["learning_rates"],
        batch_size=p["batch_size"],
        seed=p["seed"],
    )
    details = {"classes": len(task.dataset.class_names), "chance": 1 / len(task.dataset.class_names)}
    metrics = {"top1": found.top1, "validation": found.validation}
    return Result(cell, metrics=metrics, seconds=found.seconds, sweep=found.sweep, details=details)


def _trained_score(cell: Cell, card: ScoreCard, task: _Task) -> Result:
    from unseen.benchmarks.rank.truth import early_stopped

    p = cell.parameters
    value, seconds, images = early_stopped(
        task.bench.backbone(task.model),
        task.dataset,
        epochs=card.epochs,
        learning_rate=p["learning_rate"],
        batch_size=p["batch_size"],
        seed=p["seed"],
    )
    flops = finetune_flops(float(task.card.flops or 0), images, 1.0)
    return Result(cell, metrics={"score": value, "gflops": flops / 1e9}, seconds=seconds, details={"terms": [value]})


def _feature_score(cell: Cell, card: ScoreCard, task: _Task) -> Result:
    features, labels = task.rows("logits" if card.needs_head else task.layer)
    notes: list[str] = []
    began = perf_counter()
    terms = score_terms(
        card,
        labels,
        features=None if card.needs_head else features,
        probabilities=softmax(features) if card.needs_head else None,
        seed=cell.parameters["seed"],
        tell=notes.append,
    )
    seconds = perf_counter() - began
    images, width = features.shape
    dimensions = width if not card.needs_head else int(task.card.feature_dim or width)
    flops = score_flops(card, images, dimensions, len(np.unique(labels)), width)
    if card.needs_head:  # the head itself, which a forward pass for features leaves out
        flops += 2.0 * images * dimensions * width
    forward = float(task.card.flops or 0) * images
    details: dict[str, Any] = {"terms": list(terms), "notes": notes, "forward_gflops": forward / 1e9}
    # A score that is relative to the pool has no value of its own: the table makes one from the terms of all.
    metrics = {"gflops": flops / 1e9} | ({} if card.pool_relative else {"score": terms[0]})
    return Result(cell, metrics=metrics, seconds=seconds, details=details)


def softmax(logits: Any) -> Any:
    """Probabilities of logits, row by row, in double precision."""
    values = np.asarray(logits, dtype=np.float64)
    exponentials = np.exp(values - values.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)
