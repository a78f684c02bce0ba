"""Cross-validated ridge regression onto classes, values or several labels, with training sets of two sizes.

Paper:      Hoerl & Kennard, "Ridge regression", Technometrics 1970; the precision of several labels is that of Schapire
            & Singer, "BoosTexter", Machine Learning 2000 (label ranking average precision)
Shapes:     X (n, d) features, centred by the training rows, of n dimensions if n < d; Y (n, t) targets
Implements: W(l) = (X'X + l tr(X'X) / r)^-1 X'Y on the rows of some folds: the moments of every fold are computed once,
            and those of a training set are their sum. Fits on two of five folds choose the penalty of the fits on four:
            the penalty of a held-out fold is chosen by fits that did not train on it, on rows of other folds (nested
            cross-validation). The same two sizes show how much a larger training set gains
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from unseen.core.arrays import AnyArray, FloatArray, FloatingArray, IntArray
from unseen.core.errors import DataError
from unseen.ranking.spectrum import decompose

PENALTIES = tuple(10.0 ** (k / 2 - 5) for k in range(15))
FOLDS = 5
#: Fewest images that can be cross-validated.
FEWEST = 2 * FOLDS
#: The most rows that a fit of the smaller size predicts.
_MOST = 10_000


@dataclass(frozen=True, eq=False)
class ClassTask:
    """Class indices; an outcome is 1 if the class is predicted correctly, else 0."""

    index: IntArray
    classes: int

    def targets(self, rows: IntArray) -> FloatingArray:
        """Return (b, t) targets of some rows."""
        found = np.zeros((len(rows), self.classes), np.float32)
        found[np.arange(len(rows)), self.index[rows]] = 1.0
        return found

    def outcomes(self, scores: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return (b,) values that choose the penalty, higher is better, and the (b,) outcomes, for scores (b, t)."""
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


#: What ridge regression predicts.
Task = ClassTask | ValueTask


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


@dataclass(frozen=True, eq=False)
class Smaller:
    """What a fit on some of the folds shows.

    Attributes:
        train: the folds that it was fitted on.
        values, outcomes: (l, n) of every penalty, what chooses it, higher is better, and the outcomes; NaN for rows
            that were not predicted.
    """

    train: Sequence[int]
    values: FloatArray
    outcomes: FloatArray


def nested(
    folds: IntArray,
    index: IntArray,
    smaller: Sequence[Smaller],
    final: Callable[[int, int], FloatArray],
    choose: Callable[[FloatArray], int],
) -> Crossed:
    """Evaluate every fold at the penalty that other images choose, by fits that did not see the fold.

    Args:
        folds: (n,) the fold that holds each row out, from 0; -1 for a row that every fit sees.
        index: (n,) classes, so that training rows are counted per class.
        smaller: fits on fewer folds.
        final: return the outcomes of a fold by the fit on all others, given the fold and the place of the penalty.
        choose: return the place of the best penalty, given values (l, m) of other images; m is 0 without smaller fits.
    """
    found, gains, steps = np.full(len(folds), np.nan), np.zeros(len(folds)), np.zeros(len(folds))
    classes = int(index.max()) + 1
    for fold in range(int(folds.max()) + 1):
        own = folds == fold
        others = [one for one in smaller if fold not in one.train]
        values = [one.values[:, ~own & np.isfinite(one.values[0])] for one in others]
        best = choose(np.concatenate(values, axis=1) if values else np.zeros((0, 0)))
        found[own] = final(fold, best)
        many = np.bincount(index[~own], minlength=classes)
        for one in others:
            seen = np.bincount(index[np.isin(folds, (*one.train, -1))], minlength=classes)
            at = np.flatnonzero(own & np.isfinite(one.outcomes[best]) & (seen[index] > 0))
            gains[at] += found[at] - one.outcomes[best, at]
            steps[at] += seen[index[at]] ** -0.5 - many[index[at]] ** -0.5
    return Crossed(found, gains, steps)


def cross_validate(rows: AnyArray, folds: IntArray, task: Task, index: IntArray | None = None) -> Crossed:
    """Predict every row by ridge fits on the other folds, and by fits on about half of them (`nested`).

    Args:
        rows: (n, d) features; for classes scaled to unit length.
        folds: (n,) the fold that holds each row out, from 0; -1 for a row that every fit sees.
        task: what to predict.
        index: (n,) classes, if training rows are counted per class.
    """
    fits, count = _Fits(rows, folds, task), int(folds.max()) + 1
    half = max(count // 2, 1)
    trains = [[(k + j) % count for j in range(half)] for k in range(count if count > 2 else 0)]
    smaller = []
    for train in trains:
        held, *both = fits.predict(train, PENALTIES, _MOST)
        placed = np.full((2, len(PENALTIES), len(rows)), np.nan, np.float32)
        placed[:, :, held] = both
        smaller.append(Smaller(train, *placed))

    def final(fold: int, place: int) -> FloatArray:
        return np.asarray(fits.predict([k for k in range(count) if k != fold], PENALTIES[place : place + 1])[2][0])

    def choose(values: FloatArray) -> int:
        return int(values.sum(axis=1, dtype=np.float64).argmax()) if values.size else len(PENALTIES) // 2

    return nested(folds, np.zeros(len(rows), np.int64) if index is None else index, smaller, final, choose)


class _Fits:
    """Ridge fits on the rows of some folds."""

    def __init__(self, rows: AnyArray, folds: IntArray, task: Task) -> None:
        # Ridge regression depends on the rows only through the space that they span.
        self.rows = decompose(rows, centre=False).scores if len(rows) < rows.shape[1] else rows
        self.folds, self.task = folds, task
        self.moments = {fold: self._moments(np.flatnonzero(folds == fold)) for fold in np.unique(folds).tolist()}

    def _moments(self, chosen: IntArray) -> tuple[AnyArray, ...]:
        """Return the number of rows, and the sums of X, X'X, Y and X'Y."""
        x, y = self.rows[chosen], self.task.targets(chosen)
        return np.asarray(len(x)), x.sum(axis=0), x.T @ x, y.sum(axis=0), x.T @ y

    def predict(
        self, train: Sequence[int], penalties: Sequence[float], most: int = 0
    ) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return the held-out rows (m,), and for each penalty (l, m) what chooses it and the outcomes.

        Args:
            train: folds to fit on, in addition to the rows that every fit sees.
            penalties: in units of the mean eigenvalue.
            most: predict a sample of so many rows; 0 for all.
        """
        from scipy.linalg import eigh  # planning does not need it

        held = np.flatnonzero(~np.isin(self.folds, (*train, -1)))
        if most and len(held) > most:
            held = held[np.linspace(0, len(held) - 1, most).astype(np.int64)]
        own = [self.moments[fold] for fold in (*train, -1) if fold in self.moments]
        count, sums, second, targets, cross = (sum(parts) for parts in zip(*own, strict=True))
        mean, target = sums / count, targets / count
        spectrum, basis = eigh(second - np.outer(sums, mean), driver="evd", overwrite_a=True, check_finite=False)
        spectrum = np.maximum(spectrum, 0.0)
        inside = basis.T @ (cross - np.outer(sums, target))
        unit = float(spectrum.sum()) / min(int(count), len(spectrum)) or 1.0
        rows, found = self.rows[held], []
        for penalty in penalties:
            weights = (basis @ (inside / (spectrum + penalty * unit)[:, None])).astype(rows.dtype)
            found.append(self.task.outcomes(rows @ weights + (target - mean @ weights), held))
        values, outcomes = (np.stack(each) for each in zip(*found, strict=True))
        return held, values, outcomes


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
