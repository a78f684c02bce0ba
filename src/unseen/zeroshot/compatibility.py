"""What ALE, DEVISE and SJE share: a bilinear compatibility, learned by mini-batch steps on a ranking loss.

Shapes:     X (n, d) features; S (c, a) class embeddings; W (d, a);
            margins (b, c) = Delta + F(x, y) - F(x, y_n), 0 at y_n
Implements: GBU Eq. (3); a subclass says by `_violations` which wrong classes a step pushes away, and how hard
Differs:    a step takes the sum of the gradients of a batch, so that a learning rate means the same as in a loop over
            single images. W starts at 0 (the losses are convex). Early stopping is the parameter `epochs`: on a grid it
            is read off one run. Where there are fewer classes than attributes, the steps run in the span of the
            embeddings, W = M S, which is the same path at the smaller size. Delta is 1 for wrong classes and 0 for the
            right one; the sentence under Eq. (4) says it the other way round
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_array

from unseen.zeroshot.early_stopping import EarlyStoppedMethod
from unseen.zeroshot.method import FloatArray, IntArray, check_training


class CompatibilityMethod(EarlyStoppedMethod):
    """Bilinear compatibility with early stopping.

    Args:
        learning_rate: per image.
        epochs: passes over the images.
        batch_size: images per step.
        margin: by which the right class should win.
        seed: of the order of images, and of drawn classes.
    """

    W_: FloatArray

    def __init__(
        self,
        learning_rate: float = 0.1,
        epochs: int = 10,
        batch_size: int = 64,
        margin: float = 1.0,
        seed: int = 0,
    ) -> None:
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.batch_size = batch_size
        self.margin = margin
        self.seed = seed

    def _violations(
        self, margins: FloatArray, y: IntArray, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """Images, in order, a wrong class that each of them pushes away, and how hard; an image may occur often."""
        raise NotImplementedError

    def _losses(self, margins: FloatArray, y: IntArray) -> FloatArray:
        """(b,) the loss of each image."""
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
        """Delta(y_n, y) + F(x_n, y) - F(x_n, y_n)."""
        rows = np.arange(len(y))
        margins = scores - scores[rows, y][:, None] + scores.dtype.type(self.margin)
        margins[rows, y] = 0
        return np.asarray(margins)

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        return np.asarray(X @ (self.W_ @ S.T.astype(self.W_.dtype)).astype(X.dtype))  # Eq. (3)

    def loss(self, X: npt.ArrayLike, y: npt.ArrayLike, S: npt.ArrayLike) -> float:
        """The mean over images of the loss that `fit` makes small, over the training classes."""
        features, labels, embeddings = check_training(X, y, S)
        inner = np.searchsorted(self.classes_, labels)
        scores = self._scores(features, embeddings[self.classes_])
        return float(self._losses(self._margins(scores, inner), inner).mean(dtype=np.float64))


def pulled(classes: int, images: IntArray, wrong: IntArray, right: IntArray, pull: FloatArray, x: FloatArray) -> Any:
    """(classes, d) the sum over pairs of `pull` times the image, for its right class, and against the wrong one."""
    if 16 * len(images) > len(x) * classes:
        push = np.zeros((len(x), classes), x.dtype)
        np.add.at(push, (images, right), pull)
        np.add.at(push, (images, wrong), -pull)
        return push.T @ x
    # Where a step names two classes per image, most of this is 0. Entries per image, in order, are a compressed matrix
    # as they stand, so that nothing needs to be sorted.
    starts = 2 * np.searchsorted(images, np.arange(len(x) + 1))
    places, values = np.column_stack([right, wrong]).ravel(), np.column_stack([pull, -pull]).ravel()
    return csc_array((values, places, starts), shape=(classes, len(x))) @ x
