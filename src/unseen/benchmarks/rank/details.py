"""What a result of the ranking stores beside its metrics, and the options of its cells, as typed fields."""

from __future__ import annotations

from dataclasses import dataclass

from unseen.core.typed import Typed


@dataclass(frozen=True)
class RankDetails(Typed):
    """Details of one score of one checkpoint.

    Attributes:
        terms: the score, or the terms of one that is relative to all candidates.
        draws: the terms on half-samples; empty where a half-sample does not suffice for the score.
        draw_images: images of a half-sample.
        images, total: images that were scored, and images of the split.
        classes, measure: number of classes (labels, values), and what the expected values are.
        majority: share of the most frequent class.
        dimensions, head: width of the features, and of the class head if the score reads it.
        gflops, forward_gflops: of the score, and of the forward pass over all images.
        hits: outcomes per held-out image (`scoring.written_hits`).
        checkpoint: digest of weights and preprocessing: equal for one checkpoint under two names.
        chance: accuracy of a random guess; stored with fine-tuned accuracy.
    """

    terms: tuple[float, ...] = ()
    draws: tuple[tuple[float, ...], ...] = ()
    draw_images: int = 0
    notes: tuple[str, ...] = ()
    images: int = 0
    total: int = 0
    classes: int = 0
    measure: str = "accuracy"
    majority: float | None = None
    dimensions: int | None = None
    head: int = 1000
    gflops: float = 0.0
    forward_gflops: float = 0.0
    score_seconds: float | None = None
    extraction_seconds: float = 0.0
    images_per_second: float | None = None
    parameters: int | None = None
    flops: int | None = None
    hits: str | tuple[float | None, ...] = ""
    checkpoint: str = ""
    chance: float | None = None


@dataclass(frozen=True)
class RankParameters(Typed):
    """Options of a cell.

    Attributes:
        score: id of the score, or "truth" for fine-tuned accuracy.
        layer: of the features; None for a score that has no layer of its own.
        resamples: half-samples; None for a score that trains.
        early_learning_rate: of a score that trains; None for the others.
        learning_rates, steps, truth_seeds: of the sweep of fine-tuning.
    """

    score: str = ""
    layer: str | None = None
    seed: int = 0
    resamples: int | None = None
    early_learning_rate: float | None = None
    learning_rates: tuple[float, ...] = ()
    steps: tuple[int, ...] = ()
    truth_seeds: int = 1
    batch_size: int = 32
