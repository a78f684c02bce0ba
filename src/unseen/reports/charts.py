"""The eight chart types: each is built from plain rows, or from the rows of a table, and returns Vega-Lite.

    rows = table_rows(table)  # or any mappings, with the fields that the chart names
    chart = Dots(rows=rows, keys=list(material.keys.values()), y="column", x=Axis("top-1 accuracy"))
    Figure("Top-1 by dataset", chart)   # part of a page; `save_chart(chart, "top1.pdf")` writes a file

Fields with a meaning in every chart: `value` with its limits `low` and `high` (`interval_fields` sets them), `model`
and `group` (hovering highlights, the filter hides), `cells` (a click opens them), `shown` (the value as text, for
tooltips and alternative text). `series` names the field that has a colour and a shape: `keys` are its legend entries,
by default in colours that no model has. If several rows share a place, they are drawn side by side, with their
intervals.

Dots          values on rows, with intervals, single seeds and chance
Lines         values over names or numbers, with intervals, a reference line and a band
Scatter       two numbers, with labels, sizes and lines through the points
Bars          values as bars, horizontal or vertical, with intervals or pictures
Matrix        a value per pair of names
Distribution  densities by name
Strip         a ranking as a curve, coloured by section, with pictures
Panels        several charts side by side
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from unseen.reports.theme import BUNDLE as BUNDLE
from unseen.reports.theme import CONTAINER as CONTAINER
from unseen.reports.theme import FAINT as FAINT
from unseen.reports.theme import FOCUS as FOCUS
from unseen.reports.theme import INK as INK
from unseen.reports.theme import NEUTRAL as NEUTRAL
from unseen.reports.theme import OTHERS as OTHERS
from unseen.reports.theme import PALETTE as PALETTE
from unseen.reports.theme import REFERENCE as REFERENCE
from unseen.reports.theme import SHAPES as SHAPES
from unseen.reports.theme import SYMBOLS as SYMBOLS
from unseen.reports.theme import Key as Key
from unseen.reports.theme import beside as beside
from unseen.reports.theme import other_keys
from unseen.reports.theme import percent_axis as percent_axis
from unseen.reports.theme import save_chart as save_chart
from unseen.reports.theme import script_json as script_json
from unseen.reports.theme import series_channels as series_channels
from unseen.reports.theme import series_keys as series_keys
from unseen.reports.theme import to_spec as to_spec
from unseen.reports.theme import vegalite_version as vegalite_version
from unseen.reports.theme import without_legends as without_legends
from unseen.results.table import Table
from unseen.stats import Interval

Row = Mapping[str, Any]
Spec = dict[str, Any]

#: The largest number of series whose intervals are drawn in `Lines`.
MOST_INTERVALS = 6
#: The largest number of entries of a chart's own legend.
_MOST_ENTRIES = 24
_DASHED: Spec = {"color": NEUTRAL, "strokeDash": [4, 4], "strokeWidth": 1.5}
_PICTURE: Spec = {"width": 52, "height": 52}
_DIMMED = 0.14
_WHITE_TO_BLUE = ("#F4F6F9", PALETTE[0])
_GREY = "#C9CED6"


@dataclass(frozen=True)
class Axis:
    """An axis of numbers or names.

    Attributes:
        title: what it shows.
        kind: "percent" for shares, "points" for signed differences, "number", "log", or "names".
        include: values that the axis contains in addition to those of the chart, so that several charts have one scale.
        order: names in order; in the order of the rows if empty.
        zero: whether the axis starts at zero.
        hidden: whether neither ticks nor title are drawn.
    """

    title: str = ""
    kind: Literal["percent", "points", "number", "log", "names"] = "percent"
    include: Sequence[float] = ()
    order: Sequence[str] = ()
    zero: bool = False
    hidden: bool = False

    def text(self, value: float) -> str:
        """Return a value as text."""
        if self.kind == "percent":
            return f"{100 * value:.1f} %"
        return f"{value:+.1f}" if self.kind == "points" else f"{value:.4g}"

    def channel(self, name: str, values: Iterable[float] = (), *, grid: bool = True) -> Spec:
        """Return the encoding of a field.

        Args:
            values: what the chart shows along the axis, including limits of intervals.
        """
        found: Spec = {"field": name, "type": "quantitative", "title": self.title or None}
        known = [value for value in (*values, *self.include) if math.isfinite(value)]
        if self.hidden:
            return found | {"axis": None}
        axis: Spec = {"grid": grid, "labelFlush": True}
        scale: Spec = {"zero": self.zero, "nice": True}
        if self.kind == "names":
            return {"field": name, "type": "nominal", "title": self.title or None} | {
                "sort": list(self.order) or None,
                "axis": {"grid": False, "labelAngle": 0},
            }
        if self.kind == "percent":
            ticks = percent_axis([*known, *([0.0] if self.zero else [])])
            axis |= {"format": ticks["format"], "values": ticks["ticks"]}
            scale = {"domain": ticks["domain"], "nice": False, "zero": self.zero}
        elif self.kind == "log":
            # SI prefixes would show a tenth as "100m".
            axis |= {"format": "~s" if min(known, default=1.0) >= 10 else "~g", "tickCount": 5}
            scale = {"type": "log", "nice": False, "padding": 12}
        else:
            axis |= {"format": "+,.1~f" if self.kind == "points" else ",.4~g", "tickCount": 6}
            scale |= {"domain": [min(known), max(known)]} if self.include else {}
        return found | {"axis": axis, "scale": scale}


def interval_fields(interval: Interval, scale: float = 1.0) -> dict[str, float]:
    """Return a value and the limits of its interval as fields of a row; no limits if they are unknown."""
    limits = {"low": scale * interval.low, "high": scale * interval.high} if interval.known else {}
    return {"value": scale * interval.value, **limits}


def table_rows(table: Table) -> list[dict[str, Any]]:
    """Return one row per number of a table: `model`, `name`, `column`, `value`, its limits, `shown`, `n`, `cells`."""
    found: list[dict[str, Any]] = []
    for number, row in enumerate(table.rows):
        for heading, cell in zip(table.columns[1:], row[1:], strict=True):
            if cell.value is None or not math.isfinite(cell.value):
                continue
            interval = cell.interval or Interval(cell.value, math.nan, math.nan)
            own: dict[str, Any] = {"name": row[0].shown, "column": heading, **interval_fields(interval)}
            own |= {"shown": cell.full, "cells": list(cell.cells)}
            own |= {"model": table.row_keys[number]} if table.row_keys else {}
            own |= {"n": cell.n} if cell.n is not None else {}
            found.append(own | ({"chance": cell.chance} if cell.chance is not None else {}))
    return found


@dataclass(frozen=True, kw_only=True)
class Chart:
    """What all charts have.

    Attributes:
        rows: the data.
        series: field that has a colour and a shape; "" for one colour.
        keys: legend entries of the series, such as those of models; by default in colours that no model has.
        tooltip: fields to show on hover, with their titles.
        height: in pixels; by the number of rows if 0.
        width: in pixels; as wide as the page allows if 0.
    """

    rows: Sequence[Row] = ()
    series: str = "name"
    keys: Sequence[Key] = ()
    tooltip: Mapping[str, str] = field(default_factory=dict)
    height: int = 0
    width: int = 0

    def layers(self) -> list[Spec]:
        """Return the layers, from back to front."""
        raise NotImplementedError

    @property
    def place(self) -> str:
        """Return the field that names the place of a row, "" if rows have none."""
        return ""

    def text(self, value: float) -> str:
        """Return a value as text."""
        return f"{value:.4g}"

    def to_dict(self) -> Spec:
        """Return the chart as a Vega-Lite specification."""
        size = {"width": self.width or CONTAINER, "height": self.height or self.default_height()}
        return {"data": {"values": [dict(row) for row in self.rows]}, "layer": self.layers(), **size}

    def default_height(self) -> int:
        """Return the height in pixels for the rows of the chart."""
        return 280

    @property
    def entries(self) -> list[Key]:
        """Return the legend entries of the series that occur."""
        labels = dict.fromkeys(str(row[self.series]) for row in self.rows if self.series in row)
        return [key for key in self.keys if key.label in labels] if self.keys else other_keys(labels)

    @property
    def shows_models(self) -> bool:
        """Return whether the series are models, which the section's legend lists."""
        return bool(self.keys) and all(key.key for key in self.keys)

    def words(self, limit: int = 40) -> str:
        """Return the values as words, for readers who cannot see the chart."""
        texts = []
        for row in self.rows:
            names = dict.fromkeys(str(row[name]) for name in (self.series, self.place) if name and name in row)
            shown = row.get("shown") or (self.text(row["value"]) if "value" in row else "")
            texts.append(" ".join([*names, str(shown)]).strip())
        return "; ".join(texts[:limit]) + (f" and {len(texts) - limit} more" if len(texts) > limit else "")

    # ---- encodings that all charts share

    def colour(self, channel: str = "colour") -> Spec:
        """Return the encoding of the series as a colour, or as a shape."""
        entries = self.entries
        values = [key.colour if channel == "colour" else key.shape for key in entries]
        legend: Spec | None = {"title": None, "columns": min(4, len(entries)), "symbolLimit": 0, "labelLimit": 260}
        legend = legend if 1 < len(entries) <= _MOST_ENTRIES and self.series != self.place else None
        scale = {"domain": [key.label for key in entries], "range": values}
        return {"field": self.series, "type": "nominal", "scale": scale, "legend": legend}

    def look(self, *, shape: bool = False) -> Spec:
        """Return colour, highlight and tooltip of a mark, and its shape on request."""
        found: Spec = {"tooltip": self.tooltips()}
        found |= {"color": self.colour()} if self.series else {"color": {"value": PALETTE[0]}}
        found |= {"shape": self.colour("shape")} if shape and self.series else {}
        if self.shows_models or any("model" in row for row in self.rows):
            found["opacity"] = {"condition": {"test": FOCUS, "value": 1}, "value": _DIMMED}
        return found

    def tooltips(self) -> list[Spec]:
        fields = dict(self.tooltip)
        if not fields:
            names = dict.fromkeys(name for name in (self.series, self.place) if name)
            fields = {name: "model" if name == self.series and self.shows_models else name for name in names}
            fields |= {"shown": "value"} if any("shown" in row for row in self.rows) else {"value": "value"}
        known = [name for name in fields if any(name in row for row in self.rows)]
        return [{"field": name, "type": "nominal", "title": fields[name]} for name in known]

    @property
    def dodged(self) -> bool:
        """Return whether several rows share a place and are drawn side by side."""
        places = [row[self.place] for row in self.rows]
        return bool(self.series) and self.series != self.place and len(set(places)) < len(places)

    def offset(self, channel: str) -> Spec:
        """Return the encoding that draws the series of one place side by side."""
        if not self.dodged:
            return {}
        scale = {"domain": [key.label for key in self.entries]}
        return {channel: {"field": self.series, "type": "nominal", "scale": scale}}

    def places(self, order: Sequence[str]) -> list[str]:
        """Return the names along the axis of names, in order."""
        found = list(dict.fromkeys(str(row[self.place]) for row in self.rows))
        return [name for name in order if name in found] or found

    def ends(self) -> Iterator[float]:
        """Yield the values and the limits of their intervals."""
        for row in self.rows:
            yield from (row[name] for name in ("value", "low", "high") if row.get(name) is not None)


def _layer(mark: str, encoding: Spec, *, data: Sequence[Row] | None = None, test: str = "", **properties: Any) -> Spec:
    """Return a layer; with its own data, or with the rows of the chart that pass a test."""
    found: Spec = {"mark": {"type": mark, **properties}, "encoding": encoding}
    found |= {"data": {"values": [dict(row) for row in data]}} if data is not None else {}
    return found | ({"transform": [{"filter": test}]} if test else {})


_HAS_LIMITS = "isValid(datum.low) && isValid(datum.high)"


@dataclass(frozen=True, kw_only=True)
class Dots(Chart):
    """Values on rows: a dot per value, with its interval.

    Attributes:
        y: field that names the row.
        x: axis of the values; `kind="names"` for values that are names.
        order: rows from top to bottom; in the order of the data if empty.
        above: whether names stand above their row, which then has the whole width, with `shown` on the right if a row
            has one value; else they stand on the left.
        chance: value of guessing: a dashed line, unless it is so far from the values that it would squeeze them.
        rule: value of a solid vertical line, such as 0 for differences.
        joined: whether a grey bar joins the values of a row.
        seeds: field with a list of the values of single seeds, drawn as ticks.
        hollow: field that is true for marks that are not filled.
    """

    y: str = "name"
    x: Axis = field(default_factory=Axis)
    order: Sequence[str] = ()
    above: bool = False
    chance: float | None = None
    rule: float | None = None
    joined: bool = False
    seeds: str = ""
    hollow: str = ""

    @property
    def place(self) -> str:
        return self.y

    def text(self, value: float) -> str:
        return self.x.text(value) if isinstance(value, int | float) else str(value)

    @property
    def _band(self) -> int:
        """Return the height of a row without its name."""
        if self.dodged:
            return max(20, min(110, (15 if self.above else 9) * len(self.entries)))
        return 8 if self._tight else 16

    @property
    def _tight(self) -> bool:
        return len(self.places(self.order)) > 12

    @property
    def _gap(self) -> int:
        return (20 if self._tight else 26) if self.above else 8

    def default_height(self) -> int:
        return round(max(1, len(self.places(self.order))) * (self._band + self._gap) + (self._gap if self.above else 0))

    def layers(self) -> list[Spec]:
        places, step = self.places(self.order), self._band + self._gap
        y: Spec = {"field": self.y, "type": "nominal", "sort": places, "title": None}
        inner = self._gap / step
        y |= {"scale": {"paddingInner": inner, "paddingOuter": inner if self.above else inner / 2}}
        y |= {"axis": {"labels": False, "grid": not self.dodged} if self.above else {"labelLimit": 300, "grid": True}}
        chance = self._chance()
        names = self.x.kind == "names"
        values = [] if names else [*self.ends(), *([chance] if chance is not None else [])]
        x = self.x.channel("value", values, grid=self.dodged or not self.above)
        at = {"y": y, **self.offset("yOffset")}
        few = len(self.entries) <= 8 if self.dodged else not self._tight
        limits = {"x": {**x, "field": "low"}, "x2": {"field": "high"}}
        found = [_layer("rule", {**limits, **at, **self.look()}, test=_HAS_LIMITS, strokeWidth=2.2 if few else 1.2)]
        if self.seeds:
            own = {"x": {"field": self.seeds, "type": "quantitative"}, **at, **self.look()}
            own["opacity"] = {"condition": {"test": FOCUS, "value": 0.5}, "value": 0.1}
            ticks = _layer("tick", own, thickness=1.5) | {"transform": [{"flatten": [self.seeds]}]}
            found.append(ticks)
        size = 70 if few else 34
        look = {"x": x, **at, **self.look(shape=True)}
        if self.hollow:
            look["fillOpacity"] = {"condition": {"test": f"datum.{self.hollow}", "value": 0}, "value": 1}
            look["fill"] = {**look["color"], "legend": None}
        found.append(_layer("point", look, filled=not self.hollow, size=size, strokeWidth=2 if self.hollow else 0))
        return [*self._references(x, y, chance), *found, *(self._names(y, places) if self.above else [])]

    def _references(self, x: Spec, y: Spec, chance: float | None) -> list[Spec]:
        found = []
        if self.joined:
            spans: dict[str, list[float]] = {}
            for row in self.rows:
                spans.setdefault(str(row[self.y]), []).append(row["value"])
            data = [{self.y: name, "low": min(v), "high": max(v)} for name, v in spans.items() if len(v) > 1]
            encoding = {"y": y, "x": {**x, "field": "low"}, "x2": {"field": "high"}}
            found.append(_layer("rule", encoding, data=data, color=NEUTRAL, opacity=0.3, strokeWidth=4))
        if chance is not None:
            data = [{"value": chance, "chance": f"chance: {self.x.text(chance)}"}]
            tooltip = {"field": "chance", "type": "nominal", "title": " "}
            found.append(_layer("rule", {"x": x, "tooltip": tooltip}, data=data, **_DASHED))
        if self.rule is not None:
            found.append(_layer("rule", {"x": x}, data=[{"value": self.rule}], color=INK, strokeWidth=1))
        return found

    def _names(self, y: Spec, places: Sequence[str]) -> list[Spec]:
        """Return the names above the rows, and the value on the right if each row has one."""
        words: Spec = {"dy": -self._band / 2 - 4, "baseline": "bottom", "fontSize": 10 if self._tight else 12.5}
        own = {"y": y, "x": {"value": 0}, "text": {"field": self.y, "type": "nominal"}, "color": {"value": INK}}
        if self.dodged:
            data = [{self.y: name} for name in places]
            return [_layer("text", own, data=data, align="left", fontWeight=600, limit=600, **words)]
        look = self.look()
        own |= {"opacity": look["opacity"]} if "opacity" in look else {}
        value = own | {"x": {"value": "width"}, "text": {"field": "shown", "type": "nominal"}}
        return [
            _layer("text", own, align="left", limit=210, **words),
            _layer("text", value, align="right", fontWeight=600, **words),
        ]

    def _chance(self) -> float | None:
        values = [] if self.x.kind == "names" else [value for value in self.ends() if math.isfinite(value)]
        if self.chance is None or not math.isfinite(self.chance) or not values:
            return None
        low, high = min(values), max(values)
        return None if max(low - self.chance, self.chance - high) > high - low > 0 else self.chance


@dataclass(frozen=True, kw_only=True)
class Lines(Chart):
    """Values over names or numbers, one line per series.

    Attributes:
        x: field along the axis; `x_axis` with `kind="names"` for ordered names, over which intervals are side by side.
        y: axis of the values.
        rule: value of a dashed horizontal line.
        band: lower and upper limit of a grey band.
        band_text: words at the band.
        points: whether values have marks.
        steps: whether a value holds until the next one.
        path: field to connect points by; by the x axis if "".
    """

    x: str = "x"
    x_axis: Axis = field(default_factory=lambda: Axis(kind="names"))
    y: Axis = field(default_factory=Axis)
    rule: float | None = None
    band: tuple[float, float] | None = None
    band_text: str = ""
    points: bool = True
    steps: bool = False
    path: str = ""

    @property
    def place(self) -> str:
        return self.x

    def text(self, value: float) -> str:
        return self.y.text(value)

    @property
    def _intervals(self) -> bool:
        return len(self.entries) <= MOST_INTERVALS and any("low" in row for row in self.rows)

    def layers(self) -> list[Spec]:
        x = self.x_axis.channel(self.x, [] if self.x_axis.kind == "names" else [row[self.x] for row in self.rows])
        at: Spec = {"x": x}
        if self.x_axis.kind == "names":
            x |= {"sort": self.places(self.x_axis.order)}
            x |= {"scale": {"type": "band", "paddingInner": 0.7, "paddingOuter": 0.35}}
            at |= self.offset("xOffset") if self._intervals else {}
        y = self.y.channel("value", [*self.ends(), *(self.band or ()), *([] if self.rule is None else [self.rule])])
        many = len(self.entries) > MOST_INTERVALS
        line = {**at, "y": y, **self.look()}
        line |= {"order": {"field": self.path, "type": "quantitative"}} if self.path else {}
        shape: Spec = {"interpolate": "step-after"} if self.steps else {}
        found = [_layer("line", line, strokeWidth=1.6 if many else 2.4, clip=True, **shape)]
        if self._intervals:
            limits = {"y": {**y, "field": "low"}, "y2": {"field": "high"}}
            found.insert(0, _layer("rule", {**at, **limits, **self.look()}, test=_HAS_LIMITS, strokeWidth=1.5))
        if self.points:
            marks = {**at, "y": y, **self.look(shape=True)}
            found.append(_layer("point", marks, filled=True, size=36 if many else 70))
        return [*self._references(y), *found]

    def _references(self, y: Spec) -> list[Spec]:
        found = []
        if self.band is not None:
            low, high = self.band
            data = [{"low": low, "high": high, "value": (low + high) / 2, "text": self.band_text}]
            limits = {"y": {**y, "field": "low"}, "y2": {"field": "high"}}
            found.append(_layer("rect", limits, data=data, opacity=0.22, color=NEUTRAL))
            words = {"x": {"value": 0}, "y": {**y, "field": "high"}, "text": {"field": "text", "type": "nominal"}}
            style: Spec = {"align": "left", "dx": 4, "dy": -3, "baseline": "bottom", "color": NEUTRAL}
            found += [_layer("text", words, data=data, **style)] if self.band_text else []
        if self.rule is not None:
            found.append(_layer("rule", {"y": y}, data=[{"value": self.rule}], **_DASHED))
        return found


@dataclass(frozen=True, kw_only=True)
class Scatter(Chart):
    """One point per row at two numbers.

    Attributes:
        x: field along the horizontal axis; `value` is the vertical one.
        label: field with words beside a point.
        size: field with the size of a point.
        hollow: field that is true for marks that are not filled.
        lines: rows with `x`, `value` and the series: points to connect by lines, such as fits; by one dashed grey line
            if they have no series.
        choice: whether `value` is a list with one number per model of `keys`: the chart shows the points of the model
            under the pointer, or of the one that the reader chooses.
    """

    x: str = "x"
    x_axis: Axis = field(default_factory=lambda: Axis(kind="number"))
    y: Axis = field(default_factory=Axis)
    label: str = ""
    size: str = ""
    hollow: str = ""
    lines: Sequence[Row] = ()
    choice: bool = False

    @property
    def place(self) -> str:
        return self.label

    @property
    def entries(self) -> list[Key]:
        return list(self.keys) if self.choice else super().entries

    def text(self, value: float) -> str:
        return self.y.text(value)

    def default_height(self) -> int:
        return 320

    def words(self, limit: int = 40) -> str:
        return f"{len(self.rows):,} points" if self.choice or len(self.rows) > limit else super().words(limit)

    def layers(self) -> list[Spec]:
        x = self.x_axis.channel(self.x, [row[self.x] for row in (*self.rows, *self.lines)])
        values = [v for row in self.rows for v in (row["value"] if self.choice else [row["value"]]) if v is not None]
        y = self.y.channel("value", [*values, *(row["value"] for row in self.lines)])
        marks = {"x": x, "y": y, **self.look(shape=not self.choice)}
        if self.size:
            marks["size"] = {"field": self.size, "type": "quantitative", "scale": {"range": [60, 600]}, "legend": None}
        if self.hollow:
            marks["fillOpacity"] = {"condition": {"test": f"datum.{self.hollow}", "value": 0}, "value": 1}
            marks["fill"] = {**marks["color"], "legend": None}
        style: Spec = {"filled": not self.hollow, "strokeWidth": 2 if self.hollow else 0}
        style |= {} if self.size else {"size": 42 if len(self.rows) > 60 else 80}
        style |= {"opacity": 0.7} if len(self.rows) > 60 else {}
        points = _layer("point", marks, **style)
        points |= {"transform": self._chosen()} if self.choice else {}
        found = [points]
        if self.lines:
            own = {"x": x, "y": y, **({**self.look(), "tooltip": None} if self.series in self.lines[0] else {})}
            style = {} if self.series in self.lines[0] else _DASHED
            found.append(_layer("line", own, data=self.lines, clip=True, **{"strokeWidth": 2.5, **style}))
        if self.label:
            words = {"x": x, "y": y, "text": {"field": self.label, "type": "nominal"}}
            found.append(_layer("text", words, dy=-14, fontSize=11))
        return found

    def _chosen(self) -> list[Spec]:
        models, names = [key.key for key in self.keys], [key.label for key in self.keys]
        which = f"(indexof({models!r}, focus) < 0 ? indexof({models!r}, pick) : indexof({models!r}, focus))"
        return [
            {"calculate": f"({names!r})[{which}]", "as": self.series},
            {"calculate": f"datum.value[{which}]", "as": "value"},
            {"filter": "isValid(datum.value)"},
        ]

    def to_dict(self) -> Spec:
        found = super().to_dict()
        if self.choice:
            options = {"options": [k.key for k in self.keys], "labels": [k.label for k in self.keys]}
            bind = {"input": "select", "name": "points of", **options}
            focus = {"name": "focus", "value": ""}
            found["params"] = [focus, {"name": "pick", "value": self.keys[0].key, "bind": bind}]
        return found


@dataclass(frozen=True, kw_only=True)
class Bars(Chart):
    """Values as bars.

    Attributes:
        y: field that names the bar.
        x: axis of the values.
        order: names in order; in the order of the data if empty.
        vertical: whether bars are upright.
        pictures: field with data: addresses of pictures to show beside the bars, whose names and `shown` stand above.
    """

    y: str = "name"
    x: Axis = field(default_factory=lambda: Axis(zero=True))
    order: Sequence[str] = ()
    vertical: bool = False
    pictures: str = ""

    @property
    def place(self) -> str:
        return self.y

    def text(self, value: float) -> str:
        return self.x.text(value)

    def default_height(self) -> int:
        names = max(1, len(self.places(self.order)))
        if self.vertical:
            return 260
        return names * (64 if self.pictures else 13 * len(self.entries) + 8 if self.dodged else 18)

    def layers(self) -> list[Spec]:
        names, values = ("x", "y") if self.vertical else ("y", "x")
        place: Spec = {"field": self.y, "type": "nominal", "sort": self.places(self.order), "title": None}
        many = len(place["sort"]) if self.vertical else 0
        axis = {"grid": False, "labels": many <= 60, "labelLimit": 280, "labelAngle": -60 if many > 12 else 0}
        place["axis"] = None if self.pictures else axis
        value = self.x.channel("value", self.ends())
        at = {names: place, **self.offset(f"{names}Offset")}
        size: Spec = {"width" if self.vertical else "height": {"band": 0.85}}
        size = {"height": 4, "yOffset": 14} if self.pictures else size
        found = [_layer("bar", {**at, values: value, **self.look()}, **size)]
        if any("low" in row for row in self.rows):
            limits = {values: {**value, "field": "low"}, f"{values}2": {"field": "high"}}
            found.append(_layer("rule", {**at, **limits}, test=_HAS_LIMITS, color=INK, strokeWidth=1.5))
        if self.pictures:
            left, right = {"x": {"value": 0}}, {"x": value}
            name, shown = ({"text": {"field": each, "type": "nominal"}} for each in (self.y, "shown"))
            picture = {"x": {"value": -10}, "url": {"field": self.pictures, "type": "nominal"}}
            found += [
                _layer("text", {**at, **left, **name}, align="left", dx=2, dy=-4, fontSize=13),
                _layer("text", {**at, **right, **shown}, align="left", dx=6, dy=14),
                _layer("image", {**at, **picture}, test=f"datum.{self.pictures} != ''", align="right", **_PICTURE),
            ]
        return found


@dataclass(frozen=True, kw_only=True)
class Matrix(Chart):
    """A value per pair of names, as a coloured tile with `shown` in it.

    Attributes:
        x, y: fields with the names; `x_title` and `y_title` their titles.
        x_order, y_order: names in order; in the order of the data if empty.
        domain: the values of the lightest and of the darkest tile; those of the data if empty.
    """

    x: str = "x"
    y: str = "y"
    x_title: str = ""
    y_title: str = ""
    x_order: Sequence[str] = ()
    y_order: Sequence[str] = ()
    domain: Sequence[float] = ()

    @property
    def place(self) -> str:
        return self.x

    @property
    def entries(self) -> list[Key]:
        return []

    def words(self, limit: int = 40) -> str:
        texts = [f"{row[self.y]} and {row[self.x]} {row.get('shown', row['value'])}" for row in self.rows]
        return "; ".join(texts[:limit]) + (f" and {len(texts) - limit} more" if len(texts) > limit else "")

    def default_height(self) -> int:
        return 26 * len({row[self.y] for row in self.rows})

    def layers(self) -> list[Spec]:
        low, high = self.domain or (min(row["value"] for row in self.rows), max(row["value"] for row in self.rows))
        x_order, y_order = (
            list(order) or list(dict.fromkeys(row[name] for row in self.rows))
            for order, name in ((self.x_order, self.x), (self.y_order, self.y))
        )
        slanted = max(map(len, map(str, x_order))) * len(x_order) > 60
        at: Spec = {
            "x": {"field": self.x, "type": "nominal", "sort": x_order, "title": self.x_title or None}
            | {"axis": {"labelAngle": -40 if slanted else 0, "grid": False}},
            "y": {"field": self.y, "type": "nominal", "sort": y_order, "title": self.y_title or None}
            | {"axis": {"grid": False, "labelLimit": 280}},
            "tooltip": [{"field": name, "type": "nominal"} for name in (self.y, self.x, "shown")],
        }
        scale = {"domain": [low, high], "clamp": True, "range": list(_WHITE_TO_BLUE)}
        tiles = {**at, "color": {"field": "value", "type": "quantitative", "scale": scale, "legend": None}}
        dark = f"datum.value > {(low + high) / 2 + (high - low) / 12}"
        ink = {"condition": {"test": dark, "value": "white"}, "value": INK}
        words = {**at, "text": {"field": "shown", "type": "nominal"}, "color": ink}
        return [_layer("rect", tiles), _layer("text", words, fontSize=10)]


@dataclass(frozen=True, kw_only=True)
class Distribution(Chart):
    """Mirrored densities of `value`, one per name.

    Attributes:
        x: field with the names, in the order of the rows; `title` is its title.
        y: axis of the values.
    """

    x: str = "name"
    title: str = ""
    y: Axis = field(default_factory=Axis)
    series: str = ""

    def words(self, limit: int = 40) -> str:
        return f"{len(self.rows):,} values by {self.title or self.x}"

    def to_dict(self) -> Spec:
        names = list(dict.fromkeys(str(row[self.x]) for row in self.rows))
        slant = {"labelAngle": -25, "labelAlign": "right"} if max(map(len, names), default=0) > 8 else {}
        header = {"labelOrient": "bottom", "titleOrient": "bottom", **slant}
        density = {"density": "value", "as": ["value", "density"], "groupby": [self.x], "steps": 60}
        y = self.y.channel("value", self.ends())
        encoding = {
            "y": y,
            "x": {"field": "density", "type": "quantitative", "stack": "center", "axis": None},
            "column": {"field": self.x, "type": "nominal", "title": self.title or None, "spacing": 4}
            | {"sort": names, "header": header},
        }
        size = {"width": max(36, 240 // max(1, len(names))), "height": self.height or 150}
        mark = {"mark": {"type": "area", "orient": "horizontal", "color": PALETTE[0], "opacity": 0.7}}
        return {"data": {"values": [dict(row) for row in self.rows]}, "transform": [density], **mark, **size} | {
            "encoding": encoding
        }


@dataclass(frozen=True, kw_only=True)
class Strip(Chart):
    """A ranking as a curve: rows in order, the area below `value` coloured by `section`, with pictures above.

    Attributes:
        section: field that colours the curve; "" in it for rows between sections, which are grey.
        picture: field with the data: address of a picture to show above its place, with the row's `name`.
        between: what the rows between sections are called in the legend.
        x, y: titles of the axes.
    """

    section: str = "section"
    picture: str = "picture"
    between: str = "between levels"
    x: str = ""
    y: str = ""
    #: Points of a curve; more cannot be distinguished.
    most: int = 1_000

    def words(self, limit: int = 40) -> str:
        names = dict.fromkeys(str(row[self.section]) for row in self.rows if row[self.section])
        return f"{len(self.rows):,} ranked values in {len(names)} sections"

    def to_dict(self) -> Spec:
        sections = list(dict.fromkeys(str(row[self.section]) for row in self.rows if row[self.section]))
        x = {"field": "rank", "type": "quantitative", "title": self.x, "axis": {"grid": False, "format": ",d"}}
        x |= {"scale": {"nice": False, "domain": [0, len(self.rows)]}}
        y: Spec = {"field": "value", "type": "quantitative", "title": self.y}
        # Ticks of similarities end at 1, because pictures stand above.
        y |= {"axis": {"values": [0, 0.2, 0.4, 0.6, 0.8, 1]}} if max(r["value"] for r in self.rows) <= 1 else {}
        colours = [key.colour for key in other_keys(sections, PALETTE)]
        scale = {"domain": [*sections, self.between], "range": [*colours, _GREY]}
        curve: Spec = {"x": x, "y": y, "y2": {"field": "zero"}, "detail": {"field": "run", "type": "nominal"}}
        curve["color"] = {"field": self.section, "type": "nominal", "title": None, "scale": scale}
        area = _layer("area", curve, data=list(self._curve()), interpolate="step-after", opacity=0.85)
        size = {"width": self.width or CONTAINER, "height": self.height or 340}
        return {"layer": [area, *self._pictures(x)], **size}

    def _curve(self) -> Iterator[Row]:
        """Yield some rows of every run of one section; each run reaches to the beginning of the next one."""
        starts = [i for i, row in enumerate(self.rows) if not i or self.rows[i - 1][self.section] != row[self.section]]
        step = max(1, len(self.rows) // self.most)
        for run, (first, after) in enumerate(zip(starts, [*starts[1:], len(self.rows)], strict=True)):
            for place in sorted({*range(first, after, step), after - 1}):
                row = self.rows[place]
                own = {"value": row["value"], "zero": 0.0, "run": run, self.section: row[self.section] or self.between}
                yield {"rank": place, **own}
                if place == after - 1:
                    yield {"rank": after, **own}

    def _pictures(self, x: Spec) -> list[Spec]:
        shown = [(place, row) for place, row in enumerate(self.rows) if row.get(self.picture)]
        data = [
            {"rank": place, "name": row["name"], "picture": row[self.picture], "value": row["value"]}
            | {name: height + 0.34 * (number % 2) for name, height in (("top", 1.14), ("word", 1.0), ("base", 0.96))}
            for number, (place, row) in enumerate(shown)
        ]

        def at(name: str) -> Spec:
            return {"x": x, "y": {"field": name, "type": "quantitative"}}

        if not data:
            return []
        stem = {**at("value"), "y2": {"field": "base"}}
        picture = {**at("top"), "url": {"field": "picture", "type": "nominal"}}
        word = {**at("word"), "text": {"field": "name", "type": "nominal"}}
        layers = [
            _layer("rule", stem, color=NEUTRAL, strokeWidth=0.8),
            _layer("image", picture, **_PICTURE),
            _layer("text", word, fontSize=10, limit=90),
        ]
        return [{"data": {"values": data}, "layer": layers}]


@dataclass(frozen=True, kw_only=True)
class Panels(Chart):
    """Several charts side by side, each with its own axes.

    Attributes:
        charts: the charts; give their axes the same `include` for one scale.
        titles: one per chart.
        columns: charts per row.
    """

    charts: Sequence[Chart]
    titles: Sequence[str] = ()
    columns: int = 2

    @property
    def shows_models(self) -> bool:
        return all(chart.shows_models for chart in self.charts)

    def words(self, limit: int = 40) -> str:
        titles = self.titles or [""] * len(self.charts)
        texts = [f"{title}: {chart.words(limit)}" for title, chart in zip(titles, self.charts, strict=True)]
        return ". ".join(text.removeprefix(": ") for text in texts)

    def to_dict(self) -> Spec:
        spec = beside([to_spec(chart) for chart in self.charts], titles=self.titles, columns=self.columns)
        alike = len({tuple(chart.entries) for chart in self.charts}) == 1
        kind = "shared" if alike else "independent"
        return spec | {"resolve": {"scale": {"color": kind, "shape": kind}}}
