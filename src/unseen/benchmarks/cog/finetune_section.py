"""The section of fine-tuning against frozen features: how far behind the frozen ones are, level by level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from unseen.benchmarks.cog.analysis import ALL, LevelScore, level_scores, order_levels, settings
from unseen.benchmarks.cog.charts import finetune_chart
from unseen.benchmarks.cog.domains import DomainRecipe
from unseen.reports.blocks import Figure, Material, Section, Table, TableCell
from unseen.reports.charts import to_spec
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
    parts = [(group.words, _setting_section(group, frozen, names)) for group in groups]
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


def ratios(group: Group, frozen: Sequence[Group], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Frozen over fine-tuned accuracy, a row per model, level and setting of probes on the same concepts (Fig. B).

    `low` and `high` are what the test images leave open: the one accuracy at an end of its interval, as the other is.
    """
    tuned = {(s.model, s.level): s for s in level_scores(group.results)}
    alike = [other for other in frozen if _same(group, other)]
    rows = []
    for other in alike:
        for cold in level_scores(other.results):
            warm = tuned.get((cold.model, cold.level))
            if warm is None or cold.shots != ALL or not warm.mean or cold.model not in names:
                continue
            said = f" ({other.words})" if len(alike) > 1 else ""
            row = {"model": cold.model, "name": names[cold.model] + said, "level": cold.level}
            ends = {"low": cold.low / warm.mean, "high": cold.high / warm.mean} if cold.images else {}
            rows.append({**row, "ratio": cold.mean / warm.mean, "frozen": cold, "tuned": warm, **ends})
    return rows


def _setting_section(group: Group, frozen: Sequence[Group], names: Mapping[str, str]) -> Section:
    """One setting of fine-tuning beside every setting of probes on the same concepts."""
    found = ratios(group, frozen, names)
    tuned = {(s.model, s.level): s for s in level_scores(group.results)}
    levels = order_levels(level for _, level in tuned)
    several = len({row["name"] for row in found}) > len({row["model"] for row in found})
    rows = []
    for (model, level), warm in sorted(tuned.items(), key=lambda item: (item[0][0], levels.index(item[0][1]))):
        own: list[dict[str, Any] | None] = [r for r in found if (r["model"], r["level"]) == (model, level)]
        for row in own or [None]:
            name = row["name"] if row and several else names[model]
            cold = row["frozen"] if row else None
            rows.append(
                [
                    TableCell(name, name.lower()),
                    TableCell(level, levels.index(level)),
                    _cell(warm),
                    _cell(cold) if cold else TableCell("–", None),
                    TableCell(f"{row['ratio']:.2f}", row["ratio"]) if row else TableCell("–", None),
                ]
            )
    return Section(
        title="",
        anchor="",
        figures=[Figure("Frozen relative to fine-tuned", to_spec(finetune_chart(found, levels)), _described(found))]
        if found
        else [],
        tables=[
            Table(
                "Top-1 accuracy (%) with all images, and its 95 % interval over test images",
                ["model", "level", "fine-tuned", "frozen", "frozen / fine-tuned"],
                rows,
                numeric=(2, 3, 4),
            )
        ],
    )


def _cell(score: LevelScore) -> TableCell:
    note = f"[{100 * score.low:.1f}, {100 * score.high:.1f}], n = {score.images:,}" if score.images else ""
    return TableCell(f"{100 * score.mean:.1f}", score.mean, note=note)


def _described(rows: Sequence[Mapping[str, Any]]) -> str:
    return (
        "Frozen over fine-tuned top-1: " + "; ".join(f"{r['name']} {r['level']} {r['ratio']:.2f}" for r in rows) + "."
    )
