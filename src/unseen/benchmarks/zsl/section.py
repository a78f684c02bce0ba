"""The section of zero-shot learning: a table and charts per model and dataset, then charts over all of them.

Paper:      Xian et al., TPAMI 2018: Fig. 2 (images per class, t-SNE), Fig. 3 (folds), Figs. 4 and 7 (ranks), Figs. 5
            and 6 (ImageNet splits), Fig. 8 (transductive methods)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any

from unseen.benchmarks.zsl.analysis import METHOD, METRICS, MethodRanks, ranks_by_setting, settings
from unseen.benchmarks.zsl.details import Look, details_of, parameters_of, plain_name, short_name
from unseen.benchmarks.zsl.tables import (
    Run,
    all_studies,
    candidate,
    imagenet_splits,
    inductive_and_transductive,
    method_of,
    runs_of,
    style_of,
)
from unseen.core.records import Result
from unseen.reports.blocks import Figure, Headline, Material, SectionSpec, Standing, Text
from unseen.reports.charts import Axis, Bars, Dots, Lines, Matrix, Scatter, table_rows
from unseen.reports.wording import is_reference, lead_sentence, short_names
from unseen.results import Group
from unseen.results.table import DisplayNames, Table, TableCell

_ACCURACY = Axis("per-class top-1 accuracy")
_PROSE = (
    "Per-class top-1 accuracy in percent, with 95 % confidence intervals over test images.",
    "ZSL: images of unseen classes, classified among unseen classes.",
    "ts and tr: images of unseen and of seen classes, classified among all classes; H is their harmonic mean.",
    "AUSUC is the area under the seen-unseen curve.",
    "Parameters were chosen on validation classes that are neither trained nor tested on.",
    "Transductive methods see all test images together: they are shown and ranked separately from inductive ones.",
)


@dataclass(frozen=True, eq=False)
class _Content:
    """The results of the section, by setting."""

    material: Material
    groups: Sequence[Group]

    @cached_property
    def results(self) -> list[Result]:
        return [result for group in self.groups for result in group.results]

    @cached_property
    def names(self) -> DisplayNames:
        """Return short names of models and datasets."""
        datasets = {plain_name(result.cell.dataset) for result in self.results}
        return {**self.material.names, **short_names(datasets, self.material.dataset_cards)}


def _contents(material: Material, benchmark: str) -> list[tuple[str, _Content]]:
    groups = settings(material.results, (METHOD,))
    return [("", _Content(material, groups))] if groups else []


# ---- models ----------------------------------------------------------------------------------------------------------


def _answers(content: _Content) -> Iterator[Standing | Headline | Text]:
    """Yield ZSL of every model and a headline per setting: the best model, or the best method if there is one model.

    All models have the same method, that of the highest mean over trained models: the best of many methods per model
    would be biased upwards. A headline states which candidates are significantly above chance, and which are
    statistically tied with the first.
    """
    found = [_with_zsl(group.results) for group in content.groups if parameters_of(group.results[0]).on_all_folds]
    contests = [(own, _best_method(own)) for own in found if own]
    headlines = []
    for results, method in contests:
        details, parameters = details_of(results[0]), parameters_of(results[0])
        place = f"{content.names[plain_name(results[0].cell.dataset)]}, {parameters.split}"
        question, heading = f"Unseen classes: {method}, among unseen classes", "Unseen classes"
        if len(contests) > 1:
            question, heading = f"{question}, {place}", f"{heading} of {place}"
        own = [_standing(question, result.cell.model, result) for result in results if method_of(result) == method]
        yield from own
        noun, suffix = "trained models", f" with {method}, the best method on average"
        if len(own) == 1:
            own, noun, suffix = [_standing("ZSL", method_of(result), result) for result in results], "methods", ""
        names = {**content.names, **{each.model: each.model for each in own if noun == "methods"}}
        text, evidence, significant = lead_sentence(own, names, chance=details.chance, noun=noun)
        if details.chance:  # unknown for published numbers
            text = f"{text} Values are per-class accuracy among {details.unseen_classes} unseen classes{suffix}; "
            text += f"chance is {100 * details.chance:.1f}\u202f%"
            within = all(each.interval.low <= details.chance for each in own)
            text += ", which the confidence interval contains." if within else "."
            evidence = "not above chance" if within else evidence
        headlines.append(Headline(heading, text, evidence, significant))
    yield from headlines
    if len(headlines) == 1:
        yield Text(headlines[0].text, answer=True)


def _with_zsl(results: Sequence[Result]) -> list[Result]:
    return [result for result in results if "zsl" in result.metrics]


def _standing(question: str, name: str, result: Result) -> Standing:
    return Standing(question, name, candidate(result, "zsl"), (result.cell.id,))


def _best_method(results: Sequence[Result]) -> str:
    """Return the method with the highest mean over trained models (over all if none is), of those with most results."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for result in [r for r in results if not is_reference(r.cell.model)] or results:
        values[method_of(result)].append(result.metrics["zsl"])
    return max(values, key=lambda method: (len(values[method]), fmean(values[method]), method))


# ---- runs ------------------------------------------------------------------------------------------------------------


def _runs(content: _Content) -> Iterator[Figure | Table]:
    """Return tables of all runs, those of the leading model first, and its charts."""
    order = sorted(_with_zsl(content.results), key=lambda r: (is_reference(r.cell.model), -r.metrics["zsl"]))
    leading = order[0].cell.model if order else ""
    tables = []
    for run in runs_of(content.material.results, content.names):
        table = run.table
        if run.kind == "folds":
            caption = "One dot per fold of validation classes that the parameters were chosen on (Fig. 3 of the paper)."
            yield Figure(f"Robustness · {run.title}", _dots(table_rows(table)), caption=caption)
        elif run.kind == "methods" and run.model == leading:
            yield _method_figure(run, table)
        tables.append(replace(table, folded=table.folded or (run.kind == "methods" and run.model != leading)))
    yield from sorted(tables, key=lambda table: table.folded)


def _dots(rows: Sequence[Mapping[str, Any]]) -> Dots:
    """Draw values of the columns of a table side by side."""
    return Dots(rows=rows, series="column", x=_ACCURACY, joined=True)


def _method_figure(run: Run, table: Table) -> Figure:
    headings = [style_of(metric).heading for metric in METRICS]
    rows = [row for row in table_rows(table) if row["column"] in headings]
    axis, chance = replace(_ACCURACY, zero=True), details_of(run.results[0]).chance or None
    return Figure(
        f"By method · {run.title}",
        Dots(rows=rows, series="column", x=axis, chance=chance),
        caption="Lines are 95 % confidence intervals; the dashed line is chance among unseen classes.",
    )


# ---- all runs together -----------------------------------------------------------------------------------------------


def _study_figures(content: _Content) -> Iterator[Figure]:
    """Draw Figs. 5 and 6, each measure over the ImageNet splits, and Fig. 8, transductive beside inductive methods."""
    table = imagenet_splits(content.results)
    charts: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for data, method, measure, *cells in table.rows:
        title = f"ImageNet splits, {measure.text} · {data.text}"
        charts[title] += table_rows(Table("", table.columns[2:], [[method, *cells]]))
    axis, accuracy = Axis(kind="names", order=table.columns[3:]), Axis("per-class accuracy")
    for title, rows in charts.items():
        caption = "ZSL is Fig. 5 of the paper, ts, among all classes, Fig. 6."
        yield Figure(title, Lines(rows=rows, x="column", x_axis=axis, y=accuracy), caption=caption)
    both = [
        [TableCell(f"{data.text} {method.text}"), *cells[:2]]
        for data, method, *cells in inductive_and_transductive(content.results).rows
    ]
    if both:
        chart = _dots(table_rows(Table("", ["", "inductive", "transductive"], both)))
        yield Figure("Transductive beside inductive, ZSL", chart, caption="Fig. 8 of the paper.")


def rank_matrix(ranks: MethodRanks) -> Matrix:
    """Draw how often each method is at each rank, best mean rank first (Figs. 4 and 7 of the paper)."""
    rows = [
        {"method": f"{method} [{mean:.1f}]", "rank": place, "value": count, "shown": str(count or "")}
        for method, mean, counts in ranks.rows
        for place, count in enumerate(counts, 1)
    ]
    return Matrix(rows=rows, x="rank", y="method", x_title="rank")


def _rank_figures(content: _Content) -> Iterator[Figure]:
    """Draw Figs. 4 and 7 for every setting with several observations; of one, the table is the ranking."""
    for ranks in (ranks for metric in METRICS for ranks in ranks_by_setting(content.results, metric)):
        if len(ranks.observations) > 1:
            alt = f"Rank matrix by {ranks.title}: {', '.join(ranks.table.methods[:3])} have the best mean ranks."
            caption = f"Mean ranks in brackets. {ranks.caption}"
            yield Figure(f"Ranks by {ranks.title}", rank_matrix(ranks), alt, caption, folded=True)


# ---- data (Fig. 2) ---------------------------------------------------------------------------------------------------


def look_figures(results: Sequence[Result]) -> list[Figure]:
    """Draw Fig. 2: bars of images per class for each dataset, and a map of its test images for each model."""
    found: dict[str, Figure] = {}
    hidden = Axis(kind="number", hidden=True)
    for result in results:
        look, split = Look.read(details_of(result).look), parameters_of(result).split
        name = short_name(result.cell.dataset) + (" SS" if split == "SS" else "")
        title = f"Images per class: {name}"
        if look.classes and title not in found:
            pairs = sorted(zip(look.classes, look.counts, strict=True), key=lambda pair: -pair[1])
            rows: list[dict[str, Any]] = [{"class": own, "value": count} for own, count in pairs]
            axis = Axis("images", kind="number", zero=True)
            chart = Bars(rows=rows, y="class", series="", x=axis, vertical=True)
            found[title] = Figure(title, chart, caption="All splits (Fig. 2).", wide=True)
        title = f"{name}: t-SNE of {result.cell.model}"
        if look.x and title not in found:
            places = zip(look.x, look.y, look.labels, strict=True)
            rows = [{"class": look.classes[c], "x": x, "value": y} for x, y, c in places]
            found[title] = Figure(
                title,
                Scatter(rows=rows, series="class", x_axis=hidden, y=hidden, tooltip={"class": "class"}),
                f"{len(look.x)} images of the test classes of {name} in the plane, coloured by class.",
                "Images of the test classes alone, by their features; images that are near are alike (Fig. 2).",
            )
    return list(found.values())


zsl_section: SectionSpec[_Content] = SectionSpec(
    title="Zero-shot: unseen classes, known by a description",
    settings=_contents,
    blocks=(
        _answers,
        lambda _: _PROSE,
        _runs,
        lambda content: look_figures(content.results),
        _study_figures,
        _rank_figures,
        lambda content: all_studies(content.results),
    ),
    models=lambda content: (result.cell.model for result in content.results),
)
