"""The optimiser against scipy, and coordinates that lose nothing."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from unseen.probes.logistic import follow_path
from unseen.probes.softmax import Coordinates, Table, span

PENALTIES = [1e-1, 1e-2, 1e-3]


def problem(sample, count=60):
    """Some rows in their principal coordinates, and three folds of them."""
    rows = sample.rows.features.tensor[:count]
    labels = sample.rows.labels[:count]
    mean = rows.mean(dim=0)
    values, vectors = torch.linalg.eigh((rows - mean).T @ (rows - mean) / count)
    frame = Coordinates(mean, vectors, torch.cat([values.clamp_min(0), torch.ones(1)]))
    return Table(frame.write(rows), frame, np.arange(count), labels, 1.0), np.arange(count) % 3


def solve(table, seen, tolerance=1e-7, penalties=PENALTIES):
    start = torch.zeros(8, len(table.frame.spectrum))
    return follow_path(table.loss(seen), penalties, table.frame.spectrum, start, tolerance=tolerance)


def test_every_fold_and_penalty_reaches_the_optimum_that_scipy_finds(sample):
    rows, folds = problem(sample)
    table, labels = rows.rows.double().numpy(), rows.labels.numpy()
    for fold in range(3):
        seen = folds != fold
        found = solve(rows, seen)
        for stage, penalty in enumerate(PENALTIES):
            chosen, wanted = table[seen], labels[seen]

            def objective(flat, chosen=chosen, wanted=wanted, penalty=penalty):
                weights = flat.reshape(8, -1)
                scores = chosen @ weights.T
                scores -= scores.max(axis=1, keepdims=True)
                chances = np.exp(scores)
                chances /= chances.sum(axis=1, keepdims=True)
                own = np.arange(len(wanted))
                value = -np.log(chances[own, wanted]).mean() + 0.5 * penalty * (weights[:, :-1] ** 2).sum()
                chances[own, wanted] -= 1.0
                slope = chances.T @ chosen / len(wanted)
                slope[:, :-1] += penalty * weights[:, :-1]
                return value, slope.ravel()

            best = minimize(objective, np.zeros(8 * table.shape[1]), jac=True, method="L-BFGS-B", tol=1e-12)
            reached, _ = objective(found.weights[stage].double().numpy().ravel())
            assert reached == pytest.approx(best.fun, rel=1e-5)


def test_few_gradients_serve_the_whole_path(sample):
    table, folds = problem(sample)
    found = solve(table, folds != 0, 3e-4, [10.0 ** -(1 + k / 2) for k in range(13)])
    assert all(found.settled)
    assert found.gradients < 5 * 13


def test_a_problem_that_cannot_settle_says_so(sample):
    table, folds = problem(sample)
    loss = table.loss(folds != 0)

    def noisy(weights):
        value, gradient, variance = loss(weights)
        return value, -gradient, variance  # uphill: no step decreases the loss

    start = torch.zeros(8, len(table.frame.spectrum))
    assert follow_path(noisy, [1e-3], table.frame.spectrum, start).settled == [False]


def test_few_rows_are_written_in_their_span_without_loss():
    rows = torch.randn(10, 40, generator=torch.Generator().manual_seed(0))
    frame, inside = span(rows)
    assert inside.shape == (10, 11)
    torch.testing.assert_close(inside[:, :-1] @ frame.basis.T + frame.mean, rows, atol=1e-4, rtol=0)
    torch.testing.assert_close(inside[:, :-1].square().mean(0), frame.spectrum[:-1], atol=1e-4, rtol=1e-4)
    weights = torch.randn(3, 11, generator=torch.Generator().manual_seed(1))
    weights[:, -2] = 0  # the centred rows span one dimension less than there are rows
    original, bias = frame.original(weights)
    torch.testing.assert_close(rows @ original.T + bias, inside @ weights.T, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(frame.from_original(original, bias), weights, atol=1e-4, rtol=1e-4)
