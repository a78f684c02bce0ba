"""Names and numbers as a reader wants them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unseen.core.records import DatasetCard, ModelCard
from unseen.results.comparability import value_text
from unseen.results.info import MetricStyle
from unseen.results.table import format_interval

if TYPE_CHECKING:
    from unseen.reports.blocks import Standing

_RANDOM = "random"
#: How shares are shown where no metric is known.
PERCENT = MetricStyle("share", "share", percent=True)


def short_names(ids: Iterable[str], cards: Mapping[str, ModelCard] | Mapping[str, DatasetCard]) -> dict[str, str]:
    """Return a short name per id: the card's, the file name, or what follows the source; the id if two are equal."""
    names = {}
    for identifier in ids:
        card = cards.get(identifier)
        source, _, rest = identifier.partition(":")
        rest = Path(rest.partition("?")[0]).name if source == "file" else rest
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


def typeset(text: str) -> str:
    """Words as a page sets them: a true minus before a number; what belongs to a number stays on its line."""
    return re.sub(r"(?<![\w.\-])-(?=\d)", "\u2212", text).replace(" ± ", "\u00a0±\u00a0").replace(" %", "\u202f%")


def setting_text(parameters: Mapping[str, Any]) -> str:
    """ "seed=22, shots=all"."""
    return ", ".join(f"{name}={value_text(value)}" for name, value in sorted(parameters.items()))


# ---- who leads, according to the decision ---------------------------------------------------------------------------

SIGNIFICANT, TIED, UNTESTED = "significant", "statistically tied", "no confidence interval"


def lead_sentence(
    standings: Sequence[Standing], names: Mapping[str, str], verb: str = "leads"
) -> tuple[str, str, bool]:
    """State which model is first and which are statistically tied with it.

    Returns:
        The sentence, a word or two on the evidence, and whether the first model is significantly better than the rest.
    """
    from unseen.reports.blocks import decide_standings

    decision = decide_standings(standings)
    by_model = {each.model: each for each in standings}
    if not decision.order:
        return "No model has a value.", "", False
    best, *others = decision.order
    interval = by_model[best].interval
    shown = f"{100 * interval.value:.1f}\u202f%"
    shown += f" {bounds}" if (bounds := format_interval(interval, PERCENT)) else ""
    if not others:
        return f"{names[best]} has {shown}.", "", False
    second = others[0]
    gap = f"{100 * (interval.value - by_model[second].value):.1f} points ahead of {names[second]}"
    if decision.untested:
        return f"{names[best]} {verb} with {shown}, {gap}.", UNTESTED, False
    if decision.best == best:
        return f"{names[best]} {verb} with {shown}, {gap}.", SIGNIFICANT, True
    near = [model for model in decision.possibly_best if model != best] or [second]
    trained = [model for model in near if not is_reference(model)]
    tied = listed([names[model] for model in (trained or near)], 3)
    equal = all(by_model[model].value == interval.value for model in near)
    if equal:
        return f"{listed([names[best], *(names[model] for model in near)], 4)} have {shown}.", TIED, False
    return (
        f"{names[best]} has the highest value, {shown}; {tied} {'is' if len(near) == 1 else 'are'} {TIED} with it.",
        TIED,
        False,
    )
