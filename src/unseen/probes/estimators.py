"""The probes as scikit-learn classifiers: parameters in the constructor, learned attributes with a trailing underscore.

Each holds out part of its training data to choose hyper-parameters, keeps the sweep in `trials_`, and fits the chosen
setting on everything. Arrays are checked by scikit-learn; memory maps and stores of rows that are not arrays are read a
block at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from unseen.core.errors import DataError, UnknownNameError
from unseen.probes.draws import Draw, draw_rows
from unseen.probes.evaluate import labelled
from unseen.probes.knn import NEIGHBORS, TEMPERATURE
from unseen.probes.lbfgs import TOLERANCE
from unseen.probes.linear import LinearModel
from unseen.probes.logistic import POWER
from unseen.probes.protocol import Protocol
from unseen.probes.ridge import PENALTIES
from unseen.probes.rows import MEMORY_LIMIT, FeatureSet
from unseen.probes.solvers import Settings, solve
from unseen.probes.workers import Workers

FloatArray = npt.NDArray[np.float64]


class _Probe(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What all probes share: checks, the fit of one draw, and prediction in blocks."""

    normalize: bool
    memory_limit: int

    def fit(self, X: Any, y: npt.ArrayLike) -> Self:
        """Choose hyper-parameters on held-out rows of (X, y) and fit on all of them.

        Args:
            X: (n, d) features: an array, a memory map, or rows of a store.
            y: (n,) labels.
        """
        rows, labels = self._checked(X, y)
        data = labelled(rows, labels)
        draw = self._draw(data.labels.numpy())
        with Workers() as workers:
            fitted = solve(self._solver(), data, [draw], workers, self._settings())[0]
        self.classes_ = np.unique(labels)
        self.trials_ = fitted.trials
        self.best_params_ = dict(fitted.best)
        self._model = fitted.model
        self.expected_ = None if fitted.estimate is None else (fitted.estimate.accuracy, fitted.estimate.standard_error)
        if isinstance(fitted.model, LinearModel):
            self.coef_ = fitted.model.weights.numpy()
            self.intercept_ = fitted.model.bias.numpy()
            self.power_ = fitted.model.power
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most likely label of every row."""
        return np.concatenate([self.classes_[part.argmax(axis=1)] for part in self._blocks(X, probabilities=False)])

    def predict_proba(self, X: Any) -> FloatArray:
        """Probability of every class, (n, c), columns in the order of `classes_`."""
        return np.concatenate(list(self._blocks(X, probabilities=True)))

    def _blocks(self, X: Any, *, probabilities: bool) -> Iterator[FloatArray]:
        """Scores or probabilities, some rows at a time, in float64: they must not depend on which rows go together."""
        check_is_fitted(self)
        rows = self._readable(X, reset=False)
        for bounds in rows.blocks():
            scores = self._model.scores(rows.read(*bounds).double())
            yield (self._model.probabilities(scores) if probabilities else scores).numpy()

    def _checked(self, X: Any, y: npt.ArrayLike) -> tuple[FeatureSet, npt.NDArray[Any]]:
        if _is_store(X):
            rows, labels = self._readable(X, reset=True), np.asarray(y)
            if labels.shape != (rows.count,):
                raise DataError(f"{rows.count} rows need as many labels in one dimension, found {labels.shape}.")
        else:
            try:
                X, labels = validate_data(self, X, y, dtype=_DTYPES)
            except ValueError as error:
                raise DataError(str(error)) from error
            rows = FeatureSet(X, "X", normalize=self.normalize, memory_limit=self.memory_limit)
        check_classification_targets(labels)
        return rows, labels

    def _readable(self, X: Any, *, reset: bool) -> FeatureSet:
        if _is_store(X):
            if reset:
                self.n_features_in_ = int(X.shape[1])
            elif X.shape[1] != self.n_features_in_:
                raise DataError(f"X has {X.shape[1]} features, but the probe was fitted on {self.n_features_in_}.")
        else:
            try:
                X = validate_data(self, X, dtype=_DTYPES, reset=reset)
            except ValueError as error:
                raise DataError(str(error)) from error
        return FeatureSet(X, "X", normalize=self.normalize, memory_limit=self.memory_limit)

    def _draw(self, labels: npt.NDArray[np.int64]) -> Draw:
        raise NotImplementedError

    def _solver(self) -> str:
        raise NotImplementedError

    def _settings(self) -> Settings:
        raise NotImplementedError


class LinearProbe(_Probe):
    """Logistic regression on frozen features, tuned.

    Args:
        solver: "logistic", or "paper" for the published search to the letter.
        seed: of the folds or the held-out split, and of the search.
        validation_fraction: share of each class that `paper` holds out to tune.
        refit: `paper` fits the tuned setting on all rows; otherwise on those that were not held out.
        normalize: scale rows to unit length, as published.
        trials: of `paper`.
        epochs: of `paper`.
        batch_size: of `paper`.
        tolerance: of `logistic`: how close each fit comes to its optimum, as a share of the loss.
        power: that `logistic` raises features to before it scales them, where none is negative and rows are not few.
        memory_limit: bytes that working copies may take before rows are streamed.

    Attributes:
        classes_: labels, sorted.
        coef_: (c, d) weights on normalised features, raised to `power_`.
        intercept_: (c,) biases.
        power_: 1 where features were taken as they are.
        trials_: every setting that was tried, with its validation accuracy.
        best_params_: the one that was chosen.
        expected_: accuracy to expect on images like these and its standard error, from rows left out in turn; None
            where none were.
    """

    def __init__(
        self,
        solver: Literal["logistic", "paper", "fast"] = "logistic",
        *,
        seed: int = 22,
        validation_fraction: float = 0.2,
        refit: bool = True,
        normalize: bool = True,
        trials: int = 30,
        epochs: int = 100,
        batch_size: int = 1024,
        tolerance: float = TOLERANCE,
        power: float = POWER,
        memory_limit: int = MEMORY_LIMIT,
    ) -> None:
        self.solver = solver
        self.seed = seed
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.normalize = normalize
        self.trials = trials
        self.epochs = epochs
        self.batch_size = batch_size
        self.tolerance = tolerance
        self.power = power
        self.memory_limit = memory_limit

    def decision_function(self, X: Any) -> FloatArray:
        """Scores W x + b, (n, c); for two classes the difference of the second's and the first's, (n,)."""
        scores = np.concatenate(list(self._blocks(X, probabilities=False)))
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def _draw(self, labels: npt.NDArray[np.int64]) -> Draw:
        fraction = self.validation_fraction
        return draw_rows(labels, seed=self.seed, validation_fraction=fraction, refit=self.refit)[0]

    def _solver(self) -> str:
        if self.solver not in ("logistic", "paper", "fast"):
            raise UnknownNameError("solver of a linear probe", self.solver, ("logistic", "paper"))
        return self.solver

    def _settings(self) -> Settings:
        protocol = Protocol(trials=self.trials, epochs=self.epochs, batch_size=self.batch_size)
        return Settings(protocol=protocol, tolerance=self.tolerance, power=self.power, memory_limit=self.memory_limit)


class RidgeProbe(_Probe):
    """Ridge regression onto class indicators: closed form, every penalty from one eigendecomposition.

    Args:
        penalties: to choose from.
        seed: of the held-out split.
        validation_fraction: share of each class that is held out.
        normalize: scale rows to unit length.
        memory_limit: bytes that working copies may take before rows are streamed.
    """

    def __init__(
        self,
        *,
        penalties: Sequence[float] = PENALTIES,
        seed: int = 22,
        validation_fraction: float = 0.2,
        normalize: bool = True,
        memory_limit: int = MEMORY_LIMIT,
    ) -> None:
        self.penalties = penalties
        self.seed = seed
        self.validation_fraction = validation_fraction
        self.normalize = normalize
        self.memory_limit = memory_limit

    def _draw(self, labels: npt.NDArray[np.int64]) -> Draw:
        return draw_rows(labels, seed=self.seed, validation_fraction=self.validation_fraction)[0]

    def _solver(self) -> str:
        return "ridge"

    def _settings(self) -> Settings:
        return Settings(penalties=self.penalties, memory_limit=self.memory_limit)


class KnnProbe(_Probe):
    """k nearest neighbours by cosine similarity, with temperature-weighted votes.

    Args:
        neighbors: values of k to choose from; those beyond the number of rows are cut to it.
        temperature: of the votes.
        seed: of the held-out split.
        validation_fraction: share of each class that is held out.
        memory_limit: bytes that working copies may take before rows are streamed.
    """

    normalize = True

    def __init__(
        self,
        *,
        neighbors: Sequence[int] = NEIGHBORS,
        temperature: float = TEMPERATURE,
        seed: int = 22,
        validation_fraction: float = 0.2,
        memory_limit: int = MEMORY_LIMIT,
    ) -> None:
        self.neighbors = neighbors
        self.temperature = temperature
        self.seed = seed
        self.validation_fraction = validation_fraction
        self.memory_limit = memory_limit

    def _draw(self, labels: npt.NDArray[np.int64]) -> Draw:
        return draw_rows(labels, seed=self.seed, validation_fraction=self.validation_fraction)[0]

    def _solver(self) -> str:
        return "knn"

    def _settings(self) -> Settings:
        return Settings(neighbors=self.neighbors, temperature=self.temperature, memory_limit=self.memory_limit)


class NearestMeanProbe(_Probe):
    """Nearest class mean by cosine similarity. It has nothing to tune and uses every row.

    Args:
        memory_limit: bytes that working copies may take before rows are streamed.
    """

    normalize = True

    def __init__(self, *, memory_limit: int = MEMORY_LIMIT) -> None:
        self.memory_limit = memory_limit

    def _draw(self, labels: npt.NDArray[np.int64]) -> Draw:
        rows = np.arange(len(labels))
        return Draw(0, "all", rows, rows[:0], rows)

    def _solver(self) -> str:
        return "ncm"

    def _settings(self) -> Settings:
        return Settings(memory_limit=self.memory_limit)


# Kept as they are; anything else becomes float32.
_DTYPES = [np.float32, np.float16, np.float64]


def _is_store(X: Any) -> bool:
    """Whether X is to be read in blocks: a large-file map, or rows that are not an array at all."""
    if isinstance(X, np.memmap):
        return X.ndim == 2
    plain = isinstance(X, np.ndarray | torch.Tensor | list | tuple) or hasattr(X, "__dataframe__")
    sparse = hasattr(X, "tocsr")
    return not plain and not sparse and hasattr(X, "shape") and hasattr(X, "dtype") and not hasattr(X, "iloc")
