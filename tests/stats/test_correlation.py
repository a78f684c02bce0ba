"""Correlations against scipy, and their intervals against removing points one by one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau, pearsonr, spearmanr, t

from unseen.core.errors import DataError
from unseen.stats import correlation_interval, kendall_tau

REFERENCES: dict[str, Callable[..., Any]] = {"pearson": pearsonr, "spearman": spearmanr, "kendall": kendalltau}


@pytest.mark.parametrize("kind", REFERENCES)
def test_values_and_limits(kind: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=24).round(1)  # with ties
    y = (x + rng.normal(size=24)).round(1)
    found = correlation_interval(x, y, kind=kind)
    assert found.value == pytest.approx(REFERENCES[kind](x, y).statistic)
    scores = [math.atanh(REFERENCES[kind](np.delete(x, i), np.delete(y, i)).statistic) for i in range(24)]
    error = math.sqrt(23 / 24 * sum((z - np.mean(scores)) ** 2 for z in scores))
    half = t.ppf(0.975, 22) * error
    assert found.low == pytest.approx(math.tanh(math.atanh(found.value) - half))
    assert found.high == pytest.approx(math.tanh(math.atanh(found.value) + half))
    assert found.p == pytest.approx(2 * t.sf(abs(math.atanh(found.value)) / error, 22))
    swapped = correlation_interval(-y, x, kind=kind)
    assert (swapped.low, swapped.high) == pytest.approx((-found.high, -found.low))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=20))
def test_tau_is_that_of_scipy(points: list[tuple[int, int]]) -> None:
    x, y = np.array(points, float).T
    assert kendall_tau(x, y) == pytest.approx(kendalltau(x, y).statistic, nan_ok=True)


def test_tau_of_many_points_in_blocks() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 700))
    assert kendall_tau(x, y) == pytest.approx(kendalltau(x, y).statistic)
    assert kendall_tau(np.arange(9), np.arange(9)) == 1.0
    with pytest.raises(DataError, match="equal length"):
        kendall_tau([1, 2], [1, 2, 3])


def test_no_interval_where_none_can_be_given() -> None:
    few = correlation_interval([1, 2, 3, 4], [1, 3, 2, 4], kind="kendall")
    assert few.value == pytest.approx(2 / 3) and not few.known and "10 points" in few.reason
    constant = correlation_interval(np.ones(12), np.arange(12))
    assert math.isnan(constant.value) and "constant" in constant.reason
    perfect = correlation_interval(np.arange(12), np.arange(12) ** 3, kind="spearman")
    assert perfect.value == 1 and not perfect.known
    with pytest.raises(DataError, match="equal length"):
        correlation_interval([1, 2], [1, 2, 3])


def test_rho_of_many_points_leaves_out_groups() -> None:
    rng = np.random.default_rng(1)
    x, noise = rng.normal(size=(2, 2000))
    found = correlation_interval(x, x + noise, kind="spearman")
    assert found.value == pytest.approx(spearmanr(x, x + noise).statistic)
    assert found.high - found.low == pytest.approx(2 * 1.96 * (1 - found.value**2) * 1.06 / math.sqrt(2000), rel=0.2)
