"""ALE: bilinear compatibility with a ranking loss that emphasises the top of the list.

Paper:      Akata, Perronnin, Harchaoui & Schmid, "Label-embedding for image classification", TPAMI 2016 [P]
Shapes:     margins (b, c) = Delta + F(x, y) - F(x, y_n), 0 at y_n
Implements: GBU Eqs. (5), (6) with alpha_i = 1 / i, by sampling as in WSABIE: wrong classes are sampled without
            replacement until one violates; found at draw k, its rank is estimated by floor((c - 1) / k), and the step's
            weight is the harmonic number of that
Differs:    all classes are sampled at once, as a random order of columns: the same distribution without a loop
Expected:   GBU Table 3, PS: SUN 58.1, CUB 54.9, AWA1 59.9, AWA2 62.5, aPY 39.7
"""

from __future__ import annotations

from functools import cache

import numpy as np

from unseen.core.records import MethodCard
from unseen.zeroshot.compatibility import CompatibilityMethod
from unseen.zeroshot.method import FloatArray, Grid, IntArray


class ALE(CompatibilityMethod):
    """Attribute label embedding."""

    card = MethodCard(
        id="ALE",
        name="Attribute label embedding",
        group="zero-shot, linear compatibility",
        paper="gbu",
        citation="Akata et al., TPAMI 2016",
    )
    version = 1
    grid = Grid(learning_rate=(0.003, 0.01, 0.03, 0.1, 0.3), epochs=(1, 2, 5, 10, 20, 50))
    quick_grid = Grid(learning_rate=(0.01, 0.1), epochs=(1, 2, 5, 10, 20))

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
