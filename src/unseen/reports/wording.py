"""Names and numbers as a reader wants them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from unseen.core.records import DatasetCard, ModelCard
from unseen.results.comparability import value_text

_RANDOM = "random"


def short_names(ids: Iterable[str], cards: Mapping[str, ModelCard] | Mapping[str, DatasetCard]) -> dict[str, str]:
    """A short name per id: the card's, else what follows the source; the whole id where two would be equal."""
    names = {}
    for identifier in ids:
        card = cards.get(identifier)
        source, _, rest = identifier.partition(":")
        name = (card.name if card else "") or rest or identifier
        untold = source == _RANDOM and rest and _RANDOM not in name.lower()
        names[identifier] = f"{name}, random weights" if untold else name
    taken = Counter(names.values())
    return {identifier: name if taken[name] == 1 else identifier for identifier, name in names.items()}


def family(model: str, cards: Mapping[str, ModelCard]) -> str:
    """The group a model is drawn with: its card's, else its source. Random weights are a family of their own."""
    source = model.partition(":")[0] if ":" in model else "models"
    if source == _RANDOM:
        return "random weights"
    card = cards.get(model)
    return (card.group if card else "") or source


def is_reference(model: str) -> bool:
    """Whether a model has learned nothing: what the others are measured against."""
    return model.startswith(f"{_RANDOM}:")


def amount(count: float | None) -> str:
    """4652008 as "4.7 M"; an empty text where it is not known."""
    if count is None:
        return ""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(count) >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f}"


def counted(count: int, one: str, many: str = "") -> str:
    """ "1 model", "4 models"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(words: Sequence[str], limit: int = 12) -> str:
    """ "a, b and c"; a long list is cut and says by how many."""
    shown = list(words[:limit])
    if len(words) > limit:
        return f"{', '.join(shown)} and {len(words) - limit} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def duration(seconds: float) -> str:
    """ "0.8 s", "3 min 20 s", "2 h 5 min"."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60:,} h {minutes % 60} min"


def setting_text(parameters: Mapping[str, Any]) -> str:
    """ "seed=22, shots=all"."""
    return ", ".join(f"{name}={value_text(value)}" for name, value in sorted(parameters.items()))
