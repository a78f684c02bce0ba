"""Transferability scores: predict which checkpoint will fine-tune best from its features, before any training.

One file per score, plain functions `(features, labels, ...) -> float`, higher is better; `leep` and `nce` take the
probabilities of the checkpoint's own head instead. `SCORES` declares what each needs.
"""

from typing import TYPE_CHECKING

from unseen.core.registry import lazy_exports

if TYPE_CHECKING:
    from unseen.ranking.cards import SCORES as SCORES
    from unseen.ranking.cards import ScoreCard as ScoreCard
    from unseen.ranking.cards import find_score as find_score
    from unseen.ranking.cards import finetune_flops as finetune_flops
    from unseen.ranking.cards import score_flops as score_flops
    from unseen.ranking.cards import score_value as score_value
    from unseen.ranking.scores.gbc import gbc as gbc
    from unseen.ranking.scores.hscore import hscore as hscore
    from unseen.ranking.scores.hscore import regularised_hscore as regularised_hscore
    from unseen.ranking.scores.knn import knn as knn
    from unseen.ranking.scores.leep import leep as leep
    from unseen.ranking.scores.leep import nce as nce
    from unseen.ranking.scores.linear import linear as linear
    from unseen.ranking.scores.logme import logme as logme
    from unseen.ranking.scores.mutual_information import mutual_information as mutual_information
    from unseen.ranking.scores.nleep import nleep as nleep
    from unseen.ranking.scores.parc import parc as parc
else:
    __all__, __getattr__, __dir__ = lazy_exports(__name__)
