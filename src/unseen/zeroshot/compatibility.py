"""Base classes of methods that learn in epochs, and of ALE, DEVISE and SJE: bilinear compatibility, a ranking loss.

Shapes:     X (n, d) features; S (c, a) class embeddings; W (d, a);
            margins (b, c) = Delta + F(x, y) - F(x, y_n), 0 at y_n
Implements: GBU Eq. (3); `_violations` of a subclass returns the wrong classes that a step pushes away, and their
            weights
Differs:    a step takes the sum of the gradients of a batch, so that a learning rate means the same as in a loop over
            single images. W starts at 0 (the losses are convex). Early stopping is the parameter `epochs`: on a grid it
            is read off one run. Where there are fewer classes than attributes, the steps run in the span of the
            embeddings, W = M S, which is the same path at the smaller size. Delta is 1 for wrong classes and 0 for the
            right one; the sentence under Eq. (4) has them the other way round
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csc_array

from unseen.zeroshot.method import FloatArray, IntArray, Params, Scored, ZeroShotMethod, group_by, parameters


class EarlyStoppedMethod(ZeroShotMethod):
    """A method with the parameter `epochs`; a subclass implements `_path` and `_keep`.

    On a grid, one run serves every number of epochs: the state after each of them is scored.
    """

    epochs: int

    def _path(self, X: FloatArray, y: IntArray, S: FloatArray, epochs: int) -> Iterator[tuple[int, Any]]:
        """Yield the number of each epoch and the learned state, which the next epoch may change in place."""
        raise NotImplementedError

    def _keep(self, learned: Any) -> None:
        """Copy a state of `_path`, so that `_scores` uses it."""
        raise NotImplementedError

    def _fit(self, X: FloatArray, y: IntArray, S: FloatArray) -> None:
        ((_, learned),) = deque(self._path(X, y, S, self.epochs), maxlen=1)  # only the last state is kept
        self._keep(learned)

    def _grid_scores(
        self, X: FloatArray, y: IntArray, X_val: FloatArray, S_val: FloatArray, grid: Sequence[Params]
    ) -> Scored:
        for shared, settings in group_by(grid, ("epochs", *self.scoring_params)).items():
            method = self._with(dict(shared))
            stops: dict[int, list[Params]] = {}
            for params in settings:
                stops.setdefault(int(params.get("epochs", self.epochs)), []).append(params)
            for epoch, learned in method._path(X, y, self.signatures_, max(stops)):
                if epoch in stops:
                    method._keep(learned)
                    method.__dict__.pop("_prepared", None)  # depends on an earlier state
                    yield from method._settings_scores(X_val, S_val, stops[epoch])


@parameters
class CompatibilityMethod(EarlyStoppedMethod):
    """Bilinear compatibility with early stopping.

    Args:
        learning_rate: per image.
        epochs: passes over the images.
        batch_size: images per step.
        margin: by which the right class should win.
        seed: of the order of images, and of sampled classes.
    """

    learning_rate: float = 0.1
    epochs: int = 10
    batch_size: int = 64
    margin: float = 1.0
    seed: int = 0

    def _violations(
        self, margins: FloatArray, y: IntArray, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """Return images in order, the wrong class that each pushes away, and its weight; an image may occur often."""
        raise NotImplementedError

    def _path(self, X: FloatArray, y: IntArray, S: FloatArray, epochs: int) -> Iterator[tuple[int, FloatArray]]:
        rng = np.random.default_rng(self.seed)
        S = S.astype(X.dtype)
        narrow = len(S) < S.shape[1]
        right = S @ S.T if narrow else S
        M = np.zeros((right.shape[1], X.shape[1]), X.dtype)
        for epoch in range(1, epochs + 1):
            order = rng.permutation(len(X))
            for start in range(0, len(X), self.batch_size):
                rows = order[start : start + self.batch_size]
                x, labels = X[rows], y[rows]
                # The map times the images, not the other way round: as the products go, a sixth faster.
                margins = self._margins(np.ascontiguousarray((right @ (M @ x.T)).T), labels)
                images, wrong, weights = self._violations(margins, labels, rng)
                pull = (weights * self.learning_rate).astype(X.dtype)
                if narrow:
                    M += pulled(len(S), images, wrong, labels[images], pull, x)
                else:
                    apart = pull[:, None] * (S[labels[images]] - S[wrong])
                    M += apart.T @ x[images]
            yield epoch, M

    def _keep(self, learned: FloatArray) -> None:
        S = self.signatures_.astype(learned.dtype)
        self.W_ = np.ascontiguousarray(learned.T @ S if len(S) < S.shape[1] else learned.T)

    def _margins(self, scores: FloatArray, y: IntArray) -> FloatArray:
        """Return Delta(y_n, y) + F(x_n, y) - F(x_n, y_n)."""
        rows = np.arange(len(y))
        margins = scores - scores[rows, y][:, None] + scores.dtype.type(self.margin)
        margins[rows, y] = 0
        return np.asarray(margins)

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        return np.asarray(X @ (self.W_ @ S.T.astype(self.W_.dtype)).astype(X.dtype))  # Eq. (3)


def pulled(classes: int, images: IntArray, wrong: IntArray, right: IntArray, pull: FloatArray, x: FloatArray) -> Any:
    """Return (classes, d): the sum over pairs of `pull` times the image, negative for the wrong class."""
    if 16 * len(images) > len(x) * classes:
        push = np.zeros((len(x), classes), x.dtype)
        np.add.at(push, (images, right), pull)
        np.add.at(push, (images, wrong), -pull)
        return push.T @ x
    # A step with two classes per image is mostly 0. Entries in the order of images are a compressed sparse matrix
    # already, so that nothing needs to be sorted.
    starts = 2 * np.searchsorted(images, np.arange(len(x) + 1))
    places, values = np.column_stack([right, wrong]).ravel(), np.column_stack([pull, -pull]).ravel()
    return csc_array((values, places, starts), shape=(classes, len(x))) @ x
