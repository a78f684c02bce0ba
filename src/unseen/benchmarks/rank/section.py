"""The section of the ranking: which checkpoint to fine-tune; with fine-tuned accuracy, how well scores predict it.

The charts are the expected accuracy of each candidate, the accuracy against each cost, and Fig. 1 and Fig. 2 of Li et
al., "Ranking neural checkpoints" (NeuCRaB), CVPR 2021.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from unseen.benchmarks.rank.answer import rankings, truth_results
from unseen.benchmarks.rank.candidates import Candidate, CheckpointRanking, pareto
from unseen.benchmarks.rank.table import (
    candidates_table,
    per_class_table,
    published_tables,
    ranking_rows,
    scores_table,
    truth_tables,
)
from unseen.core.errors import DataError
from unseen.core.identity import Values
from unseen.core.records import Result
from unseen.ranking.cards import find_score, variant_of
from unseen.reports.blocks import Figure, Headline, Material, Part, Section, Standing, Text, assemble
from unseen.reports.charts import Axis, Bars, Dots, Matrix, Panels, Scatter
from unseen.reports.wording import SIGNIFICANT, TIED, family, listed, short_names
from unseen.results.table import DisplayNames

#: More candidates than these have a chart of the whole width.
_FEW = 8
#: What a candidate costs: by attribute, its title.
COSTS = {
    "flops": "operations per image (FLOPs)",
    "parameters": "parameters",
    "latency": "seconds of one image, measured",
    "batch_latency": "seconds per image in a batch, measured",
}


def rank_section(material: Material, benchmark: str) -> Section | None:
    """Return the recommendation, what to expect, what it costs and every score; scores against truth if it is known."""
    own = [result for result in material.results if result.cell.benchmark == benchmark]
    prefer = str(material.options.get(benchmark, {}).get("prefer", ""))
    ranked, truth = rankings(own, prefer), truth_results(own)
    if not ranked and not truth:
        return None
    title = "Rank: which checkpoint to fine-tune" if ranked else "Which score predicts fine-tuned accuracy?"
    parts: list[Part] = []
    for ranking in ranked:
        parts += _ranked(ranking, material, own, f" for {ranking.dataset}" if len(ranked) > 1 else "")
    parts += _judged(own, truth, material) if truth else ()
    legend = material.legend(c.model for ranking in ranked for c in ranking.candidates)
    return assemble(title, benchmark, parts, legend)


def _ranked(ranking: CheckpointRanking, material: Material, own: Sequence[Result], where: str) -> Iterator[Part]:
    """Yield the parts that show one order: words, charts, and one table of everything in that order.

    Args:
        own: all results of the benchmark.
        where: words that distinguish the order from others of the page; "" for a single one.
    """
    names = {**material.names, **material.dataset_names}
    known = [c for c in ranking.ranked if math.isfinite(c.expected)]
    cells = {
        c.model: [r.cell.id for r in own if r.ok and r.cell.model == c.model and r.cell.dataset == ranking.dataset]
        for c in ranking.candidates
    }
    if known:
        text, clear = ranking.describe(names), ranking.clear
        yield Headline(f"Which checkpoint{where}", text, SIGNIFICANT if clear else TIED, clear)
        yield Text(f"{ranking.dataset}: {ranking.recommendation}") if where else Text(text, answer=True)
    yield from map(Text, _prose(ranking, names))
    if ranking.percent:
        question = f"Which checkpoint{where}: expected with a linear head"
        for model, c in {c.model: c for c in reversed(known)}.items():  # at its best layer
            yield Standing(question, model, ranking.estimates[c.label], cells[model])
    yield from _figures(ranking, material, known, where)
    yield candidates_table(ranking, names, cells)
    if table := per_class_table(ranking, names):
        yield table


def _prose(ranking: CheckpointRanking, names: DisplayNames) -> Iterator[str]:
    guessing = f" ({ranking.guessing_text})" if ranking.guessing_text else ""
    counted = f" The mean rank is over the scores {', '.join(ranking.counted)}; it does not change the order."
    yield (
        f"Expected is the cross-validated {ranking.measure} of a linear head, with its 95 % confidence interval, "
        f"from {ranking.images:,} images{ranking.targets_text}{guessing}. Filled marks: the best candidate, or "
        "statistically tied with it (multiple comparisons with the best); hollow marks: significantly worse."
        f"{counted if ranking.counted else ''}"
    )
    yield from filter(None, (ranking.front_text(names), ranking.per_class_text(names)))
    yield from (f"Note: {note}." for note in ranking.all_notes)
    papers = dict.fromkeys(find_score(score).citation for score in ranking.scores)
    if cited := "; ".join(filter(None, papers)):
        yield f"To cite: {cited}."


def _figures(ranking: CheckpointRanking, material: Material, known: list[Candidate], where: str) -> Iterator[Figure]:
    """Yield the expected values, and the values against each cost that at least two candidates have."""
    keys, axis = material.keys, Axis("expected with a linear head", "percent" if ranking.percent else "number")
    rows: list[Values] = [
        {
            "model": c.model,
            "name": keys[c.model].label,
            "group": keys[c.model].group,
            "label": c.named(material.names),
            "value": c.expected,
            "low": c.low,
            "high": c.high,
            "worse": not c.may_be_best,
            "shown": ranking.expected_text(c),
            **{cost: getattr(c, cost) for cost in COSTS},
        }
        for c in known
    ]
    drawn: Values = {"keys": list(keys.values()), "hollow": "worse"}
    if rows:
        chart = Dots(rows=rows, y="label", x=axis, above=True, **drawn)
        text = f"Expected {ranking.measure}: " + "; ".join(f"{row['label']} {row['shown']}" for row in rows)
        yield Figure(f"What to expect{where}", chart, f"{text}.", wide=len(rows) > _FEW)
    for cost, title in COSTS.items():
        priced = [row for row in rows if row[cost]]
        if len(priced) > 1:
            front = pareto(known, cost)
            best = listed([c.named(material.names) for c in reversed(front)], 3)
            text = f"No other is both better and cheaper than {best}."
            scatter = Scatter(
                rows=priced,
                x=cost,
                x_axis=Axis(title, "log"),
                y=axis,
                tooltip={"label": "candidate", "shown": "expected", cost: title},
                lines=[{cost: getattr(c, cost), "value": c.expected} for c in front],
                height=260,
                **drawn,
            )
            yield Figure(f"Expected against {title}{where}", scatter, text, caption=text)


# ---- scores against fine-tuned accuracy (NeuCRaB) --------------------------------------------------------------------


def _judged(own: Sequence[Result], truth: Sequence[Result], material: Material) -> Iterator[Part]:
    """Yield each score against what fine-tuning reached, beside the paper's tables."""
    names = short_names([r.cell.model for r in truth], material.cards)
    names |= short_names([r.cell.dataset for r in truth], material.dataset_cards)
    rows: list[Result] = []
    try:
        rows = ranking_rows(own)
    except DataError as error:
        yield Text(str(error))
    if rows:
        best = max(rows, key=lambda row: np.nan_to_num(row.metrics["kendall"], nan=-2.0))
        models, tasks = ({getattr(r.cell, name) for r in truth} for name in ("model", "dataset"))
        yield Text(
            f"Which score predicts fine-tuned accuracy? {len(models)} checkpoints on {len(tasks)} tasks. Rows are "
            "means over tasks, in percent. Costs do not include the forward pass, which all scores share."
        )
        yield Text(
            f"{find_score(best.cell.model).name} has the highest Kendall's tau with fine-tuned accuracy, "
            f"{100 * best.metrics['kendall']:.1f} %; "
            "differences of scores were not tested."
        )
        yield scores_table(rows)
    yield from truth_tables(truth, names)
    yield from published_tables()
    text = "Fine-tuned accuracy of each checkpoint, less the mean of all checkpoints on the task."
    yield Figure("Fine-tuned accuracies, as in Fig. 1 of the paper", offset_chart(truth, names, material), text)
    taus = {row.cell.model: row.metrics["kendall"] for row in rows}
    known = {place: tau for score, tau in taus.items() if (place := variant_of(score)) and math.isfinite(tau)}
    if len(known) > 1:
        shown = "; ".join(f"{energy} %, {count}x: {100 * tau:.0f}" for (energy, count), tau in sorted(known.items()))
        text = f"Kendall's tau (%) of N-LEEP with the fine-tuned accuracy: {shown}."
        yield Figure("PCA energy and Gaussians of N-LEEP, as in Fig. 2 of the paper", ablation_chart(known), text)


def offset_chart(truth: Sequence[Result], names: DisplayNames, material: Material) -> Panels:
    """Draw fine-tuned accuracies minus the mean of their task, a panel per task (Fig. 1 of the paper)."""
    order = [names[model] for model in sorted({result.cell.model for result in truth})]
    kinds = {result.cell.model: family(result.cell.model, material.cards) for result in truth}
    charts, titles = [], list(dict.fromkeys(names[result.cell.dataset] for result in truth))
    for title in titles:
        own = {r.cell.model: r.metrics["top1"] for r in truth if names[r.cell.dataset] == title}
        mean = sum(own.values()) / len(own)
        rows = [
            {"name": names[m], "kind": kinds[m], "value": 100 * (v - mean), "shown": f"{100 * v:.1f} %"}
            for m, v in own.items()
        ]
        axis = Axis("points above the task's mean", "points")
        charts.append(Bars(rows=rows, series="kind", x=axis, order=order, width=220))
    return Panels(charts=charts, titles=titles)


def ablation_chart(taus: Mapping[tuple[int, int], float]) -> Matrix:
    """Draw Kendall's tau by the energy (%) that PCA keeps and the Gaussians per class (Fig. 2 of the paper)."""
    rows = [
        {"energy": f"{energy} %", "gaussians": f"{count}x", "value": tau, "shown": f"{100 * tau:.0f}"}
        for (energy, count), tau in sorted(taus.items())
    ]
    wide = 60 * len({count for _, count in taus})
    return Matrix(rows=rows, x="gaussians", y="energy", x_title="Gaussians per class", y_title="PCA energy", width=wide)
