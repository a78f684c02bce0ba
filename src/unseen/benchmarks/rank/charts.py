"""Charts of a ranking: what to expect, against what it costs, the paper's Fig. 1 and Fig. 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unseen.benchmarks.rank.candidates import Candidate
from unseen.reports.charts import CONTAINER, FAINT, INK, NEUTRAL, PALETTE, SHAPES

_STEP = 30
_OPEN, _BEHIND = "may be the best", "behind"

#: What a candidate costs: the attribute, its title, and whether less is better.
COSTS = (
    ("flops", "operations per image (FLOPs)", True),
    ("parameters", "parameters", True),
    ("images_per_second", "images per second, measured", False),
)


def expected_chart(candidates: Sequence[Candidate], names: Mapping[str, str], *, percent: bool = True) -> Any:
    """Bars of what to expect, with 95 % intervals, in the order of the ranking."""
    import altair as alt

    rows = [_row(c, names) for c in candidates]
    labels = [row["label"] for row in rows]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y("label:N", sort=labels, title=None, axis=alt.Axis(labelLimit=260, grid=False)),
        tooltip=["label:N", "told:N", "state:N"],
    )
    axis = alt.Axis(format=".0%" if percent else "~g", tickCount=5)
    bars = base.mark_bar(height=12, opacity=0.75).encode(
        x=alt.X("expected:Q", title="expected with a linear head", axis=axis), color=_states()
    )
    spans = base.mark_rule(strokeWidth=2, color=INK).encode(x="low:Q", x2="high:Q")
    return alt.layer(bars, spans).properties(width=CONTAINER, height=max(1, len(rows)) * _STEP)


def cost_chart(
    candidates: Sequence[Candidate],
    names: Mapping[str, str],
    cost: str,
    title: str,
    *,
    less: bool,
    percent: bool = True,
) -> Any:
    """What to expect against a cost, and the line of those that nobody beats in both."""
    import altair as alt

    known = [c for c in candidates if getattr(c, cost)]
    front = {c.label for c in pareto(known, cost, less=less)}
    rows = [{**_row(c, names), "cost": float(getattr(c, cost)), "front": c.label in front} for c in known]
    base = alt.Chart(alt.InlineData(values=rows))
    x = alt.X("cost:Q", title=title, scale=alt.Scale(type="log", nice=True), axis=alt.Axis(format="~s", tickCount=5))
    y = alt.Y(
        "expected:Q",
        title="expected",
        scale=alt.Scale(zero=False, padding=14),
        axis=alt.Axis(format=".0%" if percent else "~g"),
    )
    line = base.transform_filter("datum.front").mark_line(color=NEUTRAL, strokeDash=[4, 3]).encode(x=x, y=y)
    shape = alt.Shape("state:N", scale=alt.Scale(domain=[_OPEN, _BEHIND], range=list(SHAPES[:2])), title=None)
    dots = base.mark_point(filled=True, size=90, opacity=1).encode(
        x=x, y=y, color=_states(), shape=shape, tooltip=["label:N", "told:N", "cost:Q", "state:N"]
    )
    words = base.mark_text(align="left", dx=8, dy=-7, limit=160).encode(x=x, y=y, text="label:N")
    return alt.layer(line, dots, words).properties(width=CONTAINER, height=260)


def pareto(candidates: Sequence[Candidate], cost: str, *, less: bool) -> list[Candidate]:
    """Those that no other beats in what to expect without costing more, cheapest first."""
    sign = 1.0 if less else -1.0
    found: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda c: (sign * float(getattr(c, cost)), -c.expected)):
        if not found or candidate.expected > found[-1].expected:
            found.append(candidate)
    return found


def offset_chart(rows: Sequence[Mapping[str, Any]], order: Sequence[str], names: Mapping[str, str]) -> Any:
    """Fine-tuned accuracies less the mean of their task, a bar per checkpoint, a panel per task (Fig. 1 of the paper).

    Args:
        rows: each with `model`, `task`, `value` (a fraction) and `kind`, which is coloured.
        order: checkpoints from top to bottom.
    """
    import altair as alt

    tasks = list(dict.fromkeys(str(row["task"]) for row in rows))
    means = {t: sum(float(r["value"]) for r in own) / len(own) for t in tasks if (own := _of(rows, t))}
    values = [
        {
            "label": names[row["model"]],
            "task": row["task"],
            "kind": row["kind"],
            "offset": float(row["value"]) - means[str(row["task"])],
            "told": f"{100 * float(row['value']):.1f} %",
        }
        for row in rows
    ]
    kinds = list(dict.fromkeys(str(row["kind"]) for row in rows))
    colours = [PALETTE[k % len(PALETTE)] for k in range(len(kinds))]
    panels = [
        alt.Chart(alt.InlineData(values=[v for v in values if v["task"] == task]), title=task)
        .mark_bar(height=10)
        .encode(
            y=alt.Y("label:N", sort=[names[model] for model in order], title=None, axis=alt.Axis(labelLimit=200)),
            x=alt.X("offset:Q", title="above the task's mean", axis=alt.Axis(format="+.0%", tickCount=4)),
            color=alt.Color("kind:N", scale=alt.Scale(domain=kinds, range=colours), title=None),
            tooltip=["label:N", "task:N", "told:N"],
        )
        .properties(width=220, height=max(1, len(order)) * 16)
        for task in tasks
    ]
    return alt.concat(*panels, columns=2)


def ablation_chart(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Kendall's tau by the energy that PCA keeps and the Gaussians per class (Fig. 2 of the paper).

    Args:
        rows: each with `energy` and `gaussians` as texts, and `kendall`.
    """
    import altair as alt

    energies = list(dict.fromkeys(str(row["energy"]) for row in rows))
    counts = list(dict.fromkeys(str(row["gaussians"]) for row in rows))
    values = [{**row, "told": f"{100 * float(row['kendall']):.0f}"} for row in rows]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("gaussians:N", sort=counts, title="Gaussians per class", axis=alt.Axis(labelAngle=0, grid=False)),
        y=alt.Y("energy:N", sort=energies, title="PCA energy", axis=alt.Axis(grid=False)),
        tooltip=["energy:N", "gaussians:N", "told:N"],
    )
    scale = alt.Scale(range=[FAINT, PALETTE[5]])
    tiles = base.mark_rect().encode(color=alt.Color("kendall:Q", scale=scale, legend=None))
    words = base.mark_text().encode(text="told:N", color=alt.value(INK))
    return alt.layer(tiles, words).properties(width=60 * len(counts), height=34 * len(energies))


def _of(rows: Sequence[Mapping[str, Any]], task: str) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["task"] == task]


def _row(candidate: Candidate, names: Mapping[str, str]) -> dict[str, Any]:
    from unseen.benchmarks.rank.wording import expected_text

    label = names.get(candidate.model, candidate.model)
    return {
        "model": candidate.model,
        "label": label if candidate.label == candidate.model else f"{label} at {candidate.layer}",
        "expected": candidate.expected,
        "low": candidate.low,
        "high": candidate.high,
        "state": _OPEN if candidate.may_be_best else _BEHIND,
        "told": expected_text(candidate),
    }


def _states() -> Any:
    import altair as alt

    scale = alt.Scale(domain=[_OPEN, _BEHIND], range=[PALETTE[0], NEUTRAL])
    return alt.Color("state:N", scale=scale, title=None)
