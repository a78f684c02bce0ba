"""Compare two models on every question that both answered: differences with intervals and p-values, and a page.

A question is a group of comparable results (`unseen.results.comparable`); its metric is the headline metric of its
benchmark. The difference comes from the decision of the question (`unseen.stats.decide`) over all models with results,
so that report, leaderboard and comparison state the same p-value, adjusted by Holm over the pairs of the question. It
is paired on the same test images if the outcomes of both models are stored, and otherwise computed from the two
intervals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from unseen.core.records import ModelCard, Result
from unseen.reports.blocks import Figure, Section
from unseen.reports.charts import Axis, Dots, interval_fields
from unseen.reports.page import Page
from unseen.reports.theme import NEUTRAL, PALETTE, SYMBOLS, Key
from unseen.reports.wording import amount, counted
from unseen.results.comparability import Group, comparable, value_text
from unseen.results.grid import Summary, decide_summaries, metrics_of, summaries
from unseen.results.info import MetricStyle
from unseen.results.table import Table, TableCell
from unseen.stats import Difference

#: Differences with an adjusted p-value below this are significant.
LEVEL = 0.05

How = Literal["images", "intervals", ""]

_FACTS = ("id", "group", "architecture", "parameters", "flops", "feature_dim", "source", "license", "citation", "notes")
_TITLES = {"flops": "FLOPs per image", "feature_dim": "feature dimensions", "id": "name"}


@dataclass(frozen=True)
class Duel:
    """One question that both models answered.

    Attributes:
        setting: what distinguishes the question from others of its benchmark and dataset.
        first, second: the value of each model over its seeds.
        found: first minus second, in the direction in which more is better, with its interval and p-values.
    """

    benchmark: str
    dataset: str
    setting: tuple[tuple[str, str], ...]
    first: Summary
    second: Summary
    found: Difference

    @property
    def difference(self) -> float:
        return self.found.value

    @property
    def low(self) -> float:
        return self.found.low

    @property
    def high(self) -> float:
        return self.found.high

    @property
    def p_value(self) -> float:
        """The p-value of no difference, not adjusted; NaN if there is no test."""
        return self.found.p

    @property
    def corrected(self) -> float:
        """The p-value after Holm's correction over all pairs of models of the question."""
        return self.found.adjusted_p

    @property
    def how(self) -> How:
        """Where the interval comes from: outcomes on the same images, the two intervals, or nothing."""
        if math.isnan(self.found.p):
            return ""
        return "images" if self.found.paired else "intervals"

    @property
    def images(self) -> int:
        """Number of test images; 0 if it is unknown."""
        return self.first.images if self.first.images and self.first.images == self.second.images else 0

    @property
    def style(self) -> MetricStyle:
        return self.first.style

    @property
    def words(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.setting)

    @property
    def verdict(self) -> int:
        """1 if the first is significantly better, -1 if the second is, 0 otherwise."""
        return (1 if self.difference > 0 else -1) if self.found.significant and self.difference else 0


def duels(results: Sequence[Result], first: str, second: str) -> list[Duel]:
    """Return every question that both models answered, by benchmark, dataset and setting.

    Args:
        results: of all models: p-values are adjusted over the pairs of models that answered the question.
    """
    found: list[Duel] = []
    for benchmark in sorted({result.cell.benchmark for result in results}):
        own = [result for result in results if result.cell.benchmark == benchmark and result.ok]
        groups = [g for g in comparable(own, axes=()) if {first, second} <= set(g.by_model())]
        names = _settings(groups)
        for group in groups:
            sides = {summary.model: summary for summary in summaries(group, metrics_of([group], benchmark)[0])}
            pairs = decide_summaries(list(sides.values())).pairs
            if (first, second) in set(pairs):
                difference = pairs[first, second]
                setting = tuple((name, value_text(group.setting[name])) for name in names if name in group.setting)
                if not sides[first].style.higher_is_better:
                    difference = difference.reversed()
                found.append(Duel(benchmark, sides[first].dataset, setting, sides[first], sides[second], difference))
    return found


def _settings(groups: Sequence[Group]) -> list[str]:
    """Return what differs between questions, without benchmark and dataset, which are named apart."""
    names = dict.fromkeys(name for group in groups for name in group.setting)
    different = [n for n in names if len({value_text(g.setting.get(n)) for g in groups}) > 1]
    return [name for name in different if name not in ("benchmark", "dataset", "version")]


def summary_lines(found: Sequence[Duel], names: Mapping[str, str], first: str, second: str) -> list[str]:
    """Return the result in words: over all questions, then by benchmark and dataset."""
    tests = sum(not math.isnan(duel.p_value) for duel in found)
    whole = [_counted(found, names, first, second, f"Of {counted(len(found), 'question')} that both answered")]
    lines = whole if len(found) > 1 else []
    by_place: dict[tuple[str, str], list[Duel]] = {}
    for duel in found:
        by_place.setdefault((duel.benchmark, duel.dataset), []).append(duel)
    for (benchmark, dataset), own in by_place.items():
        place = f"{benchmark} on {names.get(dataset, dataset)}"
        if len(own) == 1:
            lines.append(f"{place}: {_difference(own[0], names)}.")
        else:
            lines.append(_counted(own, names, first, second, f"{place}, {counted(len(own), 'question')}"))
    if tests:
        same = sum(duel.how == "images" for duel in found)
        how = "The test is" if tests == same == 1 else f"{same} of {tests} {'tests are' if tests > 1 else 'test is'}"
        lines.append(
            f"{how} paired on the same test images; significant means p < {LEVEL} after Holm's correction over the "
            "pairs of models of a question."
        )
    return lines


def _counted(found: Sequence[Duel], names: Mapping[str, str], first: str, second: str, begin: str) -> str:
    wins = {sign: sum(duel.verdict == sign for duel in found) for sign in (1, -1, 0)}
    parts = [f"{names[m]} is significantly better in {wins[s]}" for m, s in ((first, 1), (second, -1)) if wins[s]]
    if not parts and len(found) > 1:
        return f"{begin}: no difference is significant."
    if wins[0]:
        parts.append(f"{'it' if len(found) == 1 else wins[0]} {'is' if wins[0] == 1 else 'are'} statistically tied")
    return f"{begin}: {', '.join(parts)}."


def rounded(value: float) -> str:
    """Return a number with one decimal; never "-0.0"."""
    return f"{round(value, 1) + 0.0:.1f}"


def _difference(duel: Duel, names: Mapping[str, str]) -> str:
    better, worse = (duel.first, duel.second) if duel.difference >= 0 else (duel.second, duel.first)
    if duel.difference == 0:
        return f"{names[better.model]} and {names[worse.model]} are equal at {duel.style.text(better.value)}"
    scale, unit = (100.0, " points") if duel.style.percent else (1.0, "")
    gap = f"{scale * abs(duel.difference):.{1 if duel.style.percent else 3}f}{unit}"
    ends = sorted(abs(scale * end) if end * duel.difference > 0 else -abs(scale * end) for end in (duel.low, duel.high))
    bounds = f" [{rounded(ends[0])}, {rounded(ends[1])}]" if duel.how and duel.style.percent else ""
    sure = "significant" if duel.verdict else "not significant" if duel.how else "not tested: no interval is stored"
    return f"{names[better.model]} leads {names[worse.model]} by {gap}{bounds}, {sure}"


# ---- page ------------------------------------------------------------------------------------------------------------


def comparison_page(
    found: Sequence[Duel], first: str, second: str, *, names: Mapping[str, str], cards: Mapping[str, ModelCard]
) -> Page:
    """Return the page of a comparison; `names` has models and datasets."""
    lead, *details = summary_lines(found, names, first, second)
    chart = difference_chart(found, first, second, names)
    figures = []
    if chart is not None:
        about = "A dot per question, the difference of the two models in points, and its 95 % interval."
        figures = [Figure(f"{names[first]} minus {names[second]}", chart, about, about, wide=True)]
    tables = [_table(found, first, second, names), _facts(first, second, names, cards)]
    title = f"{names[first]} and {names[second]}"
    words = [line.partition(": ") for line in details]
    rows = [[TableCell(where, where.lower()), TableCell(text)] for where, colon, text in words if colon]
    if rows:
        tables.insert(1, Table("In words, by benchmark and dataset", ["where", "what"], rows, folded=True))
    section = Section(
        "Question by question",
        "comparison",
        answer=[("", lead)],
        prose=[where for where, colon, _ in words if not colon],
        figures=figures,
        tables=tables,
    )
    return Page([section], f"{title}, compared", [counted(len(found), "question")])


def difference_chart(found: Sequence[Duel], first: str, second: str, names: Mapping[str, str]) -> Dots | None:
    """Return a chart of all differences that are percentages; None if there are none."""
    keys = [
        Key(f"{names[first]} is better", PALETTE[0], SYMBOLS[0]),
        Key(f"{names[second]} is better", PALETTE[1], SYMBOLS[1]),
        Key("not significant", NEUTRAL, SYMBOLS[3]),
    ]
    labels = {1: keys[0].label, -1: keys[1].label, 0: keys[2].label}
    rows = [
        {
            "question": _label(duel, found, names),
            **interval_fields(duel.found, 100),
            "verdict": labels[duel.verdict],
            "shown": f"{duel.style.text(duel.first.value)} and {duel.style.text(duel.second.value)}",
            "images": f"{duel.images:,}" if duel.images else "not known",
        }
        for duel in found
        if duel.style.percent and math.isfinite(duel.difference)
    ]
    return (
        Dots(
            rows=rows,
            y="question",
            series="verdict",
            keys=keys,
            rule=0.0,
            x=Axis(f"points: right of zero {names[first]} has more", kind="points"),
            tooltip={"question": "question", "shown": "in percent", "images": "test images"},
        )
        if rows
        else None
    )


def _label(duel: Duel, found: Sequence[Duel], names: Mapping[str, str]) -> str:
    parts = [duel.benchmark] if len({each.benchmark for each in found}) > 1 else []
    data = {each.dataset for each in found if each.benchmark == duel.benchmark}
    parts += [names.get(duel.dataset, duel.dataset)] if len(data) > 1 else []
    parts += [" ".join(value if name in ("level", "method") else f"{name} {value}" for name, value in duel.setting)]
    return " · ".join(part for part in parts if part) or duel.style.spoken


def _table(found: Sequence[Duel], first: str, second: str, names: Mapping[str, str]) -> Table:
    columns = [
        "question",
        "metric",
        names[first],
        names[second],
        "difference",
        "95 % confidence interval",
        "p",
        "how",
        "images",
    ]
    rows = [
        [
            TableCell(_label(duel, found, names), _label(duel, found, names)),
            TableCell(duel.style.heading),
            _side(duel.first, duel.verdict == 1),
            _side(duel.second, duel.verdict == -1),
            TableCell(_number(duel, duel.difference), duel.difference),
            TableCell(f"{_number(duel, duel.low)} to {_number(duel, duel.high)}" if duel.how else "–"),
            TableCell(f"{duel.corrected:.2g}" if duel.how else "–", duel.corrected if duel.how else None),
            TableCell({"images": "same images", "intervals": "two intervals", "": "no test"}[duel.how]),
            TableCell(f"{duel.images:,}" if duel.images else "–", duel.images),
        ]
        for duel in found
    ]
    return Table(
        "Every question (p adjusted by Holm over the pairs of models of a question)",
        columns,
        rows,
        numeric=(2, 3, 4, 5, 6, 8),
    )


def _side(summary: Summary, better: bool) -> TableCell:
    return TableCell(
        mark="best" if better else "",
        value=summary.value,
        interval=summary.interval,
        metric=summary.style,
        n=summary.images,
        cells=summary.cells,
    )


def _number(duel: Duel, value: float) -> str:
    return f"{100 * value:+.1f}" if duel.style.percent else f"{value:+.4g}"


def _facts(first: str, second: str, names: Mapping[str, str], cards: Mapping[str, ModelCard]) -> Table:
    rows = []
    for fact in _FACTS:
        texts = []
        for model in (first, second):
            value: Any = getattr(cards.get(model), fact, None) if fact != "id" else model
            texts.append(amount(value) if fact in ("parameters", "flops") else str(value) if value else "")
        if any(texts):
            rows.append([TableCell(_TITLES.get(fact, fact)), *(TableCell(text or "–") for text in texts)])
    return Table("Model cards", ["", names[first], names[second]], rows)
