"""CMT: a two-layer network from images into the space of class embeddings.

Paper:      Socher, Ganjoo, Manning & Ng, "Zero-shot learning through cross-modal transfer", NeurIPS 2013 [P]
Shapes:     X (n, d) features; S (c, a) class embeddings; W_2 (d, h), W_1 (h, a)
Implements: GBU Eq. (11), the mean over images; the nearest class embedding wins
Differs:    Adam on mini-batches (`MLPRegressor` of scikit-learn) where [P] uses L-BFGS; both layers have a bias
Expected:   GBU Table 3, PS: SUN 39.9, CUB 34.6, AWA1 39.5, AWA2 37.9, aPY 28.0
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from unseen.zeroshot.compatibility import EarlyStoppedMethod
from unseen.zeroshot.method import FloatArray, IntArray, parameters, squared_distances


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
        from sklearn.neural_network import MLPRegressor  # slow to import

        self.network_ = MLPRegressor(
            hidden_layer_sizes=(self.hidden,),
            activation="tanh",
            alpha=0.0,
            batch_size=min(self.batch_size, len(X)),
            learning_rate_init=self.learning_rate,
            random_state=np.random.RandomState(self.seed),  # one state for all epochs: a seed would repeat the order
        )
        targets = S.astype(X.dtype)[y]
        for _ in range(epochs):
            self.network_.partial_fit(X, targets)
            yield

    def _map(self, X: FloatArray) -> FloatArray:
        """Return W_1 tanh(W_2 x) of each image."""
        return np.asarray(self.network_.predict(X)).reshape(len(X), -1)

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        return -squared_distances(self._map(X), S.astype(X.dtype))
