"""SFDA: how well a Fisher classifier tells the classes apart after each image was made harder.

Paper:      Shao et al., "Not all models are equal: predicting model transferability in a self-challenging Fisher
            space", ECCV 2022 [P]
Shapes:     X (n, d) features; p (n,) confidence in the right class; o (c, d) mean of all images of other classes
Implements: fit; confidence mix x <- p x + (1 - p) o_y, section 4.2 of [P]; fit again with the same shrinkage; mean
            log p(y|x), Eq. (5) of [P]
Differs:    the released code averages p instead of log p ("in case of instability"): a log-softmax is stable, so the
            paper's equation is kept. As in the release, confidences pass one more softmax before they mix.

Where there are far fewer images than dimensions, any features separate all classes and the score is close to 0 for
every checkpoint: do not rank by it there.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unseen.metrics.softmax import softmax
from unseen.ranking.cards import FEATURES, ScoreCard
from unseen.ranking.cost import Sizes, fisher_flops
from unseen.ranking.fisher import compact, fit_fisher
from unseen.ranking.inputs import check_features


def sfda(features: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Mean log-probability of the right class in the self-challenged Fisher space; at most 0, higher is better."""
    rows, known = check_features(features, labels)
    rows = compact(rows)
    first = fit_fisher(rows, known)
    # Probabilities lie in [0, 1], so that this second softmax pulls all of them towards 1 / classes.
    softened = softmax(np.exp(first.log_posterior))
    confidence = softened[np.arange(len(rows)), known.index][:, None]
    sums = known.sums(rows)
    others = (sums.sum(axis=0) - sums) / (len(rows) - known.counts)[:, None]
    mixed = confidence * rows + (1 - confidence) * others[known.index]
    second = fit_fisher(mixed - mixed.mean(axis=0), known, first.shrinkage)
    return float(second.of_own_class(known).mean())


def _cost(s: Sizes) -> float:
    return 2 * fisher_flops(s.n, s.d, s.c)


CARD = ScoreCard(
    "sfda",
    "SFDA",
    FEATURES,
    sfda,
    _cost,
    citation="Shao et al., ECCV 2022",
    notes="says nothing with far fewer images than dimensions",
)
