"""Aggregation of repeated runs: mean and spread over seeds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from unseen.core.errors import DataError


@dataclass(frozen=True, slots=True)
class SeedSummary:
    """Mean and spread of one value over seeds.

    Attributes:
        std: sample standard deviation (n - 1 in the denominator), 0 for a single run.
        count: how many runs.
    """

    mean: float
    std: float
    count: int

    @property
    def standard_error(self) -> float:
        """Standard error of the mean."""
        return self.std / float(np.sqrt(self.count))


def over_seeds(values: Iterable[float]) -> SeedSummary:
    """Summarise one value per seed."""
    numbers = np.fromiter(values, dtype=np.float64)
    if not len(numbers):
        raise DataError("a summary over seeds needs at least one run; none was given.")
    spread = float(numbers.std(ddof=1)) if len(numbers) > 1 else 0.0
    return SeedSummary(float(numbers.mean()), spread, len(numbers))
