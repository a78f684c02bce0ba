"""Two models on everything that both were asked: differences with intervals, on the same test images where known.

A question is a group of comparable results (`unseen.results.comparable`) with results of both models; its metric is the
one that its benchmark judges by. How sure a difference is comes from the best record that is stored:

- "images": which test images each model got right, averaged over the seeds that both have: a paired bootstrap;
- "intervals": each model's own interval over test images, as if the images had been different ones: on the safe side;
- "": nothing of either; the difference stands alone, and nothing is called clear.

p-values are corrected for the number of tests by Holm's method, so that "clear" holds for all of them together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from unseen.benchmarks.probing import unpack_correct
from unseen.core.records import Result
from unseen.metrics import holm, paired_bootstrap
from unseen.results.comparability import SEED, Group, comparable, value_text
from unseen.results.grid import Summary, metrics_of, summaries
from unseen.results.styles import MetricStyle

#: Differences of a p-value below this, corrected, are called clear.
LEVEL = 0.05

How = Literal["images", "intervals", ""]


@dataclass(frozen=True)
class Duel:
    """One question that both models answered.

    Attributes:
        setting: what tells the question apart from others of its benchmark and dataset.
        first, second: what each has, over its seeds.
        difference: first minus second, in the direction in which more is better.
        low, high: its 95 % interval; not numbers where nothing is known.
        how: where the interval comes from.
        images: test images of the comparison; 0 where that is not known.
        p_value: of no difference, not corrected; not a number where there is no test.
        corrected: by Holm's method over all questions of the comparison.
    """

    benchmark: str
    dataset: str
    setting: tuple[tuple[str, str], ...]
    first: Summary
    second: Summary
    difference: float
    low: float = math.nan
    high: float = math.nan
    how: How = ""
    images: int = 0
    p_value: float = math.nan
    corrected: float = math.nan

    @property
    def style(self) -> MetricStyle:
        return self.first.style

    @property
    def words(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.setting)

    @property
    def verdict(self) -> int:
        """1 where the first is clearly better, -1 where the second is, 0 where that is not clear."""
        clear = self.corrected < LEVEL  # which no comparison with "not a number" is
        return (1 if self.difference > 0 else -1) if clear and self.difference else 0


def duels(results: Sequence[Result], first: str, second: str) -> list[Duel]:
    """Every question that both models answered, by benchmark, dataset and setting."""
    found: list[Duel] = []
    for benchmark in sorted({result.cell.benchmark for result in results}):
        own = [r for r in results if r.cell.benchmark == benchmark and r.cell.model in (first, second) and r.ok]
        groups = [g for g in comparable(own, axes=()) if {first, second} <= set(g.by_model())]
        for group in groups:
            metric = metrics_of([group], benchmark)[0]
            sides = {summary.model: summary for summary in summaries(group, metric)}
            if {first, second} <= sides.keys():
                found.append(_duel(group, metric, sides[first], sides[second], _settings(groups)))
    corrected = iter(holm([duel.p_value for duel in found if not math.isnan(duel.p_value)]))
    return [duel if math.isnan(duel.p_value) else replace(duel, corrected=next(corrected)) for duel in found]


def _settings(groups: Sequence[Group]) -> list[str]:
    """What is not the same in all questions, without benchmark and dataset, which are named apart."""
    names = dict.fromkeys(name for group in groups for name in group.setting)
    different = [n for n in names if len({value_text(g.setting.get(n)) for g in groups}) > 1]
    return [name for name in different if name not in ("benchmark", "dataset", "version")]


def _duel(group: Group, metric: str, first: Summary, second: Summary, names: Sequence[str]) -> Duel:
    sign = 1.0 if first.style.higher_is_better else -1.0
    duel = Duel(
        benchmark=first.benchmark,
        dataset=first.dataset,
        setting=tuple((name, value_text(group.setting[name])) for name in names if name in group.setting),
        first=first,
        second=second,
        difference=sign * (first.mean - second.mean),
    )
    answers = _answers(group, first.model, second.model) if metric == "top1" else None
    if answers is not None:
        comparison = paired_bootstrap(*answers)
        gap = comparison.difference
        return replace(
            duel,
            difference=gap.value,
            low=gap.low,
            high=gap.high,
            how="images",
            images=len(answers[0]),
            p_value=comparison.p_value,
        )
    errors = [_standard_error(summary) for summary in (first, second)]
    if all(map(math.isfinite, (*errors, duel.difference))):
        spread = math.hypot(*errors)
        p_value = 2 * (1 - NormalDist().cdf(abs(duel.difference) / spread)) if spread else float(not duel.difference)
        half = 1.96 * spread
        low, high = duel.difference - half, duel.difference + half
        return replace(duel, low=low, high=high, how="intervals", images=_images(group), p_value=p_value)
    return duel


def _standard_error(summary: Summary) -> float:
    """Out of a 95 % interval; not a number where there is none."""
    return (summary.bounds[1] - summary.bounds[0]) / (2 * 1.96) if summary.bounds else math.nan


def _images(group: Group) -> int:
    counts = [n for r in group.results if isinstance(n := r.details.get("test_images"), int)]
    return counts[0] if len(set(counts)) == 1 else 0


def _answers(group: Group, first: str, second: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]] | None:
    """Per test image how often each model was right, over the seeds that both have; None where that is not stored."""
    sides: list[dict[str, npt.NDArray[Any]]] = []
    data = set()
    for model in (first, second):
        side = {}
        for result in group.by_model()[model]:
            packed = result.details.get("correct")
            if not isinstance(packed, str):
                return None
            side[value_text(result.cell.parameters.get(SEED))] = unpack_correct(packed)
            data.add(result.cell.data)
        sides.append(side)
    seeds = [seed for seed in sides[0] if seed in sides[1]]
    lengths = {len(side[seed]) for side in sides for seed in seeds}
    if not seeds or len(lengths) != 1 or len(data) != 1:
        return None
    left, right = (np.mean([side[seed] for seed in seeds], axis=0) for side in sides)
    return left, right


def summary_lines(found: Sequence[Duel], names: Mapping[str, str], first: str, second: str) -> list[str]:
    """What it comes to, in words: over all questions, then by benchmark and dataset."""
    tests = sum(not math.isnan(duel.p_value) for duel in found)
    whole = [_counted(found, names, first, second, f"Of {_questions(len(found))} that both answered")]
    said = whole if len(found) > 1 else []
    by_place: dict[tuple[str, str], list[Duel]] = {}
    for duel in found:
        by_place.setdefault((duel.benchmark, duel.dataset), []).append(duel)
    for (benchmark, dataset), own in by_place.items():
        place = f"{benchmark} on {names.get(dataset, dataset)}"
        if len(own) == 1:
            said.append(f"{place}: {_difference(own[0], names)}.")
        else:
            said.append(_counted(own, names, first, second, f"{place}, {_questions(len(own))}"))
    if tests:
        same = sum(duel.how == "images" for duel in found)
        how = "The test is" if tests == same == 1 else f"{same} of {tests} {'tests are' if tests > 1 else 'test is'}"
        said.append(f"{how} paired on the same test images; clear means p < {LEVEL} after Holm's correction.")
    return said


def _questions(count: int) -> str:
    return f"{count:,} {'question' if count == 1 else 'questions'}"


def _counted(found: Sequence[Duel], names: Mapping[str, str], first: str, second: str, begin: str) -> str:
    wins = {sign: sum(duel.verdict == sign for duel in found) for sign in (1, -1, 0)}
    told = [f"{names[m]} is clearly better in {wins[s]}" for m, s in ((first, 1), (second, -1)) if wins[s]]
    if not told and len(found) > 1:
        return f"{begin}: none is clear."
    if wins[0]:
        told.append(f"{'it' if len(found) == 1 else wins[0]} {'is' if wins[0] == 1 else 'are'} not clear")
    return f"{begin}: {', '.join(told)}."


def rounded(value: float) -> str:
    """To one decimal; never "-0.0"."""
    return f"{round(value, 1) + 0.0:.1f}"


def _difference(duel: Duel, names: Mapping[str, str]) -> str:
    better, worse = (duel.first, duel.second) if duel.difference >= 0 else (duel.second, duel.first)
    if duel.difference == 0:
        return f"{names[better.model]} and {names[worse.model]} are equal at {duel.style.text(better.mean)}"
    scale, unit = (100.0, " points") if duel.style.percent else (1.0, "")
    gap = f"{scale * abs(duel.difference):.{1 if duel.style.percent else 3}f}{unit}"
    ends = sorted(abs(scale * end) if end * duel.difference > 0 else -abs(scale * end) for end in (duel.low, duel.high))
    bounds = f" [{rounded(ends[0])}, {rounded(ends[1])}]" if duel.how and duel.style.percent else ""
    sure = "clear" if duel.verdict else "not clear" if duel.how else "no test is stored"
    return f"{names[better.model]} leads {names[worse.model]} by {gap}{bounds}, {sure}"
