"""Which candidates may be the best: paired differences on the same images, corrected for how many are compared.

Papers:     Hsu, "Simultaneous confidence intervals for all distances from the best", Annals of Statistics 1981 [H];
            Nadeau & Bengio, "Inference for the generalization error", Machine Learning 2003 [N]
Shapes:     v (m, k) what each of m images, left out in turn, says of each of k candidates; its mean is their value
Implements: candidate i cannot be the best where another leads it by more than q_i standard errors of their paired
            difference, q_i being the 97.5 % point of the greatest of its k - 1 standardised differences when all are
            equal [H]: 1.96 for two candidates. A lead is clear where nobody else may be the best.
Differs:    from [H]: the joint distribution is that of the images, drawn 4,000 times from a normal distribution with
            the covariance of v, and not that of independent samples. Standard errors are more than those of the
            images alone: images left out in turn share their training images [N], and the final fit is another one.
            Over 200 drawn data sets of each of five kinds (200 to 1,000 images, 5 to 30 classes) a value scattered 1.1
            (1,000 images) to 1.4 times (200) as much about the accuracy on fresh images as its left-out images say, a
            difference of two equal candidates about 1.2 times as much: `spread` and SCATTER. bench/rank_calibration.py
            checks what comes of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

#: Draws of the joint distribution of all values.
DRAWS = 4000
#: Probability that the best candidate is not among those that may be the best.
RISK = 0.025
#: What standard errors over left-out images are multiplied by: of a difference, and of a value by itself, which is more
#: for few images: with them the fit itself, and the penalty that is chosen, are a matter of chance.
SCATTER = 1.25
SPREAD, FEW = 1.1, 45.0
_QUANTILE = 1.96


@dataclass(frozen=True, eq=False)
class Leads:
    """Values of candidates and what can be said of their order.

    Attributes:
        values: (k,) means over images.
        errors: (k,) standard errors.
        may_be_best: (k,) whether no other candidate leads it by more than chance would.
        behind: (k, 3) distance to the candidate with the greatest value, and its simultaneous interval.
        shares: (k,) share of draws around the values in which it comes first; equals share.
    """

    values: FloatArray
    errors: FloatArray
    may_be_best: npt.NDArray[np.bool_]
    behind: FloatArray
    shares: FloatArray

    @property
    def clear(self) -> bool:
        """Whether one candidate alone may be the best."""
        return int(self.may_be_best.sum()) == 1


def find_leads(parts: npt.ArrayLike, *, seed: int = 0) -> Leads:
    """What images say of candidates, jointly.

    Args:
        parts: (m, k) per image and candidate, the same images for all; those with a NaN are left out.
        seed: of the draws.
    """
    v = np.asarray(parts, dtype=np.float64)
    v = v[np.isfinite(v).all(axis=1)]
    images, count = v.shape
    values = v.mean(axis=0)
    away = v - values
    covariance = SCATTER**2 * (away.T @ away / images + _prior(values, images)) / images
    errors = np.sqrt(np.diag(covariance)) * spread(images) / SCATTER
    generator = np.random.default_rng(np.random.SeedSequence([seed, 16]))
    draws = generator.multivariate_normal(np.zeros(count), covariance, size=DRAWS, method="eigh")
    best = int(values.argmax())
    able = np.ones(count, bool)
    behind = np.zeros((count, 3))
    for i in range(count):
        error = np.sqrt(np.maximum(covariance[i, i] + np.diag(covariance) - 2 * covariance[i], 0.0))
        others = np.flatnonzero((np.arange(count) != i) & (error > 1e-12))
        if len(others):
            standard = (draws[:, others] - draws[:, [i]]) / error[others]
            critical = max(float(np.quantile(standard.max(axis=1), 1 - RISK)), _QUANTILE)
            able[i] = not ((values[others] - values[i]) / error[others] > critical).any()
            half = critical * error[best]
            behind[i] = values[best] - values[i], values[best] - values[i] - half, values[best] - values[i] + half
    able[best] = True
    drawn = values + draws
    first = drawn >= drawn.max(axis=1, keepdims=True) - 1e-12
    shares = (first / first.sum(axis=1, keepdims=True)).mean(axis=0)
    return Leads(values, errors, able, behind, np.asarray(shares))


def spread(images: int) -> float:
    """What the standard error of a value by itself is multiplied by."""
    return SPREAD + FEW / max(images, 100)


def _prior(values: FloatArray, images: int) -> FloatArray:
    """Variance that one more image of even chance adds, for values that are shares: none may be without doubt."""
    inside = bool(((values >= 0) & (values <= 1)).all())
    return np.diag(np.full(len(values), 0.25 / (images + 1))) if inside else np.zeros((len(values), len(values)))


def interval(value: float, error: float) -> tuple[float, float]:
    """95 % interval of a value, within 0 and 1 where the value is."""
    low, high = value - _QUANTILE * error, value + _QUANTILE * error
    return (max(low, 0.0), min(high, 1.0)) if 0.0 <= value <= 1.0 else (low, high)


def expectation(parts: npt.ArrayLike) -> tuple[float, float]:
    """Mean over images and its standard error, of one candidate."""
    found = find_leads(np.asarray(parts)[:, None])
    value, error = float(found.values[0]), float(found.errors[0])
    return value, error if math.isfinite(error) else 0.0
