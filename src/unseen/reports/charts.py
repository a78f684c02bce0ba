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
from typing import Any, ClassVar, Literal

from unseen.core.identity import Values
from unseen.reports.theme import CONTAINER, FOCUS, Spec, other_keys
from unseen.reports.theme import INK as INK
from unseen.reports.theme import NEUTRAL as NEUTRAL
from unseen.reports.theme import OTHERS as OTHERS
from unseen.reports.theme import PALETTE as PALETTE
from unseen.reports.theme import Key as Key
from unseen.reports.theme import beside as beside
from unseen.reports.theme import save_chart as save_chart
from unseen.reports.theme import series_keys as series_keys
from unseen.reports.theme import to_spec as to_spec
from unseen.reports.theme import without_legends as without_legends
from unseen.results.table import Table
from unseen.stats import Interval

Row = Mapping[str, Any]

#: The largest number of series whose intervals are drawn in `Lines`.
MOST_INTERVALS = 6
#: The largest number of entries of a chart's own legend.
_MOST_ENTRIES = 24
#: Marks from which on a scatter plot has small, transparent marks.
_MANY_POINTS = 60
_DASHED: Spec = {"color": NEUTRAL, "strokeDash": [4, 4], "strokeWidth": 1.5}
_PICTURE: Spec = {"width": 52, "height": 52}
_DIMMED = 0.14
_WHITE_TO_BLUE = ("#F4F6F9", PALETTE[0])
_GREY = "#C9CED6"


def _encode(name: str, kind: str = "nominal", **more: object) -> Spec:
    """Return the encoding of a field."""
    return {"field": name, "type": kind, **more}


def _layer(mark: str, encoding: Spec, *, data: Sequence[Row] | None = None, test: str = "", **style: object) -> Spec:
    """Return a layer; with its own data, or with the rows of the chart that pass a test."""
    found: Spec = {"mark": {"type": mark, **style}, "encoding": encoding}
    found |= {} if data is None else {"data": {"values": data}}
    return found | ({"transform": [{"filter": test}]} if test else {})


def _span(along: str, channel: Spec) -> Spec:
    """Return the encoding of a line from `low` to `high` along an axis."""
    return {along: {**channel, "field": "low"}, f"{along}2": {"field": "high"}}


def _rule(along: str, channel: Spec, value: float, **style: Any) -> Spec:
    """Return the layer of a straight line at a value of an axis."""
    return _layer("rule", {along: channel}, data=[{"value": value}], **style)


_HAS_LIMITS = "isValid(datum.low) && isValid(datum.high)"


def percent_axis(values: Iterable[float]) -> Spec:
    """Return the domain, the ticks and the format of labels for shares: at most six ticks, never beyond 0 and 100 %.

    Args:
        values: everything that is drawn, including limits of intervals.
    """
    known = [min(1.0, max(0.0, value)) for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(known), max(known)
    step = next((s for s in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2) if high - low <= 5 * s + 1e-9), 0.5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    last = min(max(last, first + 1), round(1 / step))
    ticks = [round(number * step, 6) for number in range(min(first, last - 1), last + 1)]
    return {"domain": [ticks[0], ticks[-1]], "ticks": ticks, "format": ".0%" if step >= 0.01 else ".1%"}


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

    def text(self, value: object) -> str:
        """Return a value as text."""
        forms = {"percent": "{:.1%}", "points": "{:+.1f}", "names": "{}"}
        return forms.get(self.kind, "{:.4g}").format(value).replace("%", " %")

    def channel(self, name: str, values: Iterable[float] = (), *, grid: bool = True) -> Spec:
        """Return the encoding of a field.

        Args:
            values: what the chart shows along the axis, including limits of intervals.
        """
        title = self.title or None
        if self.kind == "names":
            return _encode(name, title=title, sort=list(self.order) or None, axis={"grid": False, "labelAngle": 0})
        known = [value for value in (*values, *self.include, *[0.0] * self.zero) if math.isfinite(value)]
        axis: Spec = {"grid": grid, "labelFlush": True}
        scale: Spec = {"zero": self.zero, "nice": True}
        if self.kind == "percent":
            ticks = percent_axis(known)
            axis |= {"format": ticks["format"], "values": ticks["ticks"]}
            scale |= {"domain": ticks["domain"], "nice": False}
        elif self.kind == "log":
            # SI prefixes would show a tenth as "100m".
            axis |= {"format": "~s" if min(known, default=1.0) >= 10 else "~g", "tickCount": 5}
            scale = {"type": "log", "nice": False, "padding": 12}
        else:
            axis |= {"format": "+,.1~f" if self.kind == "points" else ",.4~g", "tickCount": 6}
            scale |= {"domain": [min(known), max(known)]} if known else {}
        return _encode(name, "quantitative", title=title, axis=None if self.hidden else axis, scale=scale)


def interval_fields(interval: Interval, scale: float = 1.0) -> dict[str, float]:
    """Return a value and the limits of its interval as fields of a row; no limits if they are unknown."""
    limits = {"low": scale * interval.low, "high": scale * interval.high} if interval.known else {}
    return {"value": scale * interval.value, **limits}


def table_rows(table: Table) -> list[Values]:
    """Return one row per number of a table: `model`, `name`, `column`, `value`, its limits, `shown`, `n`, `cells`."""
    found: list[Values] = []
    for number, (name, *cells) in enumerate(table.rows):
        for heading, cell in zip(table.columns[1:], cells, strict=True):
            if cell.value is None or not math.isfinite(cell.value):
                continue
            model = table.row_keys[number] if table.row_keys else None
            optional = {"model": model, "n": cell.n, "chance": cell.chance}
            found.append(
                {"name": name.shown, "column": heading, "shown": cell.full, "cells": list(cell.cells)}
                | interval_fields(cell.interval or Interval(cell.value, math.nan, math.nan))
                | {field: value for field, value in optional.items() if value is not None}
            )
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
        hollow: field that is true for points that are not filled.
    """

    rows: Sequence[Row] = ()
    series: str = "name"
    keys: Sequence[Key] = ()
    tooltip: Mapping[str, str] = field(default_factory=dict)
    height: int = 0
    width: int = 0
    hollow: str = ""

    #: The attribute with the field that names the place of a row, and the attribute with the axis of the values.
    _place: ClassVar[str] = ""
    _values: ClassVar[str] = ""

    def layers(self) -> list[Spec]:
        """Return the layers, from back to front."""
        raise NotImplementedError

    def data(self) -> list[Spec]:
        """Return the rows that the layers draw."""
        return [dict(row) for row in self.rows]

    def default_height(self) -> int:
        """Return the height in pixels for the rows of the chart."""
        return 280

    def to_dict(self) -> Spec:
        """Return the chart as a Vega-Lite specification."""
        size = {"width": self.width or CONTAINER, "height": self.height or self.default_height()}
        return {"data": {"values": self.data()}, "layer": self.layers(), **size}

    @property
    def place(self) -> str:
        """Return the field that names the place of a row, "" if rows have none."""
        return str(getattr(self, self._place, ""))

    @property
    def named(self) -> Sequence[str]:
        """Return the fields that name a row."""
        return list(dict.fromkeys(name for name in (self.series, self.place) if name))

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
        text = getattr(self, self._values, Axis(kind="number")).text
        texts = [
            " ".join([*(str(row[name]) for name in self.named if name in row), str(shown)])
            for row in self.rows
            for shown in [row.get("shown") or text(row["value"])]
        ]
        return "; ".join(texts[:limit]) + (f" and {len(texts) - limit} more" if len(texts) > limit else "")

    # ---- encodings and layers that several charts share

    def colour(self, channel: str = "colour") -> Spec:
        """Return the encoding of the series as a colour, or as a shape."""
        entries = self.entries
        scale = {"domain": [key.label for key in entries], "range": [getattr(key, channel) for key in entries]}
        legend: Spec = {"title": None, "columns": min(4, len(entries)), "symbolLimit": 0, "labelLimit": 260}
        own = 1 < len(entries) <= _MOST_ENTRIES and self.series != self.place
        return _encode(self.series, scale=scale, legend=legend if own else None)

    def look(self, *, shape: bool = False) -> Spec:
        """Return colour, highlight and tooltip of a mark, and its shape on request."""
        found: Spec = {"tooltip": self.tooltips()}
        found |= {"color": self.colour()} if self.series else {"color": {"value": PALETTE[0]}}
        found |= {"shape": self.colour("shape")} if shape and self.series else {}
        if self.shows_models or any("model" in row for row in self.rows):
            found["opacity"] = {"condition": {"test": FOCUS, "value": 1}, "value": _DIMMED}
        return found

    def tooltips(self) -> list[Spec]:
        """Return the fields to show on hover: by default what names the row, and its value."""
        occurring = {name for row in self.rows for name in row}
        value = {"shown" if "shown" in occurring else "value": "value"}
        fields = dict(self.tooltip) or {name: name for name in self.named} | value
        if self.shows_models and not self.tooltip:
            fields[self.series] = "model"
        return [_encode(name, title=title) for name, title in fields.items() if name in occurring]

    def marks(self, at: Spec, *, shape: bool = True, **style: Any) -> Spec:
        """Return a layer of points, hollow where the rows say so."""
        marks = {**at, **self.look(shape=shape)}
        if self.hollow:
            marks["fillOpacity"] = {"condition": {"test": f"datum.{self.hollow}", "value": 0}, "value": 1}
            marks["fill"] = {**marks["color"], "legend": None}
        return _layer("point", marks, filled=not self.hollow, strokeWidth=2 if self.hollow else 0, **style)

    @property
    def dodged(self) -> bool:
        """Return whether several rows share a place and are drawn side by side."""
        places = [row[self.place] for row in self.rows]
        return bool(self.series) and self.series != self.place and len(set(places)) < len(places)

    def offset(self, channel: str) -> Spec:
        """Return the encoding that draws the series of one place side by side."""
        scale = {"domain": [key.label for key in self.entries]}
        return {channel: _encode(self.series, scale=scale)} if self.dodged else {}

    def places(self, order: Sequence[str], name: str = "") -> list[str]:
        """Return the names along the axis of names, in order."""
        found = list(dict.fromkeys(str(row[name or self.place]) for row in self.rows))
        return [each for each in order if each in found] or found

    def ends(self) -> Iterator[float]:
        """Yield the values and the limits of their intervals."""
        for row in self.rows:
            yield from (row[name] for name in ("value", "low", "high") if row.get(name) is not None)


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
    """

    y: str = "name"
    x: Axis = field(default_factory=Axis)
    order: Sequence[str] = ()
    above: bool = False
    chance: float | None = None
    rule: float | None = None
    joined: bool = False
    seeds: str = ""

    _place = "y"
    _values = "x"

    @property
    def _tight(self) -> bool:
        return len(self.places(self.order)) > 12

    def _row(self) -> tuple[int, int]:
        """Return the height of a row without its name, and the gap above it."""
        band = 8 if self._tight else 16
        if self.dodged:
            band = max(20, min(110, (15 if self.above else 9) * len(self.entries)))
        return band, (20 if self._tight else 26) if self.above else 8

    def default_height(self) -> int:
        band, gap = self._row()
        return max(1, len(self.places(self.order))) * (band + gap) + gap * self.above

    def layers(self) -> list[Spec]:
        band, gap = self._row()
        inner = gap / (band + gap)
        scale = {"paddingInner": inner, "paddingOuter": inner if self.above else inner / 2}
        axis = {"labels": False, "grid": not self.dodged} if self.above else {"labelLimit": 300, "grid": True}
        y = _encode(self.y, sort=self.places(self.order), title=None, scale=scale, axis=axis)
        chance = self._chance()
        x = self.x.channel(
            "value", (each for each in (*self.ends(), chance) if each is not None), grid=self.dodged or not self.above
        )
        at = {"y": y, **self.offset("yOffset")}
        few = len(self.entries) <= 8 if self.dodged else not self._tight
        found = []
        if self.joined:
            ends = {"x": {**x, "aggregate": "min"}, "x2": {"field": "value", "aggregate": "max"}}
            found.append(_layer("rule", {"y": y, **ends}, color=NEUTRAL, opacity=0.3, strokeWidth=4))
        if chance is not None:
            found.append(_rule("x", x, chance, tooltip=f"chance: {self.x.text(chance)}", **_DASHED))
        if self.rule is not None:
            found.append(_rule("x", x, self.rule, color=INK, strokeWidth=1))
        look = {**at, **self.look()}
        found.append(_layer("rule", {**look, **_span("x", x)}, test=_HAS_LIMITS, strokeWidth=2.2 if few else 1.2))
        if self.seeds:
            faint = {"condition": {"test": FOCUS, "value": 0.5}, "value": 0.1}
            ticks = {**look, "x": _encode(self.seeds, "quantitative"), "opacity": faint}
            found.append(_layer("tick", ticks, thickness=1.5) | {"transform": [{"flatten": [self.seeds]}]})
        found.append(self.marks({"x": x, **at}, size=70 if few else 34))
        return [*found, *(self._names(y, band) if self.above else [])]

    def _names(self, y: Spec, band: int) -> Iterator[Spec]:
        """Yield the names above the rows, and the value on the right if each row has one."""
        style: Spec = {"dy": -band / 2 - 4, "baseline": "bottom", "fontSize": 10 if self._tight else 12.5}
        own = {"y": y, "x": {"value": 0}, "text": _encode(self.y), "color": {"value": INK}}
        if self.dodged:
            data = [{self.y: name} for name in self.places(self.order)]
            yield _layer("text", own, data=data, align="left", fontWeight=600, limit=600, **style)
            return
        own |= {name: channel for name, channel in self.look().items() if name == "opacity"}
        value = {**own, "x": {"value": "width"}, "text": _encode("shown")}
        yield _layer("text", own, align="left", limit=210, **style)
        yield _layer("text", value, align="right", fontWeight=600, **style)

    def _chance(self) -> float | None:
        if self.chance is None or not math.isfinite(self.chance):
            return None
        values = [value for value in self.ends() if math.isfinite(value)] or [self.chance]
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

    _place = "x"
    _values = "y"

    def layers(self) -> list[Spec]:
        few = len(self.entries) <= MOST_INTERVALS
        intervals = few and any("low" in row for row in self.rows)
        at: Spec = {"x": self.x_axis.channel(self.x, (row[self.x] for row in self.rows))}
        if self.x_axis.kind == "names":
            scale = {"type": "band", "paddingInner": 0.7, "paddingOuter": 0.35}
            at["x"] |= {"sort": self.places(self.x_axis.order), "scale": scale}
            at |= self.offset("xOffset") if intervals else {}
        references = [each for each in (*(self.band or ()), self.rule) if each is not None]
        y = self.y.channel("value", (*self.ends(), *references))
        look = {**at, "y": y, **self.look()}
        found = []
        if self.band is not None:
            data = [dict(zip(("low", "high"), self.band, strict=True)) | {"text": self.band_text}]
            found.append(_layer("rect", _span("y", y), data=data, opacity=0.22, color=NEUTRAL))
            words = {"x": {"value": 4}, "y": {**y, "field": "high"}, "text": _encode("text")}
            found.append(_layer("text", words, data=data, align="left", dy=-3, baseline="bottom", color=NEUTRAL))
        if self.rule is not None:
            found.append(_rule("y", y, self.rule, **_DASHED))
        if intervals:
            found.append(_layer("rule", {**look, **_span("y", y)}, test=_HAS_LIMITS, strokeWidth=1.5))
        path = {"order": _encode(self.path, "quantitative")} if self.path else {}
        steps: Spec = {"interpolate": "step-after"} if self.steps else {}
        found.append(_layer("line", look | path, strokeWidth=2.4 if few else 1.6, clip=True, **steps))
        return [*found, *([self.marks({**at, "y": y}, size=70 if few else 36)] if self.points else [])]


@dataclass(frozen=True, kw_only=True)
class Scatter(Chart):
    """Two numbers per row: a mark, with its label and size.

    Attributes:
        x: field along the x axis; `x_axis` is its axis.
        y: axis of `value`.
        label: field to write beside the marks.
        size: field that sets the area of a mark.
        lines: rows with `x`, `value` and, for lines in the colours of the series, the series; else dashed.
        choice: whether the points are those of one model at a time: the one under the pointer, or that the reader
            chooses. `value` is then a list with one value per entry of `keys`, None where a model has none.
    """

    x: str = "x"
    x_axis: Axis = field(default_factory=lambda: Axis(kind="number"))
    y: Axis = field(default_factory=Axis)
    label: str = ""
    size: str = ""
    lines: Sequence[Row] = ()
    choice: bool = False

    _place = "label"
    _values = "y"

    @property
    def entries(self) -> list[Key]:
        return list(self.keys) if self.choice else super().entries

    def default_height(self) -> int:
        return 320

    def words(self, limit: int = 40) -> str:
        return f"{len(self.rows):,} points" if self.choice or len(self.rows) > limit else super().words(limit)

    def layers(self) -> list[Spec]:
        every, many = [*self.rows, *self.lines], len(self.rows) > _MANY_POINTS
        values = [
            value for row in every for value in (row["value"] if isinstance(row["value"], list) else [row["value"]])
        ]
        x = self.x_axis.channel(self.x, (row[self.x] for row in every))
        at = {"x": x, "y": self.y.channel("value", (value for value in values if value is not None))}
        area = {"size": _encode(self.size, "quantitative", scale={"range": [60, 600]}, legend=None)}
        style: Spec = {"size": 42 if many else 80, "opacity": 0.7 if many else 1}
        points = self.marks(at | (area if self.size else {}), shape=not self.choice, **style)
        found = [points | ({"transform": self._chosen()} if self.choice else {})]
        if self.lines:
            own = self.series in self.lines[0]
            look = {**self.look(), "tooltip": None} if own else {}
            line: Spec = {"strokeWidth": 2.5} if own else _DASHED
            found.append(_layer("line", {**at, **look}, data=self.lines, clip=True, **line))
        if self.label:
            found.append(_layer("text", {**at, "text": _encode(self.label)}, dy=-14, fontSize=11))
        return found

    def data(self) -> list[Spec]:
        rows = super().data()
        # Vega computes `value` again whenever the choice changes: it must not be computed from itself.
        return [{**row, "values": row["value"], "value": None} for row in rows] if self.choice else rows

    def _chosen(self) -> list[Spec]:
        models, names = [key.key for key in self.keys], [key.label for key in self.keys]
        which = f"(indexof({models!r}, focus) < 0 ? indexof({models!r}, pick) : indexof({models!r}, focus))"
        return [
            {"calculate": f"({names!r})[{which}]", "as": self.series},
            {"calculate": f"datum.values[{which}]", "as": "value"},
            {"filter": "isValid(datum.value)"},
        ]

    def to_dict(self) -> Spec:
        if not self.choice:
            return super().to_dict()
        options = {"options": [key.key for key in self.keys], "labels": [key.label for key in self.keys]}
        pick = {"name": "pick", "value": self.keys[0].key, "bind": {"input": "select", "name": "points of", **options}}
        return super().to_dict() | {"params": [pick]}


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

    _place = "y"
    _values = "x"

    def default_height(self) -> int:
        step = 64 if self.pictures else 13 * len(self.entries) + 8 if self.dodged else 18
        return 260 if self.vertical else step * max(1, len(self.places(self.order)))

    def layers(self) -> list[Spec]:
        across, along, thickness = ("x", "y", "width") if self.vertical else ("y", "x", "height")
        names = self.places(self.order)
        many = len(names) if self.vertical else 0
        axis = {"grid": False, "labels": many <= 60, "labelLimit": 280, "labelAngle": -60 if many > 12 else 0}
        place = _encode(self.y, sort=names, title=None, axis=None if self.pictures else axis)
        value = self.x.channel("value", self.ends())
        at = {across: place, **self.offset(f"{across}Offset")}
        size: Spec = {"height": 4, "yOffset": 14} if self.pictures else {thickness: {"band": 0.85}}
        found = [_layer("bar", {**at, along: value, **self.look()}, **size)]
        if any("low" in row for row in self.rows):
            found.append(_layer("rule", {**at, **_span(along, value)}, test=_HAS_LIMITS, color=INK, strokeWidth=1.5))
        if self.pictures:
            name, shown = {"x": {"value": 2}, "text": _encode(self.y)}, {"x": value, "text": _encode("shown")}
            picture, some = {"x": {"value": -10}, "url": _encode(self.pictures)}, f"datum.{self.pictures} != ''"
            found += [
                _layer("text", {**at, **name}, align="left", dy=-4, fontSize=13),
                _layer("text", {**at, **shown}, align="left", dx=6, dy=14),
                _layer("image", {**at, **picture}, test=some, align="right", **_PICTURE),
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
    def named(self) -> Sequence[str]:
        return self.y, self.x

    @property
    def entries(self) -> list[Key]:
        return []

    def default_height(self) -> int:
        return 26 * len(self.places((), self.y))

    def layers(self) -> list[Spec]:
        values = [row["value"] for row in self.rows]
        low, high = self.domain or (min(values), max(values))
        columns, rows = self.places(self.x_order, self.x), self.places(self.y_order, self.y)
        slanted = max(map(len, columns)) * len(columns) > 60
        x_axis, y_axis = {"labelAngle": -40 if slanted else 0, "grid": False}, {"grid": False, "labelLimit": 280}
        at: Spec = {
            "x": _encode(self.x, sort=columns, title=self.x_title or None, axis=x_axis),
            "y": _encode(self.y, sort=rows, title=self.y_title or None, axis=y_axis),
            "tooltip": self.tooltips(),
        }
        scale = {"domain": [low, high], "clamp": True, "range": list(_WHITE_TO_BLUE)}
        tiles = _encode("value", "quantitative", scale=scale, legend=None)
        dark = f"datum.value > {(low + high) / 2 + (high - low) / 12}"
        ink = {"condition": {"test": dark, "value": "white"}, "value": INK}
        return [
            _layer("rect", {**at, "color": tiles}),
            _layer("text", {**at, "text": _encode("shown"), "color": ink}, fontSize=10),
        ]


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

    _place = "x"

    def words(self, limit: int = 40) -> str:
        return f"{len(self.rows):,} values by {self.title or self.x}"

    def to_dict(self) -> Spec:
        names = self.places(())
        slant = {"labelAngle": -25, "labelAlign": "right"} if max(map(len, names), default=0) > 8 else {}
        header = {"labelOrient": "bottom", "titleOrient": "bottom", **slant}
        return {
            "data": {"values": self.data()},
            "transform": [{"density": "value", "as": ["value", "density"], "groupby": [self.x], "steps": 60}],
            "mark": {"type": "area", "orient": "horizontal", "color": PALETTE[0], "opacity": 0.7},
            "encoding": {
                "y": self.y.channel("value", self.ends()),
                "x": _encode("density", "quantitative", stack="center", axis=None),
                "column": _encode(self.x, title=self.title or None, spacing=4, sort=names, header=header),
            },
            "width": max(36, 240 // max(1, len(names))),
            "height": self.height or 150,
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

    _place = "section"

    @property
    def _sections(self) -> list[str]:
        return [name for name in self.places(()) if name]

    def words(self, limit: int = 40) -> str:
        return f"{len(self.rows):,} ranked values in {len(self._sections)} sections"

    def default_height(self) -> int:
        return 340

    def data(self) -> list[Spec]:
        """Return the rows with pictures, which stand at two heights in turn, and at most `most` others."""
        step = max(1, len(self.rows) // self.most)
        found: list[Spec] = []
        pictures = 0
        for rank, row in enumerate(self.rows):
            if row.get(self.picture):
                pictures += 1
                found.append({**row, "rank": rank, "top": 1.48 - 0.34 * (pictures % 2)})
            elif not rank % step:
                found.append({"rank": rank, "value": row["value"], self.section: row[self.section]})
        return found

    def layers(self) -> list[Spec]:
        scale = {"nice": False, "domain": [0, len(self.rows)]}
        x = _encode("rank", "quantitative", title=self.x, axis={"grid": False, "format": ",d"}, scale=scale)
        y = _encode("value", "quantitative", title=self.y, stack=None)
        # Ticks of similarities end at 1, because pictures stand above.
        y |= {"axis": {"values": [0, 0.2, 0.4, 0.6, 0.8, 1]}} if max(self.ends()) <= 1 else {}
        colours = [key.colour for key in other_keys(self._sections, PALETTE)]
        scale = {"domain": [*self._sections, self.between], "range": [*colours, _GREY]}
        colour = {"color": _encode(self.section, title=None, scale=scale)}
        at, own = {"x": x, "y": y}, f"isValid(datum.{self.picture})"
        above = {"x": x, "y": {**y, "field": "top"}}
        return [
            _layer("area", at, color=_GREY, interpolate="step-after"),
            _layer("area", at | colour, test=f"datum.{self.section} != ''", interpolate="step-after"),
            _layer("rule", {**at, "y2": {"field": "top"}}, test=own, color=NEUTRAL, strokeWidth=0.8),
            _layer("image", {**above, "url": _encode(self.picture)}, test=own, **_PICTURE),
            _layer("text", {**above, "text": _encode("name")}, test=own, dy=-34, fontSize=10, limit=90),
        ]


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
        texts = [chart.words(limit) for chart in self.charts]
        return ". ".join(map(": ".join, zip(self.titles, texts, strict=True)) if self.titles else texts)

    def to_dict(self) -> Spec:
        spec = beside([to_spec(chart) for chart in self.charts], titles=self.titles, columns=self.columns)
        kind = "shared" if len({tuple(chart.entries) for chart in self.charts}) == 1 else "independent"
        return spec | {"resolve": {"scale": {"color": kind, "shape": kind}}}
