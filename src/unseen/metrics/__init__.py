"""Metrics: pure functions over labels, predictions and scores. Fractions in [0, 1]; nothing is rounded here."""

from unseen.metrics.accuracy import (
    accuracy,
    mean_per_class_accuracy,
    per_class_accuracy,
    top_k_accuracy,
    top_k_correct,
)
from unseen.metrics.quality import alignment, alpha_req, effective_rank, rankme, uniformity
from unseen.metrics.ranking import kendall_tau, pearson, recall_at_k, relative_accuracy_at_k, weighted_tau
from unseen.metrics.ranks import (
    Friedman,
    PairedTTest,
    RankTable,
    friedman_test,
    nemenyi_difference,
    paired_t_test,
    rank_methods,
)
from unseen.metrics.seeds import SeedSummary, over_seeds
from unseen.metrics.seen_unseen import (
    SeenUnseenCurve,
    seen_leads,
    seen_unseen_curve,
    seen_unseen_outcomes,
)
from unseen.metrics.significance import (
    Comparison,
    Interval,
    McNemar,
    bootstrap_interval,
    holm,
    mcnemar,
    paired_bootstrap,
    welch_comparison,
    wilson_interval,
)
from unseen.metrics.softmax import log_softmax, softmax
from unseen.metrics.zeroshot import (
    harmonic_interval,
    harmonic_mean,
    mean_per_class,
    mean_per_class_interval,
    share_interval,
)
from unseen.stats import seen_unseen_area_interval

__all__ = [
    "Comparison",
    "Friedman",
    "Interval",
    "McNemar",
    "PairedTTest",
    "RankTable",
    "SeedSummary",
    "SeenUnseenCurve",
    "accuracy",
    "alignment",
    "alpha_req",
    "bootstrap_interval",
    "effective_rank",
    "friedman_test",
    "harmonic_interval",
    "harmonic_mean",
    "holm",
    "kendall_tau",
    "log_softmax",
    "mcnemar",
    "mean_per_class",
    "mean_per_class_accuracy",
    "mean_per_class_interval",
    "nemenyi_difference",
    "over_seeds",
    "paired_bootstrap",
    "paired_t_test",
    "pearson",
    "per_class_accuracy",
    "rank_methods",
    "rankme",
    "recall_at_k",
    "relative_accuracy_at_k",
    "seen_leads",
    "seen_unseen_area_interval",
    "seen_unseen_curve",
    "seen_unseen_outcomes",
    "share_interval",
    "softmax",
    "top_k_accuracy",
    "top_k_correct",
    "uniformity",
    "weighted_tau",
    "welch_comparison",
    "wilson_interval",
]
