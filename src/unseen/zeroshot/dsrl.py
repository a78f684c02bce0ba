"""DSRL: non-negative factors of images, aligned with class attributes, then label propagation.

Paper:      Ye & Guo, "Zero-shot classification with discriminative semantic representation learning", CVPR 2017 [P]
Shapes:     X (n, d) features; S (c, a) class embeddings; Z (n, a') factors, D (a', d) dictionary, all non-negative
Implements: min over Z, D >= 0 of |X - Z D|^2 + lam |Z_train - S_y|^2 on training and unlabelled images together, by
            multiplicative updates; S_0 by cosine of factors and attributes; GBU Eqs. (19), (20)
Differs:    GBU describes the method in three sentences, and this follows them; [P] adds a discriminative term on the
            scores. Values below 0 (word vectors, centred features) are kept as a second set of non-negative
            dimensions, max(0, -x). The unlabelled images are those that `scores` is given
Expected:   GBU Table 2: SUN 86.0, CUB 57.6, AWA1 87.7, aPY 47.8 (features and splits of [P])
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from unseen.core.records import MethodCard
from unseen.zeroshot.method import FloatArray, Grid, IntArray, ZeroShotMethod, unit_rows
from unseen.zeroshot.propagation import propagate

_TINY = 1e-9


class DSRL(ZeroShotMethod):
    """Discriminative semantic representation learning.

    Args:
        lam: weight of the alignment with class attributes.
        steps: of multiplicative updates of the dictionary, then as many again with the unlabelled images.
        neighbours, alpha: of the label propagation.
        seed: of the first factors.
    """

    card: ClassVar[MethodCard] = MethodCard(
        id="DSRL",
        name="Non-negative factors and propagation",
        group="zero-shot, transductive",
        paper="gbu",
        citation="Ye & Guo, CVPR 2017",
    )
    version: ClassVar[int] = 1
    grid: ClassVar[Grid] = {"lam": (0.1, 1.0, 10.0, 100.0), "alpha": (0.5, 0.9)}
    quick_grid: ClassVar[Grid] = {"lam": (1.0, 10.0), "alpha": (0.5,)}

    transductive: ClassVar[bool] = True
    dictionary_: FloatArray
    train_gram_: FloatArray
    train_cross_: FloatArray
    scale_: float
    split_features_: bool
    split_signatures_: bool

    def __init__(
        self, lam: float = 1.0, steps: int = 50, neighbours: int = 10, alpha: float = 0.9, seed: int = 0
    ) -> None:
        self.lam = lam
        self.steps = steps
        self.neighbours = neighbours
        self.alpha = alpha
        self.seed = seed

    def _fit(self, X: FloatArray, y: IntArray, S: FloatArray) -> None:
        self.scale_ = float(np.abs(X).mean()) or 1.0
        self.split_features_, self.split_signatures_ = bool((X < 0).any()), bool((S < 0).any())
        rows = parts(X / X.dtype.type(self.scale_), split=self.split_features_)
        targets = parts(S, split=self.split_signatures_).astype(X.dtype)
        rng = np.random.default_rng(self.seed)
        Z = targets[y]
        D = rng.uniform(0.5, 1.5, (targets.shape[1], rows.shape[1])).astype(X.dtype) * rows.mean()
        aligned = X.dtype.type(self.lam) * targets[y]
        lam = X.dtype.type(self.lam)
        for _ in range(self.steps):
            D *= (Z.T @ rows) / ((Z.T @ Z) @ D + _TINY)
            Z = Z * (rows @ D.T + aligned) / (Z @ (D @ D.T) + lam * Z + _TINY)
        self.dictionary_, self.train_gram_, self.train_cross_ = D, Z.T @ Z, Z.T @ rows

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        rows = parts(X / X.dtype.type(self.scale_), split=self.split_features_)
        D = self.dictionary_.copy()
        Z = np.full((len(X), len(D)), 1.0, X.dtype) * (rows.mean() / max(float(D.mean() * len(D)), _TINY))
        Z = Z.astype(X.dtype)
        for step in range(2 * self.steps):
            Z *= (rows @ D.T) / (Z @ (D @ D.T) + _TINY)
            if step >= self.steps:  # factors first: a dictionary that follows unsettled factors forgets its attributes
                D *= (self.train_cross_ + Z.T @ rows) / ((self.train_gram_ + Z.T @ Z) @ D + _TINY)
        candidates = unit_rows(parts(S, split=self.split_signatures_).astype(X.dtype))
        first = unit_rows(Z) @ candidates.T
        first = first - first.mean(1, keepdims=True)
        return propagate(unit_rows(Z), first, neighbours=self.neighbours, alpha=self.alpha)


def parts(matrix: FloatArray, *, split: bool) -> FloatArray:
    """Positive and negative part side by side; without `split` the positive part alone."""
    positive = np.maximum(matrix, 0)
    return np.concatenate([positive, np.maximum(-matrix, 0)], axis=1) if split else positive
