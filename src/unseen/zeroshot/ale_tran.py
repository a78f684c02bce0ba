"""ALE-tran: ALE whose scores are propagated among the images that are scored together.

Paper:      Xian et al., TPAMI 2018, section 3.5 [P]; ALE as in `unseen.zeroshot.ale`
Shapes:     X (n, d) features; S (c, a) class embeddings
Implements: S_0 from ALE; the graph of Eq. (19) over images projected by W; Eq. (20)
Differs:    the unlabelled images are those that `scores` is given. In the generalized setting [P] has those of unseen
            classes; here nothing tells them from the others
Expected:   [P], Fig. 8, PS: aPY 45.5 (ALE 37.1 there)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from unseen.core.records import MethodCard
from unseen.zeroshot.ale import ALE
from unseen.zeroshot.method import FloatArray, Grid, Params, parameters
from unseen.zeroshot.propagation import propagate


@parameters
class ALETran(ALE):
    """Transductive attribute label embedding.

    Args:
        neighbours: of an image in the graph.
        alpha: how much neighbours count against the image's own scores, from 0 to less than 1.
    """

    neighbours: int = 10
    alpha: float = 0.9

    card = MethodCard(
        id="ALE-tran",
        name="ALE with label propagation",
        group="zero-shot, transductive",
        paper="gbu",
        citation="Xian et al., TPAMI 2018",
    )
    version = 1
    grid: ClassVar[Grid] = {
        "learning_rate": (0.01, 0.03, 0.1),
        "epochs": (2, 5, 10, 20),
        "alpha": (0.5, 0.9),
        "neighbours": (10,),
    }
    quick_grid: ClassVar[Grid] = {"learning_rate": (0.1,), "epochs": (5, 20), "alpha": (0.5, 0.9)}

    transductive = True
    scoring_params = ("neighbours", "alpha")

    def _scores(self, X: FloatArray, S: FloatArray) -> FloatArray:
        ((_, scores),) = self._settings_scores(X, S, [self.get_params()])
        return scores

    def _settings_scores(
        self, X: FloatArray, S: FloatArray, settings: Sequence[Params]
    ) -> Iterator[tuple[Params, FloatArray]]:
        first = super()._scores(X, S)
        # Only differences between classes matter: a constant per image must not be propagated.
        first = first - first.mean(1, keepdims=True)
        asked = [(full["neighbours"], full["alpha"]) for _, full in self._full(settings)]
        yield from zip(settings, propagate(X @ self.W_.astype(X.dtype), first, asked), strict=True)
