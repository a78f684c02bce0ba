"""Ridge regression on rows that are left out, against scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import label_ranking_average_precision_score

from unseen.core.errors import DataError
from unseen.probes.sampling import draw_folds
from unseen.ranking.inputs import proportional_folds, split_rows, stratified_folds, stratified_rows
from unseen.ranking.ridge import (
    FOLDS,
    PENALTIES,
    _Fits,
    check_targets,
    class_task,
    cross_validate,
    label_task,
    value_task,
)

Judge = Callable[[np.ndarray, np.ndarray], np.ndarray]


def theirs(
    rows: np.ndarray, targets: np.ndarray, folds: np.ndarray, penalty: float, fitted: Sequence[int]
) -> np.ndarray:
    """Predictions of all rows by scikit-learn, fitted on some folds, the penalty in units of the mean eigenvalue."""
    train = np.isin(folds, list(fitted))
    centred = rows[train] - rows[train].mean(0)
    unit = (centred**2).sum() / min(centred.shape)
    return Ridge(alpha=penalty * unit).fit(rows[train], targets[train]).predict(rows).reshape(targets.shape)


def problem(n: int, d: int, t: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n + d)
    rows = rng.normal(size=(n, d)) * rng.uniform(0.5, 2, d) + 3
    return rows, rows[:, :3] @ rng.normal(size=(3, t)) + rng.normal(size=(n, t)) * [1.0, 3.0][:t] + 5


def nested(rows: np.ndarray, targets: np.ndarray, folds: np.ndarray, judge: Judge) -> np.ndarray:
    """The outcome of every row at the penalty that rows of other folds choose, all fits by scikit-learn."""
    pairs = [(k, (k + 1) % FOLDS) for k in range(FOLDS)]
    small = [[theirs(rows, targets, folds, penalty, pair) for penalty in PENALTIES] for pair in pairs]
    found = np.full(len(rows), np.nan)
    for fold in range(FOLDS):
        votes = np.zeros(len(PENALTIES))
        for pair, each in zip(pairs, small, strict=True):
            judged = ~np.isin(folds, (*pair, fold))
            votes += 0 if fold in pair else [judge(scores, judged).sum() for scores in each]
        held, others = folds == fold, [k for k in range(FOLDS) if k != fold]
        found[held] = judge(theirs(rows, targets, folds, PENALTIES[int(votes.argmax())], others), held)
    return found


@pytest.mark.parametrize(("n", "d"), [(60, 8), (30, 50)])
def test_values_are_predicted_like_scikit_learn_at_nested_penalties(n: int, d: int) -> None:
    rows, targets = problem(n, d)
    folds = draw_folds(np.zeros(n, int), 7)[0]

    def judge(scores: np.ndarray, some: np.ndarray) -> np.ndarray:
        return (1 - (targets[some] - scores[some]) ** 2 / targets.var(0)).mean(1)

    found = cross_validate(rows, folds, value_task(targets)).outcomes
    np.testing.assert_allclose(found, nested(rows, targets, folds, judge), rtol=1e-6, atol=1e-6)


def test_the_mean_precision_of_several_labels_is_that_of_scikit_learn() -> None:
    rows, targets = problem(50, 6)
    labels = np.column_stack([targets > targets.mean(0), rows[:, :2] > 3]).astype(float)
    labels[:2] = [[0] * 4, [1] * 4]
    scores = np.random.default_rng(0).normal(size=labels.shape)
    precision = label_task(labels).outcomes(scores, np.arange(50))
    assert precision.mean() == pytest.approx(label_ranking_average_precision_score(labels, scores))
    assert precision[0] == precision[1] == 1.0
    better = cross_validate(rows, draw_folds(np.zeros(50, int), 1)[0], label_task(labels)).outcomes.mean()
    assert better > precision.mean() + 0.1


@pytest.mark.parametrize(("n", "d"), [(90, 6), (40, 60)])
def test_classes_are_predicted_like_scikit_learn_at_nested_penalties(n: int, d: int) -> None:
    rng = np.random.default_rng(d)
    labels = np.arange(n) % 3
    rows = rng.normal(size=(n, d)) + 0.8 * np.eye(3)[labels] @ rng.normal(size=(3, d))
    folds = stratified_folds(labels, FOLDS, 0)

    def judge(scores: np.ndarray, some: np.ndarray) -> np.ndarray:
        return scores[some].argmax(1) == labels[some]

    found = cross_validate(rows, folds, class_task(labels, 3), labels)
    assert np.mean(found.outcomes == nested(rows, np.eye(3)[labels], folds, judge)) > 0.97
    assert found.steps.min() > 0


def test_evaluated_rows_do_not_choose_their_penalty() -> None:
    """Swapping the labels of one fold changes the outcomes of this fold alone by its own labels."""
    rows, targets = problem(100, 5, 1)
    folds = draw_folds(np.zeros(100, int), 0)[0]
    before = cross_validate(rows, folds, value_task(targets)).outcomes
    changed = targets.copy()
    changed[folds == 2] += 100 * np.random.default_rng(0).normal(size=(20, 1))
    after = cross_validate(rows, folds, value_task(changed)).outcomes
    same, old = (_Fits(rows, folds, value_task(y)).predict([0, 1, 3, 4], PENALTIES)[1] for y in (changed, targets))
    chosen = [np.allclose(each, after[folds == 2]) for each in same]
    assert chosen == [np.allclose(each, before[folds == 2]) for each in old] and sum(chosen) >= 1


def test_larger_training_sets_gain_and_two_folds_have_no_smaller_size() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(40), 4)
    rows = (rng.normal(size=(40, 60))[labels] + 2.2 * rng.normal(size=(160, 60))).astype(np.float32)
    found = cross_validate(rows, stratified_folds(labels, FOLDS, 0), class_task(labels, 40), labels)
    assert found.gains.sum() / found.steps.sum() > 0.1
    two = cross_validate(rows[::2], stratified_folds(labels[::2], FOLDS, 0), class_task(labels[::2], 40), labels[::2])
    assert np.isfinite(two.outcomes).all() and not two.steps.any()


def test_groups_of_values_share_a_fold() -> None:
    groups = np.random.default_rng(0).integers(40, size=300)
    folds = draw_folds(np.zeros(300, int), 1, groups)[0]
    assert all(len(set(folds[groups == g])) == 1 for g in np.unique(groups))
    assert np.ptp(np.bincount(folds)) < 40


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
        check_targets(rows, targets)


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


def test_folds_of_few_classes_have_them_in_proportion() -> None:
    index = np.repeat([0, 1, 2], [8, 8, 1])
    folds = proportional_folds(index, 5, 0)
    assert [np.bincount(folds[index == c]).tolist() for c in (0, 1)] == [[2, 2, 2, 1, 1]] * 2
    assert folds[index == 2].tolist() == [-1]
    assert folds.tolist() != proportional_folds(index, 5, 1).tolist()


def test_folds_spread_classes_evenly() -> None:
    index = np.repeat([0, 1, 2], [25, 10, 1])
    folds = stratified_folds(index, 5, 0)
    assert [np.bincount(folds[index == c]).tolist() for c in (0, 1)] == [[5] * 5, [2] * 5]
    assert folds[index == 2].tolist() == [-1]
    assert set(stratified_folds(np.array([0, 0, 1, 1, 1]), 5, 0)) == {0, 1, 2}, "as many as the largest class has rows"
    assert set(stratified_folds(np.array([0, 0, 1]), 5, 0)) == {0, 1, -1}
