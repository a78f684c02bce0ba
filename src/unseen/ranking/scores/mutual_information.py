"""I_alpha: a variational lower bound on the mutual information of features and labels.

Papers:     Poole et al., "On variational bounds of mutual information", ICML 2019 [P]; used to rank checkpoints by Li
            et al., "Ranking neural checkpoints" (NeuCRaB), section 3.3, CVPR 2021 [N]
Shapes:     X (n, d) features; y (n,) labels
Implements: the interpolated bound I_alpha of [P], trained and evaluated by `critic.py`
Differs:    [N] does not say how it trains: here the critic is one hidden layer of 256 ReLUs on standardised features,
            Adam at 1e-3, batches of 128, 20 epochs of 4/5 of the images; the bound is then evaluated on the other
            fifth, for a bound evaluated on images that the critic has learnt by heart is no bound
Expected:   [N] Table 1, Group I, Kendall: -0.31 (alpha 0.01), -13.05 (0.50); after PCA 20.67 and -16.06
"""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from unseen.core.errors import UsageError
from unseen.ranking.cards import FEATURES, ScoreCard
from unseen.ranking.cost import REDUCED, Sizes, gram_flops
from unseen.ranking.inputs import check_features
from unseen.ranking.sampling import split_rows
from unseen.ranking.spectrum import principal_components

EPOCHS = 20
HIDDEN = 256
HELD_OUT = 0.2
#: Share of variance that is kept where PCA comes first: that of N-LEEP; [N] does not give its own.
ENERGY = 0.8


def mutual_information(
    features: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    alpha: float = 0.01,
    pca: bool = False,
    epochs: int = EPOCHS,
    seed: int = 0,
) -> float:
    """The bound I_alpha in nats; higher is better.

    Args:
        alpha: between 0 (low bias, high variance) and 1 (low variance, at most the log of the batch).
        pca: reduce the features to their principal components first.
        epochs: of training.
        seed: of split, weights and batches.
    """
    from unseen.ranking.critic import train_and_evaluate

    if not 0 < alpha <= 1:
        raise UsageError(f"alpha must lie in (0, 1]; got {alpha}.")
    rows, known = check_features(features, labels)
    if pca:
        rows = principal_components(rows, energy=ENERGY)
    train, test = split_rows(known.index, HELD_OUT, seed)
    spread = rows[train].std(axis=0)
    scaled = ((rows - rows[train].mean(axis=0)) / np.where(spread > 0, spread, 1.0)).astype(np.float32)
    shares = (known.counts / len(rows)).astype(np.float32)
    return train_and_evaluate(
        scaled, known.index, shares, train, test, alpha=alpha, hidden=HIDDEN, epochs=epochs, seed=seed
    )


def _cost(s: Sizes, *, pca: bool) -> float:
    q = max(1.0, REDUCED * s.d) if pca else s.d
    return (gram_flops(s.n, s.d) if pca else 0.0) + 6 * (1 - HELD_OUT) * s.n * HIDDEN * (q + s.c) * EPOCHS


def _card(id: str, name: str, alpha: float, *, pca: bool = False) -> ScoreCard:  # noqa: A002 - the card's own word
    options = {"alpha": alpha, "pca": True} if pca else {"alpha": alpha}
    return ScoreCard(
        id,
        name,
        FEATURES,
        mutual_information,
        partial(_cost, pca=pca),
        options,
        seeded=True,
        paper="neucrab",
        citation="Li et al., CVPR 2021",
    )


LOW_ALPHA = _card("mi-0.01", "MI (alpha=0.01)", 0.01)
HIGH_ALPHA = _card("mi-0.50", "MI (alpha=0.50)", 0.5)
PCA_LOW_ALPHA = _card("mi-pca-0.01", "MI w/ PCA (alpha=0.01)", 0.01, pca=True)
PCA_HIGH_ALPHA = _card("mi-pca-0.50", "MI w/ PCA (alpha=0.50)", 0.5, pca=True)
