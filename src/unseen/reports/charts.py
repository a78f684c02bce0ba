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

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, ClassVar, Literal

from unseen.core.identity import Values
from unseen.reports.theme import CONTAINER, FOCUS, PANEL_WIDTH, Spec, other_keys
from unseen.reports.theme import INK as INK
from unseen.reports.theme import NEUTRAL as NEUTRAL
from unseen.reports.theme import OTHERS as OTHERS
from unseen.reports.theme import PALETTE as PALETTE
from unseen.reports.theme import Key as Key
from unseen.reports.theme import save_chart as save_chart
from unseen.reports.theme import series_keys as series_keys
from unseen.reports.theme import to_spec as to_spec
from unseen.reports.theme import without_legends as without_legends
from unseen.results.table import Table
from unseen.stats import Interval

Row = Mapping[str, Any]

#: The largest number of series whose intervals are drawn in `Lines`.
MOST_INTERVALS = 6
#: Values that the alternative text of a chart states.
_MOST_WORDS = 40
#: The largest number of entries of a chart's own legend.
_MOST_ENTRIES = 24
#: Points of a ranking; more cannot be distinguished.
_MOST_PLACES = 1_000
#: Marks from which on a scatter plot has small, transparent marks.
_MANY_POINTS = 60
_DIMMED = 0.14
_GREY = "#C9CED6"


def _encode(name: str, kind: str = "nominal", **more: object) -> Spec:
    """Return the encoding of a field."""
    return {"field": name, "type": kind, **more}


#: The specification of each chart as text.
_TEMPLATES = {
    name: json.dumps(template)
    for name, template in json.loads((files("unseen.reports") / "charts.json").read_text(encoding="utf-8")).items()
}


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
        if self.kind == "percent":  # Vega's ticks divide 100 %, so that a nice axis does not go beyond
            axis |= {"format": ".3~%", "tickCount": 5}
            shares = [min(1.0, max(0.0, value)) for value in known] or [0.0, 1.0]
            room = 0.05 if min(shares) == max(shares) else 0.0
            scale |= {"domain": [max(0.0, min(shares) - room), min(1.0, max(shares) + room)]}
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
    """Return one row per number of a table: `model`, `name`, `column`, `value`, its limits, `shown`, `cells`."""
    return [
        {"name": name.shown, "column": heading, "shown": cell.full, "cells": list(cell.cells)}
        | ({"model": table.row_keys[number]} if table.row_keys else {})
        | interval_fields(cell.interval or Interval(cell.value, math.nan, math.nan))
        for number, (name, *cells) in enumerate(table.rows)
        for heading, cell in zip(table.columns[1:], cells, strict=True)
        if cell.value is not None and math.isfinite(cell.value)
    ]


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

    def body(self) -> Spec:
        """Return the specification without data and size."""
        raise NotImplementedError

    def template(self, chart: str, **values: Any) -> Spec:
        """Return a specification of `charts.json` with values in place of the texts "$name".

        What is not among `values` is an attribute of the chart. The fields of a mapping "$name" are inserted where the
        key begins with "*". A layer is left out if its "if" is false, empty or None.
        """

        def value(text: Any) -> Any:
            if isinstance(text, list):
                return [value(each) for each in text]
            if not str(text).startswith("$"):
                return text
            return values[text[1:]] if text[1:] in values else getattr(self, text[1:])

        def drawn(condition: Any) -> bool:
            return condition is not False and condition not in (None, "", ())  # 0 is a value

        def fill(part: Spec) -> Spec:
            found: Spec = {}
            for key, text in part.items():
                found |= (value(text) or {}) if key.startswith("*") else {key: value(text)}
            if "layer" in found:
                found["layer"] = [layer for layer in found["layer"] if drawn(layer.pop("if", True))]
            return found

        made: Spec = json.loads(_TEMPLATES[chart], object_hook=fill)
        return made

    def data(self) -> list[Spec]:
        """Return the rows that the layers draw."""
        return [dict(row) for row in self.rows]

    def default_height(self) -> int:
        """Return the height in pixels for the rows of the chart."""
        return 280

    def to_dict(self) -> Spec:
        """Return the chart as a Vega-Lite specification."""
        size = {"width": self.width or CONTAINER, "height": self.height or self.default_height()}
        return {"data": {"values": self.data()}, **self.body(), **size}

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

    def words(self) -> str:
        """Return the values as words, for readers who cannot see the chart."""
        text = getattr(self, self._values, Axis(kind="number")).text
        texts = [
            " ".join([*(str(row[name]) for name in self.named if name in row), str(shown)])
            for row in self.rows
            for shown in [row.get("shown") or text(row["value"])]
        ]
        more = len(texts) - _MOST_WORDS
        return "; ".join(texts[:_MOST_WORDS]) + (f" and {more} more" if more > 0 else "")

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

    def marks(self, at: Spec, **style: Any) -> Spec:
        """Return a layer of points, hollow where the rows say so."""
        look = self.look(shape=True)
        if self.hollow:
            look["fillOpacity"] = {"condition": {"test": f"datum.{self.hollow}", "value": 0}, "value": 1}
            look["fill"] = {**look["color"], "legend": None}
        mark = {"type": "point", "filled": not self.hollow, "strokeWidth": 2 if self.hollow else 0}
        return {"mark": mark | style, "encoding": {**at, **look}}

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
        joined: whether a grey bar joins the values of a row.
        seeds: field with a list of the values of single seeds, drawn as ticks.
    """

    y: str = "name"
    x: Axis = field(default_factory=Axis)
    order: Sequence[str] = ()
    above: bool = False
    chance: float | None = None
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

    def body(self) -> Spec:
        band, gap = self._row()
        inner = gap / (band + gap)
        scale = {"paddingInner": inner, "paddingOuter": inner if self.above else inner / 2}
        axis = {"labels": False, "grid": not self.dodged} if self.above else {"labelLimit": 300, "grid": True}
        names, look = self.places(self.order), self.look()
        y = _encode(self.y, sort=names, title=None, scale=scale, axis=axis)
        chance = self._chance()
        shown = [each for each in (*self.ends(), chance) if each is not None]
        x = self.x.channel("value", shown, grid=self.dodged or not self.above)
        at = {"y": y, **self.offset("yOffset")}
        few = len(self.entries) <= 8 if self.dodged else not self._tight
        return self.template(
            "dots",
            x=x,
            y=y,
            at=at,
            look=look,
            chance=chance,
            chance_words=f"chance: {self.x.text(chance)}" if chance is not None else "",
            thickness=2.2 if few else 1.2,
            focus=FOCUS,
            points=self.marks({"x": x, **at}, size=70 if few else 34),
            name=self.y,
            names_bands=self.above and self.dodged,
            names_rows=self.above and not self.dodged,
            bands=[{self.y: name} for name in names],
            faint={name: channel for name, channel in look.items() if name == "opacity"},
            lift=-band / 2 - 4,
            letters=10 if self._tight else 12.5,
        )

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
    """

    x: str = "x"
    x_axis: Axis = field(default_factory=lambda: Axis(kind="names"))
    y: Axis = field(default_factory=Axis)
    rule: float | None = None
    band: tuple[float, float] | None = None
    band_text: str = ""
    points: bool = True
    steps: bool = False

    _place = "x"
    _values = "y"

    def body(self) -> Spec:
        few = len(self.entries) <= MOST_INTERVALS
        intervals = few and any("low" in row for row in self.rows)
        at: Spec = {"x": self.x_axis.channel(self.x, (row[self.x] for row in self.rows))}
        if self.x_axis.kind == "names":
            scale = {"type": "band", "paddingInner": 0.7, "paddingOuter": 0.35}
            at["x"] |= {"sort": self.places(self.x_axis.order), "scale": scale}
            at |= self.offset("xOffset") if intervals else {}
        low, high = self.band or (None, None)
        y = self.y.channel("value", [*self.ends(), *(each for each in (low, high, self.rule) if each is not None)])
        return self.template(
            "lines",
            y=y,
            look={**at, "y": y, **self.look()},
            low=low,
            high=high,
            intervals=intervals,
            steps={"interpolate": "step-after"} if self.steps else {},
            thickness=2.4 if few else 1.6,
            points=self.marks({**at, "y": y}, size=70 if few else 36) if self.points else None,
        )


@dataclass(frozen=True, kw_only=True)
class Scatter(Chart):
    """Two numbers per row: a mark, with its label and size.

    Attributes:
        x: field along the x axis; `x_axis` is its axis.
        y: axis of `value`.
        label: field to write beside the marks.
        size: field that sets the area of a mark.
        lines: rows with `x`, `value` and, for lines in the colours of the series, the series; else dashed.
    """

    x: str = "x"
    x_axis: Axis = field(default_factory=lambda: Axis(kind="number"))
    y: Axis = field(default_factory=Axis)
    label: str = ""
    size: str = ""
    lines: Sequence[Row] = ()

    _place = "label"
    _values = "y"

    @property
    def entries(self) -> list[Key]:
        labels = {row.get(self.series) for row in (*self.rows, *self.lines)}
        return [key for key in self.keys if key.label in labels] or super().entries

    def default_height(self) -> int:
        return 320

    def words(self) -> str:
        return f"{len(self.rows):,} points" if len(self.rows) > _MOST_WORDS else super().words()

    def body(self) -> Spec:
        every, many = [*self.rows, *self.lines], len(self.rows) > _MANY_POINTS
        x = self.x_axis.channel(self.x, (row[self.x] for row in every))
        at = {"x": x, "y": self.y.channel("value", (row["value"] for row in every))}
        area = {"size": _encode(self.size, "quantitative", scale={"range": [60, 600]}, legend=None)}
        style: Spec = {"size": 42 if many else 80, "opacity": 0.7 if many else 1}
        points = self.marks(at | (area if self.size else {}), **style)
        own = any(self.series in row for row in self.lines[:1])
        return self.template(
            "scatter",
            at=at,
            points=points,
            look={**self.look(), "tooltip": None},
            own_lines=own,
            other_lines=bool(self.lines) and not own,
        )


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

    def body(self) -> Spec:
        across, along, thickness = ("x", "y", "width") if self.vertical else ("y", "x", "height")
        names = self.places(self.order)
        many = len(names) if self.vertical else 0
        axis = {"grid": False, "labels": many <= 60, "labelLimit": 280, "labelAngle": -60 if many > 12 else 0}
        place = _encode(self.y, sort=names, title=None, axis=None if self.pictures else axis)
        value = self.x.channel("value", self.ends())
        return self.template(
            "bars",
            at={across: place, **self.offset(f"{across}Offset")},
            value={along: value},
            look=self.look(),
            size={"height": 4, "yOffset": 14} if self.pictures else {thickness: {"band": 0.85}},
            intervals=any("low" in row for row in self.rows),
            span={along: {**value, "field": "low"}, f"{along}2": {"field": "high"}},
            name=self.y,
        )


@dataclass(frozen=True, kw_only=True)
class Matrix(Chart):
    """A value per pair of names, as a coloured tile with `shown` in it.

    Attributes:
        x, y: fields with the names; `x_title` and `y_title` their titles.
    """

    x: str = "x"
    y: str = "y"
    x_title: str = ""
    y_title: str = ""

    @property
    def named(self) -> Sequence[str]:
        return self.y, self.x

    @property
    def entries(self) -> list[Key]:
        return []

    def default_height(self) -> int:
        return 26 * len(self.places((), self.y))

    def body(self) -> Spec:
        values = [row["value"] for row in self.rows]
        low, high = min(values), max(values)
        columns = self.places((), self.x)
        return self.template(
            "matrix",
            x_title=self.x_title or None,
            y_title=self.y_title or None,
            columns=columns,
            rows=self.places((), self.y),
            angle=-40 if max(map(len, columns)) * len(columns) > 60 else 0,
            domain=[low, high],
            dark=f"datum.value > {(low + high) / 2 + (high - low) / 12}",
            tooltip=self.tooltips(),
        )


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

    def words(self) -> str:
        return f"{len(self.rows):,} values by {self.title or self.x}"

    def to_dict(self) -> Spec:
        names = self.places(())
        slant = {"labelAngle": -25, "labelAlign": "right"} if max(map(len, names), default=0) > 8 else {}
        spec = self.template(
            "distribution",
            y=self.y.channel("value", self.ends()),
            title=self.title or None,
            names=names,
            header={"labelOrient": "bottom", "titleOrient": "bottom", **slant},
        )
        size = {"width": max(36, 240 // max(1, len(names))), "height": self.height or 150}
        return {"data": {"values": self.data()}, **spec, **size}


@dataclass(frozen=True, kw_only=True)
class Strip(Chart):
    """A ranking as a curve: rows in order, the area below `value` coloured by `section`, with pictures above.

    Attributes:
        section: field that colours the curve; "" in it for rows between sections, which are grey. The field `picture`
            has the data: address of a picture to show above its place, with the row's `name`.
        between: what the rows between sections are called in the legend.
        x, y: titles of the axes.
    """

    section: str = "section"
    between: str = "between levels"
    x: str = ""
    y: str = ""

    _place = "section"

    @property
    def _sections(self) -> list[str]:
        return [name for name in self.places(()) if name]

    def words(self) -> str:
        return f"{len(self.rows):,} ranked values in {len(self._sections)} sections"

    def default_height(self) -> int:
        return 340

    def data(self) -> list[Spec]:
        """Return the rows with pictures, which stand at two heights in turn, and some others."""
        step = max(1, len(self.rows) // _MOST_PLACES)
        found: list[Spec] = []
        pictures = 0
        for rank, row in enumerate(self.rows):
            if row.get("picture"):
                pictures += 1
                found.append({**row, "rank": rank, "top": 1.48 - 0.34 * (pictures % 2)})
            elif not rank % step:
                found.append({"rank": rank, "value": row["value"], self.section: row[self.section]})
        return found

    def body(self) -> Spec:
        colours = [key.colour for key in other_keys(self._sections, PALETTE)]
        return self.template(
            "strip",
            domain=[0, len(self.rows)],
            # Ticks of similarities end at 1, because pictures stand above.
            axis={"values": [0, 0.2, 0.4, 0.6, 0.8, 1]} if max(self.ends()) <= 1 else {},
            colours={"domain": [*self._sections, self.between], "range": [*colours, _GREY]},
        )


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

    def words(self) -> str:
        texts = [chart.words() for chart in self.charts]
        return ". ".join(map(": ".join, zip(self.titles, texts, strict=True)) if self.titles else texts)

    def to_dict(self) -> Spec:
        parts = [chart.to_dict() for chart in self.charts]
        for part, title in zip(parts, self.titles or [""] * len(parts), strict=True):
            part |= {"width": PANEL_WIDTH} if part["width"] == CONTAINER else {}
            part |= {"title": title} if title else {}
        kind = "shared" if len({tuple(chart.entries) for chart in self.charts}) == 1 else "independent"
        scales = {"color": kind, "shape": kind}
        return {"concat": parts, "columns": self.columns, "resolve": {"scale": scales}}
