"""Cross-validated ridge regression onto classes, values or several labels, with training sets of two sizes.

Paper:      Hoerl & Kennard, "Ridge regression", Technometrics 1970; the precision of several labels is that of Schapire
            & Singer, "BoosTexter", Machine Learning 2000 (label ranking average precision)
Shapes:     X (n, d) features, centred by the training rows; Y (n, t) targets; G = X'X or XX', the smaller
Implements: W(l) = (X'X + l tr(X'X) / r)^-1 X'Y on the rows of some folds: the moments of every fold are computed once,
            and those of a training set are their sum. Fits on two of five folds choose the penalty of the fits on four:
            the penalty of a held-out fold is chosen by fits that did not train on it, on rows of other folds (nested
            cross-validation). The same two sizes show how much a larger training set gains
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from unseen.core.arrays import AnyArray, FloatArray, FloatingArray, IntArray
from unseen.core.errors import DataError

PENALTIES = tuple(10.0 ** (k / 2 - 5) for k in range(15))
FOLDS = 5
#: Fewest images that can be cross-validated.
FEWEST = 2 * FOLDS
#: Folds of the smaller training sets, by the number of all folds.
_SMALLER = {2: 0, 3: 1, 4: 2, 5: 2}
#: Rows at a time, and the most rows that a fit of the smaller size predicts.
_BLOCK, _MOST = 4096, 10_000


class Task(Protocol):
    """What ridge regression predicts."""

    def targets(self, rows: IntArray) -> FloatingArray:
        """Return (b, t) targets of some rows."""

    def outcomes(self, scores: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return (b,) values that choose the penalty, higher is better, and the (b,) outcomes, for scores (b, t)."""


@dataclass(frozen=True, eq=False)
class ClassTask:
    """Class indices; an outcome is 1 if the class is predicted correctly, else 0."""

    index: IntArray
    classes: int

    def targets(self, rows: IntArray) -> FloatingArray:
        found = np.zeros((len(rows), self.classes), np.float32)
        found[np.arange(len(rows)), self.index[rows]] = 1.0
        return found

    def outcomes(self, scores: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        right = (scores.argmax(axis=1) == self.index[rows]).astype(np.float64)
        return right, right


@dataclass(frozen=True, eq=False)
class ValueTask:
    """Values (n, t); an outcome is 1 - (value - predicted)^2 / variance, whose mean is R^2."""

    values: FloatArray

    def targets(self, rows: IntArray) -> FloatingArray:
        return self.values[rows]

    def outcomes(self, scores: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        found = (1.0 - (self.values[rows] - scores) ** 2 / self.values.var(axis=0)).mean(axis=1)
        return found, found


@dataclass(frozen=True, eq=False)
class LabelTask(ValueTask):
    """Labels in {0, 1}, (n, t); an outcome is the precision at each label of a row, averaged over them."""

    def outcomes(self, scores: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        from scipy.stats import rankdata  # planning does not need it

        own = self.values[rows] > 0
        every = rankdata(-scores, "max", axis=1)
        among_own = rankdata(np.where(own, -scores, np.inf), "max", axis=1)
        precision = (among_own / every * own).sum(axis=1) / np.maximum(own.sum(axis=1), 1)
        return super().outcomes(scores, rows)[0], np.where(own.any(axis=1), precision, 1.0)


@dataclass(frozen=True, eq=False)
class Crossed:
    """Outcomes of cross-validation.

    Attributes:
        outcomes: (n,) of each row by the fit on all other folds; NaN for a row that every fit has seen.
        gains: (n,) summed differences between this outcome and those of fits on about half as many rows.
        steps: (n,) summed differences of m^(-1/2) that belong to the gains, where m is the number of training rows, of
            the row's own class if there are classes; 0 without a smaller fit that has seen the class.
    """

    outcomes: FloatArray
    gains: FloatArray
    steps: FloatArray


def cross_validate(rows: AnyArray, folds: IntArray, task: Task, index: IntArray | None = None) -> Crossed:
    """Predict every row by fits on the other folds, and by fits on about half of them.

    Args:
        rows: (n, d) features; for classes scaled to unit length.
        folds: (n,) the fold that holds each row out, from 0; -1 for a row that every fit sees.
        task: what to predict.
        index: (n,) classes, if training rows are counted per class.
    """
    fits, count = _Fits(rows, folds, task), int(folds.max()) + 1
    index = np.zeros(len(rows), np.int64) if index is None else index
    smaller = [tuple((k + j) % count for j in range(_SMALLER[count])) for k in range(count if _SMALLER[count] else 0)]
    tried = [fits.predict(train, PENALTIES, _MOST) for train in smaller]
    found = np.full(len(rows), np.nan)
    gains, steps = np.zeros(len(rows)), np.zeros(len(rows))
    if not smaller:  # two folds: the rows of the other fold choose
        both = [fits.predict((1 - k,), PENALTIES) for k in range(2)]
        for (held, _, each), (_, values, _) in zip(both, reversed(both), strict=True):
            found[held] = each[int(values.sum(axis=1).argmax())]
        return Crossed(found, gains, steps)
    seen = [np.bincount(index[np.isin(folds, (*train, -1))], minlength=index.max() + 1) for train in smaller]
    for fold in range(count):
        others = [k for k, train in enumerate(smaller) if fold not in train]
        values = sum(tried[k][1][:, folds[tried[k][0]] != fold].sum(axis=1) for k in others)
        best = int(np.argmax(values))
        held, _, (own,) = fits.predict([k for k in range(count) if k != fold], PENALTIES[best : best + 1])
        found[held] = own
        many = np.bincount(index[folds != fold], minlength=len(seen[0]))
        for k in others:
            place, _, each = tried[k]
            mine = (folds[place] == fold) & (seen[k][index[place]] > 0)
            at = place[mine]
            gains[at] += found[at] - each[best, mine]
            steps[at] += seen[k][index[at]] ** -0.5 - many[index[at]] ** -0.5
    return Crossed(found, gains, steps)


class _Fits:
    """Ridge fits on the rows of some folds."""

    def __init__(self, rows: AnyArray, folds: IntArray, task: Task) -> None:
        self.rows, self.folds, self.task = rows, folds, task
        self.wide = len(rows) < rows.shape[1]
        if self.wide:
            self.products = rows @ rows.T
        else:
            self.moments = {fold: self._moments(np.flatnonzero(folds == fold)) for fold in np.unique(folds).tolist()}

    def predict(
        self, train: Sequence[int], penalties: Sequence[float], most: int = 0
    ) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return the held-out rows (m,), and for each penalty (l, m) what chooses it and the outcomes.

        Args:
            train: folds to fit on, in addition to the rows that every fit sees.
            penalties: in units of the mean eigenvalue.
            most: predict a sample of so many rows; 0 for all.
        """
        held = np.flatnonzero(~np.isin(self.folds, (*train, -1)))
        if most and len(held) > most:
            held = held[np.linspace(0, len(held) - 1, most).astype(np.int64)]
        scores = (self._by_products if self.wide else self._by_moments)(train, penalties, held)
        values, outcomes = np.empty((len(penalties), len(held))), np.empty((len(penalties), len(held)))
        for place, start, found in scores:
            part = slice(start, start + len(found))
            values[place, part], outcomes[place, part] = self.task.outcomes(found, held[part])
        return held, values, outcomes

    def _moments(self, chosen: IntArray) -> tuple[AnyArray, ...]:
        """Return the number of rows, and the sums of X, X'X, Y and X'Y."""
        total: tuple[AnyArray, ...] = ()
        for start in range(0, len(chosen), _BLOCK):
            part = chosen[start : start + _BLOCK]
            x, y = self.rows[part], self.task.targets(part)
            found = (np.asarray(len(part)), x.sum(axis=0), x.T @ x, y.sum(axis=0), x.T @ y)
            total = tuple(a + b for a, b in zip(total, found, strict=True)) if total else found
        return total

    def _by_moments(
        self, train: Sequence[int], penalties: Sequence[float], held: IntArray
    ) -> Iterator[tuple[int, int, FloatArray]]:
        """Yield the penalty's place, the first row and scores of the held-out rows, a block at a time."""
        own = [self.moments[fold] for fold in (*train, -1) if fold in self.moments]
        count, sums, second, targets, cross = (sum(parts) for parts in zip(*own, strict=True))
        mean, target = sums / count, targets / count
        spectrum, basis = _decompose(second - np.outer(sums, mean))
        inside = basis.T @ (cross - np.outer(sums, target))
        unit = float(spectrum.sum()) / min(int(count), len(spectrum)) or 1.0
        for place, penalty in enumerate(penalties):
            weights = (basis @ (inside / (spectrum + penalty * unit)[:, None])).astype(self.rows.dtype)
            bias = target - mean @ weights
            for start in range(0, len(held), _BLOCK):
                yield place, start, self.rows[held[start : start + _BLOCK]] @ weights + bias

    def _by_products(
        self, train: Sequence[int], penalties: Sequence[float], held: IntArray
    ) -> Iterator[tuple[int, int, FloatArray]]:
        chosen = np.flatnonzero(np.isin(self.folds, (*train, -1)))
        products, y = self.products[np.ix_(chosen, chosen)], self.task.targets(chosen)
        means, target = products.mean(axis=0), y.mean(axis=0)
        spectrum, basis = _decompose(products - means - means[:, None] + means.mean())
        inside = basis.T @ (y - target)
        left = self.products[np.ix_(held, chosen)]
        left = (left - left.mean(axis=1, keepdims=True) - means + means.mean()) @ basis
        unit = float(spectrum.sum()) / min(len(chosen), self.rows.shape[1]) or 1.0
        for place, penalty in enumerate(penalties):
            yield place, 0, left @ (inside / (spectrum + penalty * unit)[:, None]) + target


def _decompose(matrix: AnyArray) -> tuple[AnyArray, AnyArray]:
    from scipy.linalg import eigh  # planning does not need it

    spectrum, basis = eigh(matrix, driver="evd", overwrite_a=True, check_finite=False)
    return np.maximum(spectrum, 0.0), basis


def random_folds(rows: int, seed: int, groups: IntArray | None = None) -> IntArray:
    """Return the fold that holds each row out: rows of a group together, folds of nearly equal size."""
    if groups is None:
        return np.random.default_rng([seed, 5]).permutation(rows) % FOLDS
    index, counts = np.unique(groups, return_inverse=True, return_counts=True)[1:]
    order = np.random.default_rng([seed, 5]).permutation(len(counts))
    place = np.cumsum(counts[order]) - counts[order]
    fold_of = np.empty(len(counts), np.int64)
    fold_of[order] = np.minimum(place * FOLDS // rows, FOLDS - 1)
    return np.asarray(fold_of[index])


def check_targets(features: ArrayLike, targets: ArrayLike) -> tuple[FloatArray, FloatArray]:
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
