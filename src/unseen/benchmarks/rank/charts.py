"""Charts of a ranking: expected accuracy, accuracy against cost, and Fig. 1 and Fig. 2 of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unseen.benchmarks.rank.candidates import Candidate
from unseen.reports.blocks import Key
from unseen.reports.charts import CONTAINER, FAINT, FOCUS, INK, NEUTRAL, PALETTE, percent_axis, series_channels
from unseen.reports.wording import is_reference

_STEP = 42
_OPEN, _BEHIND = "best, or statistically tied with it", "significantly worse"

#: What a candidate costs: the attribute, its title, and whether less is better.
COSTS = (
    ("flops", "operations per image (FLOPs)", True),
    ("parameters", "parameters", True),
    ("images_per_second", "images per second, measured", False),
)


def expected_chart(candidates: Sequence[Candidate], keys: Mapping[str, Key], *, percent: bool = True) -> Any:
    """Draw the expected accuracy of each candidate with its 95 % interval, in the order of the ranking."""
    import altair as alt

    rows = [_row(c, keys) for c in candidates]
    labels = [row["label"] for row in rows]
    color, shape = (channel.legend(None) for channel in series_channels(list(keys.values())))
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y("label:N", sort=labels, title=None, axis=alt.Axis(labels=False, grid=True), scale=alt.Scale(padding=0)),
        color=color,
        opacity=alt.condition(FOCUS, alt.value(1.0), alt.value(0.15)),
        tooltip=["label:N", "told:N", "state:N"],
    )
    axis = alt.Axis(format=".0%" if percent else "~g", tickCount=5, labelFlush=True, grid=False)
    x = alt.X("low:Q", title="expected with a linear head", axis=axis, scale=alt.Scale(zero=False, padding=8))
    spans = base.mark_rule(strokeWidth=2.5, strokeCap="round").encode(x=x, x2="high:Q")
    dots = base.mark_point(size=80, strokeWidth=2).encode(x="expected:Q", shape=shape, fill=_fill(rows, keys))
    # Names are above the track, which then has the whole width, also on a phone.
    words: dict[str, Any] = {"dy": -_STEP * 0.42, "baseline": "middle", "fontSize": 12}
    name = base.mark_text(align="left", limit=230, **words).encode(x=alt.value(0), text="label:N", color=alt.value(INK))
    value = base.mark_text(align="right", fontWeight=600, **words).encode(
        x=alt.value("width"), text="told:N", color=alt.value(INK)
    )
    return alt.layer(spans, dots, name, value).properties(width=CONTAINER, height=max(1, len(rows)) * _STEP)


def cost_chart(
    candidates: Sequence[Candidate],
    keys: Mapping[str, Key],
    cost: str,
    title: str,
    *,
    less: bool,
    percent: bool = True,
) -> Any:
    """Draw the expected accuracy against a cost, with the line of candidates that no other beats in both."""
    import altair as alt

    known = [c for c in candidates if getattr(c, cost)]
    front = {c.label for c in pareto(known, cost, less=less)}
    rows = [{**_row(c, keys), "cost": float(getattr(c, cost)), "front": c.label in front} for c in known]
    base = alt.Chart(alt.InlineData(values=rows))
    form = "~s" if min((row["cost"] for row in rows), default=1.0) >= 10 else "~g"  # never "100m" for a tenth
    x = alt.X("cost:Q", title=title, scale=alt.Scale(type="log", nice=True), axis=alt.Axis(format=form, tickCount=5))
    ticks = percent_axis([row["expected"] for row in rows]) if percent else {}
    y = alt.Y(
        "expected:Q",
        title="expected",
        scale=alt.Scale(domain=ticks["domain"], nice=False) if ticks else alt.Scale(zero=False, padding=14),
        axis=alt.Axis(format=ticks["format"], values=ticks["ticks"]) if ticks else alt.Axis(format="~g"),
    )
    line = base.transform_filter("datum.front").mark_line(color=NEUTRAL, strokeDash=[4, 3]).encode(x=x, y=y)
    color, shape = (channel.legend(None) for channel in series_channels(list(keys.values())))
    dots = base.mark_point(size=90, strokeWidth=2).encode(
        x=x,
        y=y,
        color=color,
        shape=shape,
        fill=_fill(rows, keys),
        opacity=alt.condition(FOCUS, alt.value(1.0), alt.value(0.15)),
        tooltip=["label:N", "told:N", "cost:Q", "state:N"],
    )
    return alt.layer(line, dots).properties(width=CONTAINER, height=260)


def pareto(candidates: Sequence[Candidate], cost: str, *, less: bool) -> list[Candidate]:
    """Return the candidates with no cheaper and better alternative, cheapest first."""
    sign = 1.0 if less else -1.0
    found: list[Candidate] = []
    learned = [c for c in candidates if not is_reference(c.model)] or candidates  # random weights are no choice
    for candidate in sorted(learned, key=lambda c: (sign * float(getattr(c, cost)), -c.expected)):
        if not found or candidate.expected > found[-1].expected:
            found.append(candidate)
    return found


def offset_chart(rows: Sequence[Mapping[str, Any]], order: Sequence[str], names: Mapping[str, str]) -> Any:
    """Draw fine-tuned accuracies minus the mean of their task, a panel per task (Fig. 1 of the paper).

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
    """Draw Kendall's tau by the energy that PCA keeps and the Gaussians per class (Fig. 2 of the paper).

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


def _row(candidate: Candidate, keys: Mapping[str, Key]) -> dict[str, Any]:
    from unseen.benchmarks.rank.wording import expected_text

    label = keys[candidate.model].label
    return {
        "model": candidate.model,
        "name": label,
        "group": keys[candidate.model].group,
        "label": label if candidate.label == candidate.model else f"{label} at {candidate.layer}",
        "expected": candidate.expected,
        "low": candidate.low,
        "high": candidate.high,
        "state": _OPEN if candidate.may_be_best else _BEHIND,
        "told": expected_text(candidate),
    }


def _fill(rows: Sequence[Mapping[str, Any]], keys: Mapping[str, Key]) -> Any:
    """Return the fill: the colour of candidates that may be the best; the others are hollow."""
    import altair as alt

    filled = {row["name"] for row in rows if row["state"] == _OPEN}
    names = [key.label for key in keys.values()]
    colours = [key.colour if key.label in filled else "transparent" for key in keys.values()]
    return alt.Fill("name:N", scale=alt.Scale(domain=names, range=colours), legend=None)
