"""The charts of a CoG's results: levels, levels relative to a baseline, few-shot curves, controls, image counts.

Paper:      Sariyildiz et al., ICCV 2021, Fig. 3 and 4; supplement, Fig. B to G
Each takes plain rows and a legend entry per model (`series_keys`), and gives an Altair chart; the page and
`unseen cog chart` use the same ones. Bars are 95 % intervals over test images; no axis of accuracies goes beyond 100 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from unseen.benchmarks.cog.analysis import ALL, ConceptScore, LevelScore, order_levels, relative_to
from unseen.benchmarks.cog.domains import CONTROL
from unseen.reports.blocks import Key
from unseen.reports.charts import CONTAINER, FOCUS, NEUTRAL, OTHERS, PALETTE, percent_axis, series_channels

Keys = Mapping[str, Key]

_HEIGHT = 300
_GRID_WIDTH, _GRID_HEIGHT = 250, 210
#: Beyond so many lines, intervals would cover each other.
_MOST_BARS = 6


def levels_chart(scores: Sequence[LevelScore], keys: Keys) -> Any:
    """Top-1 by level with all images (Fig. 3a, D)."""
    rows = _rows(_whole(scores), keys)
    return _finished(_lines(rows, keys, x="level", order=_order(rows), y="mean", title="top-1 accuracy"))


def relative_chart(scores: Sequence[LevelScore], keys: Keys, baseline: str, *, span: Sequence[float] = ()) -> Any:
    """Top-1 by level, less that of the baseline (Fig. 3b to 3e).

    Args:
        span: what the axis is to hold, in points, so that charts can be compared; what is drawn, by default.
    """
    return _finished(_relative_lines(scores, keys, baseline, span))


def relative_grid(scores: Sequence[LevelScore], keys: Keys, baseline: str) -> Any:
    """`relative_chart` for each category of models, side by side on one scale (Fig. 3b to 3e)."""
    span = [row["gap"] for row in _relative(_whole(scores), keys, baseline)]
    panels = []
    for category, own in by_category(keys).items():
        if set(own) != {baseline}:
            shown = {**own, baseline: keys[baseline]}
            panels.append(_panel(_relative_lines(scores, shown, baseline, span), category))
    return _grid(panels, 2)


def _relative_lines(scores: Sequence[LevelScore], keys: Keys, baseline: str, span: Sequence[float]) -> list[Any]:
    rows = _relative(_whole(scores), keys, baseline)
    title = f"points over {keys[baseline].label}"
    return _lines(rows, keys, x="level", order=_order(rows), y="gap", title=title, span=span)


def few_shot_chart(
    scores: Sequence[LevelScore], keys: Keys, level: str, baseline: str | None = None, *, span: Sequence[float] = ()
) -> Any:
    """Top-1 over images per concept on one level (Fig. 4), raw or less that of a baseline.

    Args:
        span: what the axis is to hold, so that levels can be compared.
    """
    return _finished(_few_shot_lines(scores, keys, level, baseline, span))


def few_shot_grid(scores: Sequence[LevelScore], keys: Keys, levels: Sequence[str], baseline: str | None = None) -> Any:
    """`few_shot_chart` of several levels on one scale (Fig. 4; all levels: Fig. F, and G relative to a baseline)."""
    own = [s for s in scores if s.level in levels]
    rows = _rows(own, keys) if baseline is None else _relative(own, keys, baseline)
    span = [row["mean" if baseline is None else "gap"] for row in rows]
    return _grid([_panel(_few_shot_lines(own, keys, level, baseline, span), level) for level in levels], 3, shared=True)


def _few_shot_lines(
    scores: Sequence[LevelScore], keys: Keys, level: str, baseline: str | None, span: Sequence[float]
) -> list[Any]:
    own = [s for s in scores if s.level == level]
    order = [str(s) for s in sorted({s.shots for s in own if s.shots != ALL}, key=int)]
    order += [ALL] if any(s.shots == ALL for s in own) else []
    if baseline is None:
        rows, y, title = _rows(own, keys), "mean", f"top-1 on {level}"
    else:
        rows, y, title = _relative(own, keys, baseline), "gap", f"points over {keys[baseline].label} on {level}"
    return _lines(rows, keys, x="shots", order=order, y=y, title=title, span=span)


def images_chart(scores: Sequence[ConceptScore]) -> Any:
    """Training images per concept, concepts sorted, one line per level (supplement, Fig. E)."""
    import altair as alt

    one = next((s.model for s in scores), "")
    rows: list[dict[str, Any]] = []
    levels = order_levels(s.level for s in scores)
    for level in levels:
        counts = sorted((s.train_images for s in scores if s.level == level and s.model == one), reverse=True)
        # A thousand concepts draw the same line as every fifth of them.
        places = range(0, len(counts), max(1, len(counts) // 200))
        rows += [{"level": level, "rank": i + 1, "images": counts[i]} for i in places]
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=alt.X("rank:Q", title="concepts, from most to fewest images", axis=alt.Axis(tickMinStep=1, grid=False)),
            y=alt.Y("images:Q", title="training images", axis=alt.Axis(tickMinStep=1)),
            color=alt.Color(
                "level:N",
                title=None,
                scale=alt.Scale(domain=levels, range=[OTHERS[i % len(OTHERS)] for i in range(len(levels))]),
                legend=alt.Legend(columns=6),
            ),
            tooltip=["level:N", "rank:Q", "images:Q"],
        )
    )
    return chart.properties(width=CONTAINER, height=_HEIGHT)


def control_chart(scores: Sequence[LevelScore], keys: Keys) -> Any:
    """Levels against random control levels: points over the mean of a model's own controls (supplement, Fig. C).

    The band has all controls of all models in it, each less the mean of its model's.
    """
    import altair as alt

    own = [s for s in scores if s.shots == ALL and s.model in keys]
    middles = {model: _mean(s.mean for s in own if s.model == model and s.level.startswith(CONTROL)) for model in keys}
    rows = [
        {**row, "gap": 100 * (row["mean"] - middles[row["model"]])}
        for row in _rows([s for s in own if not s.level.startswith(CONTROL) and middles[s.model] is not None], keys)
    ]
    spread = [100 * (s.mean - middle) for s in own if s.level.startswith(CONTROL) and (middle := middles[s.model])]
    lines = _lines(rows, keys, x="level", order=_order(rows), y="gap", title="points over the mean of random draws")
    band = alt.Chart(alt.InlineData(values=[{"low": min(spread), "high": max(spread)}]))
    area = band.mark_rect(opacity=0.22, color=NEUTRAL).encode(y=alt.Y("low:Q"), y2="high:Q")
    return _finished([area, *lines])


def rankings_chart(lines: Mapping[str, Sequence[LevelScore]], controls: Sequence[float], name: str) -> Any:
    """One model on levels that different measures cut, beside the mean of random draws (supplement, Fig. C).

    Args:
        lines: by what the levels were ranked with, the scores of the model.
        controls: its accuracies on random draws.
        name: of the model.
    """
    import altair as alt

    rows: list[dict[str, Any]] = [
        {
            "ranking": ranking,
            "level": s.level,
            "mean": s.mean,
            "low": _known(s.low, s.mean),
            "high": _known(s.high, s.mean),
            "shown": s.text,
        }
        for ranking, scores in lines.items()
        for s in scores
    ]
    axis = percent_axis([v for row in rows for v in (row["low"], row["high"])] + list(controls))
    colour = alt.Color("ranking:N", title=None, scale=alt.Scale(domain=list(lines), range=list(PALETTE)))
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("level:N", sort=_order(rows), title=None, axis=alt.Axis(labelAngle=0)), color=colour
    )
    y = _value("mean", f"top-1 of {name}", axis)
    layers = [
        base.mark_line(point=alt.OverlayMarkDef(size=60), strokeWidth=2.5).encode(
            y=y, tooltip=["ranking:N", "level:N", "shown:N"]
        ),
        base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q"), y2="high:Q"),
    ]
    if controls:
        mean = sum(controls) / len(controls)
        told = [{"mean": mean, "low": min(controls), "high": max(controls), "said": f"{len(controls)} random draws"}]
        under = alt.Chart(alt.InlineData(values=told))
        layers.insert(0, under.mark_rect(opacity=0.2, color=NEUTRAL).encode(y=alt.Y("low:Q"), y2="high:Q"))
        layers.insert(1, under.mark_rule(color=NEUTRAL, strokeDash=[5, 4]).encode(y="mean:Q"))
        layers.append(
            under.mark_text(align="left", dx=4, dy=-6, baseline="bottom", color=NEUTRAL).encode(
                x=alt.value(0), y="mean:Q", text="said:N"
            )
        )
    return alt.layer(*layers).properties(width=CONTAINER, height=_HEIGHT)


def finetune_chart(rows: Sequence[Mapping[str, Any]], levels: Sequence[str]) -> Any:
    """Frozen accuracy relative to fine-tuned, by level (supplement, Fig. B).

    Args:
        rows: each with `name`, `level`, `ratio`, and `low` and `high` where they are known.
    """
    import altair as alt

    names = list(dict.fromkeys(row["name"] for row in rows))
    plain = [{k: row[k] for k in ("model", "name", "level", "ratio", "low", "high") if k in row} for row in rows]
    base = alt.Chart(alt.InlineData(values=plain)).encode(
        x=alt.X("level:N", sort=list(levels), title=None, axis=alt.Axis(labelAngle=0)),
        color=alt.Color(
            "name:N",
            title=None,
            scale=alt.Scale(domain=names, range=list(PALETTE)),
            legend=alt.Legend(columns=2, labelLimit=300),
        ),
        tooltip=["name:N", "level:N", alt.Tooltip("ratio:Q", format=".3f")],
    )
    y = alt.Y("ratio:Q", title="frozen / fine-tuned top-1", scale=alt.Scale(zero=False), axis=alt.Axis(format=".2f"))
    one = alt.Chart(alt.InlineData(values=[{"one": 1.0}])).mark_rule(color=NEUTRAL, strokeDash=[5, 4]).encode(y="one:Q")
    line = base.mark_line(point=alt.OverlayMarkDef(size=60), strokeWidth=2.5).encode(y=y)
    bars = base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q"), y2="high:Q").transform_filter("isValid(datum.low)")
    return alt.layer(one, bars, line).properties(width=CONTAINER, height=280)


def by_category(keys: Keys) -> dict[str, dict[str, Key]]:
    """Legend entries by category, in order of appearance."""
    found: dict[str, dict[str, Key]] = {}
    for model, key in keys.items():
        found.setdefault(key.group, {})[model] = key
    return found


def _whole(scores: Sequence[LevelScore]) -> list[LevelScore]:
    return [s for s in scores if s.shots == ALL and not s.level.startswith(CONTROL)]


def _rows(scores: Sequence[LevelScore], keys: Keys) -> list[dict[str, Any]]:
    return [
        {
            "model": s.model,
            "group": keys[s.model].group,
            "name": keys[s.model].label,
            "level": s.level,
            "shots": str(s.shots),
            "mean": s.mean,
            "low": _known(s.low, s.mean),
            "high": _known(s.high, s.mean),
            "shown": s.text,
            "images": s.images,
            "similarity": "" if s.similarity is None else f"{s.similarity:.3f}",
        }
        for s in scores
        if s.model in keys
    ]


def _relative(scores: Sequence[LevelScore], keys: Keys, baseline: str) -> list[dict[str, Any]]:
    pairs = relative_to([s for s in scores if s.model in keys], baseline)
    rows = _rows([s for s, _ in pairs], keys)
    return [{**row, "gap": 100 * gap} for row, (_, gap) in zip(rows, pairs, strict=True)]


def _known(value: float, otherwise: float) -> float:
    return value if value == value else otherwise


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return sum(found) / len(found) if found else None


def _order(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return order_levels(row["level"] for row in rows)


def _value(field: str, title: str, axis: Mapping[str, Any]) -> Any:
    import altair as alt

    return alt.Y(
        f"{field}:Q",
        title=title,
        axis=alt.Axis(format=axis["format"], values=axis["ticks"]),
        scale=alt.Scale(domain=axis["domain"], nice=False, zero=False),
    )


def _lines(
    rows: Sequence[Mapping[str, Any]],
    keys: Keys,
    *,
    x: str,
    order: Sequence[str],
    y: str,
    title: str,
    span: Sequence[float] = (),
) -> list[Any]:
    """Layers: one line per model over an ordered axis, a point at each place, its interval where lines are few."""
    import altair as alt

    bars = y == "mean" and len({row["model"] for row in rows}) <= _MOST_BARS
    shown = [r for r in keys.values() if any(row["name"] == r.label for row in rows)]
    color, shape = series_channels(shown)
    base = alt.Chart(alt.InlineData(values=list(rows))).encode(
        x=alt.X(
            f"{x}:N",
            sort=list(order),
            title="images per concept" if x == "shots" else None,
            axis=alt.Axis(labelAngle=0, grid=False),
            scale=alt.Scale(type="point", padding=0.3),
        ),
        color=color,
        opacity=alt.condition(FOCUS, alt.value(1.0), alt.value(0.1)),
        tooltip=[
            alt.Tooltip("name:N", title="model"),
            alt.Tooltip("level:N"),
            alt.Tooltip("shots:N", title="images per concept"),
            alt.Tooltip("shown:N", title="top-1 (%)"),
            alt.Tooltip("images:N", title="test images"),
            *([alt.Tooltip("gap:Q", title="difference (points)", format="+.2f")] if y == "gap" else []),
            alt.Tooltip("similarity:N", title="mean similarity"),
        ],
    )
    if y == "mean":
        ends = [v for row in rows for v in ((row["low"], row["high"]) if bars else (row["mean"],))]
        value = _value(y, title, percent_axis([*ends, *span]))
    else:
        limits = alt.Undefined if not span else [min(span), max(span)]
        value = alt.Y(
            f"{y}:Q",
            title=title,
            axis=alt.Axis(format="+,.1~f", tickCount=6),
            scale=alt.Scale(zero=False, nice=True, domain=limits),
        )
    many = len(shown) > _MOST_BARS
    parts = [
        base.mark_line(strokeWidth=1.6 if many else 2.5).encode(y=value, detail="model:N"),
        base.mark_point(filled=True, size=36 if many else 70).encode(y=value, shape=shape),
    ]
    if bars:
        parts.insert(0, base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q"), y2="high:Q"))
    return parts


def _panel(layers: Sequence[Any], title: str) -> Any:
    """One chart of a grid: a fixed size and a title of its own."""
    import altair as alt

    return alt.layer(*layers).properties(width=_GRID_WIDTH, height=_GRID_HEIGHT, title=title or alt.Undefined)


def _grid(panels: Sequence[Any], columns: int, *, shared: bool = False) -> Any:
    """Charts side by side, with one legend where all show the same models."""
    import altair as alt

    joined = alt.concat(*panels, columns=columns)
    joined = joined if shared else joined.resolve_scale(color="independent", shape="independent")
    return joined.add_params(alt.param(name="focus", value=""))


def _finished(layers: Sequence[Any]) -> Any:
    import altair as alt

    return alt.layer(*layers).add_params(alt.param(name="focus", value="")).properties(width=CONTAINER, height=_HEIGHT)
