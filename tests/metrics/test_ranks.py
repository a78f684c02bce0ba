"""Ranks, Friedman and Nemenyi against scipy and printed tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import f, friedmanchisquare, ttest_rel

from unseen.core.errors import DataError
from unseen.metrics import friedman_test, nemenyi_difference, paired_t_test, rank_methods


def names(k: int) -> list[str]:
    return [f"m{i}" for i in range(k)]


def test_by_hand() -> None:
    table = rank_methods(["a", "b", "c"], [[3, 1, 2], [9, 9, 2], [1, 1, 5]])
    assert table.methods == ("b", "c", "a")
    np.testing.assert_allclose(table.mean_ranks, [(1 + 1 + 2.5) / 3, (3 + 2.5 + 1) / 3, (2 + 2.5 + 2.5) / 3])
    assert table.counts.tolist() == [[2, 1, 0], [1, 1, 1], [0, 3, 0]]
    assert table.place("c") == 2


@settings(max_examples=60)
@given(arrays(np.float64, st.tuples(st.integers(3, 6), st.integers(3, 8)), elements=st.integers(0, 9).map(float)))
def test_friedman_is_scipys(values: np.ndarray) -> None:
    found = friedman_test(rank_methods(names(len(values)), values))
    if all(len(set(column)) == 1 for column in values.T):
        assert found.p_value == 1.0
        return
    wanted = friedmanchisquare(*values)
    assert found.statistic == pytest.approx(wanted.statistic)
    assert found.p_value == pytest.approx(wanted.pvalue)


@given(arrays(np.float64, (4, 6), elements=st.floats(0, 1)))
def test_ranks_add_up_and_do_not_mind_the_order(values: np.ndarray) -> None:
    table = rank_methods(names(4), values)
    np.testing.assert_allclose(table.ranks.sum(0), 10)
    assert (table.counts.sum(1) == 6).all()
    turned = rank_methods(names(4)[::-1], values[::-1])
    np.testing.assert_allclose(sorted(turned.mean_ranks), sorted(table.mean_ranks))
    assert (np.diff(table.mean_ranks) >= 0).all()


@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (5, 2.728), (10, 3.164)])
def test_nemenyi_has_the_constants_of_demsar(k: int, q: float) -> None:
    """Table 5 (a) of Demsar, JMLR 2006."""
    assert nemenyi_difference(k, 14) == pytest.approx(q * np.sqrt(k * (k + 1) / (6 * 14)), rel=1e-3)


def test_paired_t_test_is_scipys() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=12), rng.normal(size=12)
    found, wanted = paired_t_test(a, b), ttest_rel(a, b)
    assert (found.statistic, found.p_value, found.pairs) == (wanted.statistic, wanted.pvalue, 12)


def test_rubbish() -> None:
    with pytest.raises(DataError, match="gaps"):
        rank_methods(["a", "b"], [[1, np.nan], [1, 2]])
    with pytest.raises(DataError, match="at least 2 rows"):
        rank_methods(["a"], [[1, 2]])
    with pytest.raises(DataError, match="3 methods"):
        friedman_test(rank_methods(["a", "b"], [[1, 2], [2, 1]]))
    with pytest.raises(DataError, match="equal length"):
        paired_t_test([1, 2], [1])


def test_the_f_of_friedman_is_that_of_a_two_way_analysis_of_variance() -> None:
    """Iman and Davenport: the F test of methods, with observations as blocks, over the ranks."""
    table = rank_methods(names(4), np.random.default_rng(0).normal(size=(4, 9)) + np.arange(4)[:, None])
    k, n = table.ranks.shape
    between = n * ((table.ranks.mean(1) - table.ranks.mean()) ** 2).sum()
    blocks = k * ((table.ranks.mean(0) - table.ranks.mean()) ** 2).sum()
    error = ((table.ranks - table.ranks.mean()) ** 2).sum() - between - blocks
    wanted = (between / (k - 1)) / (error / ((k - 1) * (n - 1)))
    found = friedman_test(table)
    assert found.f_statistic == pytest.approx(wanted)
    assert found.f_p_value == pytest.approx(f.sf(wanted, k - 1, (k - 1) * (n - 1)))


def test_friedman_of_full_agreement_and_of_none() -> None:
    agreed = friedman_test(rank_methods(names(3), np.tile([[3.0], [2.0], [1.0]], 5)))
    assert (agreed.statistic, agreed.f_statistic, agreed.f_p_value) == (pytest.approx(10), np.inf, 0.0)
    tied = friedman_test(rank_methods(names(3), np.ones((3, 5))))
    assert (tied.statistic, tied.p_value, tied.f_statistic, tied.f_p_value) == (0.0, 1.0, 0.0, 1.0)
