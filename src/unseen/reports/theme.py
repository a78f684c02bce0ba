"""The look that all charts share (colours, shapes, sizes, fonts), and how a chart becomes a file or part of a page.

Colours are those of Okabe & Ito, which people with any common colour blindness can distinguish, without its black and
yellow, which vanish on a dark or a light page. A shape goes with every colour: no chart depends on colour alone.
"""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unseen.core.errors import UsageError
from unseen.core.extras import import_extra
from unseen.core.files import write_whole
from unseen.core.identity import Values
from unseen.core.records import ModelCard
from unseen.reports.wording import family, is_reference
from unseen.results.table import DisplayNames

if TYPE_CHECKING:
    from unseen.reports.blocks import Section

Spec = Values

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
#: Of series that are not models (measures, methods, levels): colours that no model has, after Tol's "muted".
OTHERS = ("#AA4499", "#999933", "#44AA99", "#CC6677", "#6A7FD2", "#A8703A")
NEUTRAL = "#7F8792"
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
SYMBOLS = ("●", "■", "▲", "◆", "▼", "✚")
INK = "#3A424D"

#: A mark is shown in full if it or its group is under the pointer. If nothing is under the pointer, it is shown in full
#: if it is among the best models that the reader highlights, or if the reader highlights none. `to_spec` adds the
#: parameters to every chart of models.
FOCUS = "focus == '' ? lit == null || lit[datum.model] : focus == datum.model || focus == datum.group"
_PARAMETERS: Spec = {"focus": "", "lit": None, "hidden": {}}
_SHOWN = {"filter": "datum.model == null || !hidden[datum.model]"}

# Set in figures that grow with the page; a file has a fixed width instead.
CONTAINER = "container"
FILE_WIDTH = 460
PANEL_WIDTH = 300

#: Vega-Lite's configuration of all charts.
CONFIG: Spec = json.loads((files("unseen.reports") / "theme.json").read_text(encoding="utf-8"))

_FORMATS = (".html", ".svg", ".png", ".pdf")

#: A column of the usual conferences in inches, and dots per inch of a PNG.
COLUMN, DPI = 3.3, 300
#: Formats of figures for a paper.
FORMATS = ("pdf", "svg", "png")
_POINTS = 72  # per inch
_SCALE = 2.0  # pixels per point of a PNG that is not for a column
_PLOT_WIDTH = 300  # pixels, before the whole is scaled to the column: letters of 12 become about 7 points


@dataclass(frozen=True)
class Key:
    """One entry of a legend.

    Attributes:
        key: value of the field `model` of its marks; hovering over the entry highlights them in charts and tables.
        group: heading of the entry in the legend; the field `group` of its marks.
    """

    label: str
    colour: str
    symbol: str = "●"
    key: str = ""
    group: str = ""

    @property
    def shape(self) -> str:
        """Return the name of the symbol in Vega."""
        return SHAPES[SYMBOLS.index(self.symbol)]


# ---- specifications --------------------------------------------------------------------------------------------------


def views(spec: Spec) -> Iterator[Spec]:
    """Yield a specification and every view within it."""
    yield spec
    for name in ("layer", "concat", "hconcat", "vconcat", "spec"):
        inner = spec.get(name, [])
        for part in inner if isinstance(inner, list) else [inner]:
            yield from views(part)


def _series(spec: Spec) -> Iterator[Spec]:
    """Yield the encodings of fields as colours and shapes."""
    for view in views(spec):
        encoding = view.get("encoding", {})
        yield from (encoding[name] for name in ("color", "shape") if "field" in encoding.get(name, {}))


def to_spec(chart: Any) -> Spec:
    """Return a chart (of ours, of Altair, or a Vega-Lite dictionary) as a dictionary with the common look."""
    spec = copy.deepcopy(dict(chart) if isinstance(chart, Mapping) else chart.to_dict())
    spec.pop("$schema", None)  # an address
    if '"model"' in json.dumps(spec):
        for view in views(spec):
            if "mark" in view and _SHOWN not in view.get("transform", []):
                view["transform"] = [_SHOWN, *view.get("transform", [])]
        known = [each for each in spec.get("params", []) if each["name"] not in _PARAMETERS]
        spec["params"] = [*known, *({"name": name, "value": value} for name, value in _PARAMETERS.items())]
    own = {name: value for name, value in spec.get("config", {}).items() if name != "view"}
    return spec | {"config": own | CONFIG}


def without_legends(spec: Mapping[str, object]) -> Spec:
    """Return a specification whose series have no legend, for a section that has one for all its charts."""
    found = copy.deepcopy(dict(spec))
    for channel in _series(found):
        channel["legend"] = None
    return found


# ---- files -----------------------------------------------------------------------------------------------------------


def save_chart(chart: object, path: Path | str) -> Path:
    """Write a chart as .html (interactive, works offline), .svg, .png or .pdf.

    Args:
        chart: an Altair chart or a Vega-Lite dictionary.

    Raises:
        UsageError: if the file name has another ending.
        StoreError: if the file cannot be written.
    """
    target = Path(path)
    ending = target.suffix.lower()
    if ending not in _FORMATS:
        raise UsageError(f"cannot save a chart as {target.name!r}. The name must end in {', '.join(_FORMATS)}.")
    spec = to_spec(chart)
    spec["config"]["background"] = "white"
    spec |= {"width": FILE_WIDTH} if spec.get("width") == CONTAINER else {}
    if ending == ".html":
        convert = import_extra("vl_convert", "figures")
        content = convert.vegalite_to_html(spec, vl_version=vegalite_version(), bundle=True).encode()
    else:
        content = _converted(drawn_chart(spec), ending[1:], _SCALE)
    write_whole(target, content)
    return target


def vegalite_version() -> str:
    """Return the Vega-Lite that the installed Altair writes for, as the converter names it: "6.4"."""
    import altair

    return ".".join(altair.SCHEMA_VERSION.removeprefix("v").split(".")[:2])


def drawn_chart(spec: Spec) -> str:
    """Return a specification as SVG, in its own size."""
    return str(import_extra("vl_convert", "figures").vegalite_to_svg(spec, vl_version=vegalite_version()))


def _converted(svg: str, kind: str, scale: float) -> bytes:
    """Return a drawn chart in one of `FORMATS`."""
    convert = import_extra("vl_convert", "figures")
    if kind == "svg":
        return svg.encode()
    return bytes(convert.svg_to_png(svg, scale=scale) if kind == "png" else convert.svg_to_pdf(svg))


def write_figures(sections: Sequence[Section], folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write every figure of some sections for a paper: one column wide, with its legend, on white.

    File names contain the section and the title of the figure.

    Raises:
        UsageError: if a format is unknown.
    """
    if unknown := [each for each in formats if each not in FORMATS]:
        raise UsageError(f"figures are written as {', '.join(FORMATS)}, not as {unknown[0]!r}.")
    written: list[Path] = []
    drawn: dict[str, str] = {}
    for section in sections:
        for number, figure in enumerate(section.figures, 1):
            slug = re.sub(r"[^a-z0-9]+", "-", figure.title.lower())[:60].strip("-")
            spec = paper_spec(figure.vega)
            # Drawing is slow: draw once for all formats, and once for equal figures.
            same = json.dumps(spec, sort_keys=True)
            svg = drawn[same] = drawn.get(same) or drawn_chart(spec)
            for kind in formats:
                target = folder / f"{section.anchor}-{number:02d}-{slug}.{kind}"
                write_whole(target, column_figure(svg, kind))
                written.append(target)
    return written


def paper_spec(spec: Mapping[str, object]) -> Spec:
    """Return the specification of a figure for a file: fixed width, one panel below another, legends shown.

    On the page a section has one legend for all its charts. In a file, series that no axis and no text names get
    their legend back.
    """
    made = to_spec(spec)
    made["config"]["background"] = "white"
    named = set()
    for view in views(made):
        if "concat" in view:
            view["columns"] = 1
        width = view.get("width", 0)
        if width == CONTAINER or (isinstance(width, int | float) and width > _PLOT_WIDTH):
            view["width"] = _PLOT_WIDTH
        axes = (view.get("encoding", {}).get(name, {}) for name in ("x", "y", "text", "row", "column"))
        named |= {axis["field"] for axis in axes if "field" in axis}
    legend = {"title": None, "orient": "bottom", "columns": 2, "symbolLimit": 0, "labelLimit": 150}
    for channel in _series(made):
        several = len(channel.get("scale", {}).get("domain", [])) > 1
        if several and channel["field"] not in named and channel.get("legend", legend) is None:
            channel["legend"] = legend
    return made


def column_figure(drawn: str, kind: str) -> bytes:
    """Return a drawn chart as wide as a column, in one of `FORMATS`."""
    size = re.search(r'width="([\d.]+)" height="([\d.]+)"', drawn)
    assert size is not None, "the converter gives every picture its size"
    width, height = float(size[1]), float(size[2])
    wanted = COLUMN * _POINTS
    if kind != "png":
        unit = "pt" if kind == "svg" else ""  # the PDF has a point for a pixel
        drawn = drawn.replace(size[0], f'width="{wanted:g}{unit}" height="{wanted * height / width:g}{unit}"', 1)
    return _converted(drawn, kind, COLUMN * DPI / width)


# ---- legend entries --------------------------------------------------------------------------------------------------

#: The family of the model that a paper compares others with.
REFERENCE = "reference"


def series_keys(models: Sequence[str], names: DisplayNames, cards: Mapping[str, ModelCard]) -> dict[str, Key]:
    """Return a legend entry per model; every model has a colour and a symbol that no other model shares.

    Up to six models, or any number of one family, take the colours of the palette in turn. Otherwise the models of a
    family have shades of one colour, and the legend lists them by family. Random weights have shades of grey.
    """
    learned = [model for model in models if not is_reference(model)]
    families = list(dict.fromkeys(family(model, cards) for model in learned))
    by_family = len(learned) > len(PALETTE) and len({*families} - {REFERENCE}) > 1
    if by_family:
        learned.sort(key=lambda model: families.index(family(model, cards)))
    keys: dict[str, Key] = {}
    counts: Counter[str] = Counter()
    for model in [*learned, *(model for model in models if is_reference(model))]:
        group = family(model, cards)
        if is_reference(model):
            look = _look(counts[group], [_DARK_GREY])
        elif by_family:
            look = _look(counts[group], [PALETTE[families.index(group) % len(PALETTE)]], step=1)
        else:
            look = _look(len(keys), PALETTE)
        counts[group] += 1
        keys[model] = Key(names[model], *look, model, group if by_family or len(families) > 1 else "")
    return keys


_DARK_GREY = "#5C636E"


def _look(place: int, colours: Sequence[str], step: int = 3) -> tuple[str, str]:
    """Return the colour and the symbol of a series; each turn of the colours moves `step` further towards white."""
    turn, number = divmod(place, len(colours))
    share = 0.6 * (1 - 0.85 ** (step * turn))
    parts = (int(colours[number][i : i + 2], 16) for i in (1, 3, 5))
    colour = "".join(f"{round(part + share * (255 - part)):02X}" for part in parts)
    return f"#{colour}", SYMBOLS[(place + place // len(SYMBOLS)) % len(SYMBOLS)]


def other_keys(labels: Iterable[str], colours: Sequence[str] = OTHERS) -> list[Key]:
    """Return a legend entry per series that is not a model, such as a method, a measure or a level."""
    return [Key(label, *_look(place, colours)) for place, label in enumerate(labels)]
