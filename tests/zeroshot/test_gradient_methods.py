"""ALE, DEVISE, SJE, LATEM and CMT against loops over single images, which share no code with them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from unseen.zeroshot import ALE, CMT, DEVISE, LATEM, SJE
from unseen.zeroshot.ale import first_violation
from unseen.zeroshot.compatibility import pulled
from unseen.zeroshot.problem import Problem

RATE, EPOCHS = 0.05, 40


def harmonic(k: int) -> float:
    return sum(1 / i for i in range(1, k + 1))


def naive_bilinear(
    X: np.ndarray,
    y: np.ndarray,
    S: np.ndarray,
    choose: Callable[[np.ndarray, int, np.random.Generator], tuple[int, float]],
) -> np.ndarray:
    """One image at a time; `choose` gives a wrong class and a weight (0 for no step) from the margins."""
    rng = np.random.default_rng(1)
    W = np.zeros((X.shape[1], S.shape[1]))
    for _ in range(EPOCHS):
        for i in rng.permutation(len(X)):
            scores = X[i] @ W @ S.T
            margins = 1 + scores - scores[y[i]]
            margins[y[i]] = -np.inf
            wrong, weight = choose(margins, y[i], rng)
            if weight:
                W -= RATE * weight * np.outer(X[i], S[wrong] - S[y[i]])
    return W


def choose_sje(margins: np.ndarray, _: int, __: np.random.Generator) -> tuple[int, float]:
    worst = int(margins.argmax())
    return worst, float(margins[worst] > 0)


def choose_devise(margins: np.ndarray, right: int, _: np.random.Generator) -> tuple[int, float]:
    for c in range(len(margins)):
        if c != right and margins[c] > 0:
            return int(c), 1.0
    return 0, 0.0


def choose_ale(margins: np.ndarray, right: int, rng: np.random.Generator) -> tuple[int, float]:
    draws = 0
    for c in rng.permutation(len(margins)):
        if c == right:
            continue
        draws += 1
        if margins[c] > 0:
            return int(c), harmonic((len(margins) - 1) // draws)
    return 0, 0.0


def naive_loss(name: str, X: np.ndarray, y: np.ndarray, S: np.ndarray, W: np.ndarray) -> float:
    total = 0.0
    for x, label in zip(X, y, strict=True):
        scores = x @ W @ S.T
        hinges = [max(0.0, 1 + scores[c] - scores[label]) for c in range(len(S)) if c != label]
        if name == "SJE":
            total += max(hinges)
        elif name == "DEVISE":
            total += sum(hinges)
        else:
            rank = sum(h > 0 for h in hinges)
            total += harmonic(rank) / rank * sum(hinges) if rank else 0.0
    return total / len(X)


@pytest.mark.parametrize(
    ("kind", "choose"), [(SJE, choose_sje), (DEVISE, choose_devise), (ALE, choose_ale)], ids=["SJE", "DEVISE", "ALE"]
)
def test_bilinear_methods_reach_the_loss_of_a_loop(small_problem: Problem, kind: type, choose: Callable) -> None:
    X, y, S = small_problem.train.X.astype(np.float64), small_problem.train.y, small_problem.S[:20]
    W = naive_bilinear(X, y, S, choose)
    wanted = naive_loss(kind.__name__, X, y, S, W)
    method = kind(learning_rate=RATE, epochs=EPOCHS, batch_size=8).fit(X, y, S)
    assert naive_loss(kind.__name__, X, y, S, method.W_) <= 1.01 * wanted
    x, label = small_problem.test_unseen.X, small_problem.test_unseen.y
    ours = (method.predict(x, small_problem.S[20:]) + 20 == label).mean()
    theirs = ((x @ W @ small_problem.S[20:].T).argmax(1) + 20 == label).mean()
    assert ours >= theirs - 0.03


def test_batches_of_one_are_the_loop_itself() -> None:
    """With one image per step and nothing drawn, SJE must take the very same steps."""
    rng = np.random.default_rng(0)
    X, y, S = rng.normal(size=(40, 6)), np.arange(40) % 4, rng.normal(size=(4, 3))
    W = np.zeros((6, 3))
    order = np.random.default_rng(5).permutation(40)
    for i in order:
        margins = 1 + X[i] @ W @ S.T - X[i] @ W @ S[y[i]]
        margins[y[i]] = 0
        worst = margins.argmax()
        if margins[worst] > 0:
            W -= 0.1 * np.outer(X[i], S[worst] - S[y[i]])
    found = SJE(learning_rate=0.1, epochs=1, batch_size=1, seed=5).fit(X, y, S).W_
    np.testing.assert_allclose(found, W, atol=1e-12)
    wide = np.concatenate([S, rng.normal(size=(4, 5))], axis=1)  # more attributes than classes: steps in their span
    narrow = SJE(learning_rate=0.1, epochs=2, batch_size=1, seed=5).fit(X, y, wide)
    assert narrow.W_.shape == (6, 8)
    assert np.isfinite(narrow.W_).all()


def test_first_violation_has_the_distribution_of_drawing() -> None:
    rng = np.random.default_rng(0)
    margins = np.tile(np.array([0.0, 1.0, -1.0, 2.0, -3.0]), (20_000, 1))
    chosen, place = first_violation(margins, np.zeros(20_000, np.int64), rng)
    assert set(np.unique(chosen)) == {1, 3}
    assert (chosen == 1).mean() == pytest.approx(0.5, abs=0.02)
    # Two of four violate: the first is found at draw 1 with 1/2, at 2 with 1/3, at 3 with 1/6.
    shares = np.bincount(place, minlength=5)[1:] / len(place)
    np.testing.assert_allclose(shares, [1 / 2, 1 / 3, 1 / 6, 0], atol=0.02)
    none, draw = first_violation(-np.ones((3, 4)), np.zeros(3, np.int64), rng)
    assert len(none) == 3
    assert not draw.any()


def latem_loop(X: np.ndarray, y: np.ndarray, S: np.ndarray, maps: int, epochs: int, seed: int) -> np.ndarray:
    """LATEM one image at a time, with the draws of the mini-batch version."""
    rng = np.random.default_rng(seed)
    d, a = X.shape[1], S.shape[1]
    W = (rng.standard_normal((d, maps * a)) / np.sqrt(d)).reshape(d, maps, a).transpose(1, 0, 2).copy()
    for _ in range(epochs):
        for i in rng.permutation(len(X)):
            wrong = (y[i] + int(rng.integers(1, len(S), 1)[0])) % len(S)
            right_scores, wrong_scores = X[i] @ W @ S[y[i]], X[i] @ W @ S[wrong]
            best, worst = right_scores.argmax(), wrong_scores.argmax()
            if 1 + wrong_scores[worst] - right_scores[best] > 0:
                W[worst] -= 0.1 * np.outer(X[i], S[wrong])
                W[best] += 0.1 * np.outer(X[i], S[y[i]])
    return W


def test_latem_with_batches_of_one_is_the_loop_itself(small_problem: Problem) -> None:
    X, y, S = small_problem.train.X[:80].astype(np.float64), small_problem.train.y[:80], small_problem.S[:20]
    W = latem_loop(X, y, S, maps=3, epochs=4, seed=5)
    method = LATEM(learning_rate=0.1, epochs=4, batch_size=1, maps=3, seed=5).fit(X, y, S)
    np.testing.assert_allclose(method.W_, W, atol=1e-10)
    scores = np.stack([X[:4] @ w @ S.T for w in W]).max(0)
    np.testing.assert_allclose(method.scores(X[:4], S), scores, atol=1e-10)


def hinge(scores: np.ndarray, y: np.ndarray) -> float:
    """Mean over images and wrong classes: the expectation of LATEM's loss over the sampled class."""
    margins = 1 + scores - scores[np.arange(len(y)), y][:, None]
    margins[np.arange(len(y)), y] = 0
    return float(np.maximum(margins, 0).sum() / len(y) / (scores.shape[1] - 1))


def test_latem_reaches_the_loss_of_a_loop(small_problem: Problem) -> None:
    """A third of the labels is wrong, so that the loss ends far from 0 and 1 % of it means something."""
    X, S = small_problem.train.X.astype(np.float64), small_problem.S[:20]
    y = np.where(np.arange(len(X)) % 3 == 0, np.random.default_rng(0).integers(0, 20, len(X)), small_problem.train.y)
    method = LATEM(learning_rate=0.1, epochs=60, batch_size=8, maps=3, seed=1).fit(X, y, S)
    looped = latem_loop(X, y, S, maps=3, epochs=60, seed=1)
    ours, wanted = (hinge(np.stack([X @ w @ S.T for w in W]).max(0), y) for W in (method.W_, looped))
    assert ours <= 1.01 * wanted


def test_cmt_reaches_the_loss_of_a_loop(small_problem: Problem) -> None:
    X, y, S = small_problem.train.X.astype(np.float64), small_problem.train.y, small_problem.S
    rng = np.random.default_rng(0)
    W2, W1 = rng.uniform(-0.28, 0.28, (64, 16)), rng.uniform(-0.46, 0.46, (16, 12))
    b2, b1 = np.zeros(16), np.zeros(12)
    for _ in range(30):
        for i in rng.permutation(len(X)):
            h = np.tanh(X[i] @ W2 + b2)
            error = 2 * (h @ W1 + b1 - S[y[i]])
            inner = (error @ W1.T) * (1 - h * h)
            W1 -= 0.02 * np.outer(h, error)
            b1 -= 0.02 * error
            W2 -= 0.02 * np.outer(X[i], inner)
            b2 -= 0.02 * inner
    wanted = ((np.tanh(X @ W2 + b2) @ W1 + b1 - S[y]) ** 2).sum(1).mean()
    ours = CMT(hidden=16, epochs=60, learning_rate=5e-3, batch_size=8).fit(X, y, S).network_.predict(X)
    assert ((ours - S[y]) ** 2).sum(1).mean() <= 1.01 * wanted


@pytest.mark.parametrize("kind", [ALE, DEVISE, SJE, LATEM, CMT])
def test_epochs_of_a_grid_come_from_one_run(small_problem: Problem, kind: type) -> None:
    X, y, S = small_problem.train.X, small_problem.train.y, small_problem.S
    x, s = small_problem.test_unseen.X, S[20:]
    run = kind().grid_scores(X, y, S, x, s, [{"epochs": 1}, {"epochs": 3}])
    found = {p["epochs"]: scores for p, scores in run}
    for epochs, scores in found.items():
        np.testing.assert_array_equal(scores, kind(epochs=epochs).fit(X, y, S).scores(x, s))


def test_devise_with_all_violations_is_gradient_descent() -> None:
    """`order="all"`, all images in one step: the gradient of Eq. (4), by differences of the loss written out."""
    rng = np.random.default_rng(0)
    X, y, S = rng.normal(size=(15, 4)), np.arange(15) % 3, rng.normal(size=(3, 3))
    W = np.zeros((4, 3))
    for epochs in (1, 2, 3):
        slope = np.zeros_like(W)
        for place in np.ndindex(W.shape):
            step = np.zeros_like(W)
            step[place] = 1e-6
            ends = [naive_loss("DEVISE", X, y, S, W + side * step) for side in (1, -1)]
            slope[place] = len(X) * (ends[0] - ends[1]) / 2e-6
        W = W - 0.01 * slope
        found = DEVISE(learning_rate=0.01, epochs=epochs, batch_size=15, order="all").fit(X, y, S).W_
        np.testing.assert_allclose(found, W, atol=1e-7)


@pytest.mark.parametrize("steps", [3, 60])
def test_a_batch_pulls_as_its_images_do_one_by_one(steps: int) -> None:
    """Few steps among many classes go by a sparse matrix, many by a dense one; an image may take several, or none."""
    rng = np.random.default_rng(steps)
    images, x, pull = np.sort(rng.integers(0, 8, steps)), rng.normal(size=(8, 5)), rng.random(steps)
    right = rng.integers(0, 10, 8)[images]
    wrong = (right + rng.integers(1, 10, steps)) % 10
    wanted = np.zeros((10, 5))
    for i, r, w, p in zip(images, right, wrong, pull, strict=True):
        wanted[r] += p * x[i]
        wanted[w] -= p * x[i]
    np.testing.assert_allclose(pulled(10, images, wrong, right, pull, x), wanted, atol=1e-12)
