"""A problem's features are scaled by what training knows, and its folds have something to tell apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unseen.core.errors import DataError, UnknownNameError
from unseen.zeroshot.problem import Fold, Images, Problem


def test_standard_features_have_the_deviation_of_training(small_problem: Problem) -> None:
    X = small_problem.train.X.astype(np.float64)
    found = small_problem.normalised("standard")
    np.testing.assert_allclose(found.train.X.std(0), 1, rtol=1e-4)
    for part in ("test_unseen", "test_seen"):
        wanted = (getattr(small_problem, part).X - X.mean(0)) / X.std(0)
        np.testing.assert_allclose(getattr(found, part).X, wanted, atol=1e-4)
        np.testing.assert_array_equal(getattr(found, part).y, getattr(small_problem, part).y)
    np.testing.assert_array_equal(found.S, small_problem.S)


def test_a_feature_that_never_varies_is_centred_alone(small_problem: Problem) -> None:
    parts = {}
    for part in ("train", "test_unseen", "test_seen"):
        images = getattr(small_problem, part)
        parts[part] = Images(np.column_stack([images.X, np.full(len(images), 0.5)]), images.y)
    found = replace(small_problem, **parts).normalised("standard")
    assert not found.train.X[:, -1].any()
    assert np.isfinite(found.test_seen.X).all()


def test_an_unknown_scaling_is_refused(small_problem: Problem) -> None:
    with pytest.raises(UnknownNameError, match="l2"):
        small_problem.normalised("L2")


@pytest.mark.parametrize(("train", "val"), [(1, 5), (5, 1), (1, 1), (0, 5), (5, 0)])
def test_a_fold_needs_two_classes_on_either_side(small_problem: Problem, train: int, val: int) -> None:
    with pytest.raises(DataError, match="fold 2 needs two classes"):
        replace(
            small_problem,
            folds=[small_problem.folds[0], Fold(np.arange(train, dtype=np.int64), np.arange(10, 10 + val))],
        )
    assert len(replace(small_problem, folds=[Fold(np.arange(2), np.arange(2, 4))]).folds) == 1


def test_features_that_are_whole_numbers_are_not_rounded(small_problem: Problem) -> None:
    whole = {
        part: Images((100 * getattr(small_problem, part).X).astype(np.int16), getattr(small_problem, part).y)
        for part in ("train", "test_unseen", "test_seen")
    }
    found = replace(small_problem, **whole).normalised("l2")
    for part in whole:
        np.testing.assert_allclose(np.linalg.norm(getattr(found, part).X[:], axis=1), 1, rtol=1e-5)
