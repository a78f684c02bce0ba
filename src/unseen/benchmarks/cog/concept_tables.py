"""What a CoG was made of, to unfold: the funnel, and the concepts of each level with their nearest seen concept."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unseen.benchmarks.cog.analysis import ALL, ConceptScore, order_levels
from unseen.benchmarks.cog.domains import CONTROL
from unseen.core.records import Result
from unseen.metrics.significance import wilson_interval
from unseen.reports.blocks import Table, TableCell
from unseen.reports.wording import counted

#: Concepts of a level that are listed; of more, as many along its ranking.
_MOST_ROWS = 150
_MOST_ERRORS = 20


def funnel_table(account: Mapping[str, Any]) -> list[Table]:
    """How many classes each filter left, from the dataset to what the levels are cut from; nothing where unknown."""
    steps = account.get("funnel")
    if not steps:
        return []
    rows = [[TableCell("classes of the dataset"), TableCell(""), TableCell(f"{account['classes']:,}")]]
    rows += [
        [
            TableCell(str(s["filter"])),
            TableCell(f"{s['dropped']:,}", s["dropped"]),
            TableCell(f"{s['left']:,}", s["left"]),
        ]
        for s in steps
    ]
    left = steps[-1]["left"]
    caption = f"The funnel: {counted(account['classes'], 'class', 'classes')}, {left:,} eligible as unseen concepts"
    return [Table(caption, ["filter", "dropped", "left"], rows, numeric=(1, 2), folded=True)]


def concept_tables(
    scores: Sequence[ConceptScore], models: Sequence[str], picture: Callable[[str, str], str] | None
) -> list[Table]:
    """A folded table per level: each concept, what it was matched to, its nearest seen concept, how well it is told."""
    return [
        _concepts(level, [s for s in scores if s.level == level and s.model in models], picture)
        for level in order_levels(s.level for s in scores)
    ]


def _concepts(level: str, scores: Sequence[ConceptScore], picture: Callable[[str, str], str] | None) -> Table:
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
                TableCell(
                    s.name, s.name.lower(), note=s.concept, picture=picture(s.dataset, s.name) if picture else ""
                ),
                TableCell(s.nearest, s.nearest.lower()),
                TableCell(f"{s.similarity:.3f}", s.similarity),
                TableCell(f"{s.train_images:,}", s.train_images),
                TableCell(f"{s.test_images:,}" if s.test_images else "", s.test_images),
                TableCell(
                    f"{100 * mean:.1f}{_interval(mean, s.test_images)}",
                    mean,
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
    )


def error_table(
    results: Sequence[Result], models: Sequence[str], picture: Callable[[str, str], str] | None
) -> list[Table]:
    """What concepts are most often taken for, with all images: counted over models and seeds; nothing where unknown."""
    counts: Counter[tuple[str, str, str, str]] = Counter()
    asked: Counter[tuple[str, str, str]] = Counter()
    for result in results:
        level, details = str(result.cell.parameters["level"]), result.details
        errors = details.get("confusions")
        if result.cell.model not in models or result.cell.parameters["shots"] != ALL or level.startswith(CONTROL):
            continue
        names, tested = [str(c["name"]) for c in details["concepts"]], details.get("test_per_class")
        if not isinstance(errors, list) or not tested:
            continue
        for place, name in enumerate(names):
            asked[result.cell.dataset, level, name] += tested[place]
        for error in errors:
            true, found = names[int(error["true"])], names[int(error["predicted"])]
            counts[result.cell.dataset, level, true, found] += error["images"]
    rows = []
    for (dataset, level, true, found), count in counts.most_common(_MOST_ERRORS):
        share = count / asked[dataset, level, true]
        pictures = [picture(dataset, name) if picture else "" for name in (true, found)]
        rows.append(
            [
                TableCell(true, true.lower(), picture=pictures[0]),
                TableCell(found, found.lower(), picture=pictures[1]),
                TableCell(f"{100 * share:.0f}", share, hint=f"{count} of {asked[dataset, level, true]} answers"),
                TableCell(level),
            ]
        )
    columns = ["concept", "taken for", "of its test images (%)", "level"]
    return (
        [Table("The most frequent errors, mean of models and seeds", columns, rows, numeric=(2,), folded=True)]
        if rows
        else []
    )


def _interval(share: float, images: int) -> str:
    """The 95 % interval over a concept's test images, which are few: all models are asked about the same ones."""
    if not images:
        return ""
    found = wilson_interval(share, images)
    return f" [{100 * found.low:.0f} to {100 * found.high:.0f}]"
