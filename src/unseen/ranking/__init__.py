"""Transferability scores: which checkpoint will fine-tune best, told from its features before anything is trained.

One file per score, plain functions `(features, labels, ...) -> float`, higher is better; `leep` and `nce` take the
probabilities of the checkpoint's own head instead, `etran` and `ncti` a whole pool. `SCORES` declares what each needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# A function that is called like its module must be imported here, and at once: otherwise whoever imports the module
# first leaves the module under the name. Torch is loaded by those functions that need it, when they are called.
from unseen.ranking.cards import SCORES, ScoreCard, combine_terms, find_score, score_terms
from unseen.ranking.cost import finetune_flops, score_flops
from unseen.ranking.etran import etran
from unseen.ranking.gbc import gbc
from unseen.ranking.hscore import hscore, regularised_hscore
from unseen.ranking.knn import knn
from unseen.ranking.leep import leep
from unseen.ranking.linear import linear
from unseen.ranking.logme import logme
from unseen.ranking.mutual_information import mutual_information
from unseen.ranking.nce import nce
from unseen.ranking.ncti import ncti
from unseen.ranking.nleep import nleep
from unseen.ranking.pactran import pactran
from unseen.ranking.parc import parc
from unseen.ranking.sfda import sfda
from unseen.ranking.transrate import transrate

if TYPE_CHECKING:
    from unseen.ranking.gmm import Mixture, fit_mixture

__all__ = [
    "SCORES",
    "Mixture",
    "ScoreCard",
    "combine_terms",
    "etran",
    "find_score",
    "finetune_flops",
    "fit_mixture",
    "gbc",
    "hscore",
    "knn",
    "leep",
    "linear",
    "logme",
    "mutual_information",
    "nce",
    "ncti",
    "nleep",
    "pactran",
    "parc",
    "regularised_hscore",
    "score_flops",
    "score_terms",
    "sfda",
    "transrate",
]


def __getattr__(name: str) -> Any:
    if name in ("Mixture", "fit_mixture"):
        from unseen.ranking import gmm

        return getattr(gmm, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
