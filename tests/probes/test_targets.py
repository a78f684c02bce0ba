"""Probes of numbers and of several labels beside scikit-learn's, on held-out rows."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score

from unseen.core.errors import DataError
from unseen.probes import one_vs_rest
from unseen.probes.one_vs_rest import evaluate_one_vs_rest
from unseen.probes.regression import evaluate_regression, explained


def made(n: int = 400, d: int = 24, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    features = (rng.normal(size=(n, d)) * np.linspace(0.2, 3, d)).astype(np.float32)
    return features, features @ rng.normal(size=d) + 3 * rng.normal(size=n) + 500


def test_ridge_is_scikit_learns_at_the_chosen_penalty() -> None:
    features, numbers = made()
    found = evaluate_regression((features[:300], numbers[:300]), features[300:])
    centred = features[:300] - features[:300].mean(0)
    alpha = found.best["regularization"] * 300 * float((centred.astype(np.float64) ** 2).mean(0).mean())
    theirs = Ridge(alpha=alpha).fit(features[:300].astype(np.float64), numbers[:300])
    np.testing.assert_allclose(found.predictions, theirs.predict(features[300:].astype(np.float64)), rtol=1e-6)
    assert np.mean(explained(numbers[300:], found.predictions)) == pytest.approx(
        r2_score(numbers[300:], found.predictions)
    )


def test_the_penalty_of_the_left_out_rows_is_near_the_best_on_others() -> None:
    rng = np.random.default_rng(5)
    features = rng.normal(size=(260, 120)).astype(np.float32)
    numbers = features[:, :5].sum(1) + 2 * rng.normal(size=260)
    train, test = (features[:130], numbers[:130]), features[130:]
    scores = {}
    for penalty in (1e-6, 1e-2, 1e-1, 1.0, 10.0, 1e4):
        one = evaluate_regression(train, test, penalties=[penalty])
        scores[penalty] = r2_score(numbers[130:], one.predictions)
    chosen = r2_score(numbers[130:], evaluate_regression(train, test).predictions)
    assert chosen > max(scores.values()) - 0.03
    assert chosen > scores[1e-6] + 0.2, "a weak penalty overfits 120 dimensions"


def test_left_out_rows_in_closed_form_are_left_out_rows() -> None:
    features, numbers = made(n=40, d=6)
    found = evaluate_regression((features, numbers), features)
    alpha = found.best["regularization"] * 40 * float(features.astype(np.float64).var(0).mean())
    rest = [np.arange(40) != i for i in range(40)]
    # scikit-learn centres without the row too; with the same penalty in sum, so does the closed form.
    errors = [
        (Ridge(alpha=alpha).fit(features[r].astype(np.float64), numbers[r]).predict(features[~r])[0] - numbers[~r][0])
        ** 2
        for r in rest
    ]
    expected = 1 - np.sum(errors) / ((numbers - numbers.mean()) ** 2).sum()
    assert max(trial.accuracy for trial in found.trials) == pytest.approx(expected, abs=1e-6)


def test_a_validation_split_chooses_and_rows_in_blocks_agree() -> None:
    features, numbers = made()
    whole = evaluate_regression((features[:200], numbers[:200]), features[300:])
    held = evaluate_regression(
        (features[:200], numbers[:200]), features[300:], validation=(features[200:300], numbers[200:300])
    )
    assert (whole.train_size, held.train_size) == (200, 300)
    streamed = evaluate_regression((features[:200], numbers[:200]), features[300:], memory_limit=1)
    np.testing.assert_allclose(whole.predictions, streamed.predictions, rtol=1e-9)
    with pytest.raises(DataError, match="different numbers"):
        evaluate_regression((features[:9], np.ones(9)), features[300:])


def several(n: int = 500, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, 16)).astype(np.float32)
    scores = features @ rng.normal(size=(16, 4)) + rng.normal(size=(n, 4)) - (0, 1, 3, 5)
    return features, scores > 0


def test_each_label_is_scikit_learns_logistic_regression() -> None:
    features, labels = several()
    found = evaluate_one_vs_rest((features[:400], labels[:400]), features[400:], seed=3)
    rows = features / np.linalg.norm(features, axis=1, keepdims=True)
    mean = rows[:400].mean(0)
    scale = np.sqrt(((rows[:400] - mean) ** 2).mean())
    rows = (rows - mean) / scale
    for label in range(4):
        c = 1 / (found.best["regularization"] * 400)
        theirs = LogisticRegression(C=c, tol=1e-8, max_iter=2000).fit(rows[:400], labels[:400, label])
        expected = theirs.predict_proba(rows[400:])[:, 1]
        np.testing.assert_allclose(found.probabilities[:, label], expected, atol=5e-3)


def test_rows_in_blocks_give_the_same_probabilities() -> None:
    features, labels = several(seed=7)
    found = evaluate_one_vs_rest((features[:400], labels[:400]), features[400:])
    streamed = evaluate_one_vs_rest((features[:400], labels[:400]), features[400:], memory_limit=1)
    np.testing.assert_allclose(found.probabilities, streamed.probabilities, atol=1e-4)


def test_shuffled_labels_give_chance() -> None:
    features, numbers = made(seed=11)
    shuffled = np.random.default_rng(0).permutation(numbers[:300])
    found = evaluate_regression((features[:300], shuffled), features[300:])
    assert abs(r2_score(numbers[300:], found.predictions)) < 0.1
    with pytest.raises(DataError, match="only some"):
        evaluate_one_vs_rest((features[:9], np.ones((9, 2), bool)), features[300:])


def test_a_small_fit_takes_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads of 96 rows took thirty times as long as one on a machine that was busy."""
    seen: list[int] = []
    fit, before = one_vs_rest._fit, torch.get_num_threads()

    def watched(*given: Any) -> Any:
        seen.append(torch.get_num_threads())
        return fit(*given)

    monkeypatch.setattr(one_vs_rest, "_fit", watched)
    rows = np.random.default_rng(0).normal(size=(60, 4))
    torch.set_num_threads(2)
    try:
        for limit in (one_vs_rest._THREADS_PAY, 1):
            monkeypatch.setattr(one_vs_rest, "_THREADS_PAY", limit)
            one_vs_rest.evaluate_one_vs_rest((rows[:40], rows[:40, :2] > 0), rows[40:], penalties=[1.0])
    finally:
        torch.set_num_threads(before)
    half = len(seen) // 2
    assert set(seen[:half]) == {1} and set(seen[half:]) == {2}
