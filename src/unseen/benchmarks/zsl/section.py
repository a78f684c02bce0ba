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

from unseen.benchmarks.zsl.analysis import (
    KIND,
    METHOD,
    METRICS,
    MethodRanks,
    on_all_folds,
    ranks_by_setting,
    settings,
)
from unseen.benchmarks.zsl.details import Look, details_of, parameters_of, plain_name, short_name
from unseen.benchmarks.zsl.tables import (
    Run,
    all_studies,
    candidate,
    folds_table,
    imagenet_splits,
    inductive_and_transductive,
    method_table,
    runs_of,
    splits_table,
    style_of,
)
from unseen.core.records import Result
from unseen.reports.blocks import Figure, Headline, Material, SectionSpec, Standing, Text
from unseen.reports.charts import Axis, Bars, Dots, Lines, Matrix, Scatter, table_rows
from unseen.reports.wording import is_reference, lead_sentence, short_names
from unseen.results import Group
from unseen.results.table import DisplayNames, Table

#: Models whose methods have charts of their own; the other models have tables.
_MOST = 2
_ACCURACY = Axis("per-class top-1 accuracy")
_PROSE = (
    "Per-class top-1 accuracy in percent, with 95 % confidence intervals over test images.",
    "ZSL: images of unseen classes, classified among unseen classes.",
    "ts and tr: images of unseen and of seen classes, classified among all classes; H is their harmonic mean.",
    "AUSUC is the area under the seen-unseen curve.",
    "Parameters were chosen on validation classes that are neither trained nor tested on.",
)
_SEPARATE = (
    "Transductive methods see all test images together: they are shown and ranked separately from inductive ones."
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
    def datasets(self) -> dict[str, str]:
        """Return short names of the datasets."""
        return short_names({plain_name(r.cell.dataset) for r in self.results}, self.material.dataset_cards)

    @cached_property
    def compared(self) -> list[tuple[Group, str]]:
        """Return the settings of the headlines, each with the method of the highest mean over trained models.

        All models have the same method: the best of many methods per model would be biased upwards.
        """
        found = []
        for group in self.groups:
            means = _means(group) if on_all_folds(group) else {}
            if means:
                found.append((group, max(means, key=lambda method: (means[method], method))))
        return found

    def place(self, group: Group, before: str, names: DisplayNames) -> str:
        """Return dataset and split of a setting after some letters; "" if there is only one setting."""
        dataset = plain_name(group.results[0].cell.dataset)
        words = f"{before}{names.get(dataset, dataset)}, {parameters_of(group.results[0]).split}"
        return words if len(self.compared) > 1 else ""


def _means(group: Group) -> dict[str, float]:
    """Return the mean over trained models (over all if none is trained) by method; incomplete methods come last."""
    known = [result for result in group.results if "zsl" in result.metrics]
    values: defaultdict[str, list[float]] = defaultdict(list)
    for result in [r for r in known if not is_reference(r.cell.model)] or known:
        values[parameters_of(result).method].append(result.metrics["zsl"])
    most = max(map(len, values.values()), default=0)
    return {method: fmean(v) - (len(v) < most) for method, v in values.items()}


def _contents(material: Material, benchmark: str) -> list[tuple[str, _Content]]:
    groups = settings(material.results, (METHOD,))
    return [("", _Content(material, groups))] if groups else []


# ---- models ----------------------------------------------------------------------------------------------------------


def _standing(question: str, result: Result) -> Standing:
    return Standing(question, result.cell.model, candidate(result, "zsl"), (result.cell.id,))


def _standings(content: _Content) -> list[Standing]:
    """Return ZSL of every model with one method per setting."""
    return [
        _standing(f"Unseen classes: {method}, among unseen classes{content.place(group, ', ', {})}", result)
        for group, method in content.compared
        for result in group.results
        if parameters_of(result).method == method
    ]


def _method_standings(results: Sequence[Result]) -> list[Standing]:
    """Return ZSL of every method of one model; the methods are the candidates."""
    own = [result for result in results if "zsl" in result.metrics]
    return [replace(_standing("ZSL", result), model=parameters_of(result).method) for result in own]


def _headlines(content: _Content) -> list[Headline | Text]:
    """Return one headline per setting: the best model, or the best method if there is one model.

    It states which candidates are significantly above chance, and which are statistically tied with the first.
    """
    found = []
    for group, method in content.compared:
        own = [_standing("", result) for result in group.results if parameters_of(result).method == method]
        names, noun, suffix = content.material.names, "trained models", f" with {method}, the best method on average"
        details = details_of(group.results[0])
        if len(own) == 1:
            own, noun, suffix = _method_standings(group.results), "methods", ""
            names = {each.model: each.model for each in own}
        text, evidence, significant = lead_sentence(own, names, chance=details.chance, noun=noun)
        question = f"Unseen classes{content.place(group, ' of ', content.datasets)}"
        if details.chance:  # unknown for published numbers
            text = f"{text} Values are per-class accuracy among {details.unseen_classes} unseen classes{suffix}; "
            text += f"chance is {100 * details.chance:.1f}\u202f%"
            within = all(each.interval.low <= details.chance for each in own)
            text += ", which the confidence interval contains." if within else "."
            evidence = "not above chance" if within else evidence
        found.append(Headline(question, text, evidence, significant))
    return [*found, *(Text(headline.text, answer=True) for headline in found if len(found) == 1)]


# ---- runs ------------------------------------------------------------------------------------------------------------


def _runs(content: _Content) -> Iterator[Figure | Table | Text]:
    """Return tables of all runs, those of leading models first, and charts of the leading models."""
    leading = _leading_models(content.results)
    tables = []
    for run in runs_of(content.results, {**content.material.names, **content.datasets}):
        if not run.on_all_folds:
            tables.append(folds_table(run))
            yield _folds_figure(run, tables[-1])
            continue
        tables.append(method_table(run, folded=run.model not in leading[:1]))
        if run.model in leading:
            yield _method_figure(run, tables[-1])
            yield from filter(None, [_curve_figure(run)])
            methods = _method_standings(run.results)
            yield Text(lead_sentence(methods, {each.model: each.model for each in methods})[0], lead=run.title)
    names = {**content.material.names, **content.datasets}
    tables += [splits_table(run) for run in runs_of(content.material.results, names, sampled=True)]
    yield from sorted(tables, key=lambda table: table.folded)


def _leading_models(results: Sequence[Result]) -> list[str]:
    """Return the models with the highest zero-shot accuracies."""
    known = [result for result in results if "zsl" in result.metrics]
    known.sort(key=lambda r: (is_reference(r.cell.model), -r.metrics["zsl"], r.cell.model))
    return list(dict.fromkeys(result.cell.model for result in known))[:_MOST]


def _method_figure(run: Run, table: Table) -> Figure:
    titles = {style_of(m).heading: style_of(m).title for m in METRICS}
    rows = [{**row, "column": titles[row["column"]]} for row in table_rows(table) if row["column"] in titles]
    axis, chance = replace(_ACCURACY, zero=True), details_of(run.results[0]).chance or None
    return Figure(
        f"By method · {run.title}",
        Dots(rows=rows, series="column", x=axis, chance=chance),
        caption="Lines are 95 % confidence intervals; the dashed line is chance among unseen classes.",
    )


def _folds_figure(run: Run, table: Table) -> Figure:
    """Draw Fig. 3: parameters chosen on one fold of validation classes alone."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for row in (rows := table_rows(table)):
        values[row["name"]].append(row["value"])
    order = sorted(values, key=lambda method: -fmean(values[method]))
    return Figure(
        f"Robustness · {run.title}",
        Dots(rows=rows, series="column", order=order, x=_ACCURACY, joined=True),
        caption="One dot per fold of validation classes that the parameters were chosen on (Fig. 3 of the paper).",
    )


def _curve_figure(run: Run) -> Figure | None:
    """Draw the seen-unseen curves of a run; None if no result has one."""
    found = [r for r in run.results if details_of(r).curve and details_of(r).has_area]
    found.sort(key=lambda result: -result.metrics["AUSUC"])
    rows = [
        {"name": parameters_of(result).method, "ts": ts, "value": tr, "step": step}
        for result in found
        for step, (ts, tr) in enumerate(zip(*(details_of(result).curve[name] for name in ("ts", "tr")), strict=True))
    ]
    areas = "; ".join(f"{parameters_of(r).method} {100 * r.metrics['AUSUC']:.1f}" for r in found)
    x, y = Axis("ts, unseen classes"), Axis("tr, seen classes")
    figure = Figure(
        f"Seen-unseen curve · {run.title}",
        Lines(rows=rows, x="ts", x_axis=x, y=y, points=False, path="step", height=320),
        f"Seen-unseen curves on {run.title}; area in percent: {areas}.",
        "A constant is subtracted from the scores of seen classes.",
    )
    return figure if found else None


# ---- all runs together -----------------------------------------------------------------------------------------------


def _imagenet_figures(content: _Content) -> list[Figure]:
    """Draw Figs. 5 and 6: each measure over the ImageNet splits that were run."""
    table = imagenet_splits(content.results)
    charts: defaultdict[str, list[dict[str, object]]] = defaultdict(list)
    for data, method, measure, *cells in table.rows:
        charts[f"ImageNet splits, {measure.text} · {data.text}"] += (
            {"name": method.text, "split": split, "value": cell.value, "shown": cell.full}
            for split, cell in zip(table.columns[3:], cells, strict=True)
            if cell.value is not None
        )
    axis = Axis(kind="names", order=table.columns[3:])
    return [
        Figure(
            title,
            Lines(rows=rows, x="split", x_axis=axis, y=Axis("per-class accuracy")),
            caption="ZSL is Fig. 5 of the paper, ts, among all classes, Fig. 6.",
        )
        for title, rows in charts.items()
    ]


def _transductive_figure(content: _Content) -> Figure | None:
    """Draw Fig. 8: ALE and GFZSL beside their transductive forms."""
    rows = [
        {"place": f"{data.text} {method.text}", "kind": kind, "value": cell.value, "shown": cell.full}
        for data, method, *cells in inductive_and_transductive(content.results).rows
        for kind, cell in zip(("inductive", "transductive"), cells[:2], strict=True)
    ]
    chart = Dots(rows=rows, y="place", series="kind", x=_ACCURACY, joined=True)
    return Figure("Transductive beside inductive, ZSL", chart, caption="Fig. 8 of the paper.") if rows else None


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
            title = " · ".join(filter(None, (style_of(ranks.metric).title, ranks.setting)))
            alt = f"Rank matrix by {title}: {', '.join(ranks.table.methods[:3])} have the best mean ranks."
            caption = f"Mean ranks in brackets. {ranks.caption}"
            yield Figure(f"Ranks by {title}", rank_matrix(ranks), alt, caption, folded=True)


# ---- data (Fig. 2) ---------------------------------------------------------------------------------------------------


def _label(dataset: str, split: str) -> str:
    return short_name(dataset) + (" SS" if split == "SS" else "")


def look_figures(results: Sequence[Result]) -> list[Figure]:
    """Draw Fig. 2: bars of images per class, datasets of the same classes together, and a map per model and dataset."""
    maps: dict[tuple[str, str], Figure] = {}
    counted: dict[tuple[str, ...], dict[str, Look]] = {}
    for result in results:
        look = Look.read(details_of(result).look)
        name, model = _label(result.cell.dataset, parameters_of(result).split), result.cell.model
        if look.classes:
            counted.setdefault(look.classes, {}).setdefault(name, look)
        if look.x and (name, model) not in maps:
            maps[name, model] = Figure(
                f"{name}: t-SNE of {model}",
                _map_chart(look),
                f"{len(look.x)} images of the test classes of {name} in the plane, coloured by class.",
                "Images of the test classes alone, by their features; images that are near are alike (Fig. 2).",
            )
    bars = [
        Figure(f"Images per class: {', '.join(looks)}", _counts_chart(looks), caption="All splits (Fig. 2).", wide=True)
        for looks in counted.values()
    ]
    return [*bars, *maps.values()]


def _counts_chart(looks: Mapping[str, Look]) -> Bars:
    """Draw images per class as bars, the most first, datasets side by side."""
    rows = [
        {"dataset": name, "class": look.classes[c], "value": look.counts[c]}
        for name, look in looks.items()
        for c in sorted(range(len(look.classes)), key=lambda c: -look.counts[c])
    ]
    axis = Axis("images", kind="number", zero=True)
    return Bars(rows=rows, y="class", series="dataset", x=axis, vertical=True)


def _map_chart(look: Look) -> Scatter:
    """Draw images in the plane, a colour per class."""
    places = zip(look.x, look.y, look.labels, strict=True)
    rows = [{"class": look.classes[c], "x": x, "value": y} for x, y, c in places]
    hidden = Axis(kind="number", hidden=True)
    return Scatter(rows=rows, series="class", x_axis=hidden, y=hidden, tooltip={"class": "class"})


def _prose(content: _Content) -> Iterator[Text]:
    yield from map(Text, _PROSE)
    if any(KIND in group.differs for group in content.groups):
        yield Text(_SEPARATE)


zsl_section: SectionSpec[_Content] = SectionSpec(
    title="Zero-shot: unseen classes, known by a description",
    settings=_contents,
    blocks=(
        _headlines,
        _standings,
        _prose,
        _runs,
        lambda content: look_figures(content.results),
        _imagenet_figures,
        _transductive_figure,
        _rank_figures,
        lambda content: all_studies(content.results),
    ),
    models=lambda content: (result.cell.model for result in content.results),
)
