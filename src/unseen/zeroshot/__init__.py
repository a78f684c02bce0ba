"""Zero-shot methods: `fit(X, y, S)` on seen classes, `scores(X, S)` and `predict(X, S)` for any classes.

Classes are imported when first asked for: listing the methods costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unseen.zeroshot.catalogue import METHODS, method_cards

if TYPE_CHECKING:
    from unseen.zeroshot.ale import ALE
    from unseen.zeroshot.ale_tran import ALETran
    from unseen.zeroshot.cada_vae import CADAVAE
    from unseen.zeroshot.cmt import CMT
    from unseen.zeroshot.cmt_star import CMTStar
    from unseen.zeroshot.conse import CONSE
    from unseen.zeroshot.dap import DAP
    from unseen.zeroshot.devise import DEVISE
    from unseen.zeroshot.dsrl import DSRL
    from unseen.zeroshot.eszsl import ESZSL
    from unseen.zeroshot.f_clswgan import FCLSWGAN
    from unseen.zeroshot.gfzsl import GFZSL
    from unseen.zeroshot.gfzsl_tran import GFZSLTran
    from unseen.zeroshot.iap import IAP
    from unseen.zeroshot.latem import LATEM
    from unseen.zeroshot.method import ZeroShotMethod
    from unseen.zeroshot.problem import Fold, Problem
    from unseen.zeroshot.protocol import Evaluation, evaluate_method, tune
    from unseen.zeroshot.sae import SAE, SAEReverse
    from unseen.zeroshot.sje import SJE
    from unseen.zeroshot.sse import SSE
    from unseen.zeroshot.sync import SYNC

_MODULES = {
    "ALE": "ale",
    "ALETran": "ale_tran",
    "CADAVAE": "cada_vae",
    "CMT": "cmt",
    "CMTStar": "cmt_star",
    "CONSE": "conse",
    "DAP": "dap",
    "DEVISE": "devise",
    "DSRL": "dsrl",
    "ESZSL": "eszsl",
    "Evaluation": "protocol",
    "FCLSWGAN": "f_clswgan",
    "Fold": "problem",
    "GFZSL": "gfzsl",
    "GFZSLTran": "gfzsl_tran",
    "IAP": "iap",
    "LATEM": "latem",
    "Problem": "problem",
    "SAE": "sae",
    "SAEReverse": "sae",
    "SJE": "sje",
    "SSE": "sse",
    "SYNC": "sync",
    "ZeroShotMethod": "method",
    "evaluate_method": "protocol",
    "tune": "protocol",
}

__all__ = [
    "ALE",
    "CADAVAE",
    "CMT",
    "CONSE",
    "DAP",
    "DEVISE",
    "DSRL",
    "ESZSL",
    "FCLSWGAN",
    "GFZSL",
    "IAP",
    "LATEM",
    "METHODS",
    "SAE",
    "SJE",
    "SSE",
    "SYNC",
    "ALETran",
    "CMTStar",
    "Evaluation",
    "Fold",
    "GFZSLTran",
    "Problem",
    "SAEReverse",
    "ZeroShotMethod",
    "evaluate_method",
    "method_cards",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
