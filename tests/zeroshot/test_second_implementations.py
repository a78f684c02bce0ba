"""CONSE, SSE and CMT against second implementations, written from the equations of the papers.

DAP, IAP, LATEM and SYNC have theirs in `test_attribute_classifiers`, `test_gradient_methods`, `test_published_losses`.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from unseen.zeroshot import CMT, CONSE, SSE, Problem
from unseen.zeroshot.sse import mixtures


def test_conse_is_the_convex_combination_of_its_paper(small_problem: Problem) -> None:
    """GBU Eqs. (15), (16) image by image, with the classifier of scikit-learn."""
    X, y, S = small_problem.train.X.astype(np.float64), small_problem.train.y, small_problem.S
    images, candidates = small_problem.test_unseen.X.astype(np.float64), S[small_problem.unseen]
    l2 = 1e-3
    model = LogisticRegression(C=1 / (l2 * len(X)), tol=1e-10, max_iter=10_000).fit(X, y)
    posterior = model.predict_proba(images)
    for top in (1, 3, 100):
        scores = CONSE(top=top, l2=l2).fit(X, y, S).scores(images, candidates)
        for row, own in zip(scores, posterior, strict=True):
            best = sorted(range(len(own)), key=lambda c: -own[c])[:top]
            combined = sum(own[c] * S[model.classes_[c]] for c in best) / sum(own[c] for c in best)
            cosines = [combined @ s / np.linalg.norm(combined) / np.linalg.norm(s) for s in candidates]
            np.testing.assert_allclose(row, cosines, atol=2e-3)


def test_mixtures_of_sse_are_the_minimum_on_the_simplex() -> None:
    """GBU Eq. (14): sparse coding by a solver for constrained problems, class by class."""
    rng = np.random.default_rng(0)
    S, D, gamma = rng.uniform(size=(4, 6)), rng.uniform(size=(5, 6)), 0.1
    found = mixtures(S, D, gamma)
    for a, z in zip(S, found, strict=True):
        reference = minimize(
            lambda z, a=a: gamma / 2 * z @ z + ((a - z @ D) ** 2).sum() / 2,
            np.full(5, 0.2),
            bounds=[(0, 1)] * 5,
            constraints={"type": "eq", "fun": lambda z: z.sum() - 1},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 1000},
        )
        np.testing.assert_allclose(z, reference.x, atol=1e-4)


def test_sse_takes_the_steps_of_its_loss(small_problem: Problem) -> None:
    """Turns of w and v by automatic differentiation of the multi-class hinge loss, with the same order of images."""
    X, y = small_problem.train.X.astype(np.float64), np.searchsorted(small_problem.seen, small_problem.train.y)
    S = small_problem.S[small_problem.seen].astype(np.float64)
    rate, batch, classes = 1e-3, 16, len(S)
    fitted = SSE(learning_rate=rate, epochs=2, batch_size=batch, seed=5).fit(X, y, S)
    images, labels = torch.from_numpy(X / X.std()), torch.from_numpy(y)
    z = torch.from_numpy(mixtures(S, S, 0.1).copy())
    v = torch.stack([images[labels == c].mean(0) for c in range(classes)])
    w = torch.full((X.shape[1],), 1 / X.shape[1], dtype=torch.float64)
    rng = np.random.default_rng(5)
    for _ in range(2):
        for turn in ("w", "v"):
            order = rng.permutation(len(X))
            for start in range(0, len(X), batch):
                rows = order[start : start + batch]
                w.requires_grad_(turn == "w")
                v.requires_grad_(turn == "v")
                x = images[rows][:, None]
                phi = torch.where(v < x, v, x)
                pi = phi @ w
                scores = (pi - pi.mean(1, keepdim=True)) @ z.T
                right = scores.gather(1, labels[rows][:, None])
                margins = 1 + scores - right
                margins = margins.scatter(1, labels[rows][:, None], 0.0)
                loss = margins.max(1).values.clamp(min=0).mean()
                (slope,) = torch.autograd.grad(loss, w if turn == "w" else v)
                with torch.no_grad():
                    w, v = w.detach(), v.detach()
                    if turn == "w":
                        w = w - rate * slope
                    else:
                        v = v - rate * X.shape[1] * slope
    np.testing.assert_allclose(fitted.w_, w.detach().numpy(), atol=1e-6)
    # A feature of 0 beside a v of 0 is on either side of it by rounding.
    np.testing.assert_allclose(fitted.v_, v.detach().numpy(), atol=5e-4)
    new = small_problem.S[small_problem.unseen].astype(np.float64)
    tested = small_problem.test_unseen.X.astype(np.float64)
    scaled = torch.from_numpy(tested / X.std())[:, None]
    phi = torch.where(v < scaled, v, scaled)
    pi = (phi @ w).detach().numpy()
    expected = (pi - pi.mean(1, keepdims=True)) @ mixtures(new, S, 0.1).T
    np.testing.assert_allclose(fitted.scores(tested, new), expected, atol=1e-5)


def test_cmt_is_the_network_of_its_paper(small_problem: Problem) -> None:
    """GBU Eq. (11) by automatic differentiation and torch's Adam, from the same first weights and order of images."""
    X, y = small_problem.train.X.astype(np.float64), np.searchsorted(small_problem.seen, small_problem.train.y)
    S = small_problem.S[small_problem.seen].astype(np.float64)
    hidden, epochs, batch, rate, seed = 12, 3, 20, 1e-2, 7
    fitted = CMT(hidden=hidden, epochs=epochs, batch_size=batch, learning_rate=rate, seed=seed).fit(X, y, S)
    rng = np.random.RandomState(seed)
    weights = []
    for before, after in ((X.shape[1], hidden), (hidden, S.shape[1])):
        reach = np.sqrt(6 / (before + after))
        weights += [torch.from_numpy(rng.uniform(-reach, reach, size)) for size in ((before, after), after)]
    for each in weights:
        each.requires_grad_()
    adam = torch.optim.Adam(weights, lr=rate)
    images, targets = torch.from_numpy(X), torch.from_numpy(S[y])

    def network(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ weights[0] + weights[1]) @ weights[2] + weights[3]

    for _ in range(epochs):
        order = np.arange(len(X))
        rng.shuffle(order)
        for start in range(0, len(X), batch):
            rows = order[start : start + batch]
            adam.zero_grad()
            ((network(images[rows]) - targets[rows]) ** 2).sum(1).mean().backward()
            adam.step()
    (W2, W1), (b2, b1) = fitted.network_.coefs_, fitted.network_.intercepts_
    for found, reference in zip((W2, b2, W1, b1), weights, strict=True):
        np.testing.assert_allclose(found, reference.detach().numpy(), atol=5e-4)
    candidates = small_problem.S[small_problem.unseen].astype(np.float64)
    tested = small_problem.test_unseen.X.astype(np.float64)
    mapped = network(torch.from_numpy(tested)).detach().numpy()
    expected = [[-((m - s) ** 2).sum() for s in candidates] for m in mapped]
    np.testing.assert_allclose(fitted.scores(tested, candidates), expected, atol=1e-2)
