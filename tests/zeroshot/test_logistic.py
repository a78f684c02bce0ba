"""The optimiser against scipy's, on a smooth loss, a stiff one and a famous one."""

import numpy as np
import pytest
from scipy.optimize import minimize

from unseen.zeroshot.logistic import minimise


def quadratic(condition: float):
    scales = np.geomspace(1, condition, 12).reshape(3, 4)
    target = np.arange(12.0).reshape(3, 4)
    return lambda x: (0.5 * float((scales * (x - target) ** 2).sum()), scales * (x - target))


def rosenbrock(x):
    from scipy.optimize import rosen, rosen_der

    return float(rosen(x.ravel())), rosen_der(x.ravel()).reshape(x.shape)


def logistic(x):
    rng = np.random.default_rng(0)
    rows, signs = rng.normal(size=(50, 6)), rng.choice([-1.0, 1.0], 50)
    margins = signs * (rows @ x.ravel())
    weights = -signs / (1 + np.exp(margins))
    value = np.logaddexp(0, -margins).mean() + 0.005 * float((x**2).sum())
    return float(value), (rows.T @ weights / 50).reshape(x.shape) + 0.01 * x


@pytest.mark.parametrize(
    ("objective", "shape"),
    [(quadratic(10), (3, 4)), (quadratic(1e4), (3, 4)), (rosenbrock, (2, 2)), (logistic, (2, 3))],
    ids=["round", "stiff", "rosenbrock", "logistic"],
)
def test_reaches_the_loss_of_scipy(objective, shape):
    start = np.full(shape, 0.3)
    found = minimise(objective, start, 500)
    flat = minimize(
        lambda v: (lambda f: (f[0], f[1].ravel()))(objective(v.reshape(shape))), start.ravel(), jac=True,
        method="L-BFGS-B", options={"maxiter": 500},
    )  # fmt: skip
    assert found.shape == shape
    assert objective(found)[0] <= flat.fun + 1e-6
    assert (start == 0.3).all()


def test_stops_where_there_is_nothing_to_gain_and_when_told():
    calls = []

    def counted(x):
        calls.append(x)
        return quadratic(1e4)(x)

    target = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(minimise(counted, target, 50), target)
    assert len(calls) == 1
    calls.clear()
    minimise(counted, np.zeros((3, 4)), 3)
    assert 4 <= len(calls) <= 12


def test_a_loss_that_blows_up_on_the_way_is_survived():
    def steep(x):
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.exp(x**2).sum()), 2 * x * np.exp(x**2)

    assert abs(minimise(steep, np.full((1, 2), 5.0), 200)).max() < 1e-2
