"""Schedules against the text of Appendix I."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unseen.core.errors import UsageError
from unseen.probes.solvers import StepSchedule, default_warmup


def test_steps_down_by_ten_after_a_third_two_thirds_and_shortly_before_the_end() -> None:
    schedule = StepSchedule(3000)
    assert [schedule.factor(s) for s in (0, 999)] == [1.0, 1.0]
    assert [schedule.factor(s) for s in (1000, 1999)] == pytest.approx([0.1, 0.1])
    assert [schedule.factor(s) for s in (2000, 2699)] == pytest.approx([0.01, 0.01])
    assert [schedule.factor(s) for s in (2700, 2999)] == pytest.approx([0.001, 0.001])


def test_warm_up_is_linear_and_reaches_the_full_rate() -> None:
    schedule = StepSchedule(300, warmup=10)
    assert [schedule.factor(s) for s in range(10)] == pytest.approx([k / 10 for k in range(10)])
    assert schedule.factor(10) == 1.0


def test_the_warm_up_is_that_of_the_authors_script() -> None:
    assert [default_warmup(steps) for steps in (1000, 2500, 10_000)] == [80, 200, 800]


@given(st.integers(1, 5000))
def test_after_the_warm_up_the_rate_never_rises(steps: int) -> None:
    schedule = StepSchedule(steps, default_warmup(steps))
    factors = [schedule.factor(s) for s in range(schedule.warmup, steps)]
    assert all(a >= b for a, b in pairwise(factors))
    assert all(0 < f <= 1 for f in factors)


@pytest.mark.parametrize("arguments", [(0, 0), (10, 11), (10, -1)])
def test_impossible_schedules_are_refused(arguments: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match="steps"):
        StepSchedule(*arguments)
