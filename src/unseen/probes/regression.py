"""Ridge regression from features to a number, its penalty chosen by leave-one-out cross-validation.

Papers:     Hoerl & Kennard, "Ridge regression", Technometrics 1970
            Allen, "The relationship between variable selection and data augmentation and a method for prediction",
            Technometrics 1974 (PRESS: the residuals of held-out rows in closed form)
Shapes:     X (n, d) features and y (n,) numbers, both centred; X'X / n = U diag(s) U', z = X U
Implements: w(l) = U diag(1 / (s + l)) U'X'y / n for all penalties l; the residual of a held-out row is
            r / (1 - h), with h = 1 / n + sum_j z_j^2 / (n (s_j + l)). Rows are read twice
Differs:    features are not scaled to unit length, as for classifiers: the target may be how bright or how full an
            image is. Penalties are shares of the features' mean variance instead
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from unseen.core.arrays import BoolArray, FloatArray
from unseen.core.errors import DataError
from unseen.probes.outcome import TargetFit, Trial
from unseen.probes.rows import FeatureSet, join_rows, prepare_rows

VERSION = 1
PENALTIES = tuple(10.0 ** (k / 2) for k in range(-12, 11))


@dataclass(frozen=True, eq=False)
class Regression(TargetFit):
    """Predictions (m,) of the test rows, with the search for the penalty; `Trial.accuracy` is R^2."""

    predictions: FloatArray


@dataclass(frozen=True, eq=False)
class _Path:
    """The solutions for every penalty."""

    count: int
    mean: FloatArray
    level: float
    spectrum: FloatArray
    basis: FloatArray
    inside: FloatArray

    def predict(self, block: FloatArray, penalties: Sequence[float]) -> tuple[FloatArray, FloatArray]:
        """Return predictions (rows, penalties), and the weight of each training row in its own prediction."""
        z = (block - self.mean) @ self.basis
        strength = np.asarray(penalties) * max(float(self.spectrum.mean()), 1e-300)
        shrinking = 1 / (self.spectrum[:, None] + strength)
        return z @ (shrinking * self.inside[:, None]) + self.level, (z**2) @ shrinking / self.count + 1 / self.count


def evaluate_regression(
    train: tuple[object, FloatArray],
    test: object,
    *,
    validation: tuple[object, FloatArray] | None = None,
    penalties: Sequence[float] = PENALTIES,
    **how: object,
) -> Regression:
    """Choose a penalty, fit, and predict the test rows.

    Args:
        train: features (n, d) and numbers (n,).
        test: features (m, d).
        validation: rows to choose the penalty by, instead of cross-validation; the final fit has them too.
        penalties: to choose from, as shares of the features' mean variance.
        how: of `FeatureSet`: `square_root`, `memory_limit`.

    Raises:
        DataError: fewer than three rows, or all with the same number.
    """
    began, cut = time.perf_counter(), len(train[1])
    features, numbers = join_rows(train, validation)
    if len(numbers) < 3 or np.ptp(numbers[:cut]) == 0:
        raise DataError("a regression needs three training images or more, with different numbers.")
    rows, wanted = prepare_rows(features, test, **{"normalize": False, **how})
    scale = float(numbers.std())
    y = (numbers - numbers.mean()) / scale  # sums of large numbers lose digits
    chosen = np.arange(len(y)) < cut
    path = _solve(rows, y, chosen)
    errors = np.zeros(len(penalties))
    held = chosen if validation is None else ~chosen
    for start, stop in rows.blocks():
        own = held[start:stop]
        if own.any():
            found, weight = path.predict(_doubles(rows.read(start, stop))[own], penalties)
            off = found - y[start:stop][own, None]
            errors += ((off if validation is not None else off / np.maximum(1 - weight, 1e-9)) ** 2).sum(0)
    r2 = 1 - errors / ((y[held] - y[held].mean()) ** 2).sum()
    trials = tuple(Trial({"regularization": p}, float(v)) for p, v in zip(penalties, r2, strict=True))
    # Of equally good penalties, the strongest.
    best = max(i for i, value in enumerate(r2) if value >= r2.max() - 1e-9)
    if validation is not None:
        path = _solve(rows, y, np.ones(len(y), np.bool_))
    best_one = [penalties[best]]
    parts = [path.predict(_doubles(wanted.read(*bounds)), best_one)[0][:, 0] for bounds in wanted.blocks()]
    predictions = np.concatenate(parts) * scale + numbers.mean()
    seconds = time.perf_counter() - began
    return Regression(trials, trials[best].parameters, seconds, len(numbers), predictions)


def explained(numbers: FloatArray, predictions: FloatArray) -> FloatArray:
    """Return the contribution (n,) of each image to R^2: their mean is R^2."""
    spread = float(((numbers - numbers.mean()) ** 2).mean())
    return np.asarray(1 - (numbers - predictions) ** 2 / spread) if spread else np.full(len(numbers), np.nan)


def _solve(rows: FeatureSet, y: FloatArray, chosen: BoolArray) -> _Path:
    """Solve for every penalty, from second moments of the chosen rows (X, y, 1) in float64."""
    moments = np.zeros((rows.dimension + 2, rows.dimension + 2))
    for start, stop in rows.blocks():
        block, own = _doubles(rows.read(start, stop)), chosen[start:stop]
        table = np.column_stack([block, y[start:stop], np.ones(len(block))])[own]
        moments += table.T @ table
    mean = moments[-1, :-1] / moments[-1, -1]
    covariance = moments[:-1, :-1] / moments[-1, -1] - np.outer(mean, mean)
    spectrum, basis = np.linalg.eigh(covariance[:-1, :-1])
    inside = basis.T @ covariance[:-1, -1]
    return _Path(int(moments[-1, -1]), mean[:-1], float(mean[-1]), np.clip(spectrum, 0, None), basis, inside)


def _doubles(block: Tensor) -> FloatArray:
    return block.numpy().astype(np.float64)
