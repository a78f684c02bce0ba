"""Statistics: confidence intervals, paired differences, rank correlations, and one decision rule for all outputs.

Pure functions over arrays. Values are fractions; nothing is rounded here. `bench/coverage.py` measures how often every
interval covers the true value, and how often `decide` reports a difference between equal candidates.
"""

from typing import TYPE_CHECKING

from unseen.core.registry import lazy_exports

if TYPE_CHECKING:
    from unseen.stats.areas import area_components as area_components
    from unseen.stats.areas import mean_average_precision_interval as mean_average_precision_interval
    from unseen.stats.areas import seen_unseen_area_interval as seen_unseen_area_interval
    from unseen.stats.correlation import correlation_interval as correlation_interval
    from unseen.stats.correlation import kendall_tau as kendall_tau
    from unseen.stats.correlation import r_squared_interval as r_squared_interval
    from unseen.stats.correlation import slope_interval as slope_interval
    from unseen.stats.decision import Candidate as Candidate
    from unseen.stats.decision import Decision as Decision
    from unseen.stats.decision import decide as decide
    from unseen.stats.decision import holm as holm
    from unseen.stats.difference import paired_difference as paired_difference
    from unseen.stats.difference import unpaired_difference as unpaired_difference
    from unseen.stats.difference import welch_difference as welch_difference
    from unseen.stats.interval import Difference as Difference
    from unseen.stats.interval import Interval as Interval
    from unseen.stats.means import accuracy_interval as accuracy_interval
    from unseen.stats.means import class_interval as class_interval
    from unseen.stats.means import combine_intervals as combine_intervals
    from unseen.stats.means import harmonic_mean_interval as harmonic_mean_interval
    from unseen.stats.means import mean_interval as mean_interval
    from unseen.stats.means import mean_of_intervals as mean_of_intervals
    from unseen.stats.means import median_outcomes as median_outcomes
    from unseen.stats.means import needed_classes as needed_classes
    from unseen.stats.means import per_class_interval as per_class_interval
    from unseen.stats.means import resampling_scale as resampling_scale
    from unseen.stats.means import split_interval as split_interval
    from unseen.stats.resampling import bootstrap as bootstrap
else:
    __all__, __getattr__, __dir__ = lazy_exports(__name__)
