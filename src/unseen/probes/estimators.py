"""The probes as scikit-learn classifiers: parameters in the constructor, learned attributes with a trailing underscore.

Each holds out part of its training data to choose hyper-parameters, keeps the sweep in `trials_`, and fits the chosen
setting on everything. scikit-learn checks the arrays; other rows, such as those of a store, become arrays first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
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

    solver: Any
    seed = 0
    memory_limit: int

    def fit(self, X: object, y: npt.ArrayLike) -> Self:
        """Choose hyper-parameters on held-out rows of (X, y) and fit on all of them.

        Args:
            X: (n, d) features: an array, a memory map, or rows of a store, which are read into memory.
            y: (n,) labels.
        """
        X, labels = self._validate(X, y)
        check_classification_targets(labels)
        data = labelled(FeatureSet(X, "X", memory_limit=self.memory_limit), labels)
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
        rows = FeatureSet(self._validate(X, reset=False), "X", memory_limit=self.memory_limit)
        for bounds in rows.blocks():
            scores = self._model.scores(rows.read(*bounds).double())
            yield (self._model.probabilities(scores) if probabilities else scores).numpy()

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


@dataclass(eq=False, repr=False)
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

    solver: Literal["logistic", "paper", "fast"] = "logistic"
    _: KW_ONLY
    seed: int = 22
    trials: int = 30
    epochs: int = 100
    batch_size: int = 1024
    tolerance: float = _USUAL.tolerance
    power: float = _USUAL.power
    memory_limit: int = MEMORY_LIMIT

    def decision_function(self, X: object) -> FloatArray:
        """Return scores W x + b, (n, c); for two classes the second minus the first, (n,)."""
        scores = np.concatenate(list(self._blocks(X, probabilities=False)))
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def _settings(self) -> Settings:
        if self.solver not in ("logistic", "paper", "fast"):
            raise UnknownNameError("solver of a linear probe", self.solver, ("logistic", "paper"))
        protocol = Protocol(trials=self.trials, epochs=self.epochs, batch_size=self.batch_size)
        return replace(super()._settings(), protocol=protocol)


@dataclass(eq=False, repr=False, kw_only=True)
class RidgeProbe(_Probe):
    """Ridge regression onto class indicators: closed form, every penalty from one eigendecomposition.

    Args:
        penalties: to choose from.
        seed: of the held-out split.
        memory_limit: bytes that working copies may take before rows are streamed.
    """

    solver = "ridge"
    penalties: Sequence[float] = _USUAL.penalties
    seed: int = 22
    memory_limit: int = MEMORY_LIMIT


@dataclass(eq=False, repr=False, kw_only=True)
class KnnProbe(_Probe):
    """k nearest neighbours by cosine similarity, with temperature-weighted votes.

    Args:
        neighbors: values of k to choose from; those beyond the number of rows are cut to it.
        temperature: of the votes.
        seed: of the held-out split.
        memory_limit: bytes that working copies may take before rows are streamed.
    """

    solver = "knn"
    neighbors: Sequence[int] = _USUAL.neighbors
    temperature: float = _USUAL.temperature
    seed: int = 22
    memory_limit: int = MEMORY_LIMIT


@dataclass(eq=False, repr=False, kw_only=True)
class NearestMeanProbe(_Probe):
    """Nearest class mean by cosine similarity. It has nothing to tune and uses every row.

    Args:
        memory_limit: bytes that working copies may take before rows are streamed.
    """

    solver = "ncm"
    memory_limit: int = MEMORY_LIMIT
