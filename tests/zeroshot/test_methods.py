"""What all methods must do: scikit-learn's rules, no leak, invariances, errors that help."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import unseen.zeroshot as zeroshot
from unseen.core.errors import DataError
from unseen.zeroshot.ale_tran import laplacian, propagate
from unseen.zeroshot.catalogue import BUILT_IN, GROUPS, METHODS, grid_of
from unseen.zeroshot.cmt_star import GaussianNovelty, LocalOutliers
from unseen.zeroshot.problem import Problem
from unseen.zeroshot.sse import mixtures, project_to_simplex

ALL = BUILT_IN
INDUCTIVE = tuple(m for m in ALL if m not in GROUPS["transductive"])


#: The networks' defaults are for thousands of images; of hundreds they need more passes.
TRAINED = {
    "f-CLSWGAN": {"epochs": 15, "beta": 0.1, "hidden": 128},
    "ESZSL": {"gamma": -2},
}


def fitted(name: str, problem: Problem):
    return METHODS.get(name)().fit(problem.train.X, problem.train.y, problem.S)


@pytest.mark.parametrize("name", ALL)
def test_the_estimator_contract(name: str, small_problem: Problem) -> None:
    kind = METHODS.get(name)
    method = kind()
    again = clone(method)
    assert again.get_params() == method.get_params()
    before = method.get_params()
    assert method.fit(small_problem.train.X, small_problem.train.y, small_problem.S) is method
    assert method.get_params() == before
    x, s = small_problem.test_unseen.X, small_problem.S[20:]
    scores = method.scores(x, s)
    assert scores.shape == (len(x), 5)
    np.testing.assert_array_equal(method.predict(x, s), scores.argmax(1))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(method)).scores(x, s), scores)
    np.testing.assert_allclose(fitted(name, small_problem).scores(x, s), scores)  # the same seed, the same numbers


@pytest.mark.parametrize("name", ALL)
def test_it_beats_chance_and_knows_its_training_classes(name: str, small_problem: Problem) -> None:
    settings = grid_of(METHODS.get(name), "quick")
    method = METHODS.get(name)(**TRAINED.get(name, {}))
    assert settings
    method.fit(small_problem.train.X, small_problem.train.y, small_problem.S)
    unseen = small_problem.test_unseen
    assert (method.predict(unseen.X, small_problem.S[20:]) + 20 == unseen.y).mean() > 0.4  # chance is 0.2
    seen = small_problem.test_seen
    assert (method.predict(seen.X, small_problem.S[:20]) == seen.y).mean() > 0.2  # chance is 0.05


@pytest.mark.parametrize("name", ALL)
def test_embeddings_of_unseen_classes_do_not_leak_into_fit(name: str, small_problem: Problem) -> None:
    spoiled = small_problem.S.copy()
    spoiled[20:] = 17.0
    a = METHODS.get(name)().fit(small_problem.train.X, small_problem.train.y, small_problem.S)
    b = METHODS.get(name)().fit(small_problem.train.X, small_problem.train.y, spoiled)
    x, s = small_problem.test_unseen.X, small_problem.S[20:]
    np.testing.assert_array_equal(a.scores(x, s), b.scores(x, s))


@pytest.mark.parametrize("name", INDUCTIVE)
def test_columns_follow_the_rows_of_the_embeddings(name: str, small_problem: Problem) -> None:
    method = fitted(name, small_problem)
    x, order = small_problem.test_unseen.X[:10], np.array([3, 0, 4, 1, 2])
    np.testing.assert_allclose(
        method.scores(x, small_problem.S[20:][order]),
        method.scores(x, small_problem.S[20:])[:, order],
        rtol=1e-4,
        # Of a classifier that is trained among the candidates, where rounding ends the optimisation.
        atol=2e-2 if name == "f-CLSWGAN" else 1e-6,
    )
    np.testing.assert_allclose(  # and images are scored one by one
        method.scores(x[:3], small_problem.S[20:]), method.scores(x, small_problem.S[20:])[:3], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("name", ALL)
def test_labels_may_be_renumbered(name: str, small_problem: Problem) -> None:
    """Rows of S in another order, labels with them: the same accuracy but for the draws."""
    order = np.random.default_rng(0).permutation(25)
    place = np.argsort(order)
    # DEVISE as published tries wrong classes in the order of their numbers, so that these matter.
    method = METHODS.get(name)(**({"order": "all"} if name == "DEVISE" else {}))
    unseen = small_problem.test_unseen
    found, base = (
        clone(method).fit(small_problem.train.X, y, S).predict(unseen.X, small_problem.S[20:]) + 20
        for y, S in (
            (place[small_problem.train.y], small_problem.S[order]),
            (small_problem.train.y, small_problem.S),
        )
    )
    assert abs((found == unseen.y).mean() - (base == unseen.y).mean()) < 0.15


def test_rubbish_in(small_problem: Problem) -> None:
    X, y, S = small_problem.train.X, small_problem.train.y, small_problem.S
    method = METHODS.get("ESZSL")()
    with pytest.raises(NotFittedError, match="fit"):
        method.scores(X, S)
    with pytest.raises(DataError, match="count rows of S from 0"):
        method.fit(X, y + 10, S)
    with pytest.raises(DataError, match="not finite"):
        method.fit(X, y, np.where(np.arange(25)[:, None] == 3, np.nan, S))
    with pytest.raises(DataError, match="whole numbers"):
        method.fit(X, y.astype(float), S)
    with pytest.raises(DataError, match="as many labels"):
        method.fit(X, y[:-1], S)
    with pytest.raises(DataError, match="two training classes"):
        method.fit(X, np.zeros_like(y), S)
    method.fit(X, y, S)
    with pytest.raises(DataError, match="64 in fit"):
        method.scores(X[:, :10], S)
    with pytest.raises(DataError, match="class embeddings S have 6 dimensions here and had 12"):
        method.scores(X, S[:, :6])


def test_names_that_others_rely_on() -> None:
    for name in ("ESZSL", "SAE", "ALE", "DEVISE", "SJE", "LATEM", "CMT", "CONSE", "DAP", "IAP", "SSE", "SYNC", "GFZSL"):
        assert getattr(zeroshot, name) is METHODS.get(name)
    assert set(zeroshot.__all__) <= set(dir(zeroshot))


def test_gaussian_novelty_finds_what_is_far(small_problem: Problem) -> None:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 4)) * 10
    y = np.arange(300) % 3
    points = centres[y] + rng.normal(size=(300, 4))
    detector = GaussianNovelty(points, y, centres)
    assert detector.is_new(detector.measure(points), 0.05).mean() == pytest.approx(0.05, abs=0.01)
    assert detector.is_new(detector.measure(centres + 50), 0.05).all()
    outliers = LocalOutliers(points, 20)
    assert outliers.is_new(outliers.measure(centres + 50), 0.05).all()
    fresh = centres[y] + rng.normal(size=(300, 4))
    shares = [outliers.is_new(outliers.measure(fresh), q).mean() for q in (0.05, 0.3, 0.9)]
    assert shares[0] < 0.2 < shares[1] + 0.05
    assert shares == sorted(shares)


def test_propagation_is_the_inverse(small_problem: Problem) -> None:
    rng = np.random.default_rng(0)
    points, first = rng.normal(size=(60, 5)), rng.normal(size=(60, 3))
    L = laplacian(points, 6).toarray()
    np.testing.assert_allclose(L, L.T)
    assert np.linalg.eigvalsh(L).max() <= 1 + 1e-9
    wanted = np.linalg.solve(np.eye(60) - 0.8 * L, first)  # Eq. (20)
    np.testing.assert_allclose(propagate(points, first, [(6, 0.8)])[0], wanted, atol=1e-5)


def test_mixtures_are_the_nearest_on_the_simplex() -> None:
    rng = np.random.default_rng(0)
    D, s = rng.normal(size=(6, 9)), rng.normal(size=(2, 9))
    z = mixtures(s, D, 0.1)
    assert (z >= 0).all()
    np.testing.assert_allclose(z.sum(1), 1)
    loss = lambda a: 0.05 * (a**2).sum(1) + 0.5 * ((s - a @ D) ** 2).sum(1)  # noqa: E731
    for _ in range(200):
        other = project_to_simplex(z + 0.1 * rng.normal(size=z.shape))
        assert (loss(z) <= loss(other) + 1e-9).all()


def test_rows_are_matched_exactly() -> None:
    method = METHODS.get("ESZSL")().fit(np.eye(3), [0, 1, 2], np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]]))
    np.testing.assert_array_equal(method._seen_rows(np.array([[3.0, 4.0], [1.0, 2.0], [5.0, 6.0]])), [1, 0, -1])


@pytest.mark.parametrize("rows", [2, 3, 4])
def test_labels_that_are_no_rows_are_told_which_there_are(rows: int) -> None:
    for wrong in (-1, rows):
        with pytest.raises(DataError, match=f"have the rows 0 to {rows - 1}[.]"):
            METHODS.get("ESZSL")().fit(np.eye(2), [0, wrong], np.eye(rows))
