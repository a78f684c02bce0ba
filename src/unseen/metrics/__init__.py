"""Metrics: pure functions over labels, predictions and scores. Fractions in [0, 1]; nothing is rounded here."""

from typing import TYPE_CHECKING

from unseen.core.registry import lazy_exports

if TYPE_CHECKING:
    from unseen.metrics.accuracy import accuracy as accuracy
    from unseen.metrics.accuracy import log_softmax as log_softmax
    from unseen.metrics.accuracy import mean_per_class_accuracy as mean_per_class_accuracy
    from unseen.metrics.accuracy import per_class_accuracy as per_class_accuracy
    from unseen.metrics.accuracy import softmax as softmax
    from unseen.metrics.accuracy import top_k_accuracy as top_k_accuracy
    from unseen.metrics.accuracy import top_k_correct as top_k_correct
    from unseen.metrics.quality import alignment as alignment
    from unseen.metrics.quality import alpha_req as alpha_req
    from unseen.metrics.quality import effective_rank as effective_rank
    from unseen.metrics.quality import rankme as rankme
    from unseen.metrics.quality import uniformity as uniformity
    from unseen.metrics.ranking import kendall_tau as kendall_tau
    from unseen.metrics.ranking import pearson as pearson
    from unseen.metrics.ranking import recall_at_k as recall_at_k
    from unseen.metrics.ranking import relative_accuracy_at_k as relative_accuracy_at_k
    from unseen.metrics.ranking import weighted_tau as weighted_tau
    from unseen.metrics.ranks import Friedman as Friedman
    from unseen.metrics.ranks import PairedTTest as PairedTTest
    from unseen.metrics.ranks import RankTable as RankTable
    from unseen.metrics.ranks import friedman_test as friedman_test
    from unseen.metrics.ranks import nemenyi_difference as nemenyi_difference
    from unseen.metrics.ranks import paired_t_test as paired_t_test
    from unseen.metrics.ranks import rank_methods as rank_methods
    from unseen.metrics.seen_unseen import SeenUnseenCurve as SeenUnseenCurve
    from unseen.metrics.seen_unseen import harmonic_interval as harmonic_interval
    from unseen.metrics.seen_unseen import harmonic_mean as harmonic_mean
    from unseen.metrics.seen_unseen import mean_per_class as mean_per_class
    from unseen.metrics.seen_unseen import mean_per_class_interval as mean_per_class_interval
    from unseen.metrics.seen_unseen import seen_leads as seen_leads
    from unseen.metrics.seen_unseen import seen_unseen_curve as seen_unseen_curve
    from unseen.metrics.seen_unseen import seen_unseen_outcomes as seen_unseen_outcomes
    from unseen.metrics.significance import Comparison as Comparison
    from unseen.metrics.significance import McNemar as McNemar
    from unseen.metrics.significance import SeedSummary as SeedSummary
    from unseen.metrics.significance import bootstrap_interval as bootstrap_interval
    from unseen.metrics.significance import mcnemar as mcnemar
    from unseen.metrics.significance import over_seeds as over_seeds
    from unseen.metrics.significance import paired_bootstrap as paired_bootstrap
    from unseen.metrics.significance import share_interval as share_interval
    from unseen.metrics.significance import welch_comparison as welch_comparison
    from unseen.metrics.significance import wilson_interval as wilson_interval
    from unseen.stats.areas import seen_unseen_area_interval as seen_unseen_area_interval
    from unseen.stats.decision import holm as holm
    from unseen.stats.interval import Interval as Interval
else:
    __all__, __getattr__, __dir__ = lazy_exports(__name__)
