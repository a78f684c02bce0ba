"""Figures of the page's zero-shot section, from results to charts with captions and words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unseen.benchmarks.zsl.charts import curve_chart, folds_chart, pairs_chart, rank_matrix_chart, splits_chart
from unseen.benchmarks.zsl.compare import BENCHMARK, FOLD, METHOD, MethodRanks
from unseen.benchmarks.zsl.studies import imagenet_splits, inductive_and_transductive
from unseen.core.records import Result
from unseen.reports.blocks import Figure
from unseen.reports.charts import to_spec
from unseen.reports.wording import listed
from unseen.results import metric_style


def percent(value: float) -> str:
    """A fraction as it is written on the page."""
    return f"{100 * value:.1f}"


def folds_figure(results: Sequence[Result], title: str) -> Figure:
    """Fig. 3: parameters chosen on one fold of validation classes alone."""
    rows = [
        {"method": r.cell.parameters[METHOD], "fold": f"fold {r.cell.parameters[FOLD]}", "value": r.metrics["zsl"]}
        for r in results
    ]
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(row["method"], []).append(row["value"])
    order = sorted(found, key=lambda method: -sum(found[method]) / len(found[method]))
    told = "; ".join(f"{method} {percent(min(found[method]))} to {percent(max(found[method]))}" for method in order)
    return Figure(
        title=f"Robustness · {title}",
        spec=to_spec(folds_chart(rows, order)),
        description=f"ZSL with parameters chosen on each validation fold alone, {title}: {told}.",
        caption="One dot per fold of validation classes that the parameters were chosen on (Fig. 3 of the paper).",
    )


def curve_figure(results: Sequence[Result], title: str) -> list[Figure]:
    """The seen-unseen curves of a group; none where no result has one."""
    with_curve = [r for r in results if isinstance(r.details.get("curve"), Mapping)]
    if not with_curve:
        return []
    order = sorted(with_curve, key=lambda r: -r.metrics["AUSUC"])
    curves = {str(r.cell.parameters[METHOD]): r.details["curve"] for r in order}
    told = "; ".join(f"{r.cell.parameters[METHOD]} {percent(r.metrics['AUSUC'])}" for r in order)
    return [
        Figure(
            title=f"Seen-unseen curve · {title}",
            spec=to_spec(curve_chart(curves)),
            description=f"Seen-unseen curves on {title}; area in percent: {told}.",
            caption="A constant is subtracted from the scores of seen classes; the best six by area have a colour.",
        )
    ]


def imagenet_figures(results: Sequence[Result]) -> list[Figure]:
    """Figs. 5 and 6: each measure over the ImageNet splits that were run."""
    _, columns, rows = imagenet_splits(results)
    splits = columns[3:]
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for data, method, measure, *values in rows:
        points = [
            {"method": method, "split": s, "value": v} for s, v in zip(splits, values, strict=True) if v is not None
        ]
        grouped.setdefault((data, measure), []).extend(points)
    return [
        Figure(
            title=f"ImageNet splits, {measure} · {data}",
            spec=to_spec(splits_chart(points, splits)),
            description=f"{measure} on the ImageNet splits: "
            + "; ".join(f"{p['method']} {p['split']} {percent(p['value'])}" for p in points)
            + ".",
            caption="ZSL is Fig. 5 of the paper, ts, among all classes, Fig. 6.",
        )
        for (data, measure), points in grouped.items()
    ]


def transductive_figure(results: Sequence[Result]) -> list[Figure]:
    """Fig. 8: ALE and GFZSL beside their transductive forms."""
    _, _, rows = inductive_and_transductive(results)
    points = [
        {"place": f"{data} {method}", "kind": kind, "value": value}
        for data, method, *values in rows
        for kind, value in zip(("inductive", "transductive"), values[:2], strict=True)
    ]
    if not points:
        return []
    told = "; ".join(f"{p['place']} {p['kind']} {percent(p['value'])}" for p in points)
    return [
        Figure(
            title="Transductive beside inductive, ZSL",
            spec=to_spec(pairs_chart(points)),
            description=f"ZSL of methods beside their transductive forms: {told}.",
            caption="Fig. 8 of the paper.",
        )
    ]


def rank_figure(ranks: MethodRanks) -> Figure:
    """Figs. 4 and 7: how often each method is at each rank."""
    spoken = metric_style(ranks.metric, BENCHMARK).title + (f" · {ranks.setting}" if ranks.setting else "")
    leader = ", ".join(ranks.table.methods[:3])
    return Figure(
        title=f"Ranks by {spoken}",
        spec=to_spec(rank_matrix_chart(ranks)),
        description=f"Rank matrix by {spoken}: {leader} lead.",
        caption=f"{ranks.table.ranks.shape[1]} observations; mean ranks in brackets. {tested_words(ranks)}".strip()
        + (f" Left out for gaps: {listed(ranks.left_out)}." if ranks.left_out else ""),
    )


def tested_words(ranks: MethodRanks) -> str:
    """What Friedman's test says, or why there is none."""
    if ranks.friedman is None or ranks.critical_difference is None:
        several = ranks.table.ranks.shape[1] > 1 and len(ranks.table.methods) > 2
        return "No test: several observations are of one dataset." if several else ""
    test = ranks.friedman
    return (
        f"Friedman chi-square {test.statistic:.1f}, p = {test.p_value:.2g} (Iman-Davenport p = {test.f_p_value:.2g}); "
        f"mean ranks {ranks.critical_difference:.2f} apart differ at {ranks.level:.0%} (Nemenyi)."
    )
