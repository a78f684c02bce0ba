"""CMT*: CMT that first asks whether an image is of a seen class.

Paper:      Socher, Ganjoo, Manning & Ng, "Zero-shot learning through cross-modal transfer", NeurIPS 2013 [P]
Shapes:     X (n, d) features; S (c, a) class embeddings
Implements: section 3.2 of GBU: images that are new may only be of unseen classes, the others only of seen ones
Differs:    where the candidates are all seen or all unseen there is nothing to ask, and CMT* is CMT. GBU grants the
            method to know of test images whether they are new; here it is told by the training images alone
Expected:   GBU Table 6, H: SUN 13.3, CUB 8.7, AWA1 15.3, AWA2 15.9, aPY 19.0
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from unseen.core.records import MethodCard
from unseen.zeroshot.cmt import CMT, forward
from unseen.zeroshot.method import FloatArray, Grid, IntArray, squared_distances
from unseen.zeroshot.novelty import GaussianNovelty, LocalOutliers


class CMTStar(CMT):
    """Cross-modal transfer with novelty detection.

    Args:
        novelty: "gaussian" spheres, or local outlier probabilities ("loop").
        quantile: share of training images that count as new.
        neighbours: of "loop".
    """

    card: ClassVar[MethodCard] = MethodCard(
        id="CMT*",
        name="Cross-modal transfer, novelty detection",
        group="zero-shot, non-linear compatibility",
        paper="gbu",
        citation="Socher et al., NeurIPS 2013",
    )
    version: ClassVar[int] = 1
    grid: ClassVar[Grid] = {"hidden": (128, 512), "learning_rate": (3e-4, 1e-3), "epochs": (5, 10, 20, 40)}
    quick_grid: ClassVar[Grid] = {"hidden": (256,), "epochs": (5, 10, 20)}

    detector_: GaussianNovelty | LocalOutliers

    def __init__(
        self,
        hidden: int = 256,
        learning_rate: float = 1e-3,
        epochs: int = 20,
        batch_size: int = 128,
        seed: int = 0,
        novelty: Literal["gaussian", "loop"] = "gaussian",
        quantile: float = 0.01,
        neighbours: int = 20,
    ) -> None:
        super().__init__(hidden, learning_rate, epochs, batch_size, seed)
        self.novelty = novelty
        self.quantile = quantile
        self.neighbours = neighbours

    def _fit(self, X: FloatArray, y: IntArray, S: FloatArray) -> None:
        super()._fit(X, y, S)
        points = forward(X, self.weights_)
        if self.novelty == "gaussian":
            self.detector_ = GaussianNovelty(points, y, S.astype(X.dtype), self.quantile)
        else:
            self.detector_ = LocalOutliers(points, self.neighbours, self.quantile)

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        points = forward(X, self.weights_)
        scores = -squared_distances(points, S.astype(X.dtype))
        seen = self._seen_rows(S) >= 0
        if seen.all() or not seen.any():
            return scores
        new = self.detector_.is_new(points)
        return np.where(new[:, None] == seen[None, :], -np.inf, scores)
