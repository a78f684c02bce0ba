"""The optimiser against scipy and against the curvature it claims to know."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize as scipy_minimize

from unseen.probes.lbfgs import History, Point, minimize
from unseen.probes.softmax import SoftmaxLoss, memory_blocks, with_ones


@pytest.mark.parametrize("penalty", [1e-1, 1e-3])
def test_reaches_the_optimum_that_scipy_finds(sample, penalty):
    data = sample.rows
    features = with_ones(data.features.tensor)
    loss = SoftmaxLoss(memory_blocks(features, data.labels), len(features))
    shape = (data.classes, features.shape[1])
    centre = 0.3 * torch.randn(shape, generator=torch.Generator().manual_seed(0))
    start = Point(torch.zeros(shape), loss(torch.zeros(shape)))
    diagonal = torch.full(shape, 0.1) + penalty
    found = minimize(loss, start, penalty, centre, diagonal, History(), tolerance=1e-7)

    wide, labels = features.double(), data.labels

    def objective(flat):
        weights = torch.from_numpy(flat).reshape(shape).requires_grad_()
        value = torch.nn.functional.cross_entropy(wide @ weights.T, labels)
        value = value + 0.5 * penalty * (weights - centre).square().sum()
        value.backward()
        return value.item(), weights.grad.numpy().ravel()

    best = scipy_minimize(objective, np.zeros(np.prod(shape)), jac=True, method="L-BFGS-B", options={"maxiter": 2000})
    assert found.value(penalty, centre) == pytest.approx(best.fun, rel=1e-5)


def test_shifted_curvature_is_exact_for_a_quadratic():
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(6, 6, generator=generator)
    hessian = root @ root.T
    history = History()
    for _ in range(4):
        step = torch.randn(1, 6, generator=generator)
        history.add(step, step @ (hessian + 0.5 * torch.eye(6)))
    history.shift(0.2 - 0.5)
    for step, change in zip(history.steps, history.changes, strict=True):
        torch.testing.assert_close(change, step @ (hessian + 0.2 * torch.eye(6)))


def test_pairs_without_curvature_are_not_kept():
    history = History()
    step = torch.ones(1, 3)
    history.add(step, -step)
    assert not history.steps
    history.add(step, step.clone())
    history.shift(-2.0)
    assert not history.steps
