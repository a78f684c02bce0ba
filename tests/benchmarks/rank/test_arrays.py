"""Ranking arrays: classes, values and several labels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from unseen.benchmarks.rank.arrays import kind_of, rank_features
from unseen.core.errors import DataError, UsageError
from unseen.ranking.scores.logme import logme, logme_targets


@pytest.fixture(scope="module")
def arrays() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """A good array, a poor one and a random one of 300 images, and what was hidden in them."""
    generator = np.random.default_rng(0)
    hidden = generator.normal(size=(300, 6))
    noise = [generator.normal(size=(300, width)) for width in (6, 6, 12)]
    return {"good": hidden + 0.3 * noise[0], "poor": hidden + 2.0 * noise[1], "random": noise[2]}, hidden


@pytest.mark.parametrize(
    ("kind", "measure"), [("classes", "accuracy"), ("values", "R2"), ("labels", "precision"), ("two values", "R2")]
)
def test_the_order_and_the_words(arrays: tuple, kind: str, measure: str) -> None:
    features, hidden = arrays
    targets = {
        "classes": hidden[:, :4].argmax(axis=1),
        "values": hidden[:, 0] * 3 + 7,
        "labels": (hidden[:, :5] > 0.5).astype(int),
        "two values": hidden[:, :2],
    }[kind]
    found = rank_features(features, targets)
    assert [c.model for c in found.candidates] == ["good", "poor", "random"]
    assert found.measure == measure
    assert found.clear
    assert found.recommendation.startswith("Fine-tune good: expect")
    assert found.candidates[0].scores["logme"] > found.candidates[2].scores["logme"]
    if measure == "R2":
        assert 0.8 < found.candidates[0].expected < 1.0
        assert abs(found.candidates[2].expected) < 0.1
        assert "expect R² 0.9" in found.recommendation


def test_logme_of_values_is_the_evidence_at_its_maximum() -> None:
    """No alpha and beta give y ~ N(0, 1/beta + F F' / alpha) more density than the fixed point finds."""
    generator = np.random.default_rng(1)
    rows = generator.normal(size=(40, 5))
    values = rows @ generator.normal(size=5) + 0.5 * generator.normal(size=40)
    grid = np.logspace(-3, 3, 25)
    best = max(
        multivariate_normal(np.zeros(40), np.eye(40) / b + rows @ rows.T / a).logpdf(values) / 40
        for a in grid
        for b in grid
    )
    assert best <= logme_targets(rows, values) + 1e-9
    assert logme_targets(rows, values) == pytest.approx(best, abs=0.01)
    labels = (values > 0).astype(int)
    assert logme_targets(rows, np.eye(2)[labels]) == pytest.approx(logme(rows, labels), abs=1e-9)


def test_kinds_of_targets_and_invalid_input(arrays: tuple) -> None:
    features, hidden = arrays
    assert kind_of(np.array(["a", "b"])) == "classes"
    assert kind_of(np.array([1.0, 2.0])) == "classes"
    assert kind_of(np.array([1.5, 2.0])) == "values"
    with pytest.raises(UsageError, match="at least one"):
        rank_features({}, hidden[:, 0])
    with pytest.raises(UsageError, match="needs the model"):
        rank_features(features, hidden.argmax(axis=1), scores=["leep"])
    with pytest.raises(DataError, match="299 targets"):
        rank_features(features, hidden[:299, 0])
    broken = {**features, "broken": np.full((300, 2), np.nan)}
    found = rank_features(broken, hidden[:, 0])
    assert [c.model for c in found.failed] == ["broken"]
    twin = rank_features({"a": features["good"], "b": features["good"].copy()}, hidden[:, 0])
    assert len(twin.equals) == 2 and not twin.clear, "equal features are tied"


@pytest.mark.slow
def test_2500_classes_have_a_whole_answer() -> None:
    """Of 3 images, because the time grows with the square of the rows."""
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(2500), 3)
    centres = generator.normal(size=(2500, 24))
    near, far = (centres[labels] + s * generator.normal(size=(7_500, 24)) for s in (0.5, 0.8))
    found = rank_features({"near": near.astype(np.float32), "far": far.astype(np.float32)}, labels, kind="classes")
    assert found.clear and found.choice is not None and found.choice.model == "near"
    assert (found.images, found.classes) == (7_500, 2500)
    assert all(c.low < c.expected < c.high for c in found.candidates)
    assert found.counted == ("logme", "parc", "knn")
    assert "The lead is significant" in found.recommendation


def test_many_classes_have_an_answer_with_intervals() -> None:
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(250), 4)
    features = generator.normal(size=(250, 16))[labels] + 0.3 * generator.normal(size=(1000, 16))
    found = rank_features({"a": features, "b": generator.normal(size=(1000, 16))}, labels, scores=["logme"])
    assert found.clear and found.choice is not None and found.choice.model == "a"


def test_a_column_of_labels_is_the_labels(arrays: tuple) -> None:
    """(n, 1) is (n,): two classes in a column are no single label that every image has or lacks."""
    features, hidden = arrays
    for targets in ((hidden[:, 0] > 0).astype(int), hidden[:, :5].argmax(axis=1), hidden[:, 0]):
        flat, column = (rank_features(features, each) for each in (targets, targets[:, None]))
        assert column.measure == flat.measure
        assert column.recommendation == flat.recommendation
        assert [c.expected for c in column.candidates] == [c.expected for c in flat.candidates]


def test_rows_without_a_label_do_not_count_as_right() -> None:
    """Noise cannot predict labels, however many rows have none."""
    generator = np.random.default_rng(0)
    noise, labels = generator.normal(size=(200, 8)), np.zeros((200, 4), int)
    labels[np.arange(40), np.arange(40) % 4] = 1
    found = rank_features({"noise": noise}, labels)
    alone = rank_features({"noise": noise[:40]}, labels[:40])
    assert found.candidates[0].expected == alone.candidates[0].expected
    assert found.candidates[0].expected < 0.7
