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
class Task:
    """What ridge regression predicts.

    Attributes:
        targets: return the (b, t) targets of some rows.
        outcomes: return the (b,) outcomes, higher is better, of scores (b, t) of some rows.
    """

    targets: Callable[[IntArray], FloatingArray]
    outcomes: Callable[[FloatArray, IntArray], FloatArray]


def class_task(index: IntArray, classes: int) -> Task:
    """Return the task of class indices; an outcome is 1 if the class is predicted correctly, else 0."""
    indicators = np.eye(classes, dtype=np.float32)
    return Task(
        lambda rows: indicators[index[rows]],
        lambda scores, rows: (scores.argmax(axis=1) == index[rows]).astype(np.float64),
    )


def value_task(values: FloatArray) -> Task:
    """Return the task of values (n, t); an outcome is 1 - (value - predicted)^2 / variance, whose mean is R^2."""
    variance = values.var(axis=0)
    return Task(
        lambda rows: values[rows],
        lambda scores, rows: (1.0 - (values[rows] - scores) ** 2 / variance).mean(axis=1),
    )


def label_task(labels: FloatArray) -> Task:
    """Return the task of labels in {0, 1}, (n, t); an outcome is the precision at each label of a row, averaged."""

    def precision(scores: FloatArray, rows: IntArray) -> FloatArray:
        from scipy.stats import rankdata  # planning does not need it

        own = labels[rows] > 0
        every = rankdata(-scores, "max", axis=1)
        among_own = rankdata(np.where(own, -scores, np.inf), "max", axis=1)
        found = (among_own / every * own).sum(axis=1) / np.maximum(own.sum(axis=1), 1)
        return np.where(own.any(axis=1), found, 1.0)

    return Task(lambda rows: labels[rows], precision)


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
        outcomes: (l, n) of every penalty; NaN for rows that were not predicted.
    """

    train: Sequence[int]
    outcomes: FloatingArray


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
        choose: return the place of the best penalty, given outcomes (l, m) of other images;
            m is 0 without smaller fits.
    """
    found, gains, steps = np.full(len(folds), np.nan), np.zeros(len(folds)), np.zeros(len(folds))
    classes = int(index.max()) + 1
    for fold in range(int(folds.max()) + 1):
        own = folds == fold
        others = [one for one in smaller if fold not in one.train]
        values = [one.outcomes[:, ~own & np.isfinite(one.outcomes[0])] for one in others]
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
        placed = np.full((len(PENALTIES), len(rows)), np.nan, np.float32)
        held, outcomes = fits.predict(train, PENALTIES, _MOST)
        placed[:, held] = outcomes
        smaller.append(Smaller(train, placed))

    def final(fold: int, place: int) -> FloatArray:
        return np.asarray(fits.predict([k for k in range(count) if k != fold], PENALTIES[place : place + 1])[1][0])

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

    def predict(self, train: Sequence[int], penalties: Sequence[float], most: int = 0) -> tuple[IntArray, FloatArray]:
        """Return the held-out rows (m,), and the outcomes (l, m) for each penalty.

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
        return held, np.stack(found)


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
