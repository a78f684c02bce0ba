"""What all charts share: colours, sizes, type; and the way from a chart to a page or a file.

Colours are Okabe & Ito's, which people with any common colour blindness tell apart, without its black and yellow,
which vanish on a dark or a light page. A shape goes with every colour, so that no chart speaks by colour alone.
"""

from __future__ import annotations

import copy
import json
import lzma
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from unseen.core.errors import UsageError
from unseen.core.extras import import_extra
from unseen.core.files import write_whole

#: Vega, Vega-Lite and Vega-Embed; `tools/build_vega.py` writes it.
BUNDLE = "vega.js.xz"

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
NEUTRAL = "#7F8792"
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
SYMBOLS = ("●", "■", "▲", "◆", "▼", "✚")
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"
INK = "#3A424D"
FAINT = "#DDE1E7"

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
    "legend": {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "orient": "bottom", "title": None},
    "text": {"color": INK, "fontSize": 12},
    "title": {"color": INK, "anchor": "start", "fontSize": 13},
    "range": {"category": list(PALETTE)},
}

_FORMATS = (".html", ".svg", ".png", ".pdf")


def to_spec(chart: Any) -> dict[str, Any]:
    """A chart (of Altair, or a Vega-Lite dictionary) as a dictionary with the common look and no address in it."""
    spec = copy.deepcopy(dict(chart)) if isinstance(chart, Mapping) else chart.to_dict()
    spec.pop("$schema", None)
    spec["config"] = {**CONFIG, **{k: v for k, v in spec.get("config", {}).items() if k not in CONFIG and k != "view"}}
    return spec


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
