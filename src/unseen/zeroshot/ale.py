"""ALE, DEVISE and SJE: bilinear compatibility with three ranking losses.

Papers:     Akata, Perronnin, Harchaoui & Schmid, "Label-embedding for image classification", TPAMI 2016 [A];
            Frome et al., "DeViSE: a deep visual-semantic embedding model", NeurIPS 2013 [D];
            Akata, Reed, Walter, Lee & Schiele, "Evaluation of output embeddings for fine-grained image classification",
            CVPR 2015 [S]
Shapes:     margins (b, c) = Delta + F(x, y) - F(x, y_n), 0 at y_n
Implements: ALE: GBU Eqs. (5), (6) with alpha_i = 1 / i, by sampling as in WSABIE: wrong classes are sampled without
            replacement until one violates; found at draw k, its rank is estimated by floor((c - 1) / k), and the step's
            weight is the harmonic number of that
            DEVISE: GBU Eq. (4); as in [D], a step pushes away the first violating class found, in the order of the
            labels (`order="index"`, as in GBU's code and its re-implementations), or all of them ("all", the gradient
            of Eq. (4) itself)
            SJE: GBU Eq. (7): the most violating class is pushed away
Differs:    ALE samples all classes at once, as a random order of columns: the same distribution without a loop
Expected:   GBU Table 3, PS: ALE SUN 58.1, CUB 54.9, AWA1 59.9, AWA2 62.5, aPY 39.7;
            DEVISE SUN 56.5, CUB 52.0, AWA1 54.2, AWA2 59.7, aPY 39.8;
            SJE SUN 53.7, CUB 53.9, AWA1 65.6, AWA2 61.9, aPY 32.9
"""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np

from unseen.zeroshot.compatibility import CompatibilityMethod
from unseen.zeroshot.method import FloatArray, IntArray, parameters


class ALE(CompatibilityMethod, key="ALE"):
    """Attribute label embedding."""

    def _violations(
        self, margins: FloatArray, y: IntArray, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray, FloatArray]:
        chosen, draw = first_violation(margins, y, rng)
        rows = np.flatnonzero(draw)
        return rows, chosen[rows], _harmonic(margins.shape[1])[(margins.shape[1] - 1) // draw[rows]]  # Eqs. (5), (6)


@cache
def _harmonic(classes: int) -> FloatArray:
    """Return 1 + 1/2 + ... + 1/k for k from 0 to classes - 1."""
    return np.concatenate(([0.0], np.cumsum(1.0 / np.arange(1, classes))))


def first_violation(margins: FloatArray, y: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Return per image the first violating class in a random order of wrong classes, and its place (0: none)."""
    rows = np.arange(len(y))
    keys = rng.random(margins.shape, dtype=np.float32)
    keys[rows, y] = 2  # the right class comes last, so that it takes no place
    among = np.where(margins > 0, keys, 3)
    chosen = among.argmin(1)
    place = (keys <= keys[rows, chosen][:, None]).sum(1)
    return chosen, np.where(among[rows, chosen] < 2, place, 0)


@parameters
class DEVISE(CompatibilityMethod, key="DEVISE"):
    """Deep visual-semantic embedding, its linear map.

    Args:
        order: "index" pushes away the first violating class, "all" all of them.
    """

    order: Literal["index", "all"] = "index"

    def _violations(
        self, margins: FloatArray, y: IntArray, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray, FloatArray]:
        if self.order == "all":
            rows, chosen = np.nonzero(margins > 0)  # Eq. (4)
            return rows, chosen, np.ones(len(rows), margins.dtype)
        chosen = (margins > 0).argmax(1)
        rows = np.flatnonzero(margins[np.arange(len(y)), chosen] > 0)
        return rows, chosen[rows], np.ones(len(rows), margins.dtype)


class SJE(CompatibilityMethod, key="SJE"):
    """Structured joint embedding."""

    def _violations(
        self, margins: FloatArray, y: IntArray, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray, FloatArray]:
        worst = margins.argmax(1)  # Eq. (7)
        rows = np.flatnonzero(margins[np.arange(len(y)), worst] > 0)  # the right class has margin 0
        return rows, worst[rows], np.ones(len(rows), margins.dtype)
