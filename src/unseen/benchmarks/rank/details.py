"""Metadata of the ranking, and what its results store: details and options of cells, as typed fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from unseen.core.records import Typed
from unseen.ranking.cards import SCORES, find_score

#: The score that the answer is based on: the expected accuracy of a linear head.
EXPECTED = "probe"
#: In the place of a score: the accuracy after fine-tuning.
TRUTH = "truth"
#: The layer that a candidate has unless the user chooses others.
POOLED = "pooled"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of a checkpoint and its features.

    Attributes:
        parameters, flops, dimensions: of the network and its features.
        images_per_second: of the extraction on the machine that ran it.
        latency, batch_latency, memory: seconds of one image alone, seconds per image in a batch, and bytes, of the
            model on the machine that ran it (`unseen.features.extraction.Cost`).
        copies: near-duplicates that its features show; they share a fold.
    """

    parameters: int | None = None
    flops: int | None = None
    dimensions: int | None = None
    images_per_second: float | None = None
    latency: float | None = None
    batch_latency: float | None = None
    memory: int | None = None
    copies: int = 0


@dataclass(frozen=True)
class RankDetails(Facts, Typed):
    """Details of one score of one checkpoint.

    Attributes:
        images, total: images that were scored, and images of the split.
        classes, measure: number of classes (labels, values), and what the expected values are.
        majority: share of the most frequent class.
        head: width of the class head if the score reads it.
        gflops: of the score.
        outcomes: per held-out image (`expected.packed`), of fine-tuned accuracy per test image.
        probe_outcomes: per test image, of the linear head that fine-tuning starts from.
        expected, size: expected value on new images, and the effective number of images of its interval.
        units, evaluated: groups of images (single images without groups) and images that have an outcome.
        groups: groups of the dataset, which share a fold.
        balanced: whether `expected` weights all classes equally.
        labels, class_names: class of every image (`expected.packed`), and the names of the classes.
        chance: accuracy of a random guess; stored with fine-tuned accuracy.
    """

    notes: tuple[str, ...] = ()
    images: int = 0
    total: int = 0
    classes: int = 0
    measure: str = "accuracy"
    majority: float | None = None
    head: int = 1000
    gflops: float = 0.0
    outcomes: str = ""
    probe_outcomes: str = ""
    expected: float | None = None
    size: float = 0.0
    units: int = 0
    evaluated: int = 0
    groups: int = 0
    balanced: bool = False
    labels: str = ""
    class_names: tuple[str, ...] = ()
    chance: float | None = None


@dataclass(frozen=True)
class RankParameters(Typed):
    """Options of a cell.

    Attributes:
        score: id of the score, or "truth" for fine-tuned accuracy.
        layer: of the features; None for a score that has no layer of its own.
        metric: "balanced" for the mean of per-class accuracies; "accuracy" by default.
        early_learning_rate: of a score that trains; None for the others.
        learning_rates, steps, truth_seeds: of the sweep of fine-tuning.
    """

    score: str = ""
    layer: str | None = None
    metric: str = "accuracy"
    seed: int = 0
    early_learning_rate: float | None = None
    learning_rates: tuple[float, ...] = ()
    steps: tuple[int, ...] = ()
    truth_seeds: int = 1
    batch_size: int = 32

    @property
    def balanced(self) -> bool:
        return self.metric == "balanced"

    @property
    def is_scored(self) -> bool:
        """Whether the cell is a score over features, which trains no network."""
        return self.score != TRUTH and self.early_learning_rate is None


def cell_options(parameters: Mapping[str, object]) -> Mapping[str, object]:
    """Return the options that plan a cell: fine-tuned accuracy is not a score, but the option `truth`."""
    if RankParameters.read(parameters).score != TRUTH:
        return parameters
    return {**{name: value for name, value in parameters.items() if name != "score"}, "truth": True}


def cell_citations(parameters: Mapping[str, object]) -> tuple[str, ...]:
    score = RankParameters.read(parameters).score
    return (find_score(score).citation,) if score in SCORES else ()
