"""The optimiser against scipy, and problems that do not disturb one another."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from unseen.probes.coordinates import Coordinates, MemoryTable, span
from unseen.probes.lbfgs import follow_paths
from unseen.probes.sampling import TRAINS_ONLY
from unseen.probes.softmax import FoldLoss

PENALTIES = [1e-1, 1e-2, 1e-3]


def problem(sample, count=60):
    """Three folds of some rows, in their principal coordinates."""
    rows = sample.rows.features.tensor[:count]
    labels = sample.rows.labels[:count]
    mean = rows.mean(dim=0)
    values, vectors = torch.linalg.eigh((rows - mean).T @ (rows - mean) / count)
    frame = Coordinates(mean, vectors, torch.cat([values.clamp_min(0), torch.ones(1)]))
    folds = (torch.arange(count) % 3).to(torch.int8)[None]
    return FoldLoss(MemoryTable(frame.write(rows)[None]), labels[None], folds, 3, 8), frame


def solve(loss, frame, tolerance=1e-7, penalties=PENALTIES):
    fits = loss.fits * len(loss.folds)
    start = torch.zeros(fits, 8, len(frame.spectrum))
    wanted = torch.tensor(penalties).expand(fits, -1)
    return follow_paths(loss, wanted, frame.spectrum.expand(fits, -1), start, tolerance=tolerance)


def test_every_fold_and_penalty_reaches_the_optimum_that_scipy_finds(sample):
    loss, frame = problem(sample)
    found = solve(loss, frame)
    table, labels = loss.table.rows[0].double().numpy(), loss.labels[0].numpy()
    for stage, penalty in enumerate(PENALTIES):
        for fold in range(3):
            seen = loss.folds[0].numpy() != fold
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
            reached, _ = objective(found.weights[stage, fold].double().numpy().ravel())
            assert reached == pytest.approx(best.fun, rel=1e-5)


def test_few_gradients_serve_the_whole_path(sample):
    loss, frame = problem(sample)
    found = solve(loss, frame, 3e-4, [10.0 ** -(1 + k / 2) for k in range(13)])
    assert bool(found.settled.all())
    assert found.gradients < 5 * 13


def test_the_bits_of_a_problem_do_not_depend_on_the_others(make_sample):
    data = make_sample(120, 24, 8)
    rows = [data.rows.features.tensor[k : k + 40] for k in (0, 40, 80)]
    labels = torch.stack([data.rows.labels[k : k + 40] for k in (0, 40, 80)])
    mean = torch.zeros(24)
    frame = Coordinates(mean, torch.eye(24), torch.ones(25))
    tables = torch.stack([frame.write(part) for part in rows])
    folds = (torch.arange(40) % 2).to(torch.int8).expand(3, -1)
    together = solve(FoldLoss(MemoryTable(tables), labels, folds, 2, 8), frame, 1e-4)
    for k in range(3):
        alone = solve(FoldLoss(MemoryTable(tables[k : k + 1]), labels[k : k + 1], folds[:1], 2, 8), frame, 1e-4)
        assert torch.equal(together.weights[:, 2 * k : 2 * k + 2], alone.weights)


def test_a_problem_that_cannot_settle_says_so(sample):
    loss, frame = problem(sample)

    def noisy(weights, curvature):
        found = loss(weights, curvature)
        found.gradient.mul_(-1)  # uphill: no step decreases the loss
        return found

    fits = 3
    start = torch.zeros(fits, 8, len(frame.spectrum))
    found = follow_paths(noisy, torch.full((fits, 1), 1e-3), frame.spectrum.expand(fits, -1), start)
    assert not bool(found.settled.any())


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


def test_rows_that_only_train_are_in_every_fit(sample):
    loss, _ = problem(sample)
    folds = loss.folds.clone()
    folds[0, :5] = TRAINS_ONLY
    everyone = FoldLoss(loss.table, loss.labels, folds, 3, 8)
    counts = [60 - int((folds == k).sum()) for k in range(3)]
    assert (everyone.shares > 0).sum(dim=3).flatten().tolist() == counts
    torch.testing.assert_close(everyone.shares.sum(dim=3).flatten(), torch.ones(3))
