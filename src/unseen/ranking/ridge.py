"""Cross-validated ridge regression onto classes, values or several labels.

Paper:      Hoerl & Kennard, "Ridge regression", Technometrics 1970; the precision of several labels is that of Schapire
            & Singer, "BoosTexter", Machine Learning 2000 (label ranking average precision)
Shapes:     X (n, d) features, centred by the training rows; Y (n, t) targets; G = X'X or XX', the smaller
Implements: W(l) = (X'X + l tr(X'X) / r)^-1 X'Y on four fifths of the rows, l chosen by the squared error of the
            held-out rows: on the first fold alone if all folds would be expensive
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError
from unseen.ranking.inputs import FloatArray, IntArray, Labels
from unseen.ranking.sampling import stratified_folds

PENALTIES = tuple(10.0 ** (k / 2 - 5) for k in range(15))
FOLDS = 5
#: Fewest images that can be cross-validated.
FEWEST = 2 * FOLDS
#: n x d x t from which one fold chooses the penalty for all.
_DEAR = 1 << 31


def class_hits(rows: FloatArray, known: Labels, *, seed: int = 0) -> FloatArray:
    """Return 1 for held-out rows that are classified correctly, else 0; NaN for the only row of a class."""
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    folds = stratified_folds(known.index, FOLDS, seed)
    found = _left_out_class(unit.astype(np.float32), known, folds)
    return np.where(folds < 0, np.nan, (found == known.index).astype(np.float64))


def value_parts(features: npt.ArrayLike, values: npt.ArrayLike, *, seed: int = 0) -> FloatArray:
    """Return 1 - (value - found)^2 / variance per row, averaged over the columns: the mean of all rows is R^2."""
    rows, targets = check_targets(features, values)
    found = left_out_predictions(rows, targets, seed=seed)
    return np.asarray((1.0 - (targets - found) ** 2 / targets.var(axis=0)).mean(axis=1))


def label_parts(features: npt.ArrayLike, labels: npt.ArrayLike, *, seed: int = 0) -> FloatArray:
    """Return the precision at each label of a row, averaged over them; 1 for a row that has none or all."""
    rows, targets = check_targets(features, labels)
    if not np.isin(targets, (0.0, 1.0)).all():
        raise DataError("several labels per image are columns of 0 and 1; other values were found.")
    scores = left_out_predictions(rows, targets, seed=seed)
    parts = np.ones(len(rows))
    for row in np.flatnonzero(targets.any(axis=1) & ~targets.all(axis=1)):
        own = scores[row, targets[row] > 0]
        above = (scores[row][None, :] >= own[:, None]).sum(axis=1)
        parts[row] = float(((own[None, :] >= own[:, None]).sum(axis=1) / above).mean())
    return parts


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
        solver = _Solver(rows[~held], rows[held])
        moved = targets[~held].mean(axis=0)
        inside = solver.inside(targets[~held] - moved)
        for place, penalty in enumerate(PENALTIES):
            found[place, held] = solver.predict(inside, penalty) + moved
    lost = ((found - targets) ** 2 / targets.var(axis=0)).mean(axis=(1, 2))
    return np.asarray(found[int(lost.argmin())])


def _left_out_class(rows: npt.NDArray[np.float32], known: Labels, folds: IntArray) -> IntArray:
    """Return the class of greatest score of every held-out row, without an indicator matrix of all rows."""
    found = np.full(len(rows), -1, np.int64)
    penalty, dear = 0.0, rows.size * known.classes >= _DEAR
    right = np.zeros(len(PENALTIES))
    kept: list[tuple[IntArray, list[IntArray]]] = []
    for fold in range(FOLDS):
        train, held = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        solver = _Solver(rows[train], rows[held])
        inside = solver.indicator_inside(known.index[train], known.classes)
        if dear and fold:
            found[held] = solver.predict(inside, penalty).argmax(axis=1)
            continue
        each = [solver.predict(inside, p).argmax(axis=1) for p in PENALTIES]
        right += [float((one == known.index[held]).sum()) for one in each]
        kept.append((held, each))
        if dear:
            penalty = PENALTIES[int(right.argmax())]
    for held, each in kept:
        found[held] = each[int(right.argmax())]
    return found


class _Solver:
    """The decomposed training rows of one fold, and the held-out rows in their basis."""

    def __init__(self, train: npt.NDArray[np.floating], held: npt.NDArray[np.floating]) -> None:
        self.centre = train.mean(axis=0)
        train, held = train - self.centre, held - self.centre
        self.wide = len(train) < train.shape[1]
        gram = train @ train.T if self.wide else train.T @ train
        from scipy.linalg import eigh  # planning does not need it

        self.spectrum, self.basis = eigh(gram, driver="evd", overwrite_a=True, check_finite=False)
        self.spectrum = np.maximum(self.spectrum, 0.0)
        self.train = train
        self.left = (held @ train.T if self.wide else held) @ self.basis
        self.unit = float(self.spectrum.sum()) / len(self.spectrum) or 1.0

    def inside(self, targets: FloatArray) -> FloatArray:
        """Return the centred targets in the basis."""
        return np.asarray(self.basis.T @ (targets if self.wide else self.train.T @ targets))

    def indicator_inside(self, index: IntArray, classes: int) -> FloatArray:
        """Return `inside` of centred class indicators: sums of rows by class."""
        source = self.basis if self.wide else self.train
        sums = np.zeros((classes, source.shape[1]), source.dtype)
        np.add.at(sums, index, source)
        shares = np.bincount(index, minlength=classes)[:, None] / len(index)
        sums = sums - (shares * source.sum(axis=0)).astype(source.dtype)
        self.offset = shares[:, 0].astype(source.dtype)
        return np.asarray(sums.T if self.wide else self.basis.T @ sums.T)

    def predict(self, inside: FloatArray, penalty: float) -> FloatArray:
        scaled = inside / (self.spectrum + penalty * self.unit)[:, None].astype(inside.dtype)
        return np.asarray(self.left @ scaled) + getattr(self, "offset", 0.0)
