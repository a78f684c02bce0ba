"""What to expect, against scikit-learn and against fresh images."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import label_ranking_average_precision_score, r2_score
from sklearn.model_selection import cross_val_score

from unseen.benchmarks.rank import scoring
from unseen.benchmarks.rank.scoring import expected_accuracy, left_out_hits
from unseen.core.errors import DataError
from unseen.ranking.ridge import FOLDS, PENALTIES, label_parts, left_out_predictions, value_parts


def cloud(images: int, gap: float, seed: int = 0, classes: int = 6, width: int = 20) -> tuple[np.ndarray, np.ndarray]:
    fixed, generator = np.random.default_rng(9), np.random.default_rng(seed)
    labels = generator.integers(classes, size=images)
    means = gap * fixed.normal(size=(classes, width))
    return (means[labels] + generator.normal(size=(images, width))).astype(np.float32), labels


def test_it_is_what_scikit_learn_and_fresh_images_say() -> None:
    features, labels = cloud(600, 0.35)
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    theirs = cross_val_score(LogisticRegression(C=10, max_iter=2000), unit, labels, cv=5).mean()
    found = expected_accuracy(features, labels)
    assert found == pytest.approx(theirs, abs=0.03)
    others, wanted = cloud(5000, 0.35, seed=1)
    model = LogisticRegression(C=10, max_iter=2000).fit(unit, labels)
    fresh = model.score(others / np.linalg.norm(others, axis=1, keepdims=True), wanted)
    assert found == pytest.approx(fresh, abs=0.04)


def test_shuffled_labels_are_at_chance_and_every_image_is_judged_once() -> None:
    features, labels = cloud(400, 0.5)
    shuffled = np.random.default_rng(0).permutation(labels)
    assert expected_accuracy(features, shuffled) == pytest.approx(1 / 6, abs=0.07)
    hits = left_out_hits(features, np.append(labels[:-1], 99))  # the only image of its class is never left out
    assert np.isnan(hits[-1])
    assert set(hits[:-1].tolist()) == {0.0, 1.0}
    with pytest.raises(DataError, match="more images than classes"):
        left_out_hits(features, np.arange(400))


def test_large_problems_go_by_ridge_and_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = cloud(600, 0.5)
    logistic = expected_accuracy(features, labels)
    monkeypatch.setattr(scoring, "LARGEST", 1)
    assert expected_accuracy(features, labels) == pytest.approx(logistic, abs=0.04)
    wide = np.concatenate([features, np.random.default_rng(0).normal(size=(600, 700))], axis=1)
    assert expected_accuracy(wide, labels) > 0.4
    assert expected_accuracy(features, np.random.default_rng(0).permutation(labels)) < 0.3


@pytest.mark.parametrize("width", [8, 300])
def test_ridge_is_that_of_scikit_learn(width: int) -> None:
    generator = np.random.default_rng(0)
    features = generator.normal(size=(120, width))
    values = features[:, :5].sum(axis=1) + generator.normal(size=120)
    folds = np.random.default_rng([0, 5]).permutation(120) % FOLDS
    losses, predictions = [], []
    for penalty in PENALTIES:
        found = np.empty(120)
        for fold in range(FOLDS):
            held = folds == fold
            rows = features[~held] - features[~held].mean(axis=0)
            scale = (rows**2).sum() / min(rows.shape)
            found[held] = Ridge(alpha=penalty * scale).fit(features[~held], values[~held]).predict(features[held])
        losses.append(((found - values) ** 2).mean())
        predictions.append(found)
    best = predictions[int(np.argmin(losses))]
    np.testing.assert_allclose(left_out_predictions(features, values[:, None])[:, 0], best, atol=1e-6)
    assert value_parts(features, values).mean() == pytest.approx(r2_score(values, best), abs=1e-6)


def test_several_labels_by_scikit_learn() -> None:
    generator = np.random.default_rng(0)
    features = generator.normal(size=(150, 10))
    targets = (features[:, :4] + 0.5 * generator.normal(size=(150, 4)) > 0.3).astype(float)
    scores = left_out_predictions(features, targets)
    expected_value = label_ranking_average_precision_score(targets, scores)
    assert label_parts(features, targets).mean() == pytest.approx(expected_value, abs=1e-9)
    with pytest.raises(DataError, match="0 and 1"):
        label_parts(features, targets + 0.5)
    with pytest.raises(DataError, match="constant"):
        value_parts(features, np.ones(150))
    with pytest.raises(DataError, match="too few"):
        value_parts(features[:5], np.arange(5))
