"""Names and numbers as words: short names, counts, lists, and the sentence that states which model leads."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unseen.core.records import DatasetCard, ModelCard
from unseen.core.run_record import counted as counted
from unseen.results.comparability import value_text
from unseen.results.info import MetricStyle
from unseen.results.table import DisplayNames, format_interval
from unseen.stats import Candidate, Decision, Interval, decide

if TYPE_CHECKING:
    from unseen.reports.blocks import Standing

_RANDOM = "random"
#: Sources whose names are paths: the last part of a path is the short name.
_ON_DISK = ("file", "folder", "csv", "parquet", "zip", "wds")
#: The format of shares of no known metric.
PERCENT = MetricStyle("share", "share", percent=True)


def short_names(ids: Iterable[str], cards: Mapping[str, ModelCard] | Mapping[str, DatasetCard]) -> dict[str, str]:
    """Return a short name per id: the card's, the file name, or what follows the source; the id if two are equal."""
    names = {}
    for identifier in ids:
        card = cards.get(identifier)
        source, _, rest = identifier.partition(":")
        rest = Path(rest.partition("?")[0]).name if source in _ON_DISK else rest
        name = (card.name if card else "") or rest or identifier
        if source == _RANDOM and rest and _RANDOM not in name.lower():
            name = f"{name}, random weights"
        names[identifier] = f"{name}, shuffled labels" if "shuffle_labels=" in identifier else name
    taken = Counter(names.values())
    return {identifier: name if taken[name] == 1 else identifier for identifier, name in names.items()}


def family(model: str, cards: Mapping[str, ModelCard]) -> str:
    """Return the group of a model in legends: its card's, else its source. Random weights are one family."""
    source = model.partition(":")[0] if ":" in model else "models"
    if source == _RANDOM:
        return "random weights"
    card = cards.get(model)
    return (card.group if card else "") or source


def is_reference(model: str) -> bool:
    """Return whether a model has random weights."""
    return model.startswith(f"{_RANDOM}:")


def amount(count: float | None) -> str:
    """Return 4652008 as "4.65 M"; "" if the number is unknown."""
    if count is None:
        return ""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(count) >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f}"


def listed(words: Sequence[str], limit: int = 12) -> str:
    """Return words as "a, b and c"; a long list is cut and ends with the number of the rest."""
    shown = list(words[:limit])
    if len(words) > limit:
        return f"{', '.join(shown)} and {len(words) - limit} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def duration(seconds: float) -> str:
    """Return a time as "0.8 s", "3 min 20 s" or "2 h 5 min"."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60:,} h {minutes % 60} min"


def typeset(text: str) -> str:
    """Return words for a page: with true minus signs, and spaces that keep a number and its unit on one line."""
    return re.sub(r"(?<![\w.\-])-(?=\d)", "\u2212", text).replace(" ± ", "\u00a0±\u00a0").replace(" %", "\u202f%")


def setting_text(parameters: Mapping[str, object]) -> str:
    """Return parameters as "seed=22, shots=all"."""
    return ", ".join(f"{name}={value_text(value)}" for name, value in sorted(parameters.items()))


def interval_text(interval: Interval, style: MetricStyle) -> str:
    """Return a value with its confidence interval, if it is known, such as "71.3 [69.9, 72.6]"."""
    return f"{style.text(interval.value)} {format_interval(interval, style)}".rstrip()


# ---- which model leads, according to the decision --------------------------------------------------------------------

SIGNIFICANT, TIED, UNTESTED = "significant", "statistically tied", "no confidence interval"


_CHANCE = "chance"


def established(
    candidates: Mapping[str, Candidate],
    names: DisplayNames,
    chance: float | None,
    noun: str,
) -> str:
    """State which trained models are significantly better than random weights and than chance; "" if none is.

    Args:
        candidates: by model.
        chance: value of guessing; None if it is unknown.
        noun: what the candidates are, in the plural.
    """
    if chance:
        candidates = {**candidates, _CHANCE: Candidate(interval=Interval(chance, chance, chance))}
    decision = decide(candidates)
    trained = [model for model in decision.order if model != _CHANCE and not is_reference(model)]
    found: dict[tuple[str, ...], list[str]] = {}
    for baseline in (model for model in decision.order if model == _CHANCE or is_reference(model)):
        gaps = {model: decision.pairs[model, baseline] for model in trained}
        better = tuple(model for model, gap in gaps.items() if gap.significant and gap.value > 0)
        if better:
            least = min((gaps[model] for model in better), key=lambda gap: gap.value)
            lead = f"{'at least ' if len(better) > 1 else ''}{100 * least.value:.1f} points"
            value = f"{100 * decision.intervals[baseline].value:.1f}\u202f%"
            than = f"than {names.get(baseline, baseline)} ({value}; by {lead} {format_interval(least, PERCENT)})"
            found.setdefault(better, []).append(than)
    texts = []
    for better, baselines in found.items():
        count = "Both" if len(trained) == 2 else f"All {len(trained)}"
        everyone = f"{count} {noun} are" if len(better) == len(trained) > 1 else ""
        some = f"{listed([names[model] for model in better], 4)} {'is' if len(better) == 1 else 'are'}"
        texts.append(f"{everyone or some} significantly better {' and '.join(baselines)}.")
    return " ".join(texts)


def lead_sentence(
    standings: Sequence[Standing],
    names: DisplayNames,
    verb: str = "leads",
    chance: float | None = None,
    noun: str = "trained models",
) -> tuple[str, str, bool]:
    """State what is established, then which model is first and which are statistically tied with it.

    Args:
        chance: value of guessing; None if it is unknown.
        noun: what the candidates are, in the plural.

    Returns:
        The sentences, a word or two on the evidence, and whether one of them states a significant difference.
    """
    candidates = {each.model: each.candidate for each in standings}
    text, evidence = leader(decide(candidates), names, verb=verb)
    if (len(standings) > 1 or chance) and (found := established(candidates, names, chance, noun)):
        return f"{found} {text}", SIGNIFICANT, True
    return text, evidence, evidence == SIGNIFICANT


def leader(
    decision: Decision, names: DisplayNames, style: MetricStyle = PERCENT, verb: str = "leads"
) -> tuple[str, str]:
    """State which model is first and which are statistically tied with it; return also a word on the evidence."""
    if not decision.order:
        return "No model has a finite value.", ""
    best, *others = decision.order
    values = {model: interval.value for model, interval in decision.intervals.items()}
    interval, unit = decision.intervals[best], "\u202f%" if style.percent else ""
    shown = f"{style.text(interval.value)}{unit} {format_interval(interval, style)}".rstrip()
    if not others:
        return f"{names[best]} has {shown}.", ""
    sure = SIGNIFICANT if decision.best == best else TIED if best in decision.possibly_best else UNTESTED
    near = [model for model in decision.possibly_best if model != best] if sure == TIED else others[:1]
    if all(values[model] == interval.value for model in near):
        return f"{listed([names[model] for model in (best, *near)], 4)} have {shown}.", sure
    if sure != TIED:
        gap = f"{style.text(abs(interval.value - values[others[0]]))}{' points' if style.percent else ''}"
        return f"{names[best]} {verb} with {shown}, {gap} ahead of {names[others[0]]}.", sure
    trained = [model for model in near if not is_reference(model)]
    tied = f"{listed([names[model] for model in trained or near], 3)} {'is' if len(near) == 1 else 'are'} {TIED}"
    return f"{names[best]} has the highest value, {shown}; {tied} with it.", TIED
