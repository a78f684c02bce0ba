"""Base class of zero-shot methods: `fit(X, y, S)` on seen classes, `scores(X, S)` for any classes, as in scikit-learn.

Shapes:     X (n, d) features; y (n,) rows of S; S (c, a) class embeddings, one row per class
Contract:   `fit` learns from the classes that occur in y. It does not use other rows of S, so that the embeddings of
            all classes can be passed without a leak. `scores` has one column per row of its S, greater is
            better; `predict` is its arg-max. Parameters are keyword arguments of the constructor and are never changed.
            `@parameters` makes them from the annotated fields of a class
Cards:      `card` describes a method, `version` counts the changes of its numbers, `grid` and `quick_grid` are the
            settings to try. Methods of this package have them in `methods.toml`, under the key of their class
Grids:      `grid_scores` fits one training set and scores one validation set for a whole grid of parameters. A method
            lists in `scoring_params` the parameters that need no new fit, and overrides `_grid_scores` if a
            factorisation serves many settings at once, or `_settings_scores` if scores share work;
            `compatibility.EarlyStoppedMethod` is for methods that learn in epochs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, TypeVar, dataclass_transform

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from unseen.core.errors import DataError
from unseen.core.records import MethodCard
from unseen.zeroshot.catalogue import TABLE
from unseen.zeroshot.problem import FloatArray as FloatArray
from unseen.zeroshot.problem import IntArray as IntArray
from unseen.zeroshot.problem import as_matrix as as_matrix
from unseen.zeroshot.problem import unit_rows as unit_rows

Params = Mapping[str, Any]
#: Settings with their scores.
Scored = Iterator[tuple[Params, FloatArray]]
_CARD = ("name", "group", "paper", "citation", "notes")
M = TypeVar("M")


@dataclass_transform(eq_default=False)
def parameters(kind: type[M]) -> type[M]:
    """Make a constructor from the annotated fields of a method, whose names and defaults scikit-learn reads."""
    return dataclass(eq=False, repr=False)(kind)


class ZeroShotMethod(BaseEstimator):  # type: ignore[misc]
    """Base of all methods: checks inputs and stores what every method needs.

    Attributes:
        classes_: rows of S that were trained on.
        signatures_: (c', a) their embeddings.
    """

    card: ClassVar[MethodCard] = MethodCard(id="")
    #: Raised by one with every change of the method's numbers: results of two versions are not compared.
    version: ClassVar[int] = 1
    grid: ClassVar[Mapping[str, Sequence[Any]]] = {}
    #: A smaller grid for a first look.
    quick_grid: ClassVar[Mapping[str, Sequence[Any]]] = {}
    #: The criterion on the folds: accuracy among the validation classes, or H with held-out images of training classes.
    tuned_by: ClassVar[Literal["zsl", "H"]] = "zsl"
    #: Whether `scores` uses all rows of X together: scoring images one by one then gives other numbers.
    transductive: ClassVar[bool] = False
    #: Parameters that only `scores` uses, not `fit`: on a grid, one fit serves all their values.
    scoring_params: ClassVar[tuple[str, ...]] = ()

    classes_: IntArray
    signatures_: FloatArray
    n_features_in_: int

    def __init_subclass__(cls, key: str = "") -> None:
        """Take card, version and grids of a method of this package from `methods.toml`; a plug-in sets its own."""
        super().__init_subclass__()
        if key:
            entry = TABLE[key]
            words = {name: entry.get(name, "") for name in _CARD}
            cls.card, cls.version = MethodCard(id=key, **words), entry.get("version", 1)
            cls.grid, cls.quick_grid = entry.get("grid", {}), entry.get("quick_grid", {})

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike, S: npt.ArrayLike) -> Self:
        """Learn from images X of the classes y, which are rows of the class embeddings S."""
        features, labels, embeddings = check_training(X, y, S)
        self._begin(features, labels, embeddings)
        self._fit(features, np.searchsorted(self.classes_, labels), self.signatures_)
        return self

    def scores(self, X: npt.ArrayLike, S: npt.ArrayLike) -> FloatArray:
        """Return (n, c): the compatibility of every image with every row of S."""
        features, embeddings = self._check(X, S)
        return self._scores(features, embeddings)

    def predict(self, X: npt.ArrayLike, S: npt.ArrayLike) -> IntArray:
        """Return the best row of S per image."""
        return np.asarray(np.argmax(self.scores(X, S), axis=1), np.int64)

    def grid_scores(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike,
        S: npt.ArrayLike,
        X_val: npt.ArrayLike,
        S_val: npt.ArrayLike,
        grid: Sequence[Params],
    ) -> Scored:
        """Yield each setting of `grid` with the scores on X_val of a fit with it, in any order."""
        features, labels, embeddings = check_training(X, y, S)
        self._begin(features, labels, embeddings)
        held_out, candidates = self._check(X_val, S_val)
        yield from self._grid_scores(features, np.searchsorted(self.classes_, labels), held_out, candidates, grid)

    def _grid_scores(
        self, X: FloatArray, y: IntArray, X_val: FloatArray, S_val: FloatArray, grid: Sequence[Params]
    ) -> Scored:
        """Yield settings and scores after the checks; y counts `signatures_`. One fit serves all `scoring_params`."""
        for shared, settings in group_by(grid, self.scoring_params).items():
            fitted = self._with(dict(shared))
            fitted._fit(X, y, self.signatures_)
            yield from fitted._settings_scores(X_val, S_val, settings)

    def _settings_scores(self, X: FloatArray, S: FloatArray, settings: Sequence[Params]) -> Scored:
        """Yield scores of one fit for settings that differ in `scoring_params`; override it if these share work."""
        for params in settings:
            yield params, self.set_params(**params)._scores(X, S)

    def _with(self, params: Params) -> Self:
        """Return a method with other parameters and the same training classes."""
        other: Self = copy(self).set_params(**params)
        return other

    def _begin(self, features: FloatArray, labels: IntArray, embeddings: FloatArray) -> None:
        self.classes_ = np.unique(labels)
        self.signatures_ = embeddings[self.classes_]
        self.n_features_in_ = features.shape[1]
        if len(self.classes_) < 2:
            raise DataError(f"{type(self).__name__} needs at least two training classes; found {len(self.classes_)}.")

    def _check(self, X: npt.ArrayLike, S: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        check_is_fitted(self, "classes_")
        features, embeddings = as_matrix(X, "features X"), as_matrix(S, "class embeddings S")
        for found, wanted, what in (
            (features.shape[1], self.n_features_in_, "features X"),
            (embeddings.shape[1], self.signatures_.shape[1], "class embeddings S"),
        ):
            if found != wanted:
                raise DataError(f"{what} have {found} dimensions here and had {wanted} in fit.")
        return features, embeddings

    def _fit(self, X: FloatArray, y: IntArray, S: FloatArray) -> None:
        """Learn; y counts the rows of S from 0, and every row of S occurs."""
        raise NotImplementedError

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        raise NotImplementedError

    def _seen_rows(self, S: FloatArray) -> IntArray:
        """Return the place in `classes_` of the first class with exactly the embedding of each row of S, or -1."""
        both, known = np.concatenate([self.signatures_, S]), len(self.classes_)
        _, first, place = np.unique(both, axis=0, return_index=True, return_inverse=True)
        found = first[place.ravel()[known:]]
        return np.where(found < known, found, -1)


def check_training(X: npt.ArrayLike, y: npt.ArrayLike, S: npt.ArrayLike) -> tuple[FloatArray, IntArray, FloatArray]:
    """Return checked features, labels and embeddings; raise a `DataError` if they do not belong together."""
    features, embeddings = as_matrix(X, "features X"), as_matrix(S, "class embeddings S")
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) != len(features):
        raise DataError(f"{len(features)} rows of features need as many labels; found shape {labels.shape}.")
    if labels.dtype.kind not in "iu":
        raise DataError(f"labels y are rows of S, so they must be whole numbers; found {labels.dtype}.")
    if labels.min() < 0 or labels.max() >= len(embeddings):
        raise DataError(
            f"labels y go from {labels.min()} to {labels.max()}; the class embeddings S have the rows 0 to "
            f"{len(embeddings) - 1}. Labels count rows of S from 0."
        )
    return features, labels.astype(np.int64), embeddings


def one_hot(y: IntArray, classes: int, dtype: npt.DTypeLike = np.float64) -> FloatArray:
    """Return (n, classes) with a 1 at each label."""
    return np.eye(classes, dtype=dtype)[y]


def squared_distances(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return (n, m) squared Euclidean distances of all pairs of rows."""
    cross = a @ b.T
    return np.asarray(np.maximum((a * a).sum(1)[:, None] + (b * b).sum(1)[None, :] - 2 * cross, 0))


def nearest(points: FloatArray, table: FloatArray, k: int, *, skip_self: bool) -> tuple[FloatArray, IntArray]:
    """Return (n, k) squared distances and rows of the k nearest rows of `table`, without the row itself on request."""
    from sklearn.neighbors import NearestNeighbors  # slow to import

    found = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(table)
    distances, index = found.kneighbors(None if skip_self else points)
    return distances**2, index


def group_by(grid: Sequence[Params], names: Collection[str]) -> dict[tuple[tuple[str, object], ...], list[Params]]:
    """Group settings that differ in the parameters `names` alone, keyed by the shared parameters."""
    groups: dict[tuple[tuple[str, Any], ...], list[Params]] = {}
    for params in grid:
        shared = tuple(sorted(item for item in params.items() if item[0] not in names))
        groups.setdefault(shared, []).append(params)
    return groups
