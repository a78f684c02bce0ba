"""The look that all charts share (colours, shapes, sizes, fonts), and how a chart becomes a file or part of a page.

Colours are those of Okabe & Ito, which people with any common colour blindness can distinguish, without its black and
yellow, which vanish on a dark or a light page. A shape goes with every colour: no chart depends on colour alone.
"""

from __future__ import annotations

import base64
import copy
import gzip
import io
import json
import lzma
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from unseen.core.errors import UsageError
from unseen.core.extras import import_extra
from unseen.core.files import write_whole
from unseen.core.records import ModelCard
from unseen.reports.wording import family, is_reference

#: Vega, Vega-Lite and Vega-Embed; `tools/build_vega.py` writes it.
BUNDLE = "vega.js.xz"

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
#: Of series that are not models (measures, methods, levels): colours that no model has, after Tol's "muted".
OTHERS = ("#AA4499", "#999933", "#44AA99", "#CC6677", "#6A7FD2", "#A8703A")
NEUTRAL = "#7F8792"
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
SYMBOLS = ("●", "■", "▲", "◆", "▼", "✚")
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"
INK = "#3A424D"
FAINT = "#DDE1E7"

#: A mark is shown in full where it or its group is under the pointer; where nothing is, if it is among the best that
#: the reader asked for, or they asked for none. `to_spec` gives every chart of models the parameters.
FOCUS = "focus == '' ? lit == null || lit[datum.model] : focus == datum.model || focus == datum.group"
_PARAMETERS: dict[str, Any] = {"focus": "", "lit": None, "hidden": {}}
_SHOWN = {"filter": "datum.model == null || !hidden[datum.model]"}

# Set in figures that grow with the page; a file has a fixed width instead.
CONTAINER = "container"
FILE_WIDTH = 460
PANEL_WIDTH = 300

CONFIG: dict[str, Any] = {
    "background": None,
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        "domain": False,
        "ticks": False,
        "grid": True,
        "gridColor": FAINT,
        "labelColor": INK,
        "labelFontSize": 12,
        "labelPadding": 8,
        "titleColor": INK,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 10,
    },
    "axisQuantitative": {"labelSeparation": 6},
    "legend": {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "orient": "bottom", "title": None},
    "text": {"color": INK, "fontSize": 12},
    "title": {"color": INK, "anchor": "start", "fontSize": 13},
    "range": {"category": list(PALETTE)},
}

_FORMATS = (".html", ".svg", ".png", ".pdf")


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


def percent_axis(values: Iterable[float], *, most: int = 6) -> dict[str, Any]:
    """Domain and ticks for shares: whole steps, no label twice, never beyond 0 and 100 %.

    Args:
        values: everything that is drawn, ends of intervals among it.
        most: ticks at most.

    Returns:
        `domain`, `ticks` and the `format` of their labels.
    """
    known = [value for value in values if math.isfinite(value)]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    low, high = max(0.0, low), min(1.0, high)
    step = next(
        s
        for s in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
        if (high - low) / s <= most - 1 + 1e-9 or s == 0.5
    )
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    last = min(max(last, first + 1), round(1 / step))
    first = max(0, min(first, last - 1))
    ticks = [round(i * step, 6) for i in range(first, last + 1)]
    return {"domain": [ticks[0], ticks[-1]], "ticks": ticks, "format": ".0%" if step >= 0.01 else ".1%"}


def series_channels(keys: Sequence[Any], field: str = "name") -> tuple[Any, Any]:
    """Colour and shape of marks by legend entries (`blocks.Key`), the same in every chart with the same entries."""
    import altair as alt

    labels = [key.label for key in keys]
    legend = alt.Legend(title=None, columns=min(4, len(labels)), symbolLimit=0, labelLimit=260)
    shapes = [SHAPES[SYMBOLS.index(key.symbol)] for key in keys]
    return (
        alt.Color(f"{field}:N", scale=alt.Scale(domain=labels, range=[key.colour for key in keys]), legend=legend),
        alt.Shape(f"{field}:N", scale=alt.Scale(domain=labels, range=shapes), legend=legend),
    )


def to_spec(chart: Any) -> dict[str, Any]:
    """A chart (of Altair, or a Vega-Lite dictionary) as a dictionary with the common look and no address in it."""
    spec = copy.deepcopy(dict(chart)) if isinstance(chart, Mapping) else chart.to_dict()
    spec.pop("$schema", None)
    if '"model"' in json.dumps(spec):
        known = [each for each in spec.get("params", []) if each["name"] not in _PARAMETERS]
        spec = _filtered(spec)
        spec["params"] = [*known, *({"name": name, "value": value} for name, value in _PARAMETERS.items())]
    spec["config"] = {**CONFIG, **{k: v for k, v in spec.get("config", {}).items() if k not in CONFIG and k != "view"}}
    return spec


def _filtered(spec: Any) -> Any:
    """A specification whose every view leaves out the models that the reader does."""
    if isinstance(spec, list):
        return [_filtered(part) for part in spec]
    found = {name: _filtered(part) if name in _VIEWS else part for name, part in spec.items()}
    if "mark" in found and _SHOWN not in found.get("transform", []):
        found["transform"] = [_SHOWN, *found.get("transform", [])]
    return found


_VIEWS = ("layer", "concat", "hconcat", "vconcat", "spec")


def beside(specs: Sequence[Mapping[str, Any]], *, titles: Sequence[str] = (), columns: int = 2) -> dict[str, Any]:
    """Several specifications as one figure, side by side, each with axes and legends of its own.

    Parameters and data of the parts become those of the whole, each once.
    """
    parts: list[dict[str, Any]] = []
    parameters: dict[str, Any] = {}
    datasets: dict[str, Any] = {}
    for number, spec in enumerate(specs):
        part = {key: value for key, value in copy.deepcopy(dict(spec)).items() if key != "config"}
        datasets |= part.pop("datasets", {})
        for each in (part, *part.get("layer", ())):
            parameters |= {parameter["name"]: parameter for parameter in each.pop("params", [])}
        part |= {"width": PANEL_WIDTH} if part.get("width") == CONTAINER else {}
        part |= {"title": titles[number]} if titles else {}
        parts.append(part)
    whole: dict[str, Any] = {"concat": parts, "columns": columns, "resolve": {"scale": {"color": "independent"}}}
    whole |= {"datasets": datasets} if datasets else {}
    return to_spec(whole | ({"params": list(parameters.values())} if parameters else {}))


def without_legends(spec: Any) -> Any:
    """A specification whose colours and shapes have no legend: for a section that has one for all its charts."""
    if isinstance(spec, list):
        return [without_legends(part) for part in spec]
    if not isinstance(spec, dict):
        return spec
    found = {name: part if name in ("data", "datasets") else without_legends(part) for name, part in spec.items()}
    for channel in ("color", "shape"):
        encoding = found.get("encoding")
        if isinstance(encoding, dict) and "field" in encoding.get(channel, {}):
            encoding[channel] = {**encoding[channel], "legend": None}
    return found


def save_chart(chart: Any, path: Path | str, *, scale: float = 2.0) -> Path:
    """Write a chart as .html (interactive, works offline), .svg, .png or .pdf.

    Args:
        chart: an Altair chart or a Vega-Lite dictionary.
        scale: pixels per point of a .png.

    Raises:
        UsageError: the ending is none of the four.
        StoreError: the file cannot be written.
    """
    target = Path(path)
    ending = target.suffix.lower()
    if ending not in _FORMATS:
        raise UsageError(f"cannot save a chart as {target.name!r}. The name must end in {', '.join(_FORMATS)}.")
    vl_convert = import_extra("vl_convert", "figures")
    spec = to_spec(chart)
    spec["config"]["background"] = "white"
    if spec.get("width") == CONTAINER:
        spec["width"] = FILE_WIDTH
    version = vegalite_version()
    if ending == ".html":
        content = vl_convert.vegalite_to_html(spec, vl_version=version, bundle=True).encode()
    elif ending == ".svg":
        content = vl_convert.vegalite_to_svg(spec, vl_version=version).encode()
    elif ending == ".pdf":
        content = vl_convert.vegalite_to_pdf(spec, vl_version=version)
    else:
        content = vl_convert.vegalite_to_png(spec, vl_version=version, scale=scale)
    write_whole(target, content)
    return target


def vegalite_version() -> str:
    """The Vega-Lite that the installed Altair writes for, as the converter names it: "6.4"."""
    import altair

    return ".".join(altair.SCHEMA_VERSION.removeprefix("v").split(".")[:2])


@cache
def javascript() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that sets `window.vegaEmbed`."""
    bundle = lzma.decompress((Path(__file__).parent / BUNDLE).read_bytes()).decode()
    # Its names are its own; a closing tag inside would end the script of the page.
    return f"(() => {{{bundle}}})();".replace("</script", "<\\/script")


def script_json(value: Any) -> str:
    """JSON that is safe inside a <script> element: no text in it can close the element or open a comment."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


#: The family of the model that a paper compares others with.
REFERENCE = "reference"


def series_keys(models: Sequence[str], names: Mapping[str, str], cards: Mapping[str, ModelCard]) -> dict[str, Key]:
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
    for model in [*learned, *(model for model in models if is_reference(model))]:
        group = family(model, cards)
        if is_reference(model):
            place = sum(is_reference(other) for other in keys)
            colour = _shade(_DARK_GREY, 3 * place)
        elif by_family:
            place = sum(family(other, cards) == group for other in keys)
            colour = _shade(PALETTE[families.index(group) % len(PALETTE)], place)
        else:
            place = len(keys)
            colour = _shade(PALETTE[place % len(PALETTE)], 3 * (place // len(PALETTE)))
        symbol = SYMBOLS[(place + place // len(SYMBOLS)) % len(SYMBOLS)]
        keys[model] = Key(names[model], colour, symbol, model, group if by_family or len(families) > 1 else "")
    return keys


_DARK_GREY = "#5C636E"


def _shade(colour: str, place: int) -> str:
    """Return a colour moved towards white, further for each place and by at most 60 %."""
    share = 0.6 * (1 - 0.85**place)
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(part + share * (255 - part)):02X}" for part in parts)


def other_keys(labels: Iterable[str], colours: Sequence[str] = OTHERS) -> list[Key]:
    """Return a legend entry per series that is not a model, such as a method, a measure or a level."""
    return [
        Key(label, _shade(colours[i % len(colours)], 3 * (i // len(colours))), SYMBOLS[(i + i // 6) % len(SYMBOLS)])
        for i, label in enumerate(labels)
    ]


# ---- data that a page carries, and the browser unpacks when it is asked for ------------------------------------------

_PICTURE = re.compile(r'"(data:image/(?:jpeg|png);base64,[A-Za-z0-9+/=]+)"')


def packed(value: Any) -> str:
    """JSON values as base64 of gzip: safe inside a <script>, the same text for the same value."""
    return compressed([value if isinstance(value, str) else dense(value)])


def dense(value: Any) -> str:
    """Strict JSON without a needless character."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def compressed(texts: Iterable[str]) -> str:
    """Base64 of gzip of texts that come one by one, and are not held."""
    stream = io.BytesIO()
    with gzip.GzipFile("", "wb", 6, stream, mtime=0) as file:
        for text in texts:
            file.write(text.encode())
    return base64.b64encode(stream.getbuffer()).decode("ascii")


class Pictures:
    """Pictures of a page, each once; whoever shows one names it by its number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, address: str) -> int:
        return self.numbers.setdefault(address, len(self.numbers))

    def taken_out(self, value: Any) -> str:
        """A JSON value as text, with "picture:7" in place of each picture."""
        return _PICTURE.sub(lambda found: f'"picture:{self.number(found.group(1))}"', dense(value))
