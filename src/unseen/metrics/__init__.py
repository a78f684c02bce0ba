"""Metrics: pure functions over labels, predictions and scores. Fractions in [0, 1]; nothing is rounded here."""

from unseen.metrics.accuracy import (
    accuracy,
    mean_per_class_accuracy,
    per_class_accuracy,
    top_k_accuracy,
    top_k_correct,
)
from unseen.metrics.seeds import SeedSummary, over_seeds
from unseen.metrics.significance import (
    Comparison,
    Interval,
    McNemar,
    bootstrap_interval,
    mcnemar,
    paired_bootstrap,
)

__all__ = [
    "Comparison",
    "Interval",
    "McNemar",
    "SeedSummary",
    "accuracy",
    "bootstrap_interval",
    "mcnemar",
    "mean_per_class_accuracy",
    "over_seeds",
    "paired_bootstrap",
    "per_class_accuracy",
    "top_k_accuracy",
    "top_k_correct",
]
