"""Registry of zero-shot methods, in the order of the paper's tables, from `methods.toml`.

A plug-in registers its class under the entry point group `unseen.zeroshot`; the class has its card, version and grids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

from unseen.core.errors import UnknownNameError, UsageError
from unseen.core.files import read_toml
from unseen.core.records import MethodCard
from unseen.core.registry import Registry

if TYPE_CHECKING:
    from unseen.zeroshot.method import ZeroShotMethod

METHODS: Registry[Any] = Registry("zero-shot method", "unseen.zeroshot")
#: Entries of the package's own methods by name.
TABLE: Mapping[str, Any] = read_toml("unseen.zeroshot", "methods.toml")
for _name, _entry in TABLE.items():
    METHODS.add(_name, f"unseen.zeroshot.{_entry['target']}")

_GROUPS = {
    group: tuple(name for name, entry in TABLE.items() if entry.get("methods") == group)
    for group in ("inductive", "generative", "transductive")
}
#: The package's own methods that work with any features, in the order of the paper's tables.
BUILT_IN = tuple(name for names in _GROUPS.values() for name in names)
#: Names that stand for several methods. "all" are those of the paper, "generative" ones came later.
GROUPS = {"all": _GROUPS["inductive"] + _GROUPS["transductive"], **_GROUPS}


def expand_methods(names: Iterable[str]) -> tuple[str, ...]:
    """Return the methods that names and names of groups stand for, each once.

    Raises:
        UnknownNameError: a name is neither a method nor a group.
    """
    found: dict[str, None] = {}
    for name in names:
        if name not in GROUPS and name not in METHODS:
            raise UnknownNameError("zero-shot method", name, [*METHODS, *GROUPS])
        found |= dict.fromkeys(GROUPS.get(name, (name,)))
    return tuple(found)


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


def make_method(name: str, seed: int = 0) -> ZeroShotMethod:
    """Return an untrained method by name, with the seed if it takes one."""
    kind = load_method(name)
    return kind(seed=seed) if "seed" in kind._get_param_names() else kind()


def method_cards() -> list[MethodCard]:
    """Return the cards that `unseen ls methods` shows; a plug-in that cannot be loaded is listed with the reason."""
    return [_card(name) for name in METHODS]


def _card(name: str) -> MethodCard:
    try:
        return replace(load_method(name).card, id=name)
    except UsageError as error:
        return MethodCard(id=name, group="zero-shot, broken plug-in", notes=str(error))


def grid_of(method: type[ZeroShotMethod], size: str = "full") -> list[dict[str, object]]:
    """Return every setting that is tried for a method: the product of its lists; `{}` for a method without a grid."""
    if size not in ("full", "quick"):
        raise UnknownNameError("size of grid", size, ("full", "quick"))
    lists = (method.quick_grid if size == "quick" else {}) or method.grid
    return [dict(zip(lists, values, strict=True)) for values in product(*lists.values())]


def cell_options(parameters: Mapping[str, object]) -> Mapping[str, object]:
    """Return the options that plan a cell: single validation folds need `robustness`, random class splits `splits`."""
    found = parameters if parameters.get("fold", "all") == "all" else {**parameters, "robustness": True}
    return {**found, "splits": max(int(str(found["class_split"])), 2)} if "class_split" in found else found


def cell_citations(parameters: Mapping[str, object]) -> tuple[str, ...]:
    return (load_method(str(parameters["method"])).card.citation,)
