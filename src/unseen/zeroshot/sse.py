"""SSE: images and classes as mixtures of seen classes.

Paper:      Zhang & Saligrama, "Zero-shot learning via semantic similarity embedding", ICCV 2015 [P]; projection onto
            the simplex: Duchi, Shalev-Shwartz, Singer & Chandra, "Efficient projections onto the l1-ball", ICML 2008
Shapes:     X (n, d) features; S (c, a) class embeddings; z (c, s) mixtures; v (s, d), w (d,); pi (n, s)
Implements: GBU Eq. (14). psi is sparse coding on the simplex: min over z >= 0, sum z = 1 of
            gamma / 2 |z|^2 + 1 / 2 |a - S'z|^2. pi_s(x) = w' phi_s(x) with phi_s(x) = min(x, v_s), the intersection
            function. w and v are learned with a margin between classes by turns, as in [P]: a pass over the images
            moves w with v fixed, the next one v
Differs:    each turn is a pass of mini-batch gradient steps on the multi-class hinge loss, and the number of turns
            regularises; [P] solves a support vector machine for w, with weight decay
Expected:   GBU Table 3, PS: SUN 51.5, CUB 43.9, AWA1 60.1, AWA2 61.0, aPY 34.0
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from unseen.zeroshot.compatibility import EarlyStoppedMethod, batches
from unseen.zeroshot.method import FloatArray, IntArray, one_hot, parameters

_SIMPLEX_STEPS = 300
_BLOCK_VALUES = 20_000_000  # float32 values of phi held at once


@parameters
class SSE(EarlyStoppedMethod, key="SSE"):
    """Semantic similarity embedding.

    Args:
        gamma: weight of |z|^2 in the sparse coding.
        learning_rate: of w, and d times that of v, whose slope is w; features are scaled to unit deviation first.
        epochs: turns, each a pass for w and one for v.
        batch_size: images per step.
        seed: of the order of images.
    """

    gamma: float = 0.1
    learning_rate: float = 1e-3
    epochs: int = 2
    batch_size: int = 32
    seed: int = 0

    def _path(self, X: FloatArray, y: IntArray, S: FloatArray, epochs: int) -> Iterator[None]:
        rng = np.random.default_rng(self.seed)
        self.scale_ = float(X.std()) or 1.0
        counts = np.bincount(y, minlength=len(S))[:, None]
        self.v_ = ((one_hot(y, len(S), X.dtype).T @ X) / counts / self.scale_).astype(X.dtype)  # the mean of each class
        self.w_ = np.full(X.shape[1], 1 / X.shape[1], X.dtype)
        X = X / X.dtype.type(self.scale_)
        z = mixtures(S, S, self.gamma).astype(X.dtype)
        rate = X.dtype.type(self.learning_rate)
        for _ in range(epochs):
            for turn, learned, speed in (("w", self.w_, rate), ("v", self.v_, rate * X.shape[1])):
                for rows in batches(rng, len(X), self.batch_size):
                    learned -= speed * self._slope(X[rows], y[rows], z, turn)
            yield

    def _slope(self, x: FloatArray, y: IntArray, z: FloatArray, turn: str) -> FloatArray:
        """Return the gradient of the mean hinge loss of a batch with respect to w, or to v."""
        rows = np.arange(len(x))
        phi = self._phi(x)
        pi = phi @ self.w_
        pi -= pi.mean(1, keepdims=True)
        scores = pi @ z.T
        margins = scores - scores[rows, y][:, None] + 1
        margins[rows, y] = 0
        worst = margins.argmax(1)
        violating = (margins[rows, worst] > 0).astype(x.dtype) / len(x)
        pull = (z[worst] - z[y]) * violating[:, None]  # d loss / d pi
        pull -= pull.mean(1, keepdims=True)
        if turn == "w":
            return np.tensordot(pull, phi, 2)
        slope = (self.v_[None] < x[:, None]).astype(x.dtype)  # of phi with respect to v
        return np.asarray(np.einsum("bs,bsd->sd", pull, slope, optimize=True) * self.w_)

    def _phi(self, x: FloatArray) -> FloatArray:
        """Return (b, s, d) transformed features."""
        return np.minimum(x[:, None], self.v_[None])

    def _pi(self, X: FloatArray) -> FloatArray:
        X = X / X.dtype.type(self.scale_)
        block = max(1, _BLOCK_VALUES // self.v_.size)
        pi = np.concatenate([self._phi(X[i : i + block]) @ self.w_ for i in range(0, len(X), block)])
        return np.asarray(pi - pi.mean(1, keepdims=True))

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        z = mixtures(S, self.signatures_, self.gamma).astype(X.dtype)
        return np.asarray(self._pi(X) @ z.T)  # Eq. (14)


def mixtures(S: FloatArray, dictionary: FloatArray, gamma: float) -> FloatArray:
    """Return (c, s) mixtures of the dictionary's rows nearest to the rows of S, by accelerated projected gradients."""
    A, D = (np.ascontiguousarray(rows, np.float64) for rows in (S, dictionary))
    return _mixtures(A.tobytes(), D.tobytes(), A.shape[1], gamma)


@lru_cache(maxsize=8)
def _mixtures(candidates: bytes, dictionary: bytes, attributes: int, gamma: float) -> FloatArray:
    """Compute `mixtures`; cached, because it is the same for every learning rate and number of turns of a grid."""
    S, D = (np.frombuffer(rows).reshape(-1, attributes) for rows in (candidates, dictionary))
    quadratic = D @ D.T + gamma * np.eye(len(D))
    linear = S @ D.T
    step = 1 / float(np.linalg.norm(quadratic, 2))
    z = np.full((len(S), len(D)), 1 / len(D))
    ahead, t = z, 1.0
    for _ in range(_SIMPLEX_STEPS):
        moved = project_to_simplex(ahead - step * (ahead @ quadratic - linear))
        t_next = (1 + np.sqrt(1 + 4 * t * t)) / 2
        ahead = moved + (t - 1) / t_next * (moved - z)
        z, t = moved, t_next
    z.flags.writeable = False
    return z


def project_to_simplex(rows: FloatArray) -> FloatArray:
    """Move each row to the nearest point with entries >= 0 that sum to 1 (Duchi et al.)."""
    ordered = -np.sort(-rows, axis=1)
    excess = np.cumsum(ordered, axis=1) - 1
    places = np.arange(1, rows.shape[1] + 1)
    kept = (ordered - excess / places > 0).sum(1)
    shift = excess[np.arange(len(rows)), kept - 1] / kept
    return np.asarray(np.maximum(rows - shift[:, None], 0))
