"""Statistics: confidence intervals, paired differences, rank correlations, and one decision rule for all outputs.

Pure functions over arrays. Values are fractions; nothing is rounded here. `bench/coverage.py` measures how often every
interval covers the true value, and how often `decide` reports a difference between equal candidates.
"""

from unseen.stats.areas import area_components, mean_average_precision_interval, seen_unseen_area_interval
from unseen.stats.correlation import correlation_interval, kendall_tau, r_squared_interval, slope_interval
from unseen.stats.decision import Candidate, Decision, decide
from unseen.stats.difference import holm, paired_difference, unpaired_difference, welch_difference
from unseen.stats.interval import Difference, Interval
from unseen.stats.means import (
    accuracy_interval,
    class_interval,
    combine_intervals,
    harmonic_mean_interval,
    mean_interval,
    mean_of_intervals,
    median_outcomes,
    needed_classes,
    per_class_interval,
)
from unseen.stats.resampling import bootstrap, bootstrap_share_interval

__all__ = [
    "Candidate",
    "Decision",
    "Difference",
    "Interval",
    "accuracy_interval",
    "area_components",
    "bootstrap",
    "bootstrap_share_interval",
    "class_interval",
    "combine_intervals",
    "correlation_interval",
    "decide",
    "harmonic_mean_interval",
    "holm",
    "kendall_tau",
    "mean_average_precision_interval",
    "mean_interval",
    "mean_of_intervals",
    "median_outcomes",
    "needed_classes",
    "paired_difference",
    "per_class_interval",
    "r_squared_interval",
    "seen_unseen_area_interval",
    "slope_interval",
    "unpaired_difference",
    "welch_difference",
]
