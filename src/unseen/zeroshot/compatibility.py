"""What ALE, DEVISE and SJE share: a bilinear compatibility, learned by mini-batch steps on a ranking loss.

Shapes:     X (n, d) features; S (c, a) class embeddings; W (d, a);
            margins (b, c) = Delta + F(x, y) - F(x, y_n), 0 at y_n
Implements: GBU Eq. (3); a subclass says by `_weights` which wrong classes a step pushes away, and how hard
Differs:    a step takes the sum of the gradients of a batch, so that a learning rate means the same as in a loop over
            single images. W starts at 0 (the losses are convex). Early stopping is the parameter `epochs`: on a grid it
            is read off one run. Where there are fewer classes than attributes, the steps run in the span of the
            embeddings, W = M S, which is the same path at the smaller size. Delta is 1 for wrong classes and 0 for the
            right one; the sentence under Eq. (4) says it the other way round
"""

from __future__ import annotations

from collections.abc import Iterator

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

    def _weights(self, margins: FloatArray, y: IntArray, rng: np.random.Generator) -> FloatArray:
        """(b, c) how hard each wrong class is pushed away; 0 for the right class and where nothing is violated."""
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
                margins = self._margins(x @ M.T @ right.T, labels)
                push = self._weights(margins, labels, rng)
                found = np.flatnonzero(push.any(1))  # images without a violation take no part in the step
                push = push[found]
                push[np.arange(len(found)), labels[found]] = -push.sum(1)
                M -= self.learning_rate * sparse_product(push if narrow else push @ S, x[found])
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


def sparse_product(push: FloatArray, x: FloatArray) -> FloatArray:
    """push' x. Where a step names two classes per image, most of `push` is 0: a dense product would be mostly waste."""
    images, classes = np.nonzero(push)
    if 8 * len(images) > push.size:
        return np.asarray(push.T @ x)
    starts = np.searchsorted(images, np.arange(len(push) + 1))
    # Entries per image, in order: a compressed matrix as it stands, so that nothing needs to be sorted.
    return np.asarray(csc_array((push[images, classes], classes, starts), shape=(push.shape[1], len(push))) @ x)
