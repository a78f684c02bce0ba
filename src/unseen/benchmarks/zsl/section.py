"""Zero-shot learning on the page: a table and a chart per model and dataset, and rank matrices over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from unseen.benchmarks.zsl.charts import comparison_chart, rank_matrix_chart
from unseen.benchmarks.zsl.compare import BENCHMARK, CHOSEN, METHOD, METRICS, MethodRanks, ranks_by_setting, settings
from unseen.benchmarks.zsl.published import published_value
from unseen.core.records import Result
from unseen.reports.blocks import Figure, Material, Section, Table, TableCell
from unseen.reports.charts import to_spec
from unseen.reports.wording import listed, short_names
from unseen.results import metric_style
from unseen.results.comparability import older_said

_PUBLISHED_MODEL = "xlsa17:res101"


def zsl_section(material: Material, benchmark: str) -> Section | None:
    """The section of the zero-shot benchmark, or None where it has no result to show."""
    groups = settings(material.results, (METHOD,))
    if not groups:
        return None
    own = [result for group in groups for result in group.results]
    models = short_names({r.cell.model for r in own}, material.cards)
    datasets = short_names({r.cell.dataset for r in own}, material.dataset_cards)
    figures, tables, points, folds = [], [], [], 0
    for group in groups:
        if group.setting[CHOSEN] != "all folds":
            folds += len(group.results)
            continue
        more = {k: v for k, v in group.differs.items() if k not in ("dataset", "split", CHOSEN)}
        words = replace(group, differs=more).words
        for model, results in group.by_model().items():
            cell = results[0].cell
            parts = (datasets[cell.dataset], cell.parameters["split"], models[model], words)
            title = " · ".join(part for part in parts if part)
            order = _order(results)
            figures.append(_comparison(results, order, title))
            tables.append(_table(order, title))
            points.append((title, _said(results, order)))
    ranks = [ranks for metric in ("zsl", "H") for ranks in ranks_by_setting(own, metric)]
    said = f"{folds:,} results with parameters chosen on one validation fold alone are in the rank matrices only."
    return Section(
        title="zsl: unseen classes, known by a description",
        anchor=benchmark,
        prose=[
            "Per-class top-1 accuracy in percent. ZSL: images of unseen classes, told apart among unseen classes.",
            "ts and tr: images of unseen and of seen classes, told apart among all classes; H is their harmonic mean.",
            "Parameters were chosen on validation classes that are neither trained nor tested on.",
            *([said] if folds else []),
            *([f"{older_said(older)}."] if (older := sum(group.older for group in groups)) else []),
        ],
        points=points,
        figures=[*figures, *map(_rank_figure, ranks)],
        tables=tables,
    )


def _order(group: Sequence[Result]) -> list[Result]:
    headline = "H" if any("H" in r.metrics for r in group) else "zsl"
    return sorted(group, key=lambda r: (-r.metrics.get(headline, 0.0), -r.metrics["zsl"]))


def _comparison(group: Sequence[Result], order: Sequence[Result], title: str) -> Figure:
    rows = [
        {"method": r.cell.parameters["method"], "metric": metric, "value": r.metrics[metric]}
        for r in group
        for metric in METRICS
        if metric in r.metrics
    ]
    names = [r.cell.parameters["method"] for r in order]
    chance = float(group[0].details["chance"])
    told = "; ".join(f"{r.cell.parameters['method']} {_percent(r.metrics['zsl'])}" for r in order)
    return Figure(
        title=title,
        spec=to_spec(comparison_chart(rows, names, chance)),
        description=f"Zero-shot accuracy on {title}: {told}.",
        caption="Grey bars join ts and tr; the dashed line is chance among unseen classes.",
    )


def _rank_figure(ranks: MethodRanks) -> Figure:
    spoken = metric_style(ranks.metric, BENCHMARK).title + (f" · {ranks.setting}" if ranks.setting else "")
    leader = ", ".join(ranks.table.methods[:3])
    caption = f"{ranks.table.ranks.shape[1]} observations; mean ranks in brackets."
    if ranks.friedman is not None:
        caption += (
            f" Friedman p = {ranks.friedman.p_value:.2g}; mean ranks differ at {ranks.level:.0%} where they are "
            f"{ranks.critical_difference:.1f} apart (Nemenyi)."
        )
    caption += f" Left out for gaps: {listed(ranks.left_out)}." if ranks.left_out else ""
    return Figure(
        title=f"Ranks by {spoken}",
        spec=to_spec(rank_matrix_chart(ranks)),
        description=f"Rank matrix by {spoken}: {leader} lead.",
        caption=caption,
    )


def _table(order: Sequence[Result], title: str) -> Table:
    metrics = [m for m in (*METRICS, "zsl_per_image") if any(m in r.metrics for r in order)]
    printed = {(i, m): _printed(r, m) for i, r in enumerate(order) for m in METRICS}
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
            shown = "–" if value is None else _percent(value)
            row.append(TableCell(shown, value, best=value is not None and value == best[metric]))
        for metric in with_paper:
            value = printed[i, metric]
            row.append(TableCell("–" if value is None else _percent(value), value))
        rows.append(row)
    heads = {m: metric_style(m, BENCHMARK).title for m in (*metrics, *with_paper)}
    columns = ["method", *(heads[m] for m in metrics), *(f"{heads[m]}, paper" for m in with_paper)]
    return Table(title, columns, rows, numeric=range(1, len(columns)))


def _printed(result: Result, metric: str) -> float | None:
    """What the paper prints for the same cell: its features, its split, no calibration."""
    cell = result.cell
    if cell.model != _PUBLISHED_MODEL or cell.parameters["calibration"] != 0 or cell.parameters.get("test_on"):
        return None
    return published_value(cell.dataset, cell.parameters["method"], metric, cell.parameters["split"])


def _said(group: Sequence[Result], order: Sequence[Result]) -> str:
    details, options = group[0].details, group[0].cell.parameters
    best = max(group, key=lambda r: r.metrics["zsl"])
    text = (
        f"{best.cell.parameters['method']} has {_percent(best.metrics['zsl'])} % ZSL (chance "
        f"{_percent(float(details['chance']))} %)"
    )
    if "H" in order[0].metrics:
        text += f", {order[0].cell.parameters['method']} the best H, {_percent(order[0].metrics['H'])} %"
    text += f". {details['seen_classes']} seen and {details['unseen_classes']} unseen classes, embedding "
    text += f"{details['embedding']} ({details['embedding_dimensions']} dimensions)"
    text += f", calibration {options['calibration']}" if options["calibration"] else ""
    if details.get("indistinguishable_classes"):
        text += f"; {details['indistinguishable_classes']} classes share the embedding of another"
    return f"{text}. Leak audit: {details['audit']}"


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"
