"""Fine-tuning of networks: one trainer, and the registry of adaptations.

An adaptation defines which parameters of a network are trained and which are added to it. It is one `Adaptation` with
its paper: a function, and an entry of `adaptations.toml`. An installed package registers its own adaptations under the
entry point group `unseen.adaptations`. An adaptation is imported when it is first used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unseen.core.extras import extra_note
from unseen.core.files import read_toml
from unseen.core.records import MethodCard
from unseen.core.registry import Registry

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Adaptation:
    """A way to adapt a network to a task. A linear head on the pooled features is trained in any case.

    Attributes:
        trains: the trained parameters, in words.
        prepare: function of (network, size, number of prefix tokens) that freezes parameters of the network and adds
            new ones, in place. None trains all parameters.
        size: default of the one number of the adaptation; 0 if it has none.
        unit: what the size counts, such as "rank".
        transformers: whether it needs transformer blocks.
        version: raised whenever the same training gets other numbers; part of the identity of a result.
        extra: optional dependencies that it needs.
        paper: the benchmark that defines it, or "".
    """

    id: str
    name: str
    trains: str
    prepare: Callable[[nn.Module, int, int], None] | None = None
    size: int = 0
    unit: str = ""
    transformers: bool = False
    version: int = 1
    extra: str = ""
    paper: str = ""
    citation: str = ""

    def method_card(self) -> MethodCard:
        """Return the card that `unseen ls methods` shows."""
        size = f"size: {self.unit}, {self.size} by default" if self.size else ""
        networks = "transformers only" if self.transformers else ""
        notes = "; ".join(filter(None, (f"trains {self.trains}", size, networks, extra_note(self.extra))))
        return MethodCard(self.id, self.name, "adaptation", self.paper, self.citation, notes)


#: The cards of this package; `prepare` is the function that makes it, if any.
_TABLE: Mapping[str, Any] = read_toml("unseen.finetuning", "adaptations.toml")


def freeze_all(module: nn.Module, _size: int, _prefix_tokens: int) -> None:
    """Train the head alone."""
    module.requires_grad_(False)


def _checked(name: str, found: Any) -> Adaptation:
    if callable(found) and name in _TABLE:
        found = Adaptation(name, **{**_TABLE[name], "prepare": found})
    if not isinstance(found, Adaptation):
        raise TypeError(f"{found!r} is no Adaptation")
    if found.id != name:
        raise TypeError(f"its id is {found.id!r}")
    return found


ADAPTATIONS: Registry[Adaptation] = Registry("adaptation", "unseen.adaptations", make=_checked)
for _name, _row in _TABLE.items():
    ADAPTATIONS.add(_name, _row.get("prepare") or Adaptation(_name, **_row))


def adaptation_cards() -> list[MethodCard]:
    """Return the cards that `unseen ls methods` shows; a plug-in that cannot be loaded is listed with the reason."""
    return [
        found.method_card()
        if isinstance(found, Adaptation)
        else MethodCard(id=name, group="plug-in", notes=getattr(found, "reason", str(found)))
        for name, found in ADAPTATIONS.entries()
    ]
