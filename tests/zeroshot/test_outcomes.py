"""Outcomes per test image: their means over classes are the metrics, their intervals those of the evaluation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unseen.metrics import harmonic_mean, mean_per_class
from unseen.stats import decide, paired_difference
from unseen.zeroshot import CMTStar, Problem, evaluate_method
from unseen.zeroshot.outcomes import ImageOutcomes, zeroshot_candidate

GRID = [{"gamma": 0, "lam": 0}]


def drawn(rng: np.random.Generator, ts: float = 0.4, tr: float = 0.8, images: int = 20) -> ImageOutcomes:
    unseen, seen = rng.integers(2, images, 4), rng.integers(2, images, 9)
    right = [rng.random(n.sum()) < share for n, share in ((unseen, 0.5), (unseen, ts), (seen, tr))]
    return ImageOutcomes(right[0], right[1], right[2], unseen, seen)


def h_of(outcomes: ImageOutcomes) -> float:
    return harmonic_mean(
        *(mean_per_class(outcomes.labels(name), getattr(outcomes, name)) for name in ("ts", "tr")),
    )


def test_means_over_classes_are_the_metrics(small_problem: Problem) -> None:
    found = evaluate_method("ESZSL", small_problem, grid=GRID)
    assert found.outcomes is not None
    for name in ("zsl", "ts", "tr", "H"):
        values = found.outcomes.values(name)
        assert values is not None
        assert mean_per_class(found.outcomes.labels(name), values) == pytest.approx(found.metrics[name])
    for name in ("zsl", "ts", "tr", "zsl_per_image", "tr_per_image"):
        candidate = zeroshot_candidate([found.outcomes], name)
        assert candidate is not None and candidate.interval is not None
        assert candidate.interval == found.intervals[name]
    assert zeroshot_candidate([found.outcomes], "zsl_top5") is None


def test_influence_values_have_the_variance_of_h() -> None:
    """The spread of H over new images of the same classes is the standard error that its per-image values give."""
    rng = np.random.default_rng(0)
    outcomes = replace(drawn(rng), unseen_counts=np.array([30, 40, 50, 60]), seen_counts=np.array([40, 60, 80]))
    means = {"ts": [0.1, 0.3, 0.5, 0.2], "tr": [0.9, 0.7, 0.6]}
    found, errors = [], []
    for _ in range(400):
        right = {
            name: rng.random(len(outcomes.labels(name))) < np.array(shares)[outcomes.labels(name)]
            for name, shares in means.items()
        }
        again = replace(outcomes, ts=right["ts"], tr=right["tr"])
        values = again.values("H")
        assert values is not None
        found.append(h_of(again))
        errors.append(paired_difference(values, np.zeros_like(values), labels=again.labels("H")))
    stated = np.mean([(each.high - each.low) / (2 * 1.96) for each in errors])
    assert np.std(found) == pytest.approx(stated, rel=0.12)


def test_methods_are_compared_image_by_image() -> None:
    """Methods that differ on few images are compared by these, not by their overlapping intervals."""
    rng = np.random.default_rng(1)
    first = replace(drawn(rng), unseen_counts=np.full(10, 40), zsl=np.arange(400) % 2 == 0)
    second = replace(first, zsl=first.zsl & ~(np.arange(400) % 20 == 0))
    candidates = {
        name: zeroshot_candidate([each], "zsl", "images") for name, each in (("first", first), ("second", second))
    }
    decision = decide({name: each for name, each in candidates.items() if each is not None})
    assert decision.pairs["first", "second"].paired
    assert decision.best == "first"
    intervals = [each.interval for each in candidates.values() if each is not None and each.interval is not None]
    assert intervals[0].low < intervals[1].high, "the intervals overlap"


def test_all_wrong_and_no_seen_images() -> None:
    rng = np.random.default_rng(2)
    wrong = drawn(rng, ts=0.0, tr=0.0)
    values = wrong.values("H")
    assert values is not None
    assert not values.any()
    alone = replace(wrong, tr=np.empty(0, bool), seen_counts=np.empty(0, np.int64))
    assert alone.values("H") is None is alone.values("tr")


def test_a_method_that_rules_classes_out_has_no_area(small_problem: Problem) -> None:
    found = evaluate_method(CMTStar(epochs=2), small_problem, grid=[{}])
    assert "AUSUC" not in found.metrics
    assert "H" in found.metrics
