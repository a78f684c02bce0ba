"""Intervals of functions of independent values: means over tasks, harmonic means.

Paper:      Zou & Donner, "Construction of confidence limits about effect measures: a general approach", Statistics in
            Medicine 2008 [Z] (MOVER)
Implements: [Z] for a function f that increases in every argument: f is evaluated with one argument at a time at its
            lower (upper) limit; the squared distances to the value are added
Differs:    distances of arguments that share images are added before they are squared, since their errors may have
            correlation 1
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError
from unseen.stats.interval import FloatArray, Interval, no_interval, per_image


def combine_intervals(
    function: Callable[[Sequence[float]], float],
    parts: Sequence[Interval],
    *,
    shared: Sequence[str] | None = None,
    method: str = "MOVER",
) -> Interval:
    """Return the interval of an increasing function of several values.

    Args:
        function: increases in every argument.
        parts: its arguments with their intervals, all of one level.
        shared: per part, the images that it is estimated on; by default all parts have different images.
    """
    if not parts or len({part.level for part in parts}) > 1 or (shared is not None and len(shared) != len(parts)):
        raise DataError("a combination needs one interval or more, of one level, and one name of images per interval.")
    values, level, n = [part.value for part in parts], parts[0].level, sum(part.n for part in parts)
    value = float(function(values))
    if not all(part.known for part in parts):
        reason = next(part.reason or "no interval is known" for part in parts if not part.known)
        return no_interval(value, f"a part has no interval: {reason}", level=level, n=n)
    limits = []
    for end in ("low", "high"):
        distances: dict[str, float] = {}
        for i, part in enumerate(parts):
            moved = function([*values[:i], getattr(part, end), *values[i + 1 :]])
            key = str(i) if shared is None else shared[i]
            distances[key] = distances.get(key, 0.0) + abs(moved - value)
        limits.append(math.hypot(*distances.values()))
    return Interval(value, value - limits[0], value + limits[1], level, n, method)


def mean_of_intervals(parts: Sequence[Interval], *, shared: Sequence[str] | None = None) -> Interval:
    """Return the mean over tasks, with the interval over the test images of these tasks.

    For a claim about new tasks give the values of the tasks to `mean_interval`.
    """
    return combine_intervals(lambda values: sum(values) / len(values), parts, shared=shared)


def harmonic_mean_interval(first: Interval, second: Interval) -> Interval:
    """Return the harmonic mean of two accuracies on different images, with its interval."""
    return combine_intervals(lambda pair: _harmonic(*pair), [first, second])


def median_outcomes(correct: npt.ArrayLike) -> FloatArray:
    """Return the per-image outcomes (n,) of the seed with the median accuracy, out of (seeds, n).

    Their mean is the median over seeds. For an even number of seeds it is the mean of the two in the middle.
    """
    rows = np.atleast_2d(np.asarray(correct, np.float64))
    per_image(rows)
    order = np.argsort(rows.mean(axis=1), kind="stable")
    return np.asarray(rows[[order[(len(order) - 1) // 2], order[len(order) // 2]]].mean(axis=0))


def _harmonic(first: float, second: float) -> float:
    return 2 * first * second / (first + second) if first + second > 0 else 0.0
