"""Zero-shot methods: `fit(X, y, S)` on seen classes, `scores(X, S)` and `predict(X, S)` for any classes.

Classes are imported on first use, so that listing the methods is cheap.
"""

from typing import TYPE_CHECKING

from unseen.core.registry import lazy_exports

if TYPE_CHECKING:
    from unseen.zeroshot.ale import ALE as ALE
    from unseen.zeroshot.ale import DEVISE as DEVISE
    from unseen.zeroshot.ale import SJE as SJE
    from unseen.zeroshot.ale_tran import ALETran as ALETran
    from unseen.zeroshot.catalogue import METHODS as METHODS
    from unseen.zeroshot.catalogue import method_cards as method_cards
    from unseen.zeroshot.cmt import CMT as CMT
    from unseen.zeroshot.cmt_star import CMTStar as CMTStar
    from unseen.zeroshot.conse import CONSE as CONSE
    from unseen.zeroshot.dap import DAP as DAP
    from unseen.zeroshot.dap import IAP as IAP
    from unseen.zeroshot.dsrl import DSRL as DSRL
    from unseen.zeroshot.eszsl import ESZSL as ESZSL
    from unseen.zeroshot.f_clswgan import FCLSWGAN as FCLSWGAN
    from unseen.zeroshot.gfzsl import GFZSL as GFZSL
    from unseen.zeroshot.gfzsl import GFZSLTran as GFZSLTran
    from unseen.zeroshot.latem import LATEM as LATEM
    from unseen.zeroshot.method import ZeroShotMethod as ZeroShotMethod
    from unseen.zeroshot.problem import Fold as Fold
    from unseen.zeroshot.problem import Problem as Problem
    from unseen.zeroshot.protocol import Evaluation as Evaluation
    from unseen.zeroshot.protocol import evaluate_method as evaluate_method
    from unseen.zeroshot.protocol import tune as tune
    from unseen.zeroshot.sae import SAE as SAE
    from unseen.zeroshot.sae import SAEReverse as SAEReverse
    from unseen.zeroshot.sse import SSE as SSE
    from unseen.zeroshot.sync import SYNC as SYNC
else:
    __all__, __getattr__, __dir__ = lazy_exports(__name__)
