"""DEVISE: bilinear compatibility with a pairwise ranking loss.

Paper:      Frome et al., "DeViSE: a deep visual-semantic embedding model", NeurIPS 2013 [P]
Shapes:     margins (b, c) = Delta + F(x, y) - F(x, y_n), 0 at y_n
Implements: GBU Eq. (4); as in [P], a step pushes away the first violating class found, in the order of the labels
            (`order="index"`, as in GBU's code and its re-implementations), in a random order ("random", as [P] tells
            it), or all of them ("all", the gradient of Eq. (4) itself)
Differs:    nothing
Expected:   GBU Table 3, PS: SUN 56.5, CUB 52.0, AWA1 54.2, AWA2 59.7, aPY 39.8
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from unseen.core.records import MethodCard
from unseen.zeroshot.ale import first_violation
from unseen.zeroshot.compatibility import CompatibilityMethod
from unseen.zeroshot.method import FloatArray, Grid, IntArray, parameters


@parameters
class DEVISE(CompatibilityMethod):
    """Deep visual-semantic embedding, its linear map.

    Args:
        order: in which order wrong classes are tried: "index", "random", or "all" at once.
    """

    order: Literal["index", "random", "all"] = "index"

    card = MethodCard(
        id="DEVISE",
        name="Visual-semantic embedding",
        group="zero-shot, linear compatibility",
        paper="gbu",
        citation="Frome et al., NeurIPS 2013",
    )
    version = 1
    grid = Grid(learning_rate=(0.003, 0.01, 0.03, 0.1, 0.3), epochs=(1, 2, 5, 10, 20, 50))
    quick_grid = Grid(learning_rate=(0.03, 0.3), epochs=(1, 2, 5, 10, 20))

    def _violations(
        self, margins: FloatArray, y: IntArray, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray, FloatArray]:
        if self.order == "all":
            rows, chosen = np.nonzero(margins > 0)  # Eq. (4)
            return rows, chosen, np.ones(len(rows), margins.dtype)
        if self.order == "index":
            violating = margins > 0
            chosen = violating.argmax(1)
            found = violating[np.arange(len(y)), chosen]
        else:
            chosen, draw = first_violation(margins, y, rng)
            found = draw > 0
        rows = np.flatnonzero(found)
        return rows, chosen[rows], np.ones(len(rows), margins.dtype)
