"""Quantiles and tail probabilities of the normal and of Student's t distribution, without importing scipy.stats."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

_NORMAL = NormalDist()


def normal_quantile(probability: float) -> float:
    """Return the quantile of the standard normal distribution."""
    return _NORMAL.inv_cdf(probability)


def normal_p(z: float) -> float:
    """Return the two-sided p-value of a standard normal statistic."""
    return math.erfc(abs(z) / math.sqrt(2))


@lru_cache(maxsize=4096)
def t_quantile(probability: float, freedom: float) -> float:
    """Return the quantile of Student's t distribution."""
    if math.isinf(freedom):
        return normal_quantile(probability)
    from scipy.special import stdtrit

    return float(stdtrit(freedom, probability))


def t_p(statistic: float, freedom: float) -> float:
    """Return the two-sided p-value of a t statistic."""
    if math.isinf(freedom):
        return normal_p(statistic)
    from scipy.special import stdtr

    return float(2 * stdtr(freedom, -abs(statistic)))
