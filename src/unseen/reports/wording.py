"""Names and numbers as a reader wants them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unseen.core.records import DatasetCard, ModelCard
from unseen.results.comparability import value_text

if TYPE_CHECKING:
    from unseen.reports.blocks import Standing

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


def typeset(text: str) -> str:
    """Words as a page sets them: a true minus before a number; what belongs to a number stays on its line."""
    return re.sub(r"(?<![\w.\-])-(?=\d)", "\u2212", text).replace(" ± ", "\u00a0±\u00a0").replace(" %", "\u202f%")


def bracketed(low: float, high: float) -> str:
    """ "[44.7, 50.8]" of two shares, in percent; nothing where they are not known, or where both are the same value.

    All draws of the test images can give one value: that is no certainty, and not shown as one.
    """
    shown = f"{100 * low:.1f}", f"{100 * high:.1f}"
    return f"[{shown[0]}, {shown[1]}]" if math.isfinite(low) and math.isfinite(high) and shown[0] != shown[1] else ""


def setting_text(parameters: Mapping[str, Any]) -> str:
    """ "seed=22, shots=all"."""
    return ", ".join(f"{name}={value_text(value)}" for name, value in sorted(parameters.items()))


# ---- who leads, and whether that is clear ---------------------------------------------------------------------------
# From accuracies and their intervals over test images. The interval of a difference is taken as if the two models had
# been asked about images of their own. They were asked about the same ones, and agree on most: the true interval is
# narrower, and "clear" is said too seldom rather than too often.

CLEAR, NOT_CLEAR, TIE, UNKNOWN = "clear", "not clear", "a tie", "no interval"


def mean_interval(
    mean: float, bounds: Sequence[tuple[float, float] | None], images: Sequence[str]
) -> tuple[float, float]:
    """The 95 % interval of a mean over parts; not a number where a part has none.

    Args:
        images: per part, which images it is of: parts of the same ones may err together, those of others do not.
    """
    if not bounds or any(each is None for each in bounds):
        return math.nan, math.nan
    if len(bounds) == 1 and bounds[0] is not None:
        return bounds[0]
    halves: dict[str, float] = {}
    for (low, high), name in zip(filter(None, bounds), images, strict=True):
        halves[name] = halves.get(name, 0.0) + (high - low) / 2
    half = math.sqrt(sum(each**2 for each in halves.values())) / len(bounds)
    return max(0.0, mean - half), min(1.0, mean + half)


def lead_sentence(
    standings: Sequence[Standing], names: Mapping[str, str], verb: str = "leads"
) -> tuple[str, str, bool]:
    """Who is first with what interval, and who cannot be told apart from it: (sentence, how sure, whether clear)."""
    ranked = sorted(standings, key=lambda s: (-s.value, s.model))
    best = ranked[0]
    shown = f"{100 * best.value:.1f}\u202f%"
    shown += f" {bounds}" if (bounds := bracketed(best.low, best.high)) else ""
    equal = [s for s in ranked if s.value == best.value]
    if len(ranked) == 1:
        return f"{names[best.model]} has {shown}.", "", False
    if len(equal) > 1:
        return f"{listed([names[s.model] for s in equal], 4)} tie at {shown}.", TIE, False
    if not all(math.isfinite(s.low) for s in ranked):
        return f"{names[best.model]} {verb} with {shown}, before {names[ranked[1].model]}.", UNKNOWN, False
    near = [s for s in ranked[1:] if not _apart(best, s)]
    learned = [s for s in near if not is_reference(s.model)]
    second = ranked[1]
    gap = f"{100 * (best.value - second.value):.1f} points before {names[second.model]}"
    if not near:
        return f"{names[best.model]} {verb} with {shown}, {gap}.", CLEAR, True
    others = listed([names[s.model] for s in (learned or near)], 3)
    return f"{names[best.model]} {verb} with {shown}; {others} cannot be told apart from it.", NOT_CLEAR, False


def _apart(one: Standing, other: Standing) -> bool:
    """Whether the 95 % interval of the difference leaves zero out."""
    half = math.hypot(one.value - one.low, other.high - other.value)
    return one.value - other.value > half
