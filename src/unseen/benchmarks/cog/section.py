"""The section of a CoG: the answer first, then levels, distance, few-shot, controls; concepts and tables to unfold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any

from unseen.benchmarks.cog.analysis import (
    ALL,
    ConceptScore,
    LevelScore,
    concept_scores,
    duels,
    level_scores,
    order_levels,
    settings,
    slope_sentence,
    slopes,
    statements,
)
from unseen.benchmarks.cog.charts import (
    Keys,
    by_category,
    control_chart,
    few_shot_chart,
    images_chart,
    levels_chart,
    relative_chart,
)
from unseen.benchmarks.cog.concept_charts import distance_chart
from unseen.benchmarks.cog.concept_tables import concept_tables, error_table, funnel_table
from unseen.benchmarks.cog.domains import CONTROL, SEEN
from unseen.benchmarks.cog.falls import answer, controls_said, measure_fall
from unseen.metrics.slope import Line
from unseen.reports.blocks import Figure, Headline, Key, Material, Section, Standing, Table, TableCell
from unseen.reports.charts import REFERENCE, to_spec, without_legends
from unseen.reports.wording import counted, is_reference, listed
from unseen.results import Group
from unseen.results.comparability import older_said

#: Up to so many models are spoken of one by one; of more, only what they have in common is said.
_FEW = 6
#: Pictures of concepts in a page, and in its tables.
_MOST_PICTURES = 400


def cog_section(material: Material, benchmark: str) -> Section | None:
    """Everything that the results of a CoG say, setting by setting, or None where there are none."""
    groups = settings(material.results, benchmark)
    if not groups:
        return None
    models = {result.cell.model for group in groups for result in group.results}
    keys = {model: key for model, key in material.keys.items() if model in models}
    return Section.joined(
        [(group.words, _Setting(group, keys, material.picture).section()) for group in groups],
        title="CoG: does accuracy fall as concepts move away from the seen ones?",
        anchor=benchmark,
        prose=[older_said(sum(group.older for group in groups))],
        legend=list(keys.values()),
    )


@dataclass(frozen=True)
class _Setting:
    """The part of one setting.

    Attributes:
        all_keys: legend entries of all models of the section.
        picture: gives a picture of a class of a dataset.
    """

    group: Group
    all_keys: Keys
    picture: Callable[[str, str], str]

    @cached_property
    def scores(self) -> list[LevelScore]:
        return level_scores(self.group.results)

    @cached_property
    def concepts(self) -> list[ConceptScore]:
        return concept_scores(self.group.results)

    @cached_property
    def keys(self) -> dict[str, Key]:
        own = {score.model for score in self.scores}
        return {model: key for model, key in self.all_keys.items() if model in own}

    @cached_property
    def drawn(self) -> dict[str, Key]:
        """Legend entries of the models in the charts: without random weights where these would squeeze the others."""
        whole = [s for s in self.scores if s.shots == ALL and not s.level.startswith(CONTROL)]
        own = [s.mean for s in whole if s.model in self.learned]
        others = [s.mean for s in whole if s.model not in self.learned]
        if not own or not others or min(own) - max(others) <= max(own) - min(own):
            return self.keys
        return {model: key for model, key in self.keys.items() if model in self.learned}

    @property
    def left_out(self) -> str:
        """Whom the charts do without."""
        names = [key.label for model, key in self.keys.items() if model not in self.drawn]
        return f"{listed(names)}: far below, and left out of the charts; the table has it." if names else ""

    @cached_property
    def learned(self) -> list[str]:
        """Models that have learnt something; all, where none has."""
        return [model for model in self.keys if not is_reference(model)] or list(self.keys)

    @cached_property
    def levels(self) -> list[str]:
        return [level for level in order_levels(s.level for s in self.scores) if not level.startswith(CONTROL)]

    @cached_property
    def lines(self) -> dict[str, Line]:
        return slopes(self.concepts)

    @property
    def names(self) -> dict[str, str]:
        return {model: key.label for model, key in self.keys.items()}

    @cached_property
    def shots(self) -> list[int | str]:
        """All images first, then from the most to the fewest per concept."""
        found = {s.shots for s in self.scores}
        return [*([ALL] if ALL in found else []), *sorted((s for s in found if s != ALL), key=int, reverse=True)]

    def section(self) -> Section:
        return Section(
            title="",
            anchor="",
            answer=[("", text)] if (text := self._answer()) else [],
            headlines=self._headlines(),
            standings=self._standings(),
            prose=self._prose(),
            points=self._points(),
            figures=self._figures(),
            tables=self._tables(),
        )

    def _answer(self) -> str:
        fall = measure_fall(self.concepts, self.learned)
        few = None
        if fall is not None and len(self.shots) > 1 and self.shots[-1] != ALL:
            fewest = measure_fall(concept_scores(self.group.results, shots=self.shots[-1]), self.learned)
            few = (self.shots[-1], fewest) if fewest is not None else None
        return answer(fall, few, controls_said(self.scores, self.learned))

    def _headlines(self) -> list[Headline]:
        fall = measure_fall(self.concepts, self.learned)
        if fall is None:
            return []
        told = answer(fall, None, "")
        return [Headline("Unseen concepts", told, "clear" if fall.clear else "not clear", fall.clear)]

    def _standings(self) -> list[Standing]:
        """On the farthest level, with the most images."""
        last = self.levels[-1]
        own = [s for s in self.scores if s.level == last and s.shots == self.shots[0]]
        where = f"Unseen concepts: top-1 on {last}" + (", the farthest" if len(self.levels) > 2 else "")
        cells = self._cells
        return [Standing(where, s.model, s.mean, s.low, s.high, cells[s.model, s.level, s.shots]) for s in own]

    @cached_property
    def _cells(self) -> dict[tuple[str, str, int | str], list[str]]:
        """Ids of the cells by model, level and number of images."""
        found: dict[tuple[str, str, int | str], list[str]] = {}
        for result in self.group.results:
            cell = result.cell
            place = cell.model, str(cell.parameters["level"]), cell.parameters["shots"]
            found.setdefault(place, []).append(cell.id)
        return found

    def _prose(self) -> list[str]:
        details = self.group.results[0].details
        domains = details.get("domains", {})
        seeds = len({result.cell.parameters.get("seed") for result in self.group.results})
        tests = sorted({s.images for s in self.scores if not s.level.startswith(CONTROL)})
        images = f"{tests[0]:,}" if len(tests) == 1 else f"{tests[0]:,} to {tests[-1]:,}"
        told = (
            f"Linear classifiers on frozen features, learnt on the seen concepts and, apart, on {len(self.levels) - 1} "
            f"levels of unseen ones, ever further from {domains.get('seen', 'the seen list')} (measure: "
            f"{domains.get('measure', 'lin')}), {details['classes']} classes and {images} test images each. "
            f"Numbers are means over {counted(seeds, 'seed')}; brackets and bars are 95 % intervals over test images."
        )
        return [told]

    def _points(self) -> list[tuple[str, str]]:
        """What can be said of single models, where they are few; of many, how many of them agree."""
        if len(self.learned) > _FEW:
            return [("Models", _agreement(self.concepts, self.learned, self.names, self.lines))]
        said = statements(duels(self.group.results, list(combinations(self.learned, 2))), self.names)
        note = " Paired bootstrap over test images, corrected by Holm's method." if said else ""
        return [
            *[("Levels", sentence) for sentence in trend_sentences(self.scores, self.names)],
            *[("Distance", slope_sentence(self.names[m], line) + ".") for m, line in self.lines.items()],
            *([("Compared", " ".join(said) + note)] if said else []),
        ]

    def _figures(self) -> list[Figure]:
        many = len(self.drawn) > _FEW
        told = "; ".join(f"{self.names[s.model]} {s.level} {s.text}" for s in self.scores if s.shots == ALL)
        found = [
            _figure(
                "Top-1 by level",
                levels_chart(self.scores, self.drawn),
                f"Top-1 by level: {told}.",
                caption=self.left_out,
                wide=many,
            ),
            *self._relative(),
        ]
        if self.lines:
            words = "; ".join(slope_sentence(self.names[m], line) for m, line in self.lines.items())
            found.append(
                _figure(
                    "Every unseen concept against its distance",
                    distance_chart(self.concepts, self.lines, self.drawn, self._pictures()),
                    f"Accuracy per concept over similarity to the nearest seen concept: {words}.",
                    caption="A point per concept, of one model; a line per model. Hover over a point to see it.",
                    wide=True,
                )
            )
        found += self._few_shot()
        if any(s.level.startswith(CONTROL) for s in self.scores):
            found.append(
                _figure(
                    "Levels against random draws of concepts",
                    control_chart(self.scores, self.drawn),
                    f"Points over the mean of random control levels. {controls_said(self.scores, self.learned)}",
                    caption="Zero is the mean of a model's controls; the band has all of them in it.",
                )
            )
        if self.concepts:
            chart = to_spec(images_chart(self.concepts))
            found.append(Figure("Training images per concept", chart, "Images per concept, by level."))
        return found

    def _relative(self) -> list[Figure]:
        """Against the first model that has learnt something: one figure per category where there are several."""
        if len(self.drawn) < 2 or ALL not in self.shots:
            return []
        baseline = next((m for m in self.learned if self.keys[m].group == REFERENCE), self.learned[0])
        name = self.names[baseline]
        groups = by_category(self.drawn) if len(self.drawn) > _FEW else {"": self.drawn}
        whole = [s for s in self.scores if s.shots == ALL and s.model in self.drawn]
        base = {s.level: s.mean for s in whole if s.model == baseline}
        gaps = [100 * (s.mean - base[s.level]) for s in whole if s.level in base and not s.level.startswith(CONTROL)]
        figures = []
        for category, keys in groups.items():
            if set(keys) <= {baseline}:
                continue
            shown = {**keys, baseline: self.keys[baseline]}
            title = f"{category.capitalize()}: relative to {name}" if category else f"Relative to {name}"
            chart = relative_chart(whole, shown, baseline, span=(min(gaps), max(gaps)) if len(groups) > 1 else ())
            figures.append(_figure(title, chart, f"Top-1 by level, less that of {name}."))
        return figures

    def _few_shot(self) -> list[Figure]:
        if len(self.shots) < 2:
            return []
        middle = self.levels[len(self.levels) // 2]
        chosen = list(dict.fromkeys(v for v in (SEEN, *self.levels[1:2], middle, self.levels[-1]) if v in self.levels))
        shown = [s for s in self.scores if s.level in chosen and s.model in self.drawn]
        bars = len(self.drawn) <= _FEW
        span = [v for s in shown for v in ((s.low, s.high) if bars else (s.mean,))]
        return [
            _figure(
                f"Few-shot on {level}",
                few_shot_chart(shown, self.drawn, level, span=span),
                f"Top-1 on {level} over training images per concept.",
            )
            for level in chosen
        ]

    def _pictures(self) -> Callable[[ConceptScore], str] | None:
        """Pictures of all concepts, or of some along the ranking where there are many."""
        unseen = {(s.level, s.concept): s for s in self.concepts if s.level.startswith("L")}
        ranked = sorted(unseen.values(), key=lambda s: -s.similarity)
        step = max(1, -(-len(ranked) // _MOST_PICTURES))
        chosen = {s.concept for s in ranked[::step]}
        return lambda s: self.picture(s.dataset, s.name) if s.concept in chosen else ""

    def _tables(self) -> list[Table]:
        tables = [_table(self.scores, self.keys, self.levels, shots, self._cells) for shots in self.shots]
        details = self.group.results[0].details
        pictures = self.picture if len({s.concept for s in self.concepts}) <= _MOST_PICTURES else None
        return [
            *tables,
            *funnel_table(details.get("domains", {})),
            *concept_tables(self.concepts, self.learned, pictures),
            *error_table(self.group.results, self.learned, self.picture),
        ]


def _figure(title: str, chart: Any, description: str, *, caption: str = "", wide: bool = False) -> Figure:
    return Figure(title, without_legends(to_spec(chart)), description, caption, wide)


def _agreement(
    concepts: Sequence[ConceptScore], models: Sequence[str], names: Mapping[str, str], lines: Mapping[str, Line]
) -> str:
    """How many models fall, how many clearly, and the extremes: what holds of many models."""
    falls = {model: fall for model in models if (fall := measure_fall(concepts, [model])) is not None}
    if not falls:
        return f"{len(models)} models."
    ranked = sorted(falls, key=lambda model: falls[model].change.difference.value)
    clear = [m for m, fall in falls.items() if fall.clear and fall.change.difference.value > 0]
    down = [m for m in falls if falls[m].change.difference.value > 0]
    first, last = ranked[0], ranked[-1]
    nearest, farthest = falls[first].nearest, falls[first].farthest
    slope = [m for m, line in lines.items() if m in falls and line.slope.low > 0]
    worse = f"All {len(falls)} models" if len(down) == len(falls) else f"Of {len(falls)} models {len(down)}"
    surely = "all" if len(clear) == len(down) else str(len(clear))
    return (
        f"{worse} are worse on {farthest} than on {nearest}, {surely} of them clearly. "
        f"The change is smallest for {names[first]} ({_points(-falls[first].change.difference.value)}), largest for "
        f"{names[last]} ({_points(-falls[last].change.difference.value)}). Along the distance of single concepts "
        f"{'all' if len(slope) == len(falls) else len(slope)} lose clearly. "
        f"Intervals are over concepts, 95 %, not corrected for the number of models."
    )


def _points(value: float) -> str:
    return f"{100 * value:+.1f} points"


def trend_sentences(scores: Sequence[LevelScore], names: Mapping[str, str]) -> list[str]:
    """Accuracy from level to level, for each model; a rise that the intervals do not bear out is said to be none."""
    said = []
    for model in dict.fromkeys(score.model for score in scores if score.model in names):
        own = [s for s in scores if s.model == model and s.shots == ALL and s.level.startswith("L")]
        if len(own) < 2:
            continue
        rises = [(a, b) for a, b in pairwise(own) if b.mean > a.mean]
        shown = (" > " if not rises else ", ").join(f"{100 * s.mean:.1f}" for s in own)
        if not rises:
            told = f"accuracy falls at every step from {own[0].level} to {own[-1].level} ({shown})"
        else:
            change = 100 * (own[-1].mean - own[0].mean)
            up = listed([b.level for _, b in rises])
            told = (
                f"accuracy does not fall at every step ({shown}); it rises at {up}, and {own[-1].level} is "
                f"{change:+.1f} points from {own[0].level}"
            )
            if all(a.images and b.low <= a.high for a, b in rises):
                told += ". No rise is larger than the intervals over test images"
        said.append(f"{names[model]}: {told}.")
    return said


def _table(
    scores: Sequence[LevelScore],
    keys: Keys,
    levels: Sequence[str],
    shots: int | str,
    behind: Mapping[tuple[str, str, int | str], Sequence[str]],
) -> Table:
    cells = {(s.model, s.level): s for s in scores if s.shots == shots}
    best = {level: max((s.mean for (_, lv), s in cells.items() if lv == level), default=0.0) for level in levels}
    rows = []
    for model, key in keys.items():
        row = [TableCell(key.label, key.label.lower(), note=model if key.label != model else "")]
        for level in levels:
            score = cells.get((model, level))
            if score is None:
                row.append(TableCell("–", None, hint="no result"))
                continue
            row.append(
                TableCell(
                    f"{100 * score.mean:.1f}",
                    score.mean,
                    best=score.mean == best[level],
                    note=f"[{100 * score.low:.1f}, {100 * score.high:.1f}]" if score.images else "",
                    hint=f"{score.mean!r}; {counted(score.seeds, 'seed')}"
                    + (f", standard deviation {100 * score.std:.2f}" if score.seeds > 1 else ""),
                    cells=behind.get((model, level, shots), ()),
                )
            )
        rows.append(row)
    images = "all images" if shots == ALL else f"{counted(int(shots), 'image')} per concept"
    return Table(
        caption=f"Top-1 accuracy (%) with {images}, and its 95 % interval over n test images",
        columns=["model", *(_head(level, cells) for level in levels)],
        rows=rows,
        numeric=range(1, len(levels) + 1),
        row_keys=list(keys),
        folded=shots != ALL,
    )


def _head(level: str, cells: Mapping[tuple[str, str], LevelScore]) -> str:
    images = {s.images for (_, found), s in cells.items() if found == level and s.images}
    return f"{level} (n = {listed([f'{count:,}' for count in sorted(images)])})" if images else level
