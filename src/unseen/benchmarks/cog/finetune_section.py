"""The section of fine-tuning against frozen features: how far behind the frozen ones are, level by level."""

from __future__ import annotations

from unseen.benchmarks.cog.analysis import ALL, level_scores, order_levels
from unseen.reports.blocks import TableCell, Figure, Material, Section, Table
from unseen.reports.charts import CONTAINER, PALETTE, to_spec
from unseen.reports.wording import short_names


def cog_finetune_section(material: Material, benchmark: str) -> Section | None:
    """Fine-tuned accuracy beside frozen (of the same page's CoG), and their ratio (supplement, Fig. B)."""
    own = [result for result in material.results if result.cell.benchmark == benchmark and result.ok]
    if not own:
        return None
    frozen = {(s.model, s.level): s.mean for s in level_scores(material.results) if s.shots == ALL}
    models = list(dict.fromkeys(result.cell.model for result in own))
    names = short_names(models, material.cards)
    tuned: dict[tuple[str, str], list[float]] = {}
    for result in own:
        tuned.setdefault((result.cell.model, str(result.cell.parameters["level"])), []).append(result.metrics["top1"])
    levels = order_levels(level for _, level in tuned)
    rows, points = [], []
    for (model, level), values in sorted(tuned.items(), key=lambda item: (item[0][0], levels.index(item[0][1]))):
        mean = sum(values) / len(values)
        cold = frozen.get((model, level))
        ratio = cold / mean if cold is not None and mean > 0 else None
        rows.append(
            [
                TableCell(names[model], names[model].lower()),
                TableCell(level, levels.index(level)),
                TableCell(f"{100 * mean:.1f}", mean),
                TableCell("–" if cold is None else f"{100 * cold:.1f}", cold),
                TableCell("–" if ratio is None else f"{ratio:.2f}", ratio),
            ]
        )
        if ratio is not None:
            points.append({"model": model, "name": names[model], "level": level, "ratio": ratio})
    figures = [
        Figure("Frozen relative to fine-tuned", to_spec(_chart(points, levels)), "Frozen over fine-tuned top-1.")
    ]
    return Section(
        title="CoG: fine-tuning against frozen features",
        anchor=benchmark,
        prose=["Below 1, frozen features are behind a network that was allowed to learn the level's concepts."],
        figures=figures if points else [],
        tables=[
            Table(
                caption="Top-1 accuracy (%) with all images",
                columns=["model", "level", "fine-tuned", "frozen", "frozen / fine-tuned"],
                rows=rows,
                numeric=(2, 3, 4),
            )
        ],
    )


def _chart(points: list[dict[str, object]], levels: list[str]) -> object:
    import altair as alt

    base = alt.Chart(alt.InlineData(values=points)).encode(
        x=alt.X("level:N", sort=levels, title=None),
        y=alt.Y("ratio:Q", title="frozen / fine-tuned top-1", scale=alt.Scale(zero=False)),
        color=alt.Color("name:N", title=None, scale=alt.Scale(range=list(PALETTE))),
        tooltip=["name:N", "level:N", alt.Tooltip("ratio:Q", format=".3f")],
    )
    return base.mark_line(point=True, strokeWidth=2.5).properties(width=CONTAINER, height=280)
