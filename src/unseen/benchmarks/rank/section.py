"""The section of the ranking: which checkpoint to fine-tune; with fine-tuned accuracy, how well scores predict it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from unseen.benchmarks.rank.candidates import CheckpointRanking
from unseen.benchmarks.rank.charts import COSTS, ablation_chart, cost_chart, expected_chart, offset_chart, pareto
from unseen.benchmarks.rank.table import RankingRow, ranking_rows
from unseen.benchmarks.rank.tables import (
    bare_results,
    candidates_table,
    published_score_tables,
    rankings,
    scores_table,
    truth_results,
    truth_table,
)
from unseen.benchmarks.rank.wording import expected_text, guessing_text, targets_text
from unseen.core.errors import DataError
from unseen.core.records import Result
from unseen.ranking.cards import find_score
from unseen.ranking.scores.nleep import variant_of
from unseen.reports.blocks import Figure, Headline, Material, Section, Standing, Table
from unseen.reports.charts import to_spec
from unseen.reports.wording import SIGNIFICANT, TIED, family, listed, short_names
from unseen.results.table import default_tables
from unseen.stats import Candidate as Estimate
from unseen.stats import Interval

#: More candidates than these have a chart of the whole width.
_FEW = 8


def rank_section(material: Material, benchmark: str) -> Section | None:
    """The recommendation, what to expect, what it costs and every score; scores against truth where it is known."""
    own = [result for result in material.results if result.cell.benchmark == benchmark]
    truth, ranked = truth_results(own), rankings(own)
    prose, tables, figures = _judged(own, truth, material) if truth else ([], [], [])
    tables += default_tables(bare_results(own), material.names)
    if not ranked and not prose and not tables:
        return None
    parts = [_ranked(ranking, material, own, named=len(ranked) > 1) for ranking in ranked]
    return Section(
        title="Rank: which checkpoint to fine-tune" if ranked else "Which score predicts fine-tuned accuracy?",
        anchor=benchmark,
        answer=[("", headline.text) for part in parts for headline in part.headlines] if len(parts) == 1 else [],
        headlines=[headline for part in parts for headline in part.headlines],
        standings=[standing for part in parts for standing in part.standings],
        legend=material.legend(c.model for ranking in ranked for c in ranking.candidates),
        prose=[*(text for part in parts for text in part.prose), *prose],
        figures=[*(figure for part in parts for figure in part.figures), *figures],
        tables=[*(table for part in parts for table in part.tables), *tables],
    )


def _ranked(ranking: CheckpointRanking, material: Material, own: Sequence[Result], *, named: bool) -> Section:
    """One order: words, charts, and one table of everything in that order."""
    shown = [c for c in ranking.candidates if not c.error]
    keys = {c.model: material.keys[c.model] for c in ranking.candidates}
    names = {model: key.label for model, key in keys.items()}
    cells = {
        model: [r.cell.id for r in own if r.ok and (r.cell.model, r.cell.dataset) == (model, ranking.dataset)]
        for model in keys
    }
    known = [c for c in shown if math.isfinite(c.expected)]
    where = f" on {ranking.dataset}" if named else ""
    figures = []
    if known:
        described = "; ".join(f"{names[c.model]} {expected_text(c, ranking.measure)}" for c in known)
        chart = expected_chart(known, keys, percent=ranking.measure != "R2")
        told = f"Expected accuracy: {described}."
        figures.append(Figure(f"What to expect{where}", to_spec(chart), told, wide=len(known) > _FEW))
    for cost, title, less in COSTS if len(known) > 1 else ():
        priced = [c for c in known if getattr(c, cost)]
        if len(priced) > 1:
            front = listed([names[c.model] for c in reversed(pareto(priced, cost, less=less))], 3)
            chart = cost_chart(priced, keys, cost, title, less=less, percent=ranking.measure != "R2")
            text = f"No other is both better and {'cheaper' if less else 'faster'} than {front}."
            figures.append(Figure(f"Expected against {title}{where}", to_spec(chart), text, caption=text))
    return Section(
        "",
        "",
        prose=_prose(ranking, named=named),
        headlines=[_headline(ranking, names, named=named)] if known else [],
        standings=_standings(ranking, cells, named=named),
        figures=figures,
        tables=[candidates_table(ranking, names, cells)],
    )


def _headline(ranking: CheckpointRanking, names: Mapping[str, str], *, named: bool) -> Headline:
    where = f"Which checkpoint for {ranking.dataset}" if named else "Which checkpoint"
    return Headline(where, ranking.describe(names), SIGNIFICANT if ranking.clear else TIED, ranking.clear)


def _standings(ranking: CheckpointRanking, cells: Mapping[str, Sequence[str]], *, named: bool) -> list[Standing]:
    """What to expect of each model, at its best layer."""
    if ranking.measure == "R2":
        return []
    q = "Which checkpoint: expected with a linear head" + (f", {ranking.dataset}" if named else "")
    best = {c.model: c for c in reversed(ranking.candidates) if not c.error and math.isfinite(c.expected)}
    values = {m: Estimate(interval=Interval(c.expected, c.low, c.high)) for m, c in best.items()}
    return [Standing(q, m, ranking.estimates.get(c.compared_as, values[m]), cells[m]) for m, c in best.items()]


def _prose(ranking: CheckpointRanking, *, named: bool) -> list[str]:
    lead = f"{ranking.dataset}: " if named else ""
    guessing = guessing_text(ranking)
    explained = (
        f"Expected is the cross-validated {ranking.measure} of a linear head, with its 95 % confidence interval, from "
        f"{ranking.images:,} images{targets_text(ranking)}{f' ({guessing})' if guessing else ''}. Filled marks: the "
        "best candidate, or statistically tied with it (multiple comparisons with the best); hollow marks: "
        "significantly worse. "
    )
    if ranking.counted:
        explained += f"The mean rank is over the scores {', '.join(ranking.counted)}; it does not change the order. "
    papers = dict.fromkeys(find_score(s).citation for s in ranking.scores if find_score(s).citation)
    cite = [f"To cite: {'; '.join(papers)}."] if papers else []
    notes = dict.fromkeys([*ranking.notes, *(note for c in ranking.candidates for note in c.notes)])
    advice = [lead + ranking.recommendation] if named else []
    return [*advice, explained.strip(), *(f"Note: {n}." for n in notes), *cite]


def _judged(
    own: Sequence[Result], truth: Sequence[Result], material: Material
) -> tuple[list[str], list[Table], list[Figure]]:
    """NeuCRaB: each score against what fine-tuning reached, beside the paper's tables."""
    figures = [_offsets(truth, material)]
    names = short_names([r.cell.model for r in truth], material.cards)
    names |= short_names([r.cell.dataset for r in truth], material.dataset_cards)
    tables = [truth_table(truth, names), *published_score_tables()]
    try:
        rows = ranking_rows(own)
    except DataError as error:
        return [str(error)], tables, figures
    if not rows:
        return ["Fine-tuned accuracy is known, but no score of two checkpoints to compare with it."], tables, figures
    if (ablation := _ablation(rows)) is not None:
        figures.append(ablation)
    best = max(rows, key=lambda row: -2.0 if math.isnan(row.kendall) else row.kendall)
    models, tasks = ({getattr(r.cell, name) for r in truth} for name in ("model", "dataset"))
    what = (
        f"Which score predicts fine-tuned accuracy? {len(models)} checkpoints on {len(tasks)} tasks. Rows are "
        "means over tasks, in percent. Costs do not include the forward pass, which all scores share."
    )
    highest = f"{best.name} has the highest Kendall's tau with fine-tuned accuracy, {100 * best.kendall:.1f} %"
    return [what, f"{highest}; differences of scores were not tested."], [scores_table(rows), *tables], figures


def _offsets(truth: Sequence[Result], material: Material) -> Figure:
    """Fig. 1 of the paper: fine-tuned accuracies about the mean of their task."""
    models = sorted({result.cell.model for result in truth})
    names = short_names(models, material.cards)
    titles = short_names({result.cell.dataset for result in truth}, material.dataset_cards)
    rows = [
        {
            "model": result.cell.model,
            "task": titles[result.cell.dataset],
            "value": result.metrics["top1"],
            "kind": family(result.cell.model, material.cards),
        }
        for result in truth
    ]
    text = "Fine-tuned accuracy of each checkpoint, less the mean of all checkpoints on the task."
    return Figure("Fine-tuned accuracies, as in Fig. 1 of the paper", to_spec(offset_chart(rows, models, names)), text)


def _ablation(rows: Sequence[RankingRow]) -> Figure | None:
    """Return Fig. 2 of the paper if variants of N-LEEP were computed."""
    known = {place: row.kendall for row in rows if (place := variant_of(row.score)) and math.isfinite(row.kendall)}
    if len(known) < 2:
        return None
    cells = [
        {"energy": f"{energy} %", "gaussians": f"{count}x", "kendall": known[energy, count]}
        for energy, count in sorted(known)
    ]
    told = "; ".join(f"{energy} %, {count}x: {100 * known[energy, count]:.0f}" for energy, count in sorted(known))
    text = f"Kendall's tau (%) of N-LEEP with the fine-tuned accuracy: {told}."
    return Figure("PCA energy and Gaussians of N-LEEP, as in Fig. 2 of the paper", to_spec(ablation_chart(cells)), text)
