"""LATEM: several bilinear maps, of which the best for an image and a class counts.

Paper:      Xian et al., "Latent embeddings for zero-shot classification", CVPR 2016 [P]
Shapes:     X (n, d) features; S (c, a) class embeddings; W (K, d, a)
Implements: GBU Eq. (10) with the loss of Eq. (4); one wrong class is drawn per image and step. Where right and wrong
            class choose the same map, it is moved by their difference, otherwise each moves its own
Differs:    a step takes the sum of the gradients of a batch
Expected:   GBU Table 3, PS: SUN 55.3, CUB 49.3, AWA1 55.1, AWA2 55.8, aPY 35.2
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from unseen.zeroshot.compatibility import CompatibilityMethod
from unseen.zeroshot.method import FloatArray, IntArray, check_training


class LATEM(CompatibilityMethod):
    """Latent embeddings.

    Args:
        maps: K, how many bilinear maps.
    """

    def __init__(
        self,
        learning_rate: float = 0.1,
        epochs: int = 10,
        batch_size: int = 32,
        margin: float = 1.0,
        seed: int = 0,
        maps: int = 4,
    ) -> None:
        super().__init__(learning_rate, epochs, batch_size, margin, seed)
        self.maps = maps

    def _path(self, X: FloatArray, y: IntArray, S: FloatArray, epochs: int) -> Iterator[tuple[int, FloatArray]]:
        rng = np.random.default_rng(self.seed)
        (d, a), K = (X.shape[1], S.shape[1]), self.maps
        S = S.astype(X.dtype)
        # All maps side by side, (d, K a), so that one product serves them.
        W = (rng.standard_normal((d, K * a)) / np.sqrt(d)).astype(X.dtype)
        for epoch in range(1, epochs + 1):
            order = rng.permutation(len(X))
            for start in range(0, len(X), self.batch_size):
                rows = order[start : start + self.batch_size]
                x, right = X[rows], y[rows]
                wrong = (right + rng.integers(1, len(S), len(rows))) % len(S)
                push = self._push((x @ W).reshape(len(rows), K, a), S[right], S[wrong])
                W -= self.learning_rate * (x.T @ push.reshape(len(rows), K * a))
            yield epoch, W

    def _finished(self, learned: FloatArray, S: FloatArray) -> FloatArray:
        by_map = learned.reshape(len(learned), self.maps, S.shape[1])
        return np.ascontiguousarray(by_map.transpose(1, 0, 2))

    def _push(self, projected: FloatArray, right: FloatArray, wrong: FloatArray) -> FloatArray:
        """(b, K, a) gradient with respect to x'W of the hinge between the drawn wrong class and the right one."""
        rows = np.arange(len(right))
        of_right, of_wrong = (np.einsum("bka,ba->bk", projected, s) for s in (right, wrong))
        best_right, best_wrong = of_right.argmax(1), of_wrong.argmax(1)  # Eq. (10)
        violating = self.margin + of_wrong[rows, best_wrong] - of_right[rows, best_right] > 0
        push = np.zeros_like(projected)
        push[rows, best_wrong] += wrong * violating[:, None]
        push[rows, best_right] -= right * violating[:, None]
        return push

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        maps = (self.W_[k] @ S.T.astype(self.W_.dtype) for k in range(len(self.W_)))
        best = X @ next(maps).astype(X.dtype)
        for by_class in maps:
            np.maximum(best, X @ by_class.astype(X.dtype), out=best)
        return np.asarray(best)  # Eq. (10)

    def loss(self, X: npt.ArrayLike, y: npt.ArrayLike, S: npt.ArrayLike) -> float:
        """The mean over images and wrong classes of the hinge: what a drawn class gives in expectation."""
        features, labels, embeddings = check_training(X, y, S)
        inner = np.searchsorted(self.classes_, labels)
        margins = self._margins(self._scores(features, embeddings[self.classes_]), inner)
        return float(np.maximum(margins, 0).sum(dtype=np.float64) / len(inner) / (len(self.classes_) - 1))
