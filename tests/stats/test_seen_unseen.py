"""AUSUC as a mean of components, against the curve and a double loop."""

from __future__ import annotations

import numpy as np
import pytest

from unseen.core.errors import DataError
from unseen.metrics import seen_unseen_curve
from unseen.stats import area_components, seen_unseen_area_interval

Arguments = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def sample(seed: int, images: int = 60, *, infinite: bool = False) -> Arguments:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 8, images)
    labels[:8] = np.arange(8)
    seen = labels < 5
    leads = (seen + rng.normal(size=images)).round(1)  # with ties
    if infinite:
        leads[rng.random(images) < 0.2] = np.inf
        leads[rng.random(images) < 0.2] = -np.inf
    return leads, rng.random(images) < 0.8, labels, seen


@pytest.mark.parametrize("infinite", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_both_means_of_the_components_are_the_area(seed: int, infinite: bool) -> None:
    leads, right, labels, seen = sample(seed, infinite=infinite)
    area = seen_unseen_curve(leads, right, labels, seen).area
    components = area_components(leads, right, labels, seen)
    for side in (seen, ~seen):
        means = [components[side & (labels == c)].mean() for c in np.unique(labels[side])]
        assert np.mean(means) == pytest.approx(area, abs=1e-12)
    assert seen_unseen_area_interval(leads, right, labels, seen).value == pytest.approx(area, abs=1e-12)


def test_components_are_those_of_a_double_loop() -> None:
    leads, right, labels, seen = sample(9, 30)
    kinds = zip(labels, seen, strict=True)
    weight = np.array([1 / (labels == c).sum() / len(np.unique(labels[seen == s])) for c, s in kinds])
    for i, found in enumerate(area_components(leads, right, labels, seen)):
        expected = 0.0
        for j in np.flatnonzero(seen != seen[i]):
            low, high = (leads[i], leads[j]) if seen[j] else (leads[j], leads[i])
            expected += right[i] * right[j] * weight[j] * ((low < high) + 0.5 * (low == high))
        assert found == pytest.approx(expected)


def test_the_interval_is_about_that_of_resampling() -> None:
    leads, right, labels, seen = sample(3, 800)
    found = seen_unseen_area_interval(leads, right, labels, seen)
    rng = np.random.default_rng(0)
    groups = [np.flatnonzero(labels == c) for c in range(8)]
    areas = []
    for _ in range(400):
        rows = np.concatenate([rng.choice(g, len(g)) for g in groups])
        areas.append(seen_unseen_curve(leads[rows], right[rows], labels[rows], seen[rows]).area)
    assert found.high - found.low == pytest.approx(2 * 1.96 * np.std(areas), rel=0.12)
    order = rng.permutation(800)
    again = seen_unseen_area_interval(leads[order], right[order], 7 - labels[order], seen[order])
    assert (again.low, again.high) == pytest.approx((found.low, found.high))


def test_a_perfect_curve_is_not_certain() -> None:
    labels = np.repeat(np.arange(6), 4)
    seen = labels < 3
    found = seen_unseen_area_interval(np.where(seen, 1.0, -1.0), np.ones(24), labels, seen)
    assert found.value == 1 and found.low < 0.85 and found.high == 1


def test_both_kinds_of_images_are_needed() -> None:
    with pytest.raises(DataError, match="both kinds"):
        area_components([0.1, 0.2], [1, 1], [0, 1], [True, True])
    with pytest.raises(DataError, match="per image"):
        area_components([0.1, 0.2], [1], [0, 1], [True, False])
