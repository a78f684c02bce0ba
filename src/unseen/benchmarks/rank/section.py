"""The section of the ranking: what to fine-tune and how sure that is; with the truth, how well scores foretold it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from unseen.benchmarks.rank.answer import answer, grouped
from unseen.benchmarks.rank.candidates import CheckpointRanking
from unseen.benchmarks.rank.charts import COSTS, ablation_chart, cost_chart, expected_chart, offset_chart, pareto
from unseen.benchmarks.rank.protocol import TRUTH
from unseen.benchmarks.rank.published import GROUPS, ranking_table
from unseen.benchmarks.rank.table import RankingRow, ranking_rows
from unseen.benchmarks.rank.truth import with_truth
from unseen.benchmarks.rank.wording import expected_text, points, told_targets
from unseen.core.errors import DataError
from unseen.core.records import Result
from unseen.ranking.cards import find_score
from unseen.ranking.scores.nleep import variant_of
from unseen.reports.blocks import Figure, Headline, Material, Section, Standing, Table, TableCell
from unseen.reports.charts import to_spec
from unseen.reports.wording import amount, family, listed, short_names

#: More candidates than these have a chart of the whole width.
_FEW = 8

_COLUMNS = (
    ("Recall@1", "recall_at_1"),
    ("Rel@1", "relative_at_1"),
    ("Recall@3", "recall_at_3"),
    ("Rel@3", "relative_at_3"),
    ("Pearson", "pearson"),
    ("Kendall", "kendall"),
    ("weighted tau", "weighted"),
)


def rank_section(material: Material, benchmark: str) -> Section | None:
    """The recommendation, what to expect, what it costs and every score; scores against truth where it is known."""
    own = [result for result in material.results if result.cell.benchmark == benchmark]
    truth = [result for result in own if result.ok and result.cell.parameters["score"] == TRUTH]
    rankings = [
        with_truth(answer(group), [r for r in truth if r.cell.dataset == group[0].cell.dataset])
        for group in grouped(own)
    ]
    said, tables, figures = _judged(own, truth, material) if truth else ([], [], [])
    if not rankings and not said:
        return None
    parts = [_ranked(ranking, material, own, named=len(rankings) > 1) for ranking in rankings]
    return Section(
        title="Rank: which checkpoint to fine-tune"
        if rankings
        else "Which score foretells what fine-tuning will reach?",
        anchor=benchmark,
        answer=[("", headline.text) for part in parts for headline in part.headlines] if len(parts) == 1 else [],
        headlines=[headline for part in parts for headline in part.headlines],
        standings=[standing for part in parts for standing in part.standings],
        legend=material.legend(c.model for ranking in rankings for c in ranking.candidates),
        prose=[*(text for part in parts for text in part.prose), *said],
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
        tables=[_all_scores(ranking, names, cells)],
    )


def _headline(ranking: CheckpointRanking, names: Mapping[str, str], *, named: bool) -> Headline:
    text = ranking.recommendation
    for model in sorted(names, key=len, reverse=True):
        text = text.replace(model, names[model])
    where = f"Which checkpoint for {ranking.dataset}" if named else "Which checkpoint"
    return Headline(where, text, "clear" if ranking.clear else "not clear", ranking.clear)


def _standings(ranking: CheckpointRanking, cells: Mapping[str, Sequence[str]], *, named: bool) -> list[Standing]:
    """What to expect of each model, at its best layer."""
    if ranking.measure == "R2":
        return []
    question = "Which checkpoint: expected with a linear head" + (f", {ranking.dataset}" if named else "")
    best = {c.model: c for c in reversed(ranking.candidates) if not c.error and math.isfinite(c.expected)}
    return [Standing(question, m, c.expected, c.low, c.high, cells[m]) for m, c in best.items()]


def _prose(ranking: CheckpointRanking, *, named: bool) -> list[str]:
    lead = f"{ranking.dataset}: " if named else ""
    explained = (
        f"Expected is the {ranking.measure} of a linear head on images left out in turn, with its 95 % interval, from "
        f"{ranking.images:,} images{told_targets(ranking)}. Filled marks may be the best: no other leads them "
        "by more than chance would, all comparisons together; hollow ones are behind. "
    )
    if ranking.counted:
        explained += f"Scores stand beside as evidence; mean rank is over {', '.join(ranking.counted)}. "
    papers = dict.fromkeys(find_score(s).citation for s in ranking.scores if find_score(s).citation)
    cite = [f"To cite: {'; '.join(papers)}."] if papers else []
    notes = dict.fromkeys([*ranking.notes, *(note for c in ranking.candidates for note in c.notes)])
    said = [lead + ranking.recommendation] if named else []
    return [*said, explained.strip(), *(f"Note: {n}." for n in notes), *cite]


def _all_scores(ranking: CheckpointRanking, names: Mapping[str, str], cells: Mapping[str, Sequence[str]]) -> Table:
    """Everything side by side, in the order of the ranking; those that failed at the end, with their reason."""
    scores = [name for name in ranking.scores if any(name in c.scores for c in ranking.candidates)]
    tuned = any(math.isfinite(c.finetuned) for c in ranking.candidates)
    columns = ["checkpoint", "expected", "#", "behind", *["fine-tuned"] * tuned, *scores, "mean rank"]
    columns += ["parameters", "FLOPs", "images/s"]
    forms = {name: _form([c.scores[name] for c in ranking.candidates if name in c.scores]) for name in scores}
    lines = []
    for c in ranking.candidates:
        if c.error:
            line = [TableCell(names[c.model], note=c.model, hint=c.error), TableCell("failed"), TableCell("–")]
            lines.append([*line, *[TableCell("", None, hint=c.error)] * (len(columns) - 3)])
            continue
        known = math.isfinite(c.expected)
        far = points(c.behind, ranking.measure).removesuffix(" points") if known and c.rank > 1 else ""
        layer = f" at {c.layer}" if c.label != c.model else ""
        note = f"the weights of {c.same_as}" if c.same_as else c.model
        line = [
            TableCell(names[c.model] + layer, names[c.model].lower(), note=note),
            TableCell(
                expected_text(c, ranking.measure) if known else "–",
                c.expected if known else None,
                c.may_be_best,
                cells=cells[c.model],
            ),
            TableCell(str(c.rank), c.rank),
            TableCell(far, c.behind if known else None),
            *([_number(c.finetuned if math.isfinite(c.finetuned) else None, "{:.1%}")] if tuned else []),
            *(_number(c.scores.get(name), forms[name]) for name in scores),
            _number(c.mean_rank if math.isfinite(c.mean_rank) else None, "{:.1f}"),
            TableCell(amount(c.parameters) or "–", c.parameters),
            TableCell(amount(c.flops) or "–", c.flops),
            _number(c.images_per_second, "{:.0f}"),
        ]
        lines.append(line)
    caption = "All candidates and scores; bold: may be the best"
    keys = [c.model for c in ranking.candidates]
    return Table(caption, columns, lines, numeric=range(1, len(columns)), row_keys=keys)


def _form(values: Sequence[float]) -> str:
    """As many decimals for all values of a column: three digits of the largest."""
    largest = max((abs(v) for v in values if math.isfinite(v)), default=0.0)
    digits = 2 - math.floor(math.log10(largest)) if largest else 3
    return f"{{:.{min(max(digits, 0), 6)}f}}"


def _number(value: float | None, form: str) -> TableCell:
    return TableCell("–" if value is None else form.format(value), value, hint="" if value is None else f"{value!r}")


def _judged(
    own: Sequence[Result], truth: Sequence[Result], material: Material
) -> tuple[list[str], list[Table], list[Figure]]:
    """NeuCRaB: each score against what fine-tuning reached, beside the paper's tables."""
    figures = [_offsets(truth, material)]
    tables = [_truth_table(truth, material), *(_published(group) for group in GROUPS)]
    try:
        rows = ranking_rows(own)
    except DataError as error:
        return [str(error)], tables, figures
    if not rows:
        return ["Fine-tuned accuracy is there, but no score of two checkpoints to compare with it."], tables, figures
    if (ablation := _ablation(rows)) is not None:
        figures.append(ablation)
    best = max(rows, key=lambda row: -2.0 if math.isnan(row.kendall) else row.kendall)
    models, tasks = ({getattr(r.cell, name) for r in truth} for name in ("model", "dataset"))
    what = (
        f"Which score foretells what fine-tuning will reach? {len(models)} checkpoints on {len(tasks)} tasks. Rows are "
        "means over tasks, in percent. Cost leaves out the forward pass, which all scores share."
    )
    said = [
        what,
        f"{best.name} agrees best with the fine-tuned order: Kendall's tau {100 * best.kendall:.1f} %.",
    ]
    return said, [_scores_table(rows), *tables], figures


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
    """Fig. 2 of the paper, where variants of N-LEEP were asked for."""
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


def _scores_table(rows: list[RankingRow]) -> Table:
    best = {
        field: max((v for r in rows if not math.isnan(v := getattr(r, field))), default=0.0) for _, field in _COLUMNS
    }
    layered = len({row.layer for row in rows if row.layer}) > 1
    lines = []
    for row in rows:
        name = f"{row.name} at {row.layer}" if layered and row.layer else row.name
        line = [TableCell(name, name.lower(), note=f"{row.pairs} pairs")]
        for _, field in _COLUMNS:
            value = getattr(row, field)
            known = not math.isnan(value)
            shown = f"{100 * value:.1f}" if known else "–"
            line.append(TableCell(shown, value if known else None, best=known and value == best[field]))
        known = math.isfinite(row.paper_gflops)
        line += [
            TableCell(f"{row.gflops:.3g}", row.gflops),
            TableCell(f"{row.paper_gflops:.3g}" if known else "–", row.paper_gflops if known else None),
            TableCell(f"{row.seconds:.2f}", row.seconds),
        ]
        lines.append(line)
    columns = [
        "score",
        *(title for title, _ in _COLUMNS),
        "GFLOPs on stored features",
        "GFLOPs as the paper counts",
        "seconds",
    ]
    return Table("Scores against fine-tuned accuracy (%)", columns, lines, numeric=range(1, len(columns)))


def _truth_table(truth: Sequence[Result], material: Material) -> Table:
    tasks = sorted({result.cell.dataset for result in truth})
    models = sorted({result.cell.model for result in truth})
    names, titles = short_names(models, material.cards), short_names(tasks, material.dataset_cards)
    found = {(r.cell.model, r.cell.dataset): r.metrics["top1"] for r in truth}
    best = {task: max((found[m, task] for m in models if (m, task) in found), default=0.0) for task in tasks}
    lines = []
    for model in models:
        line = [TableCell(names[model], names[model].lower(), note=model)]
        for task in tasks:
            value = found.get((model, task))
            shown = "–" if value is None else f"{100 * value:.1f}"
            line.append(TableCell(shown, value, best=value == best[task]))
        lines.append(line)
    columns = ["checkpoint", *(titles[task] for task in tasks)]
    return Table("Fine-tuned top-1 accuracy (%)", columns, lines, numeric=range(1, len(columns)), row_keys=models)


def _published(group: str) -> Table:
    """A table of the paper, to compare with."""
    table = ranking_table(group)
    lines = []
    for score, values in table.rows.items():
        name = find_score(score).name
        cells = [TableCell("–" if v is None else f"{v:.5g}", v) for v in values.values()]
        lines.append([TableCell(name, name.lower()), *cells])
    columns = ["score", *table.columns]
    caption = f"Published, Table {table.number}: Group {group}, {table.caption}; GFLOPs as the paper counts them"
    return Table(caption, columns, lines, numeric=range(1, len(columns)), folded=True)
