"""Zero-shot learning on the page: a table and a chart per model and dataset, and rank matrices over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unseen.benchmarks.zsl.charts import comparison_chart, rank_matrix_chart
from unseen.benchmarks.zsl.compare import METRICS, MethodRanks, rank_results
from unseen.benchmarks.zsl.published import published_value
from unseen.core.records import Result
from unseen.reports.blocks import TableCell, Figure, Material, Section, Table
from unseen.reports.charts import to_spec
from unseen.reports.wording import listed, short_names
from unseen.results.measures import measure

_PUBLISHED_MODEL = "xlsa17:res101"


def zsl_section(material: Material, benchmark: str) -> Section | None:
    """The section of the zero-shot benchmark, or None where it has no result to show."""
    own = [r for r in material.results if r.cell.benchmark == benchmark and r.ok]
    main = [r for r in own if r.cell.parameters["fold"] == "all"]
    if not main:
        return None
    models = short_names({r.cell.model for r in own}, material.cards)
    datasets = short_names({r.cell.dataset for r in own}, material.dataset_cards)
    figures, tables, points = [], [], []
    for group in _groups(main):
        cell = group[0].cell
        title = f"{datasets[cell.dataset]} · {cell.parameters['split']} · {models[cell.model]}"
        order = _order(group)
        figures.append(_comparison(group, order, title))
        tables.append(_table(order, title))
        points.append((title, _said(group, order)))
    for metric in METRICS:
        ranks = rank_results(own, metric)
        if ranks is not None and (metric in ("zsl", "H")):
            figures.append(_rank_figure(ranks))
    return Section(
        title="zsl: unseen classes, known by a description",
        anchor=benchmark,
        prose=[
            "Per-class top-1 accuracy in percent. ZSL: images of unseen classes, told apart among unseen classes.",
            "ts and tr: images of unseen and of seen classes, told apart among all classes; H is their harmonic mean.",
            "Parameters were chosen on validation classes that are neither trained nor tested on.",
        ],
        points=points,
        figures=figures,
        tables=tables,
    )


def _groups(results: Sequence[Result]) -> list[list[Result]]:
    """Results of one model on one dataset in one setting, all methods."""
    found: dict[str, list[Result]] = {}
    for result in results:
        setting = {k: v for k, v in result.cell.parameters.items() if k != "method"}
        found.setdefault(str((result.cell.dataset, result.cell.model, sorted(setting.items(), key=str))), []).append(
            result
        )
    return list(found.values())


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
    spoken = measure(ranks.metric).title
    leader = ", ".join(ranks.table.methods[:3])
    caption = f"{ranks.table.ranks.shape[1]} observations; mean ranks in brackets."
    if ranks.friedman is not None:
        caption += (
            f" Friedman p = {ranks.friedman.p_value:.2g}; mean ranks differ at {ranks.level:.0%} where they are "
            f"{ranks.critical_difference:.1f} apart (Nemenyi)."
        )
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
    columns = ["method", *(measure(m).title for m in metrics), *(f"{measure(m).title}, paper" for m in with_paper)]
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
