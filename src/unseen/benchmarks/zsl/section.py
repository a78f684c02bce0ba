"""Zero-shot learning on the page: a table and charts per model and dataset, then what is drawn over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from unseen.benchmarks.zsl.charts import comparison_chart
from unseen.benchmarks.zsl.compare import (
    BENCHMARK,
    CHOSEN,
    KIND,
    METHOD,
    METRICS,
    plain_name,
    ranks_by_setting,
    settings,
)
from unseen.benchmarks.zsl.figures import (
    curve_figure,
    folds_figure,
    imagenet_figures,
    percent,
    rank_figure,
    transductive_figure,
)
from unseen.benchmarks.zsl.look import look_figures
from unseen.benchmarks.zsl.published import printed_value
from unseen.benchmarks.zsl.standings import headlines, leading_models, method_figures, standings
from unseen.benchmarks.zsl.studies import StudyTable, all_studies
from unseen.core.records import Result
from unseen.reports.blocks import Figure, Material, Section, Table, TableCell
from unseen.reports.charts import to_spec
from unseen.reports.wording import bracketed, listed, short_names
from unseen.results import metric_style
from unseen.results.comparability import older_said
from unseen.results.grid import interval_of


def zsl_section(material: Material, benchmark: str) -> Section | None:
    """The section of the zero-shot benchmark, or None where it has no result to show."""
    groups = settings(material.results, (METHOD,))
    if not groups:
        return None
    own = [result for group in groups for result in group.results]
    models = material.names
    datasets = short_names({plain_name(r.cell.dataset) for r in own}, material.dataset_cards)
    figures, tables, points = [], [], []
    first = leading_models(own)
    several = len({(plain_name(r.cell.dataset), r.cell.parameters["split"]) for r in own}) > 1
    for group in groups:
        more = {k: v for k, v in group.differs.items() if k not in ("dataset", "split", CHOSEN)}
        words = replace(group, differs=more).words
        for model, results in group.by_model().items():
            cell = results[0].cell
            place = (datasets[plain_name(cell.dataset)], cell.parameters["split"]) if several else ()
            parts = (*place, models[model], words)
            title = " · ".join(part for part in parts if part)
            order = _order(results)
            if group.setting[CHOSEN] != "all folds":
                figures.append(folds_figure(results, title))
                continue
            if model in first:
                figures += [_comparison(results, order, title), *curve_figure(results, title)]
            tables.append(_table(order, title, folded=model not in first))
            if model in first:
                points.append((title, _said(results, order)))
    every = [ranks for metric in METRICS for ranks in ranks_by_setting(own, metric)]
    ranks = [each for each in every if len(each.observations) > 1]  # of one, the table is the ranking
    found = headlines(groups, material)
    cell = own[0].cell
    where = "" if several else f" on {datasets[plain_name(cell.dataset)]} ({cell.parameters['split']} split)"
    return Section(
        title="Zero-shot: unseen classes, known by a description",
        anchor=benchmark,
        answer=[("", headline.text) for headline in found] if len(found) == 1 else [],
        headlines=found,
        standings=standings(groups),
        legend=material.legend({r.cell.model for r in own}),
        prose=[
            f"Per-class top-1 accuracy in percent{where}, with 95 % intervals over test images.",
            "ZSL: images of unseen classes, told apart among unseen classes.",
            "ts and tr: images of unseen and of seen classes, told apart among all classes; H is their harmonic mean.",
            "AUSUC is the area under the seen-unseen curve.",
            "Parameters were chosen on validation classes that are neither trained nor tested on.",
            *([_APART] if any(KIND in group.differs for group in groups) else []),
            *([f"{older_said(older)}."] if (older := sum(group.older for group in groups)) else []),
        ],
        points=points,
        figures=[
            *method_figures(groups, material),
            *figures,
            *look_figures(own),
            *imagenet_figures(own),
            *transductive_figure(own),
            *(replace(rank_figure(each), folded=True) for each in ranks),
        ],
        tables=[*sorted(tables, key=lambda table: table.folded), *map(_study, all_studies(own))],
    )


#: What a result calls the number of images that a metric is over; H and AUSUC are over two kinds.
_IMAGES = {"zsl": "test_images", "ts": "test_images", "tr": "seen_test_images", "zsl_per_image": "test_images"}
_APART = "Transductive methods look at all test images together: they are shown and ranked apart from inductive ones."


def _study(study: StudyTable) -> Table:
    """A table of the paper's smaller studies; its first columns are texts."""
    title, columns, rows = study
    cells = [
        [TableCell(v, v.lower()) if isinstance(v, str) else TableCell("–" if v is None else percent(v), v) for v in row]
        for row in rows
    ]
    texts = sum(isinstance(value, str) for value in rows[0])
    return Table(title, columns, cells, numeric=range(texts, len(columns)))


def _order(group: Sequence[Result]) -> list[Result]:
    headline = "H" if any("H" in r.metrics for r in group) else "zsl"
    return sorted(group, key=lambda r: (-r.metrics.get(headline, 0.0), -r.metrics["zsl"]))


def _comparison(group: Sequence[Result], order: Sequence[Result], title: str) -> Figure:
    rows = [
        {
            "method": r.cell.parameters["method"],
            "metric": metric,
            "value": r.metrics[metric],
            **{end: r.metrics[f"{metric}_{end}"] for end in ("low", "high") if f"{metric}_{end}" in r.metrics},
        }
        for r in group
        for metric in METRICS
        if metric in r.metrics
    ]
    names = [r.cell.parameters["method"] for r in order]
    chance = float(group[0].details["chance"])
    told = "; ".join(f"{r.cell.parameters['method']} {percent(r.metrics['zsl'])}" for r in order)
    return Figure(
        title=f"By method · {title}",
        spec=to_spec(comparison_chart(rows, names, chance)),
        description=f"Zero-shot accuracy on {title}: {told}.",
        caption="Grey bars join ts and tr, lines are 95 % intervals; the dashed line is chance among unseen classes.",
    )


def _table(order: Sequence[Result], title: str, *, folded: bool) -> Table:
    metrics = [m for m in (*METRICS, "AUSUC", "zsl_per_image") if any(m in r.metrics for r in order)]
    printed = {(i, m): printed_value(r, m) for i, r in enumerate(order) for m in METRICS}
    with_paper = [m for m in METRICS if any(printed[i, m] is not None for i in range(len(order)))]
    best = {m: max(r.metrics.get(m, 0.0) for r in order) for m in metrics}
    rows = []
    for i, result in enumerate(order):
        name = str(result.cell.parameters["method"])
        note = "transductive" if result.details.get("transductive") else ""
        chosen = listed([f"{k} {v}" for k, v in _mapping(result.details.get("best")).items()])
        row = [TableCell(name, name.lower(), note=note, hint=chosen)]
        for metric in metrics:
            value = result.metrics.get(metric)
            shown = "–" if value is None else percent(value)
            ends = interval_of(result, metric, _IMAGES.get(metric, "")) if value is not None else None
            bounds = bracketed(*ends) if ends else ""
            top = value is not None and value == best[metric]
            row.append(TableCell(shown, value, best=top, note=bounds, cells=(result.cell.id,)))
        for metric in with_paper:
            value = printed[i, metric]
            row.append(TableCell("–" if value is None else percent(value), value))
        rows.append(row)
    heads = {m: metric_style(m, BENCHMARK).title for m in (*metrics, *with_paper)}
    columns = ["method", *(heads[m] for m in metrics), *(f"{heads[m]}, paper" for m in with_paper)]
    caption = f"By method · {title}"
    return Table(caption, columns, rows, numeric=range(1, len(columns)), folded=folded)


def _said(group: Sequence[Result], order: Sequence[Result]) -> str:
    details, options = group[0].details, group[0].cell.parameters
    top = max(r.metrics["zsl"] for r in group)
    equal = [str(r.cell.parameters["method"]) for r in group if r.metrics["zsl"] == top]
    text = f"{listed(equal)} {'has' if len(equal) == 1 else 'tie at'} {percent(top)} % ZSL (chance "
    text += f"{percent(float(details['chance']))} %)"
    if "H" in order[0].metrics:
        text += f", {order[0].cell.parameters['method']} the best H, {percent(order[0].metrics['H'])} %"
    text += f". {details['seen_classes']} seen and {details['unseen_classes']} unseen classes, embedding "
    text += f"{details['embedding']} ({details['embedding_dimensions']} dimensions)"
    text += f", calibration {options['calibration']}" if options["calibration"] else ""
    if details.get("indistinguishable_classes"):
        text += f"; {details['indistinguishable_classes']} classes share the embedding of another"
    return f"{text}. Leak audit: {details['audit']}"


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
