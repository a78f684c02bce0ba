"""Cross-validated ridge regression onto classes, values or several labels.

Paper:      Hoerl & Kennard, "Ridge regression", Technometrics 1970; the precision of several labels is that of Schapire
            & Singer, "BoosTexter", Machine Learning 2000 (label ranking average precision)
Shapes:     X (n, d) features, centred by the training rows; Y (n, t) targets; G = X'X or XX', the smaller
Implements: W(l) = (X'X + l tr(X'X) / r)^-1 X'Y on four fifths of the rows, l chosen by the squared error of the
            held-out rows; for classes, by the accuracy of the first fold
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from unseen.core.arrays import FloatArray, FloatingArray, IntArray
from unseen.core.errors import DataError
from unseen.ranking.inputs import Labels, stratified_folds

PENALTIES = tuple(10.0 ** (k / 2 - 5) for k in range(15))
FOLDS = 5
#: Fewest images that can be cross-validated.
FEWEST = 2 * FOLDS


def class_hits(rows: FloatArray, known: Labels, *, seed: int = 0) -> FloatArray:
    """Return 1 for held-out rows that are classified correctly, else 0; NaN for the only row of a class.

    The first fold chooses the penalty for all: this is for problems that are too large to try all penalties on each.
    """
    unit = (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)).astype(np.float32)
    folds = stratified_folds(known.index, FOLDS, seed)
    hits = np.full(len(rows), np.nan)
    penalties: Sequence[float] = PENALTIES
    for fold in range(folds.max() + 1):
        train, held = folds != fold, folds == fold
        solver = _Solver(unit[train], unit[held])
        predict = solver.classes(known.index[train], known.classes)
        each = [predict(penalty).argmax(axis=1) == known.index[held] for penalty in penalties]
        best = int(np.argmax([right.sum() for right in each]))
        hits[held], penalties = each[best], penalties[best : best + 1]
    return hits


def value_parts(features: npt.ArrayLike, values: npt.ArrayLike, *, seed: int = 0) -> FloatArray:
    """Return 1 - (value - found)^2 / variance per row, averaged over the columns: the mean of all rows is R^2."""
    rows, targets = check_targets(features, values)
    found = left_out_predictions(rows, targets, seed=seed)
    return np.asarray((1.0 - (targets - found) ** 2 / targets.var(axis=0)).mean(axis=1))


def label_parts(features: npt.ArrayLike, labels: npt.ArrayLike, *, seed: int = 0) -> FloatArray:
    """Return the precision at each label of a row, averaged over them; 1 for a row that has none or all."""
    from scipy.stats import rankdata  # planning does not need it

    rows, targets = check_targets(features, labels)
    if not np.isin(targets, (0.0, 1.0)).all():
        raise DataError("several labels per image are columns of 0 and 1; other values were found.")
    scores, own = -left_out_predictions(rows, targets, seed=seed), targets > 0
    every = rankdata(scores, "max", axis=1)
    among_own = rankdata(np.where(own, scores, np.inf), "max", axis=1)
    precision = (among_own / every * own).sum(axis=1) / np.maximum(own.sum(axis=1), 1)
    return np.where(own.any(axis=1), precision, 1.0)


def check_targets(features: npt.ArrayLike, targets: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return features and columns of targets in double precision; raise a `DataError` for unusable ones."""
    rows, columns = np.asarray(features, dtype=np.float64), np.asarray(targets, dtype=np.float64)
    columns = columns[:, None] if columns.ndim == 1 else columns
    if rows.ndim != 2 or columns.ndim != 2 or len(rows) != len(columns):
        raise DataError(f"features of shape {rows.shape} and targets of shape {columns.shape} do not belong together.")
    if len(rows) < FEWEST:
        raise DataError(f"{len(rows)} images are too few for cross-validation: at least {FEWEST} are needed.")
    if not np.isfinite(rows).all() or not np.isfinite(columns).all():
        raise DataError("features or targets hold NaN or infinity. Remove those rows.")
    if not columns.std(axis=0).all() or not np.ptp(rows, axis=0).any():
        raise DataError("the features, or a column of the targets, are constant: there is nothing to predict.")
    return rows, columns


def left_out_predictions(rows: FloatArray, targets: FloatArray, *, seed: int = 0) -> FloatArray:
    """Return the targets of every row, (n, t), predicted by a fit on the other folds."""
    folds = np.random.default_rng([seed, 5]).permutation(len(rows)) % FOLDS
    found = np.empty((len(PENALTIES), *targets.shape))
    for fold in range(FOLDS):
        held = folds == fold
        predict = _Solver(rows[~held], rows[held]).values(targets[~held])
        found[:, held] = [predict(penalty) for penalty in PENALTIES]
    lost = ((found - targets) ** 2 / targets.var(axis=0)).mean(axis=(1, 2))
    return np.asarray(found[int(lost.argmin())])


class _Solver:
    """The decomposed training rows of one fold, and the held-out rows in their basis."""

    def __init__(self, train: FloatingArray, held: FloatingArray) -> None:
        from scipy.linalg import eigh  # planning does not need it

        centre = train.mean(axis=0)
        self.train, held = train - centre, held - centre
        self.wide = len(train) < train.shape[1]
        gram = self.train @ self.train.T if self.wide else self.train.T @ self.train
        spectrum, self.basis = eigh(gram, driver="evd", overwrite_a=True, check_finite=False)
        self.spectrum = np.maximum(spectrum, 0.0)
        self.left = (held @ self.train.T if self.wide else held) @ self.basis

    def values(self, targets: FloatArray) -> Callable[[float], FloatArray]:
        """Return the function from a penalty to the predicted targets of the held-out rows."""
        mean = targets.mean(axis=0)
        centred = targets - mean
        return partial(self._predict, self.basis.T @ (centred if self.wide else self.train.T @ centred), mean)

    def classes(self, index: IntArray, classes: int) -> Callable[[float], FloatArray]:
        """Return the function from a penalty to the scores of all classes: sums of rows, no indicator matrix."""
        source = self.basis if self.wide else self.train
        sums = np.zeros((classes, source.shape[1]), source.dtype)
        np.add.at(sums, index, source)
        shares = np.bincount(index, minlength=classes)[:, None] / len(index)
        sums = sums - (shares * source.sum(axis=0)).astype(source.dtype)
        inside = sums.T if self.wide else self.basis.T @ sums.T
        return partial(self._predict, inside, shares[:, 0].astype(source.dtype))

    def _predict(self, inside: FloatArray, mean: FloatArray, penalty: float) -> FloatArray:
        unit = float(self.spectrum.sum()) / len(self.spectrum) or 1.0
        scaled = inside / (self.spectrum + penalty * unit)[:, None].astype(inside.dtype)
        return np.asarray(self.left @ scaled) + mean
