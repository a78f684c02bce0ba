"""Every zero-shot method by its name, in the order of the paper's tables. A method is one line here, and its grid."""

from __future__ import annotations

from typing import Any

from unseen.core.records import MethodCard
from unseen.core.registry import Registry

METHODS: Registry[Any] = Registry("zero-shot method", "unseen.zeroshot")

_GBU = "gbu"
_LAMPERT = "Lampert, Nickisch & Harmeling, TPAMI 2014"
_SOCHER = "Socher et al., NeurIPS 2013"
_VERMA = "Verma & Rai, ECML 2017"
_KODIROV = "Kodirov et al., CVPR 2017"

#: Name, target, full name, group, source.
_TABLE = (
    ("DAP", "dap:DAP", "Direct attribute prediction", "attribute classifiers", _LAMPERT),
    ("IAP", "iap:IAP", "Indirect attribute prediction", "attribute classifiers", _LAMPERT),
    ("CONSE", "conse:CONSE", "Convex combination of semantic embeddings", "hybrid", "Norouzi et al., ICLR 2014"),
    ("CMT", "cmt:CMT", "Cross-modal transfer", "non-linear compatibility", _SOCHER),
    ("CMT*", "cmt_star:CMTStar", "Cross-modal transfer, novelty detection", "non-linear compatibility", _SOCHER),
    ("SSE", "sse:SSE", "Semantic similarity embedding", "hybrid", "Zhang & Saligrama, ICCV 2015"),
    ("LATEM", "latem:LATEM", "Latent embeddings", "non-linear compatibility", "Xian et al., CVPR 2016"),
    ("ALE", "ale:ALE", "Attribute label embedding", "linear compatibility", "Akata et al., TPAMI 2016"),
    ("DEVISE", "devise:DEVISE", "Visual-semantic embedding", "linear compatibility", "Frome et al., NeurIPS 2013"),
    ("SJE", "sje:SJE", "Structured joint embedding", "linear compatibility", "Akata et al., CVPR 2015"),
    ("ESZSL", "eszsl:ESZSL", "Closed-form bilinear", "linear compatibility", "Romera-Paredes & Torr, ICML 2015"),
    ("SYNC", "sync:SYNC", "Synthesised classifiers", "hybrid", "Changpinyo et al., CVPR 2016"),
    ("SAE", "sae:SAE", "Semantic auto-encoder, images to attributes", "linear compatibility", _KODIROV),
    ("SAE-reverse", "sae:SAEReverse", "Semantic auto-encoder, attributes to images", "linear compatibility", _KODIROV),
    ("GFZSL", "gfzsl:GFZSL", "Class-conditional Gaussians", "generative", _VERMA),
    ("ALE-tran", "ale_tran:ALETran", "ALE with label propagation", "transductive", "Xian et al., TPAMI 2018"),
    ("GFZSL-tran", "gfzsl_tran:GFZSLTran", "GFZSL with expectation-maximisation", "transductive", _VERMA),
    ("DSRL", "dsrl:DSRL", "Non-negative factors and propagation", "transductive", "Ye & Guo, CVPR 2017"),
)
for _name, _target, *_ in _TABLE:
    METHODS.add(_name, f"unseen.zeroshot.{_target}")


def method_cards() -> list[MethodCard]:
    """Every method of the package, as `unseen ls methods` shows it."""
    return [
        MethodCard(id=name, name=full, group=f"zero-shot, {group}", paper=_GBU, citation=citation)
        for name, _, full, group, citation in _TABLE
    ]


def builtin_methods() -> tuple[str, ...]:
    """Names in the order of the paper's tables."""
    return tuple(name for name, *_ in _TABLE)


def transductive_methods() -> tuple[str, ...]:
    """Names of the methods that look at all test images together."""
    return tuple(name for name, _, _, group, _ in _TABLE if group == "transductive")


def method_version(name: str) -> int:
    """The version of a method's numbers; it is part of what a result is."""
    return int(getattr(METHODS.get(name), "version", 1))
