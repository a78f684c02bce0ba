"""The tables of a CoG: levels, concepts, errors, the funnel, and frozen features relative to fine-tuning."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields

from unseen.benchmarks.cog.analysis import ALL, ConceptScore, LevelScore, level_scores, order_levels, settings
from unseen.benchmarks.cog.details import CogDetails, CogParameters, DomainDetails, Shots
from unseen.benchmarks.cog.domains import CONTROL, DomainRecipe
from unseen.core.records import Result
from unseen.reports.wording import counted
from unseen.results import Group
from unseen.results.grid import Column, Grid, order_models
from unseen.results.info import TOP1, MetricStyle, info_of
from unseen.results.table import Table, TableCell, default_tables, grid_notes, parted, summary_cell
from unseen.stats import Interval, combine_intervals, decide
from unseen.stats.interval import no_interval
from unseen.stats.means import Mean, share_interval

#: Returns a picture of a class of a dataset; "" if there is none.
Picture = Callable[[str, str], str]

#: Concepts of a level in a table; a level with more has this number, evenly along its ranking.
_MOST_ROWS = 150
_MOST_ERRORS = 20
_SIMILARITY = MetricStyle("similarity", "similarity")
_RATIO = MetricStyle("ratio", "frozen / fine-tuned")
#: Rows of the table of ratios are levels of models, so no cell is the best of its column.
_NO_DECISION = decide({})


def cog_tables(results: Collection[Result], names: Mapping[str, str], metrics: Sequence[str] = ()) -> list[Table]:
    """Return the tables of all settings; other metrics than top-1 have the default tables."""
    if metrics:
        return default_tables(results, names, metrics)
    return [
        table
        for group in settings(results)
        for table in level_tables(group, level_scores(group.results), names, words=group.words)
    ]


def shots_of(scores: Sequence[LevelScore]) -> list[Shots]:
    """Return the numbers of training images per concept: all images first, then from the most to the fewest."""
    found = {s.shots for s in scores}
    return [*([ALL] if ALL in found else []), *sorted((s for s in found if s != ALL), key=int, reverse=True)]


def images_text(shots: Shots) -> str:
    """Return the number of training images in words."""
    return "all training images" if shots == ALL else f"{counted(int(shots), 'training image')} per concept"


def level_tables(
    group: Group, scores: Sequence[LevelScore], names: Mapping[str, str], *, words: str = ""
) -> list[Table]:
    """Return one table per number of training images, then those of the random control levels.

    Args:
        words: what distinguishes the setting from others.
    """
    found = []
    for controls in (False, True):
        own = [s for s in scores if s.control == controls]
        for shots in shots_of(own):
            found += _tables(group, [s for s in own if s.shots == shots], names, words)
    return found


def _tables(group: Group, scores: Sequence[LevelScore], names: Mapping[str, str], words: str) -> list[Table]:
    """Return the tables of one number of training images: several if the levels do not fit one."""
    benchmark, dataset, shots = scores[0].summary.benchmark, str(group.setting["dataset"]), scores[0].shots
    columns = {
        level: Column(benchmark, dataset, (("level", level), ("shots", shots)), TOP1.name)
        for level in order_levels(s.level for s in scores)
    }
    cells = {(s.model, columns[s.level]): s.summary for s in scores}
    models = order_models(cells, list(columns.values()))
    grid = Grid(benchmark, models, tuple(columns.values()), cells, [group])
    title = f"{info_of(benchmark).title}, {names.get(dataset, dataset)}"
    caption = f"{title}: top-1 accuracy (%) by level with {images_text(shots)}"
    heads = {column: level for level, column in columns.items()}
    return [
        Table(
            caption=f"{caption} · {words}" if words else caption,
            columns=["model", *(heads[column] for column in part)],
            rows=[
                [
                    TableCell(names.get(model, model), names.get(model, model).lower(), hint=model),
                    *(summary_cell(cells.get((model, column)), grid.decisions[column]) for column in part),
                ]
                for model in models
            ],
            numeric=range(1, 1 + len(part)),
            row_keys=models,
            folded=shots != ALL or scores[0].control,
            notes=grid_notes(grid, part),
        )
        for part in parted(grid.columns)
    ]


def funnel_table(account: DomainDetails) -> list[Table]:
    """Return how many classes each filter left, from the dataset to the levels; nothing if this is unknown."""
    if not account.funnel:
        return []
    rows = [[TableCell("classes of the dataset"), TableCell(), _count(account.classes)]]
    rows += [[TableCell(s.filter), _count(s.dropped), _count(s.left)] for s in account.funnel]
    left = account.funnel[-1].left
    caption = f"The funnel: {counted(account.classes, 'class', 'classes')}, {left:,} eligible as unseen concepts"
    return [Table(caption, ["filter", "dropped", "left"], rows, numeric=(1, 2), folded=True)]


def concept_tables(scores: Sequence[ConceptScore], models: Sequence[str], picture: Picture) -> list[Table]:
    """Return a folded table per level: each concept with its id, its nearest seen concept and its accuracy."""
    return [
        _concepts(level, [s for s in scores if s.level == level and s.model in models], picture)
        for level in order_levels(s.level for s in scores)
    ]


def _concepts(level: str, scores: Sequence[ConceptScore], picture: Picture) -> Table:
    accuracy: dict[str, list[float]] = defaultdict(list)
    for score in scores:
        accuracy[score.concept].append(score.accuracy)
    concepts = sorted({s.concept: s for s in scores}.values(), key=lambda s: (-s.similarity, s.name))
    step = max(1, -(-len(concepts) // _MOST_ROWS))
    rows = []
    for s in concepts[::step]:
        mean = sum(accuracy[s.concept]) / len(accuracy[s.concept])
        rows.append(
            [
                TableCell(s.name, s.name.lower(), note=s.concept, picture=picture(s.dataset, s.name)),
                TableCell(s.nearest, s.nearest.lower()),
                TableCell(value=s.similarity, metric=_SIMILARITY),
                _count(s.train_images),
                _count(s.test_images) if s.test_images else TableCell(),
                TableCell(
                    value=mean,
                    interval=share_interval(Mean(mean, math.nan, n), n, 0.95) if (n := s.test_images) else None,
                    metric=TOP1,
                    n=s.test_images or None,
                    hint=f"mean over {counted(len(accuracy[s.concept]), 'model')}",
                ),
            ]
        )
    cut = f", {len(rows)} of them along the ranking" if step > 1 else ""
    ends = dict.fromkeys(f"{concepts[place].similarity:.2f}" for place in (0, -1)) if concepts else {}
    span = f", similarity {' to '.join(ends)}" if ends else ""
    return Table(
        f"{level}: {counted(len(concepts), 'concept')}{span}{cut}",
        ["concept", "nearest seen", "similarity", "training images", "test images", "top-1 (%), mean of models"],
        rows,
        numeric=(2, 3, 4, 5),
        folded=True,
        notes=["95 % confidence interval over the test images of a concept in brackets."],
    )


def error_table(results: Sequence[Result], models: Sequence[str], picture: Picture) -> list[Table]:
    """Return the most frequent errors with all images, counted over models and seeds; nothing if they are unknown."""
    counts: Counter[tuple[str, str, str, str]] = Counter()
    answers: Counter[tuple[str, str, str]] = Counter()
    for result in results:
        p, details = CogParameters.of(result.cell), CogDetails.of(result)
        unknown = not details.confusions or not details.test_per_class
        if unknown or result.cell.model not in models or p.shots != ALL or p.level.startswith(CONTROL):
            continue
        names = [concept.name for concept in details.concepts]
        for name, tested in zip(names, details.test_per_class, strict=True):
            answers[result.cell.dataset, p.level, name] += tested
        for error in details.confusions:
            counts[result.cell.dataset, p.level, names[int(error.true)], names[int(error.predicted)]] += error.images
    rows = [
        [
            *(TableCell(name, name.lower(), picture=picture(dataset, name)) for name in (true, predicted)),
            TableCell(
                value=count / answers[dataset, level, true],
                metric=TOP1,
                hint=f"{count} of {answers[dataset, level, true]} answers",
            ),
            TableCell(level),
        ]
        for (dataset, level, true, predicted), count in counts.most_common(_MOST_ERRORS)
    ]
    columns = ["concept", "classified as", "of its test images (%)", "level"]
    title = "The most frequent errors, mean of models and seeds"
    return [Table(title, columns, rows, numeric=(2,), folded=True)] if rows else []


def _count(number: int) -> TableCell:
    return TableCell(f"{number:,}", number)


@dataclass(frozen=True)
class Ratio:
    """Accuracy of frozen features relative to fine-tuning, of one model on one level.

    Attributes:
        name: of the model, and of the setting of the probes if there are several.
        ratio: with its interval over test images.
    """

    name: str
    frozen: LevelScore
    tuned: LevelScore
    ratio: Interval


def ratios(group: Group, frozen: Sequence[Group], names: Mapping[str, str]) -> list[Ratio]:
    """Return frozen over fine-tuned accuracy by model, level and setting of probes on the same concepts.

    Args:
        group: results of fine-tuning.
        frozen: results of probes, by setting.
        names: the models to compare, with their names.
    """
    tuned = {(s.model, s.level): s for s in level_scores(group.results)}
    alike = [other for other in frozen if _same_concepts(group, other)]
    rows = []
    for other in alike:
        words = f" ({other.words})" if len(alike) > 1 else ""
        for cold in level_scores(other.results):
            warm = tuned.get((cold.model, cold.level))
            if warm is not None and cold.shots == ALL and warm.mean and cold.model in names:
                ratio = _ratio(cold.interval, warm.interval)
                rows.append(Ratio(names[cold.model] + words, cold, warm, ratio))
    return rows


def _same_concepts(tuned: Group, frozen: Group) -> bool:
    """Return whether two groups have the same concepts of the same data."""
    recipe = ["dataset", *(field.name for field in fields(DomainRecipe))]
    data = [{result.cell.data for result in group.results} for group in (tuned, frozen)]
    return data[0] == data[1] and all(tuned.setting.get(name) == frozen.setting.get(name) for name in recipe)


def _ratio(frozen: Interval, tuned: Interval) -> Interval:
    """Return the ratio of two accuracies, as that of different images: conservative for the same images."""
    if not tuned.known or tuned.low <= 0:
        return no_interval(frozen.value / tuned.value, "the divisor may be 0", level=frozen.level, n=frozen.n)
    inverse = Interval(1 / tuned.value, 1 / tuned.high, 1 / tuned.low, tuned.level, tuned.n)
    return combine_intervals(lambda pair: pair[0] * pair[1], [frozen, inverse])


def finetune_table(group: Group, found: Sequence[Ratio], names: Mapping[str, str]) -> Table:
    """Return fine-tuned and frozen accuracy with their ratio; a row per model, level and setting of probes."""
    tuned = level_scores(group.results)
    levels = order_levels(s.level for s in tuned)
    several = len({r.name for r in found}) > len({r.frozen.model for r in found})
    rows = []
    for warm in sorted(tuned, key=lambda s: (s.model, levels.index(s.level))):
        own: list[Ratio | None] = [r for r in found if (r.frozen.model, r.frozen.level) == (warm.model, warm.level)]
        for ratio in own or [None]:
            name = ratio.name if ratio and several else names[warm.model]
            rows.append(
                [
                    TableCell(name, name.lower()),
                    TableCell(warm.level, levels.index(warm.level)),
                    summary_cell(warm.summary, _NO_DECISION),
                    summary_cell(ratio.frozen.summary if ratio else None, _NO_DECISION),
                    TableCell(value=ratio.ratio.value, interval=ratio.ratio, metric=_RATIO) if ratio else TableCell(),
                ]
            )
    return Table(
        "Top-1 accuracy (%) with all images",
        ["model", "level", "fine-tuned", "frozen", "frozen / fine-tuned"],
        rows,
        numeric=(2, 3, 4),
        notes=["95 % confidence intervals over test images in brackets."],
    )
