"""The section of fine-tuning against frozen features: how far behind the frozen ones are, level by level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from unseen.benchmarks.cog.analysis import ALL, level_scores, order_levels, settings
from unseen.benchmarks.cog.domains import DomainRecipe
from unseen.reports.blocks import Figure, Material, Section, Table, TableCell
from unseen.reports.charts import CONTAINER, PALETTE, to_spec
from unseen.reports.wording import short_names
from unseen.results import Group
from unseen.results.comparability import older_said


def cog_finetune_section(material: Material, benchmark: str) -> Section | None:
    """Fine-tuned accuracy beside frozen (of the same page's CoG), and their ratio (supplement, Fig. B)."""
    groups = settings(material.results, benchmark)
    if not groups:
        return None
    names = short_names({result.cell.model for group in groups for result in group.results}, material.cards)
    frozen = settings(material.results)
    parts = [(group.words, _setting_section(group, [f for f in frozen if _same(group, f)], names)) for group in groups]
    return Section.joined(
        parts,
        title="CoG: fine-tuning against frozen features",
        anchor=benchmark,
        prose=[
            "Below 1, frozen features are behind a network that was allowed to learn the level's concepts.",
            older_said(sum(group.older for group in groups)),
        ],
    )


def _same(tuned: Group, frozen: Group) -> bool:
    """Whether two groups are about the same concepts of the same data."""
    recipe = ["dataset", *(field.name for field in fields(DomainRecipe))]
    data = [{result.cell.data for result in group.results} for group in (tuned, frozen)]
    return data[0] == data[1] and all(tuned.setting.get(name) == frozen.setting.get(name) for name in recipe)


def _setting_section(group: Group, frozen: Sequence[Group], names: dict[str, str]) -> Section:
    """One setting of fine-tuning beside every setting of probes on the same concepts."""
    tuned = {(s.model, s.level): s.mean for s in level_scores(group.results)}
    levels = order_levels(level for _, level in tuned)
    cold = {
        f"frozen ({other.words})" if len(frozen) > 1 else "frozen": {
            (s.model, s.level): s.mean for s in level_scores(other.results) if s.shots == ALL
        }
        for other in frozen
    }
    rows, points = [], []
    for (model, level), mean in sorted(tuned.items(), key=lambda item: (item[0][0], levels.index(item[0][1]))):
        row = [
            TableCell(names[model], names[model].lower()),
            TableCell(level, levels.index(level)),
            TableCell(f"{100 * mean:.1f}", mean),
        ]
        for title, means in cold.items():
            value = means.get((model, level))
            ratio = value / mean if value is not None and mean > 0 else None
            row.append(TableCell("–" if value is None else f"{100 * value:.1f}", value))
            row.append(TableCell("–" if ratio is None else f"{ratio:.2f}", ratio))
            if ratio is not None:
                label = names[model] + title.removeprefix("frozen")
                points.append({"model": model, "name": label, "level": level, "ratio": ratio})
        rows.append(row)
    columns = ["model", "level", "fine-tuned", *(head for title in cold for head in (title, f"{title} / fine-tuned"))]
    chart = [Figure("Frozen relative to fine-tuned", to_spec(_chart(points, levels)), "Frozen over fine-tuned top-1.")]
    return Section(
        title="",
        anchor="",
        figures=chart if points else [],
        tables=[Table("Top-1 accuracy (%) with all images", columns, rows, numeric=range(2, len(columns)))],
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
