"""The decision rule: order, pairs, who may be the best, and what it does without outcomes."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unseen.core.errors import DataError
from unseen.stats import (
    Candidate,
    Decision,
    Interval,
    accuracy_interval,
    area_components,
    decide,
    holm,
    paired_difference,
    per_class_interval,
    seen_unseen_area_interval,
    unpaired_difference,
)


def sample(seed: int, images: int, *accuracies: float) -> dict[str, np.ndarray]:
    """Candidates that agree on most images."""
    rng = np.random.default_rng(seed)
    common, shared = rng.random(images), rng.random(images) < 0.8
    return {
        chr(97 + i): np.where(shared, common, rng.random(images)) < accuracy for i, accuracy in enumerate(accuracies)
    }


def test_pairs_are_paired_differences_after_holm() -> None:
    given = sample(0, 400, 0.8, 0.75, 0.6, 0.78)
    found = decide(given)
    assert found.order == tuple(sorted(given, key=lambda name: (-given[name].mean(), name)))
    pairs = list(combinations(found.order, 2))
    raw = [paired_difference(given[a], given[b]) for a, b in pairs]
    for pair, one, p in zip(pairs, raw, holm([r.p for r in raw]), strict=True):
        difference = found.pairs[pair]
        assert (difference.value, difference.low, difference.high) == (one.value, one.low, one.high)
        assert (difference.p, difference.adjusted_p) == (pytest.approx(one.p), pytest.approx(p))
        assert difference.significant == (p < 0.05)
        reverse = found.pairs[pair[::-1]]
        assert (reverse.value, reverse.significant) == (-difference.value, difference.significant)
    assert set(found.pairs) == {(a, b) for a in given for b in given if a != b} and len(found.pairs) == 12
    assert found.intervals["a"] == accuracy_interval(given["a"])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1000), st.floats(0.5, 0.95), st.floats(-0.2, 0.2), st.sampled_from([0.9, 0.95]))
def test_two_candidates_are_decided_alike_everywhere(seed: int, accuracy: float, gap: float, level: float) -> None:
    found = decide(sample(seed, 120, accuracy, accuracy - gap), level=level)
    first, second = found.order
    pair = found.pairs[first, second]
    assert pair.significant == (0.0 not in pair)
    assert pair.significant == (found.possibly_best == (first,))
    assert found.places == ({first: (1, 1), second: (2, 2)} if pair.significant else {first: (1, 2), second: (1, 2)})
    assert found.mark(first) == ("best" if pair.significant else "tied")
    assert found.best == (first if pair.significant else None)
    assert (found.behind[second].low, found.behind[second].high) == (pair.low, pair.high)


def test_names_and_the_order_of_candidates_and_images_do_not_matter() -> None:
    given = sample(3, 300, 0.8, 0.7, 0.79, 0.5)
    found = decide(given)
    order = np.random.default_rng(0).permutation(300)
    again = decide({name: given[name][order] for name in reversed(given)})
    assert (again.order, again.possibly_best, again.places) == (found.order, found.possibly_best, found.places)
    renamed = decide({name.upper(): rows for name, rows in given.items()})
    assert renamed.order == tuple(name.upper() for name in found.order)


def test_who_may_be_the_best_is_that_of_a_naive_simulation() -> None:
    """Hsu's quantile from other random numbers, in a loop over images."""
    given = sample(8, 250, 0.75, 0.72, 0.70, 0.66, 0.60, 0.45)
    found = decide(given)
    names = found.order
    rows = np.stack([given[name] for name in names]).astype(float)
    rng = np.random.default_rng(99)
    for place, name in enumerate(names):
        others = [j for j in range(len(names)) if j != place]
        away = rows[others] - rows[place]
        away -= away.mean(1, keepdims=True)
        errors = np.sqrt((away**2).mean(1))
        largest = [(away @ rng.normal(size=250) / errors / math.sqrt(250)).max() for _ in range(4000)]
        critical = max(1.96, float(np.quantile(largest, 0.975)))
        scores = []
        for j in others:
            p = found.pairs[names[j], name].p
            from scipy.stats import norm

            scores.append(math.copysign(norm.isf(p / 2), found.pairs[names[j], name].value))
        if abs(max(scores) - critical) > 0.1:  # else the two simulations may differ
            beaten = max(scores) > critical or any(
                found.pairs[names[j], name].significant and found.pairs[names[j], name].value > 0 for j in others
            )
            assert (name in found.possibly_best) == (not beaten)
    assert names[0] in found.possibly_best and "f" not in found.possibly_best
    assert sum(found.best_share.values()) == pytest.approx(1)
    assert found.best_share[names[0]] > found.best_share[names[-1]]


def test_limits_behind_the_first_are_wider_than_those_of_one_pair() -> None:
    found = decide(sample(5, 200, 0.8, 0.7, 0.7, 0.7, 0.7))
    first, *others = found.order
    for name in others:
        pair, behind = found.pairs[first, name], found.behind[name]
        assert behind.low < pair.low and behind.high > pair.high
        assert behind.low <= 0 or name not in found.possibly_best


def test_a_clear_winner_a_tie_an_unfinished_and_a_published_candidate() -> None:
    given = sample(1, 1000, 0.85, 0.7)
    tie = given["b"].copy()
    tie[:3] = ~tie[:3]
    found = decide(
        {
            "winner": given["a"],
            "second": given["b"],
            "third": tie,
            "unfinished": Candidate(outcomes=given["a"], complete=False, reason="3 of 19 tasks"),
            "published": 0.6,
            "broken": math.nan,
        }
    )
    assert found.order[0] == "winner" and found.order[-1] == "published"
    assert found.possibly_best == ("winner",) and found.best == "winner"
    assert (found.mark("winner"), found.mark("second"), found.mark("published")) == ("best", "", "")
    assert not found.pairs["second", "third"].significant and found.pairs["winner", "third"].significant
    assert found.incomplete == {"unfinished": "3 of 19 tasks", "broken": "no finite value"}
    assert found.untested == ("published",)
    claim = found.pairs["winner", "published"]
    assert not claim.significant and math.isnan(claim.p) and claim.value == pytest.approx(given["a"].mean() - 0.6)
    assert found.places == {"winner": (1, 1), "second": (2, 3), "third": (2, 3)}


def test_nothing_is_best_behind_a_published_value() -> None:
    given = sample(1, 1000, 0.85, 0.7)
    found = decide({**given, "published": 0.9})
    assert found.order[0] == "published" and found.best is None
    assert {found.mark(name) for name in found.order} == {""}
    assert found.possibly_best == ("a",)


def test_values_alone_are_ordered_without_a_claim() -> None:
    found = decide({"mine": 0.31, "lite1": 0.98, "lite0": 0.97})
    assert found.order == ("lite1", "lite0", "mine")
    assert found.possibly_best == () and found.best is None and not found.places
    assert all(found.mark(name) == "" for name in found.order)
    lower = decide({"x": 3.0, "y": 1.0}, higher_is_better=False)
    assert lower.order == ("y", "x")
    assert decide({}).order == () and decide({"one": [1, 0]}).possibly_best == ()


def test_lower_is_better_mirrors_the_decision() -> None:
    given = {name: row.astype(float) for name, row in sample(2, 500, 0.8, 0.7, 0.5).items()}
    found, mirrored = decide(given), decide({n: 1 - r for n, r in given.items()}, higher_is_better=False)
    assert mirrored.order == found.order and mirrored.possibly_best == found.possibly_best
    assert mirrored.places == found.places
    for name in found.behind:
        assert mirrored.behind[name].value == pytest.approx(found.behind[name].value)
        assert mirrored.behind[name].low == pytest.approx(found.behind[name].low)


def test_different_images_are_compared_by_intervals() -> None:
    given = sample(2, 500, 0.8, 0.7)
    found = decide({"a": given["a"], "b": given["b"][:400]})
    expected = unpaired_difference(accuracy_interval(given["a"]), accuracy_interval(given["b"][:400]))
    assert found.pairs["a", "b"] == expected and not found.pairs["a", "b"].paired
    units = decide({"a": Candidate(given["a"], units="x"), "b": Candidate(given["b"], units="y")})
    assert not units.pairs["a", "b"].paired
    stored = decide({"a": Interval(0.8, 0.7, 0.9), "b": Interval(0.5, 0.4, 0.6)})
    assert stored.best == "a" and stored.behind["b"].low == pytest.approx(0.3 - math.hypot(0.1, 0.1))


def test_classes_with_equal_weight() -> None:
    given = sample(6, 300, 0.8, 0.6)
    labels = np.repeat(np.arange(30), 10)
    found = decide({name: Candidate(own, labels=labels) for name, own in given.items()})
    assert found.intervals["a"] == per_class_interval(given["a"], labels)
    assert found.pairs["a", "b"].value == paired_difference(given["a"], given["b"], labels=labels).value
    assert found.best == "a"


def test_scores_without_bounds_and_a_factor_on_errors() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(size=200)
    given = {"a": base + rng.normal(0.3, 0.5, 200), "b": base, "c": base + rng.normal(0.03, 1, 200)}
    found = decide(given)
    assert found.pairs["a", "b"].method == "paired t" and found.best == "a"

    def scaled_by(scale: float) -> Decision:
        return decide({name: Candidate(own, error_scale=scale) for name, own in given.items()})

    scaled = scaled_by(2)
    assert scaled.pairs["a", "b"].p > found.pairs["a", "b"].p
    assert len(scaled_by(30).possibly_best) == 3


def test_areas_are_compared_image_by_image() -> None:
    """A statistic that is not a mean: its value plus the influence of each image stands for the outcomes."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(20), 15)
    seen = labels < 10
    hidden = rng.normal(size=300)

    def candidate(quality: float) -> Candidate:
        leads = seen * quality + hidden + rng.normal(size=300) / 3
        arguments = leads, rng.random(300) < 0.9, labels, seen
        area = seen_unseen_area_interval(*arguments)
        components = area_components(*arguments)
        return Candidate(outcomes=area.value + 2 * (components - area.value), interval=area, labels=labels)

    found = decide({"good": candidate(2.5), "poor": candidate(0.5)})
    assert found.pairs["good", "poor"].paired and found.best == "good"


def test_outcomes_in_half_precision_agree_with_their_value() -> None:
    exact = np.random.default_rng(0).uniform(0.9990, 0.99995, 40)
    stored = exact.astype(np.float16).astype(np.float64)
    assert abs(stored.mean() - exact.mean()) > 1e-6
    value = float(exact.mean())
    found = decide({"a": Candidate(outcomes=stored, interval=Interval(value, value - 0.01, value + 0.01))})
    assert list(found.order) == ["a"]


def test_contradictions_are_refused() -> None:
    with pytest.raises(DataError, match="the mean 1"):
        decide({"a": Candidate(outcomes=[1, 1], interval=Interval(0.5, 0.4, 0.6)), "b": [1, 0]})
    with pytest.raises(DataError, match="use one level"):
        decide({"a": Interval(0.5, 0.4, 0.6, 0.9)})
    with pytest.raises(DataError, match="give other scores an interval"):
        decide({"a": Candidate([3, 4], labels=[0, 1])})
    with pytest.raises(DataError, match="one entry per image"):
        decide({"a": Candidate([1, 0], labels=[0])})
    with pytest.raises(KeyError):
        decide({"a": [1, 0], "b": [0, 1]}).pairs["a", "c"]


def test_equal_candidates_are_rarely_called_different() -> None:
    found = [decide(sample(seed, 100, 0.7, 0.7, 0.7)) for seed in range(200)]
    assert np.mean([any(d.significant for d in f.pairs.values()) for f in found]) < 0.08
    assert np.mean([f.best is not None for f in found]) < 0.08
    assert np.mean(["a" in f.possibly_best for f in (decide(sample(s, 200, 0.8, 0.7, 0.6)) for s in range(100))]) > 0.95
