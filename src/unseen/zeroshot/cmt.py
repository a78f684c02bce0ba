"""CMT: a two-layer network from images into the space of class embeddings.

Paper:      Socher, Ganjoo, Manning & Ng, "Zero-shot learning through cross-modal transfer", NeurIPS 2013 [P]
Shapes:     X (n, d) features; S (c, a) class embeddings; W_2 (d, h), W_1 (h, a)
Implements: GBU Eq. (11), the mean over images; the nearest class embedding wins
Differs:    Adam on mini-batches where [P] uses L-BFGS; both layers have a bias
Expected:   GBU Table 3, PS: SUN 39.9, CUB 34.6, AWA1 39.5, AWA2 37.9, aPY 28.0
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from unseen.zeroshot.compatibility import EarlyStoppedMethod, batches
from unseen.zeroshot.method import FloatArray, IntArray, parameters, squared_distances

_BETAS, _EPSILON = (0.9, 0.999), 1e-8  # Adam's usual constants


@parameters
class CMT(EarlyStoppedMethod, key="CMT"):
    """Cross-modal transfer.

    Args:
        hidden: units of the hidden layer.
        learning_rate: of Adam.
        epochs: passes over the images.
        batch_size: images per step.
        seed: of the first weights and of the order of images.
    """

    hidden: int = 256
    learning_rate: float = 1e-3
    epochs: int = 20
    batch_size: int = 128
    seed: int = 0

    def _path(self, X: FloatArray, y: IntArray, S: FloatArray, epochs: int) -> Iterator[None]:
        rng = np.random.default_rng(self.seed)
        targets = S.astype(X.dtype)
        weights = self.weights_ = first_weights(X.shape[1], self.hidden, S.shape[1], rng, X.dtype)
        moments = [(np.zeros_like(w), np.zeros_like(w)) for w in weights]
        step = 0
        for _ in range(epochs):
            for rows in batches(rng, len(X), self.batch_size):
                step += 1
                gradients = _gradients(X[rows], targets[y[rows]], weights)
                rate = self.learning_rate * np.sqrt(1 - _BETAS[1] ** step) / (1 - _BETAS[0] ** step)
                for w, g, (m, v) in zip(weights, gradients, moments, strict=True):
                    _adam(w, g, m, v, rate)
            yield

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        return -squared_distances(forward(X, self.weights_), S.astype(X.dtype))


def first_weights(
    inputs: int, hidden: int, outputs: int, rng: np.random.Generator, dtype: npt.DTypeLike
) -> list[FloatArray]:
    """Return W_2, its bias, W_1, its bias: Glorot's range, which suits tanh; biases 0."""
    layers = []
    for before, after in ((inputs, hidden), (hidden, outputs)):
        reach = np.sqrt(6 / (before + after))
        layers += [rng.uniform(-reach, reach, (before, after)).astype(dtype), np.zeros(after, dtype)]
    return layers


def forward(X: FloatArray, weights: Sequence[FloatArray]) -> FloatArray:
    """Return W_1 tanh(W_2 x)."""
    W2, b2, W1, b1 = weights
    return np.tanh(X @ W2 + b2) @ W1 + b1


def _gradients(x: FloatArray, target: FloatArray, weights: Sequence[FloatArray]) -> list[FloatArray]:
    """Return the gradients of the mean squared distance of a batch, Eq. (11), in the order of the weights."""
    W2, b2, W1, b1 = weights
    hidden = np.tanh(x @ W2 + b2)
    error = (hidden @ W1 + b1 - target) * x.dtype.type(2 / len(x))
    inner = (error @ W1.T) * (1 - hidden * hidden)
    return [x.T @ inner, inner.sum(0), hidden.T @ error, error.sum(0)]


def _adam(w: FloatArray, g: FloatArray, m: FloatArray, v: FloatArray, rate: float) -> None:
    """Take one step of Adam in place, overwriting `g`: these passes over memory cost as much as the products."""
    m *= _BETAS[0]
    m += (1 - _BETAS[0]) * g
    np.square(g, out=g)
    g *= 1 - _BETAS[1]
    v *= _BETAS[1]
    v += g
    np.sqrt(v, out=g)
    g += _EPSILON
    np.divide(m, g, out=g)
    g *= rate
    w -= g
