"""The seen-unseen curve against a sweep over thresholds, and by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unseen.core.errors import DataError
from unseen.metrics import (
    SeenUnseenCurve,
    seen_unseen_area_interval,
    seen_unseen_curve,
    seen_unseen_outcomes,
)


def naive(scores: np.ndarray, labels: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ts and tr by a plain arg-max at every constant that can make a difference."""
    leads = [max(row[seen]) - max(row[~seen]) for row in scores]
    edges = sorted({lead for lead in leads if np.isfinite(lead)})
    between = [a + (b - a) / 2 for a, b in pairwise(edges)]
    tried = [edges[0] - 1, *between, edges[-1] + 1] if edges else [0.0]
    points = []
    for gamma in tried:
        found = np.array([int(np.argmax([s - gamma * k for s, k in zip(row, seen, strict=True)])) for row in scores])
        shares = {c: np.mean(found[labels == c] == c) for c in np.unique(labels)}
        points.append([np.mean([v for c, v in shares.items() if seen[c] == side]) for side in (False, True)])
    ts, tr = np.array(points).T
    return ts, tr


def curve_of(scores: np.ndarray, labels: np.ndarray, seen: np.ndarray) -> SeenUnseenCurve:
    leads, right = seen_unseen_outcomes(scores, labels, np.arange(len(seen)), seen)
    return seen_unseen_curve(leads, right, labels, seen[labels])


def area(ts: np.ndarray, tr: np.ndarray) -> float:
    total, before = 0.0, (0.0, tr[0])
    for x, y in zip(ts, tr, strict=True):
        total += (x - before[0]) * (y + before[1]) / 2
        before = (x, y)
    return total


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000), st.integers(6, 60), st.booleans(), st.booleans())
def test_it_is_the_sweep(seed: int, images: int, ties: bool, ruled_out: bool) -> None:
    rng = np.random.default_rng(seed)
    seen = np.array([True, True, False, True, False])
    labels = np.concatenate([[0, 2], rng.integers(0, 5, images)])
    scores = rng.normal(size=(len(labels), 5))
    scores[np.arange(len(labels)), labels] += 1
    if ties:
        scores = np.round(2 * scores) / 2
        # Equal leads stay; equal scores, which arg-max breaks by place, do not. Powers of two, so that nothing rounds.
        scores += np.arange(5) / 4096
    if ruled_out:
        scores[:2] = np.where(seen == (np.arange(2) == 0)[:, None], scores[:2], -np.inf)
    ts, tr = naive(scores, labels, seen)
    found = curve_of(scores, labels, seen)
    np.testing.assert_allclose(found.ts, ts, atol=1e-12)
    np.testing.assert_allclose(found.tr, tr, atol=1e-12)
    assert found.area == pytest.approx(area(ts, tr), abs=1e-9)
    assert len(found.gamma) == len(found.ts) - 1


def test_by_hand() -> None:
    """Two images of each kind; the classifier is always right among the own kind."""
    perfect = seen_unseen_curve([-1, -2, 3, 4], [True] * 4, [5, 5, 0, 0], [False, False, True, True])
    assert perfect.area == pytest.approx(1.0)
    hard = seen_unseen_curve([-np.inf, np.inf, np.inf, -np.inf], [True] * 4, [5, 5, 0, 0], [False, False, True, True])
    np.testing.assert_array_equal([hard.ts, hard.tr], [[0.5], [0.5]])  # no constant moves what is ruled out
    assert hard.area == pytest.approx(0.25)
    backwards = seen_unseen_curve([3, 4, -1, -2], [True] * 4, [5, 5, 0, 0], [False, False, True, True])
    assert backwards.area == pytest.approx(0.0)


def test_blocks_give_the_same() -> None:
    rng = np.random.default_rng(0)
    seen, labels = np.arange(20) < 15, rng.integers(0, 20, 3000)
    scores = rng.normal(size=(3000, 20))
    whole = seen_unseen_outcomes(scores, labels, np.arange(20), seen)
    parts = [seen_unseen_outcomes(scores[i::7], labels[i::7], np.arange(20), seen) for i in range(7)]
    np.testing.assert_array_equal(np.sort(whole[0]), np.sort(np.concatenate([p[0] for p in parts])))


def test_what_is_refused() -> None:
    with pytest.raises(DataError, match="both kinds"):
        seen_unseen_outcomes(np.zeros((2, 2)), np.array([0, 1]), np.arange(2), np.array([True, True]))
    with pytest.raises(DataError, match="both kinds"):
        seen_unseen_curve([1.0], [True], [0], [True])
    with pytest.raises(DataError, match="equal length"):
        seen_unseen_curve([1.0, 2.0], [True], [0], [True])


@pytest.mark.parametrize("odd", range(4))
def test_every_list_has_one_value_per_image(odd: int) -> None:
    given = [[1.0, -1.0, 2.0], [True, True, False], [0, 5, 0], [True, False, True]]
    assert 0 <= seen_unseen_curve(*given).area <= 1
    for changed in (given[odd][:2], [*given[odd], given[odd][0]], np.stack([given[odd]] * 2)):
        with pytest.raises(DataError, match="equal length"):
            seen_unseen_curve(*given[:odd], changed, *given[odd + 1 :])
    with pytest.raises(DataError, match="equal length"):
        seen_unseen_curve(*(np.stack([each] * 2) for each in given))


def test_the_interval_of_the_area_is_that_of_drawing_images() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 5, 6], [15, 25, 20, 10])
    seen = labels < 5
    leads, right = rng.normal(0.6 * seen, 1), rng.random(70) < 0.7
    drawn = []
    for _ in range(1500):
        rows = np.concatenate([rng.choice(np.flatnonzero(labels == c), (labels == c).sum()) for c in np.unique(labels)])
        drawn.append(seen_unseen_curve(leads[rows], right[rows], labels[rows], seen[rows]).area)
    found = seen_unseen_area_interval(leads, right, labels, seen)
    assert found.value == pytest.approx(seen_unseen_curve(leads, right, labels, seen).area)
    wanted = np.quantile(drawn, [0.025, 0.975])
    np.testing.assert_allclose([found.low, found.high], wanted, atol=0.03)
