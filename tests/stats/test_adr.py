"""The exact coverage of four intervals of a share, as ADR 23 prints it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta, binom, binomtest

from unseen.stats.means import mid_p_limits

TEXT = (Path(__file__).parents[2] / "docs" / "adr" / "0023-intervals-and-decision.md").read_text(encoding="utf-8")
ROWS = re.findall(r"\| ([\d,]+), (0\.\d+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", TEXT)


def covered(limits: list[tuple[float, float]], accuracy: float) -> float:
    count = len(limits) - 1
    inside = np.array([low <= accuracy <= high for low, high in limits])
    return 100 * float(binom.pmf(np.arange(count + 1), count, accuracy)[inside].sum())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_coverage(row: tuple[str, ...]) -> None:
    count, accuracy = int(row[0].replace(",", "")), float(row[1])
    near = [r for r in range(count + 1) if binom.pmf(r, count, accuracy) > 1e-9]

    def limits(method: str, right: int) -> tuple[float, float]:
        if right not in near:
            return 2.0, 2.0
        if method == "mid-P":
            return mid_p_limits(float(right), float(count), 0.95)
        if method == "jeffreys":
            low, high = beta.ppf([0.025, 0.975], right + 0.5, count - right + 0.5)
            return 0.0 if right == 0 else float(low), 1.0 if right == count else float(high)
        found = binomtest(right, count).proportion_ci(method=method)
        return found.low, found.high

    for method, printed in zip(("wilson", "exact", "jeffreys", "mid-P"), row[2:], strict=True):
        expected = covered([limits(method, right) for right in range(count + 1)], accuracy)
        assert float(printed) == pytest.approx(expected, abs=0.06), method


def test_all_rows_were_read() -> None:
    assert len(ROWS) == 7
