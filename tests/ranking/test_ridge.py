"""Ridge regression on rows that are left out, against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import label_ranking_average_precision_score, r2_score

from unseen.core.errors import DataError
from unseen.ranking.inputs import check_features, split_rows, stratified_folds, stratified_rows
from unseen.ranking.ridge import FOLDS, PENALTIES, class_hits, label_parts, left_out_predictions, value_parts


def theirs(rows: np.ndarray, targets: np.ndarray, folds: np.ndarray, penalty: float) -> np.ndarray:
    """Predictions of the rows left out by scikit-learn, the penalty in units of the mean eigenvalue."""
    found = np.full(targets.shape, np.nan)
    for fold in range(FOLDS):
        train, held = folds != fold, folds == fold
        centred = rows[train] - rows[train].mean(0)
        unit = (centred**2).sum() / min(centred.shape)
        found[held] = Ridge(alpha=penalty * unit).fit(rows[train], targets[train]).predict(rows[held])
    return found


def problem(n: int, d: int, t: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n + d)
    rows = rng.normal(size=(n, d)) * rng.uniform(0.5, 2, d) + 3
    return rows, rows[:, :3] @ rng.normal(size=(3, t)) + rng.normal(size=(n, t)) * [1.0, 3.0][:t] + 5


@pytest.mark.parametrize(("n", "d"), [(60, 8), (30, 50)])
def test_values_are_predicted_like_scikit_learn_at_the_best_penalty(n: int, d: int) -> None:
    rows, targets = problem(n, d)
    folds = np.random.default_rng([7, 5]).permutation(n) % FOLDS
    each = [theirs(rows, targets, folds, penalty) for penalty in PENALTIES]
    lost = [((found - targets) ** 2 / targets.var(0)).mean() for found in each]
    found = left_out_predictions(rows, targets, seed=7)
    np.testing.assert_allclose(found, each[int(np.argmin(lost))], rtol=1e-6, atol=1e-6)
    assert value_parts(rows, targets, seed=7).mean() == pytest.approx(r2_score(targets, found))
    assert value_parts(rows, targets[:, 0], seed=7).shape == (n,)


def test_the_mean_precision_of_several_labels_is_that_of_scikit_learn() -> None:
    rows, targets = problem(50, 6)
    labels = np.column_stack([targets > targets.mean(0), rows[:, :2] > 3]).astype(float)
    labels[:2] = [[0] * 4, [1] * 4]
    wanted = label_ranking_average_precision_score(labels, left_out_predictions(rows, labels, seed=1))
    parts = label_parts(rows, labels, seed=1)
    assert parts.mean() == pytest.approx(wanted)
    assert parts[0] == parts[1] == 1.0
    with pytest.raises(DataError, match="columns of 0 and 1"):
        label_parts(rows, labels * 2)


@pytest.mark.parametrize(("n", "d"), [(90, 6), (40, 60)])
def test_classes_are_predicted_like_scikit_learn_at_the_penalty_of_the_first_fold(n: int, d: int) -> None:
    rng = np.random.default_rng(d)
    labels = np.arange(n) % 3
    rows = rng.normal(size=(n, d)) + 1.2 * np.eye(3)[labels] @ rng.normal(size=(3, d))
    known = check_features(rows, labels)[1]
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    folds = stratified_folds(known.index, FOLDS, 0)
    each = [theirs(unit, np.eye(3)[labels], folds, penalty).argmax(1) == labels for penalty in PENALTIES]
    hits = class_hits(rows, known)
    assert np.mean(hits == each[int(np.argmax([one[folds == 0].sum() for one in each]))]) > 0.97
    assert class_hits(rows[:4], check_features(rows[:4], [0, 0, 0, 1])[1])[3] != 1, "the only row of its class"


@pytest.mark.parametrize(
    ("rows", "targets", "told"),
    [
        (np.ones(20), np.ones(20), "do not belong together"),
        (np.ones((20, 2)), np.ones((19, 1)), "do not belong together"),
        (np.ones((20, 2)), np.ones((20, 1, 1)), "do not belong together"),
        (np.ones((9, 2)), np.ones(9), "9 images are too few"),
        (np.full((10, 2), np.nan), np.arange(10), "NaN or infinity"),
        (np.eye(10), np.full(10, np.inf), "NaN or infinity"),
        (np.eye(10), np.ones(10), "are constant"),
        (np.ones((10, 2)), np.arange(10), "are constant"),
    ],
)
def test_targets_that_cannot_be_learned_are_refused(rows: np.ndarray, targets: np.ndarray, told: str) -> None:
    with pytest.raises(DataError, match=told):
        value_parts(rows, targets)


def test_samples_keep_classes_in_proportion() -> None:
    index = np.repeat([0, 1, 2, 3], [100, 50, 10, 1])
    for size in (4, 16, 80, 161, 1000):
        rows = stratified_rows(index, size, 3)
        assert len(rows) == len(set(rows)) == min(size, 161) and (np.diff(rows) > 0).all()
        counts = np.bincount(index[rows], minlength=4)
        assert counts.min() >= 1
        assert np.abs(counts - len(rows) * np.array([100, 50, 10, 1]) / 161).max() <= 2.5
    train, held = split_rows(index, 0.2, 3)
    assert sorted([*train, *held]) == list(range(161))
    assert np.bincount(index[held], minlength=4).tolist() == [20, 10, 2, 0]
    assert np.bincount(index[split_rows(index, 0.01, 3)[1]], minlength=4).tolist() == [1, 1, 1, 0]
    assert stratified_rows(index, 16, 3).tolist() != stratified_rows(index, 16, 4).tolist()
    assert split_rows(index, 0.2, 3)[1].tolist() != split_rows(index, 0.2, 4)[1].tolist()


def test_folds_spread_classes_evenly() -> None:
    index = np.repeat([0, 1, 2], [25, 10, 1])
    folds = stratified_folds(index, 5, 0)
    assert [np.bincount(folds[index == c]).tolist() for c in (0, 1)] == [[5] * 5, [2] * 5]
    assert folds[index == 2].tolist() == [-1]
    assert set(stratified_folds(np.array([0, 0, 1, 1, 1]), 5, 0)) == {0, 1, 2}, "as many as the largest class has rows"
    assert set(stratified_folds(np.array([0, 0, 1]), 5, 0)) == {0, 1, -1}
