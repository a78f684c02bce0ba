"""Registry of zero-shot methods, in the order of the paper's tables. To add one, write its file and a line here.

A plug-in registers its class under the entry point group `unseen.zeroshot`; the class has its card, version and grids.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import TYPE_CHECKING, Any

from unseen.core.errors import UnknownNameError, UsageError
from unseen.core.records import MethodCard
from unseen.core.registry import Registry

if TYPE_CHECKING:
    from unseen.zeroshot.method import ZeroShotMethod

GRIDS = ("full", "quick")
METHODS: Registry[Any] = Registry("zero-shot method", "unseen.zeroshot")
#: One line per method: its name, module and class.
_BUILT_IN = {
    "DAP": "dap:DAP",
    "IAP": "dap:IAP",
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
    "GFZSL-tran": "gfzsl:GFZSLTran",
    "DSRL": "dsrl:DSRL",
}
for _name, _target in _BUILT_IN.items():
    METHODS.add(_name, f"unseen.zeroshot.{_target}")


# It needs features and embeddings of one space, unlike the methods above: it is in none of the groups.
METHODS.add("prompt", "unseen.zeroshot.prompt:Prompt")


def builtin_methods() -> tuple[str, ...]:
    """Return the names of the package's own methods, in the order of the paper's tables."""
    return tuple(_BUILT_IN)


def paper_methods() -> tuple[str, ...]:
    """Return the methods of the paper, which "all" stands for; networks that generate features came later."""
    return tuple(name for name in _BUILT_IN if name not in generative_methods())


def generative_methods() -> tuple[str, ...]:
    """Return the names of the package's own methods that generate features of unseen classes."""
    return ("f-CLSWGAN", "CADA-VAE")


def transductive_methods() -> tuple[str, ...]:
    """Return the names of the package's own methods that see all test images together."""
    return tuple(name for name in _BUILT_IN if METHODS.get(name).transductive)


def expand_methods(names: Iterable[str]) -> tuple[str, ...]:
    """Return the methods that names and names of groups stand for, each once.

    Groups are "all" (of the paper), its "inductive" and "transductive" methods, and "generative" ones, which are later.

    Raises:
        UnknownNameError: a name is neither a method nor a group.
    """
    found: dict[str, None] = {}
    for name in names:
        if name not in GROUPS and name not in METHODS:
            raise UnknownNameError("zero-shot method", name, [*METHODS, *GROUPS])
        found |= dict.fromkeys(GROUPS[name]() if name in GROUPS else (name,))
    return tuple(found)


def inductive_methods() -> tuple[str, ...]:
    """Return the names of the paper's methods that see one test image at a time."""
    return tuple(name for name in paper_methods() if name not in transductive_methods())


#: Names that stand for several methods.
GROUPS = {
    "all": paper_methods,
    "inductive": inductive_methods,
    "transductive": transductive_methods,
    "generative": generative_methods,
}


def load_method(name: str) -> type[ZeroShotMethod]:
    """Return the class of a method.

    Raises:
        UnknownNameError: no method has this name.
        UsageError: a plug-in cannot be loaded, or is no `ZeroShotMethod`.
    """
    from unseen.zeroshot.method import ZeroShotMethod

    kind = METHODS.get(name)
    if not (isinstance(kind, type) and issubclass(kind, ZeroShotMethod)):
        raise UsageError(f"zero-shot method {name!r} is {kind!r}, not a subclass of unseen.zeroshot.ZeroShotMethod.")
    return kind


def method_cards() -> list[MethodCard]:
    """Return the cards that `unseen ls methods` shows; a plug-in that cannot be loaded is listed with the reason."""
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
    """Return the version of a method's numbers, which is part of the identity of a result."""
    return int(load_method(name).version)


def grid_of(method: str | ZeroShotMethod, size: str = "full") -> list[dict[str, Any]]:
    """Return every setting that is tried for a method: the product of its lists; `{}` for a method without a grid.

    Raises:
        UsageError: the grid names an unknown parameter of the method.
    """
    if size not in GRIDS:
        raise UnknownNameError("size of grid", size, GRIDS)
    kind = load_method(method) if isinstance(method, str) else type(method)
    lists = kind.quick_grid if size == "quick" and kind.quick_grid else kind.grid
    if unknown := sorted(set(lists) - set(kind._get_param_names())):
        raise UsageError(
            f"the {size} grid of {kind.__name__} names {', '.join(unknown)}, which its constructor does not take. It "
            f"takes {', '.join(kind._get_param_names())}."
        )
    return [dict(zip(lists, values, strict=True)) for values in product(*lists.values())]
