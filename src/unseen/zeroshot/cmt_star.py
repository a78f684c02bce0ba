"""CMT*: CMT that first detects whether an image is of a seen class.

Paper:      Socher, Ganjoo, Manning & Ng, "Zero-shot learning through cross-modal transfer", NeurIPS 2013 [P]
Shapes:     X (n, d) features; S (c, a) class embeddings
Implements: section 3.2 of GBU: images that are new may only be of unseen classes, the others only of seen ones
Differs:    with candidates that are all seen or all unseen, CMT* is CMT. GBU's CMT* knows which test images are new;
            here the kind of detector and its threshold are chosen on the folds, with
            held-out images of the training classes beside those of the validation classes, by H
Expected:   GBU Table 6, H: SUN 13.3, CUB 8.7, AWA1 15.3, AWA2 15.9, aPY 19.0
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from unseen.core.records import MethodCard
from unseen.zeroshot.cmt import CMT, forward
from unseen.zeroshot.method import FloatArray, Grid, IntArray, Params, parameters, squared_distances
from unseen.zeroshot.novelty import GaussianNovelty, LocalOutliers, Novelty


@parameters
class CMTStar(CMT):
    """Cross-modal transfer with novelty detection.

    Args:
        novelty: "gaussian" spheres, or local outlier probabilities ("loop").
        quantile: share of the training images of a class ("gaussian") or of all ("loop") that would count as new.
        neighbours: of "loop".
    """

    novelty: Literal["gaussian", "loop"] = "gaussian"
    quantile: float = 0.3
    neighbours: int = 20

    card = MethodCard(
        id="CMT*",
        name="Cross-modal transfer, novelty detection",
        group="zero-shot, non-linear compatibility",
        paper="gbu",
        citation="Socher et al., NeurIPS 2013",
    )
    version = 1
    grid: ClassVar[Grid] = {
        "hidden": (128, 512),
        "learning_rate": (3e-4, 1e-3),
        "epochs": (5, 20),
        "novelty": ("gaussian", "loop"),
        "quantile": (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95),
    }
    quick_grid: ClassVar[Grid] = {
        "hidden": (256,),
        "epochs": (5, 20),
        "novelty": ("gaussian", "loop"),
        "quantile": (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9),
    }
    tuned_by: ClassVar[Literal["zsl", "H"]] = "H"
    scoring_params = ("novelty", "quantile")

    def _path(self, X: FloatArray, y: IntArray, S: FloatArray, epochs: int) -> Iterator[tuple[int, Any]]:
        for epoch, weights in super()._path(X, y, S, epochs):
            yield epoch, (weights, X, y)

    def _keep(self, learned: Any) -> None:
        weights, X, y = learned
        super()._keep(weights)
        self.points_, self.labels_ = forward(X, self.weights_), y
        self.detectors_: dict[str, Novelty] = {}

    def _detector(self) -> Novelty:
        """Return the detector, created on first use: on a grid one network serves both kinds, and any threshold."""
        if self.novelty not in self.detectors_:
            self.detectors_[self.novelty] = (
                GaussianNovelty(self.points_, self.labels_, self.signatures_.astype(self.points_.dtype))
                if self.novelty == "gaussian"
                else LocalOutliers(self.points_, self.neighbours)
            )
        return self.detectors_[self.novelty]

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        ((_, scores),) = self._settings_scores(X, S, [{}])
        return scores

    def _settings_scores(
        self, X: FloatArray, S: FloatArray, settings: Sequence[Params]
    ) -> Iterator[tuple[Params, FloatArray]]:
        """Yield the scores for all settings; distances are computed once."""
        points = forward(X, self.weights_)
        scores = -squared_distances(points, S.astype(X.dtype))
        seen = self._seen_rows(S) >= 0
        measured: dict[str, FloatArray] = {}
        for params in settings:
            self.set_params(**params)
            if seen.all() or not seen.any():
                yield params, scores
                continue
            detector = self._detector()
            if self.novelty not in measured:
                measured[self.novelty] = detector.measure(points)
            new = detector.is_new(measured[self.novelty], self.quantile)
            yield params, np.where(new[:, None] == seen[None, :], -np.inf, scores)
