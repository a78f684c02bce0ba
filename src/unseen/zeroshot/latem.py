"""LATEM: several bilinear maps, of which the best for an image and a class counts.

Paper:      Xian et al., "Latent embeddings for zero-shot classification", CVPR 2016 [P]
Shapes:     X (n, d) features; S (c, a) class embeddings; W (K, d, a)
Implements: GBU Eq. (10) with the loss of Eq. (4); one wrong class is sampled per image and step. Where right and wrong
            class choose the same map, it is moved by their difference, otherwise each moves its own
Differs:    a step takes the sum of the gradients of a batch. The products V = W S' are kept up to date in place of W,
            which is the same path: each step moves W along embeddings
Expected:   GBU Table 3, PS: SUN 55.3, CUB 49.3, AWA1 55.1, AWA2 55.8, aPY 35.2
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import numpy as np
from scipy.sparse import coo_array

from unseen.zeroshot.compatibility import CompatibilityMethod, batches
from unseen.zeroshot.method import FloatArray, IntArray, parameters


@parameters
class LATEM(CompatibilityMethod, key="LATEM"):
    """Latent embeddings.

    Args:
        maps: K, how many bilinear maps.
    """

    maps: int = 4

    def _path(self, X: FloatArray, y: IntArray, S: FloatArray, epochs: int) -> Iterator[None]:
        rng = np.random.default_rng(self.seed)
        (d, a), K, C = (X.shape[1], S.shape[1]), self.maps, len(S)
        S = S.astype(X.dtype)
        W = (rng.standard_normal((d, K * a)) / np.sqrt(d)).astype(X.dtype).reshape(d, K, a).transpose(1, 0, 2)
        # An image needs its right and one wrong class: 2 K rows of the products of every map and embedding.
        V = np.ascontiguousarray(np.stack([S @ w.T for w in W]))  # (K, C, d)
        similar = (self.learning_rate * (S @ S.T)).astype(X.dtype)
        change = np.empty_like(V).reshape(K * C, d)
        for _ in range(epochs):
            steps: list[tuple[IntArray, IntArray, FloatArray]] = []
            for rows in batches(rng, len(X), self.batch_size):
                x, right = X[rows], y[rows]
                wrong = (right + rng.integers(1, C, len(rows))) % C
                found, best_right, best_wrong = self._violating(V, x, right, wrong)
                right, wrong, each = right[found], wrong[found], np.arange(len(found))
                push = np.zeros((len(found), K, C), X.dtype)  # how an image moves each map along each embedding
                push[each, best_wrong] += similar[wrong]
                push[each, best_right] -= similar[right]
                V -= np.matmul(push.reshape(len(found), K * C).T, x[found], out=change).reshape(V.shape)
                steps.append((rows[found], best_wrong * C + wrong, np.ones(len(found), X.dtype)))
                steps.append((rows[found], best_right * C + right, -np.ones(len(found), X.dtype)))
            W = W - self.learning_rate * _moved(steps, X, K, C) @ S
            self.W_ = W
            yield

    def _violating(
        self, V: FloatArray, x: FloatArray, right: IntArray, wrong: IntArray
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Return the images whose sampled class violates the margin, and the maps of their right and wrong classes."""
        of_right, of_wrong = (np.matmul(V[:, c].transpose(1, 0, 2), x[:, :, None])[:, :, 0] for c in (right, wrong))
        best_right, best_wrong = of_right.argmax(1), of_wrong.argmax(1)  # Eq. (10)
        rows = np.arange(len(x))
        found = np.flatnonzero(self.margin + of_wrong[rows, best_wrong] - of_right[rows, best_right] > 0)
        return found, best_right[found], best_wrong[found]

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        maps = (W @ S.T.astype(W.dtype) for W in self.W_)
        return reduce(np.maximum, (X @ by_class.astype(X.dtype) for by_class in maps))  # Eq. (10)


def _moved(steps: list[tuple[IntArray, IntArray, FloatArray]], X: FloatArray, K: int, C: int) -> FloatArray:
    """Return (K, d, C): the sum of all steps of an epoch, from a sparse matrix of images per map and class."""
    images, places, values = (np.concatenate(parts) for parts in zip(*steps, strict=True))
    taken = coo_array((values, (places, images)), shape=(K * C, len(X))).tocsr()
    return np.asarray(taken @ X).reshape(K, C, X.shape[1]).transpose(0, 2, 1)
