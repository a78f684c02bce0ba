"""The expected accuracy of candidates, from cross-validated outcomes on the same images.

Paper:      Nadeau & Bengio, "Inference for the generalization error", Machine Learning 2003
Shapes:     outcomes (n,) per candidate: 1 or 0 (right or wrong), or a score, of each image when its fold was held out
Implements: an interval for the accuracy of the final fit on new images, and the candidates that `stats.decide` takes
Differs:    standard errors are larger than those over independent images, because the fits of cross-validation share
            training images and the final fit is another one. Over 200 simulated data sets of each of five kinds (200
            to 1,000 images, 5 to 30 classes) a value varied 1.1 (1,000 images) to 1.4 times (200) as much about the
            accuracy on new images as the held-out images alone imply, and a difference of two equal candidates about
            1.2 times as much: `spread` and SCATTER. bench/rank_calibration.py measures what follows from them
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from unseen.benchmarks.rank.details import RankDetails
from unseen.benchmarks.rank.scoring import read_hits
from unseen.core.records import Result
from unseen.stats import Candidate, Interval
from unseen.stats.means import estimate_mean, share_interval, t_interval

FloatArray = npt.NDArray[np.float64]

#: Factor on the standard error of a difference of two candidates.
SCATTER = 1.25
#: Factor on the standard error of a value: it grows for few images, with which the fit and its penalty vary as well.
SPREAD, FEW = 1.1, 45.0
LEVEL = 0.95


def spread(images: int) -> float:
    """Return the factor on the standard error of a value."""
    return SPREAD + FEW / max(images, 100)


def expected_interval(outcomes: npt.ArrayLike) -> Interval:
    """Return the expected value on new images with its 95 % confidence interval."""
    values = np.asarray(outcomes, np.float64)
    n = len(values)
    scale, mean = spread(n), estimate_mean(values)
    if values.min() >= 0 and values.max() <= 1:
        return share_interval(replace(mean, variance=mean.variance * scale**2, size=mean.size / scale**2), n, LEVEL)
    error = math.sqrt(mean.variance) * scale
    return t_interval(mean.value, error, n - 1, n=n, level=LEVEL, method="Student's t, widened")


def rank_candidate(results: Sequence[Result], metric: str) -> Candidate | None:
    """Return the expected accuracy of one result with its interval and outcomes; None for any other score."""
    details = RankDetails.read(results[0].details)
    if metric != "score" or len(results) > 1 or not details.hits:
        return None
    return estimates({"": read_hits(details.hits)})[""]


def estimates(hits: Mapping[str, FloatArray]) -> dict[str, Candidate]:
    """Return the candidates of a decision, by name, over the images for which every candidate has an outcome."""
    if not hits:
        return {}
    rows = np.stack(list(hits.values()))
    rows = rows[:, np.isfinite(rows).all(axis=0)]
    return {
        name: Candidate(row, expected_interval(row), units="held-out images", error_scale=SCATTER)
        for name, row in zip(hits, rows, strict=True)
    }
