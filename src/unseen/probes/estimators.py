"""The probes as scikit-learn classifiers: parameters in the constructor, learned attributes with a trailing underscore.

Each holds out part of its training data to choose hyper-parameters, keeps the sweep in `trials_`, and fits the chosen
setting on everything. Arrays are checked by scikit-learn; memory maps and stores of rows that are not arrays are read a
block at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from unseen.core.arrays import AnyArray, FloatArray
from unseen.core.errors import DataError, UnknownNameError
from unseen.probes.evaluate import labelled
from unseen.probes.outcome import LinearModel
from unseen.probes.rows import FeatureSet, Workers
from unseen.probes.sampling import draw_rows
from unseen.probes.solvers import MEMORY_LIMIT, Protocol, Settings, solve

_USUAL = Settings()
#: Types that are not converted; any other becomes float32.
_DTYPES = [np.float32, np.float16, np.float64]


class _Probe(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of all probes: checks, the fit of one draw, and prediction in blocks."""

    solver: str
    seed: int = 0
    memory_limit: int

    def fit(self, X: object, y: npt.ArrayLike) -> Self:
        """Choose hyper-parameters on held-out rows of (X, y) and fit on all of them.

        Args:
            X: (n, d) features: an array, a memory map, or rows of a store.
            y: (n,) labels.
        """
        rows, labels = self._check(X, y)
        data = labelled(rows, labels)
        draws = draw_rows(data.labels.numpy(), seed=self.seed)
        with Workers() as workers:
            fitted = solve(self.solver, data, draws, workers, self._settings())[0]
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

    def predict(self, X: object) -> AnyArray:
        """Return the most likely label of every row."""
        return np.concatenate([self.classes_[part.argmax(axis=1)] for part in self._blocks(X, probabilities=False)])

    def predict_proba(self, X: object) -> FloatArray:
        """Return the probability of every class, (n, c), columns in the order of `classes_`."""
        return np.concatenate(list(self._blocks(X, probabilities=True)))

    def _blocks(self, X: object, *, probabilities: bool) -> Iterator[FloatArray]:
        """Yield scores or probabilities, some rows at a time, in float64: blocks must not change them."""
        check_is_fitted(self)
        rows = self._read(X, reset=False)
        for bounds in rows.blocks():
            scores = self._model.scores(rows.read(*bounds).double())
            yield (self._model.probabilities(scores) if probabilities else scores).numpy()

    def _check(self, X: object, y: npt.ArrayLike) -> tuple[FeatureSet, AnyArray]:
        if _is_store(X):
            rows, labels = self._read(X, reset=True), np.asarray(y)
            if labels.shape != (rows.count,):
                raise DataError(f"{rows.count} rows need as many labels in one dimension, found {labels.shape}.")
        else:
            X, labels = self._validate(X, y)
            rows = self._prepare(X)
        check_classification_targets(labels)
        return rows, labels

    def _read(self, X: Any, *, reset: bool) -> FeatureSet:
        if not _is_store(X):
            X = self._validate(X, reset=reset)
        elif reset:
            self.n_features_in_ = int(X.shape[1])
        elif X.shape[1] != self.n_features_in_:
            raise DataError(f"X has {X.shape[1]} features, but the probe was fitted on {self.n_features_in_}.")
        return self._prepare(X)

    def _prepare(self, X: object) -> FeatureSet:
        return FeatureSet(X, "X", memory_limit=self.memory_limit)

    def _validate(self, *arrays: object, **how: bool) -> Any:
        try:
            return validate_data(self, *arrays, dtype=_DTYPES, **how)
        except ValueError as error:
            raise DataError(str(error)) from error

    def _settings(self) -> Settings:
        """Return the settings of the solver, from the parameters of the same names."""
        return Settings(
            **{each.name: getattr(self, each.name) for each in fields(Settings) if hasattr(self, each.name)}
        )


class LinearProbe(_Probe):
    """Logistic regression on frozen features, tuned.

    Args:
        solver: "logistic", or "paper" for the published search.
        seed: of the held-out split and of the search of `paper`.
        trials: of `paper`.
        epochs: of `paper`.
        batch_size: of `paper`.
        tolerance: of `logistic`: distance of each fit from its optimum, as a share of the loss.
        power: exponent that `logistic` applies to features before it scales them, if none is negative and there are
            enough rows.
        memory_limit: bytes that working copies may take before rows are streamed.

    Attributes:
        classes_: labels, sorted.
        coef_: (c, d) weights on normalised features, raised to `power_`.
        intercept_: (c,) biases.
        power_: exponent of the features; 1 if they were not changed.
        trials_: every setting that was tried, with its validation accuracy.
        best_params_: the one that was chosen.
        expected_: cross-validated accuracy and its standard error; None if the solver does not compute it.
    """

    def __init__(
        self,
        solver: Literal["logistic", "paper", "fast"] = "logistic",
        *,
        seed: int = 22,
        trials: int = 30,
        epochs: int = 100,
        batch_size: int = 1024,
        tolerance: float = _USUAL.tolerance,
        power: float = _USUAL.power,
        memory_limit: int = MEMORY_LIMIT,
    ) -> None:
        self.solver = solver
        self.seed = seed
        self.trials = trials
        self.epochs = epochs
        self.batch_size = batch_size
        self.tolerance = tolerance
        self.power = power
        self.memory_limit = memory_limit

    def decision_function(self, X: object) -> FloatArray:
        """Return scores W x + b, (n, c); for two classes the second minus the first, (n,)."""
        scores = np.concatenate(list(self._blocks(X, probabilities=False)))
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def _settings(self) -> Settings:
        if self.solver not in ("logistic", "paper", "fast"):
            raise UnknownNameError("solver of a linear probe", self.solver, ("logistic", "paper"))
        protocol = Protocol(trials=self.trials, epochs=self.epochs, batch_size=self.batch_size)
        return replace(super()._settings(), protocol=protocol)


class RidgeProbe(_Probe):
    """Ridge regression onto class indicators: closed form, every penalty from one eigendecomposition.

    Args:
        penalties: to choose from.
        seed: of the held-out split.
        memory_limit: bytes that working copies may take before rows are streamed.
    """

    solver = "ridge"

    def __init__(
        self,
        *,
        penalties: Sequence[float] = _USUAL.penalties,
        seed: int = 22,
        memory_limit: int = MEMORY_LIMIT,
    ) -> None:
        self.penalties = penalties
        self.seed = seed
        self.memory_limit = memory_limit


class KnnProbe(_Probe):
    """k nearest neighbours by cosine similarity, with temperature-weighted votes.

    Args:
        neighbors: values of k to choose from; those beyond the number of rows are cut to it.
        temperature: of the votes.
        seed: of the held-out split.
        memory_limit: bytes that working copies may take before rows are streamed.
    """

    solver = "knn"

    def __init__(
        self,
        *,
        neighbors: Sequence[int] = _USUAL.neighbors,
        temperature: float = _USUAL.temperature,
        seed: int = 22,
        memory_limit: int = MEMORY_LIMIT,
    ) -> None:
        self.neighbors = neighbors
        self.temperature = temperature
        self.seed = seed
        self.memory_limit = memory_limit


class NearestMeanProbe(_Probe):
    """Nearest class mean by cosine similarity. It has nothing to tune and uses every row.

    Args:
        memory_limit: bytes that working copies may take before rows are streamed.
    """

    solver = "ncm"

    def __init__(self, *, memory_limit: int = MEMORY_LIMIT) -> None:
        self.memory_limit = memory_limit


def _is_store(X: object) -> bool:
    """Return whether X is read in blocks: a memory map, or rows that are not an array."""
    if isinstance(X, np.memmap):
        return X.ndim == 2
    plain = isinstance(X, np.ndarray | torch.Tensor | list | tuple) or hasattr(X, "__dataframe__")
    sparse = hasattr(X, "tocsr")
    return not plain and not sparse and hasattr(X, "shape") and hasattr(X, "dtype") and not hasattr(X, "iloc")
