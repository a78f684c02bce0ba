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

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csc_array

from unseen.zeroshot.method import FloatArray, IntArray, Params, Scored, ZeroShotMethod, group_by, parameters


class EarlyStoppedMethod(ZeroShotMethod):
    """A method with the parameter `epochs`; a subclass implements `_path`.

    On a grid, one run serves every number of epochs: the state after each of them is scored.
    """

    epochs: int

    def _path(self, X: FloatArray, y: IntArray, S: FloatArray, epochs: int) -> Iterator[None]:
        """Yield after each epoch, when the attributes of the method are those that `_scores` needs."""
        raise NotImplementedError

    def _fit(self, X: FloatArray, y: IntArray, S: FloatArray) -> None:
        deque(self._path(X, y, S, self.epochs), maxlen=0)

    def _grid_scores(
        self, X: FloatArray, y: IntArray, X_val: FloatArray, S_val: FloatArray, grid: Sequence[Params]
    ) -> Scored:
        for shared, settings in group_by(grid, ("epochs", *self.scoring_params)).items():
            method = self._with(dict(shared))
            stops: defaultdict[int, list[Params]] = defaultdict(list)
            for params in settings:
                stops[params.get("epochs", self.epochs)].append(params)
            for epoch, _ in enumerate(method._path(X, y, self.signatures_, max(stops)), 1):
                if epoch in stops:
                    yield from method._settings_scores(X_val, S_val, stops[epoch])


def batches(rng: np.random.Generator, images: int, size: int) -> Iterator[IntArray]:
    """Yield the images of one epoch in a random order, `size` at a time."""
    order = rng.permutation(images)
    for start in range(0, images, size):
        yield order[start : start + size]


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

    def _path(self, X: FloatArray, y: IntArray, S: FloatArray, epochs: int) -> Iterator[None]:
        rng = np.random.default_rng(self.seed)
        S = S.astype(X.dtype)
        narrow = len(S) < S.shape[1]
        right = S @ S.T if narrow else S
        M = np.zeros((right.shape[1], X.shape[1]), X.dtype)
        for _ in range(epochs):
            for rows in batches(rng, len(X), self.batch_size):
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
            self.W_ = np.ascontiguousarray(M.T @ S if narrow else M.T)
            yield

    def _margins(self, scores: FloatArray, y: IntArray) -> FloatArray:
        """Return Delta(y_n, y) + F(x_n, y) - F(x_n, y_n)."""
        rows = np.arange(len(y))
        margins = scores - scores[rows, y][:, None] + scores.dtype.type(self.margin)
        margins[rows, y] = 0
        return margins

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        return np.asarray(X @ (self.W_ @ S.T.astype(self.W_.dtype)).astype(X.dtype))  # Eq. (3)


def pulled(classes: int, images: IntArray, wrong: IntArray, right: IntArray, pull: FloatArray, x: FloatArray) -> Any:
    """Return (classes, d): the sum over pairs of `pull` times the image, negative for the wrong class."""
    # A step with two classes per image is mostly 0. Entries in the order of images are a compressed sparse matrix
    # already, so that nothing needs to be sorted.
    starts = 2 * np.searchsorted(images, np.arange(len(x) + 1))
    places, values = np.column_stack([right, wrong]).ravel(), np.column_stack([pull, -pull]).ravel()
    return csc_array((values, places, starts), shape=(classes, len(x))) @ x
