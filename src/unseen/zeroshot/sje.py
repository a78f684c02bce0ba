"""SJE: bilinear compatibility with the loss of a structured support vector machine.

Paper:      Akata, Reed, Walter, Lee & Schiele, "Evaluation of output embeddings for fine-grained image classification",
            CVPR 2015 [P]
Shapes:     margins (b, c) = Delta + F(x, y) - F(x, y_n), 0 at y_n
Implements: GBU Eq. (7): the most violating class is pushed away
Differs:    nothing
Expected:   GBU Table 3, PS: SUN 53.7, CUB 53.9, AWA1 65.6, AWA2 61.9, aPY 32.9
"""

from __future__ import annotations

import numpy as np

from unseen.core.records import MethodCard
from unseen.zeroshot.compatibility import CompatibilityMethod
from unseen.zeroshot.method import FloatArray, Grid, IntArray


class SJE(CompatibilityMethod):
    """Structured joint embedding."""

    card = MethodCard(
        id="SJE",
        name="Structured joint embedding",
        group="zero-shot, linear compatibility",
        paper="gbu",
        citation="Akata et al., CVPR 2015",
    )
    version = 1
    grid = Grid(learning_rate=(0.003, 0.01, 0.03, 0.1, 0.3), epochs=(1, 2, 5, 10, 20, 50))
    quick_grid = Grid(learning_rate=(0.03, 0.3), epochs=(1, 2, 5, 10, 20))

    def _violations(
        self, margins: FloatArray, y: IntArray, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray, FloatArray]:
        worst = margins.argmax(1)  # Eq. (7)
        rows = np.flatnonzero(margins[np.arange(len(y)), worst] > 0)  # the right class has margin 0
        return rows, worst[rows], np.ones(len(rows), margins.dtype)
