"""Every zero-shot method by its name, in the order of the paper's tables. Adding one is its file and a line here.

A plug-in names its class under the entry point group `unseen.zeroshot`; card, version and grids are the class's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unseen.core.errors import UsageError
from unseen.core.records import MethodCard
from unseen.core.registry import Registry

if TYPE_CHECKING:
    from unseen.zeroshot.method import ZeroShotMethod

METHODS: Registry[Any] = Registry("zero-shot method", "unseen.zeroshot")
#: One line per method: its name, and where it is.
_BUILT_IN = {
    "DAP": "dap:DAP",
    "IAP": "iap:IAP",
    "CONSE": "conse:CONSE",
    "CMT": "cmt:CMT",
    "CMT*": "cmt_star:CMTStar",
    "SSE": "sse:SSE",
    "LATEM": "latem:LATEM",
    "ALE": "ale:ALE",
    "DEVISE": "devise:DEVISE",
    "SJE": "sje:SJE",
    "ESZSL": "eszsl:ESZSL",
    "SYNC": "sync:SYNC",
    "SAE": "sae:SAE",
    "SAE-reverse": "sae:SAEReverse",
    "GFZSL": "gfzsl:GFZSL",
    "f-CLSWGAN": "f_clswgan:FCLSWGAN",
    "CADA-VAE": "cada_vae:CADAVAE",
    "ALE-tran": "ale_tran:ALETran",
    "GFZSL-tran": "gfzsl_tran:GFZSLTran",
    "DSRL": "dsrl:DSRL",
}
for _name, _target in _BUILT_IN.items():
    METHODS.add(_name, f"unseen.zeroshot.{_target}")


# It takes features and embeddings of one space, which those above do not: it is named, and stands in none of the lists.
METHODS.add("prompt", "unseen.zeroshot.prompt:Prompt")


def builtin_methods() -> tuple[str, ...]:
    """Names of the package's own methods, in the order of the paper's tables."""
    return tuple(_BUILT_IN)


def paper_methods() -> tuple[str, ...]:
    """Those of the paper: what "all" stands for. Networks that generate features came later, and take minutes."""
    return tuple(name for name in _BUILT_IN if name not in generative_methods())


def generative_methods() -> tuple[str, ...]:
    """Names of the package's own methods that generate features of unseen classes."""
    return ("f-CLSWGAN", "CADA-VAE")


def transductive_methods() -> tuple[str, ...]:
    """Names of the package's own methods that look at all test images together."""
    return tuple(name for name in _BUILT_IN if METHODS.get(name).transductive)


def load_method(name: str) -> type[ZeroShotMethod]:
    """The class of a method.

    Raises:
        UnknownNameError: no method is called so.
        UsageError: a plug-in is, and cannot be loaded, or is no `ZeroShotMethod`.
    """
    from unseen.zeroshot.method import ZeroShotMethod

    if name not in METHODS:
        METHODS.get(name)  # says what there is
    try:
        kind = METHODS.get(name)
    except Exception as error:  # a plug-in may fail in any way, and harms nobody but itself
        raise UsageError(
            f"zero-shot method {name!r} cannot be loaded: {type(error).__name__}: {error}. It comes from a plug-in: "
            "mend or uninstall the package that brings it."
        ) from error
    if not (isinstance(kind, type) and issubclass(kind, ZeroShotMethod)):
        raise UsageError(f"zero-shot method {name!r} is {kind!r}, not a subclass of unseen.zeroshot.ZeroShotMethod.")
    return kind


def method_cards() -> list[MethodCard]:
    """Every method as `unseen ls methods` shows it, plug-ins too; one that cannot be loaded stands with its reason."""
    return [_card(name) for name in METHODS]


def _card(name: str) -> MethodCard:
    try:
        kind = load_method(name)
    except UsageError as error:
        return MethodCard(id=name, group="zero-shot, broken plug-in", notes=str(error))
    if kind.card.id == name:
        return kind.card
    first = (kind.__doc__ or "").strip().partition("\n")[0]
    known = {**kind.card.to_dict(), "id": name}
    return MethodCard(**{**known, "name": known["name"] or first, "group": known["group"] or "zero-shot, plug-in"})


def method_version(name: str) -> int:
    """The version of a method's numbers; it is part of what a result is."""
    return int(load_method(name).version)
