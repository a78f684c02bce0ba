"""Figures of a page as files for a paper: one column wide, with their legends, in white, as PDF, SVG and PNG.

On the page a section has one legend for all its charts; a file stands alone, so that colours and shapes that no axis
explains get theirs back. The palette is Okabe & Ito's, and a shape goes with every colour.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unseen.core.errors import UsageError
from unseen.core.extras import import_extra
from unseen.core.files import write_whole
from unseen.reports.blocks import Section
from unseen.reports.theme import CONTAINER, to_spec, vegalite_version

#: A column of the usual conferences in inches, and dots per inch of a PNG.
COLUMN, DPI = 3.3, 300
FORMATS = ("pdf", "svg", "png")

_POINTS = 72
_PLOT_WIDTH = 300  # pixels, before the whole is scaled to the column: letters of 12 become about 7 points
_VIEWS = ("layer", "concat", "hconcat", "vconcat", "spec")


def write_figures(sections: Sequence[Section], folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write every figure of some sections; names say section and figure.

    Raises:
        UsageError: a format that is none of the three.
    """
    if unknown := [each for each in formats if each not in FORMATS]:
        raise UsageError(f"figures are written as {', '.join(FORMATS)}, not as {unknown[0]!r}.")
    written: list[Path] = []
    drawn: dict[str, str] = {}
    for section in sections:
        for number, figure in enumerate(section.figures, 1):
            stem = f"{section.anchor}-{number:02d}-{_slug(figure.title)}".strip("-")
            spec = paper_spec(figure.vega)
            # Drawing is what takes time: once for all formats, and once for figures that are the same.
            same = json.dumps(spec, sort_keys=True)
            svg = drawn[same] = drawn.get(same) or drawn_chart(spec)
            for kind in formats:
                target = folder / f"{stem}.{kind}"
                write_whole(target, column_figure(svg, kind))
                written.append(target)
    return written


def paper_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A figure's specification for a file of its own: fixed width, one panel below another, legends shown."""
    made = copy.deepcopy(to_spec(spec))
    made["config"] = {**made["config"], "background": "white"}
    _narrowed(made)
    axes = _axis_fields(made)
    _with_legends(made, axes)
    return made


def drawn_chart(spec: Mapping[str, Any]) -> str:
    """A specification as SVG, in its own size."""
    return str(import_extra("vl_convert", "figures").vegalite_to_svg(dict(spec), vl_version=vegalite_version()))


def column_figure(drawn: str, kind: str) -> bytes:
    """A drawn chart as wide as a column, in one of `FORMATS`."""
    convert = import_extra("vl_convert", "figures")
    size = re.search(r'width="([\d.]+)" height="([\d.]+)"', drawn)
    assert size is not None, "the converter gives every picture its size"
    width, height = float(size[1]), float(size[2])
    if kind == "png":
        return bytes(convert.svg_to_png(drawn, scale=COLUMN * DPI / width))
    wanted = COLUMN * _POINTS
    unit = "pt" if kind == "svg" else ""  # the PDF has a point for a pixel
    svg = drawn.replace(size[0], f'width="{wanted:g}{unit}" height="{wanted * height / width:g}{unit}"', 1)
    return svg.encode() if kind == "svg" else bytes(convert.svg_to_pdf(svg))


def _narrowed(spec: dict[str, Any]) -> None:
    """Panels below one another, none wider than the column."""
    if "concat" in spec:
        spec["columns"] = 1
    if "hconcat" in spec:
        spec["vconcat"] = spec.pop("hconcat")
    if "facet" in spec and "columns" in spec:
        spec["columns"] = min(2, int(spec["columns"]))
    width = spec.get("width")
    if width == CONTAINER or (isinstance(width, int | float) and width > _PLOT_WIDTH):
        spec["width"] = _PLOT_WIDTH
    for view in _VIEWS:
        inner = spec.get(view)
        for part in inner if isinstance(inner, list) else [inner] if isinstance(inner, dict) else []:
            _narrowed(part)


def _axis_fields(spec: Any) -> set[str]:
    """Fields that an axis or a text says already."""
    if isinstance(spec, list):
        return {field for part in spec for field in _axis_fields(part)}
    if not isinstance(spec, dict):
        return set()
    own = {
        str(channel["field"])
        for name, channel in spec.get("encoding", {}).items()
        if name in ("x", "y", "text", "row", "column") and isinstance(channel, dict) and "field" in channel
    }
    return own | {field for view in _VIEWS for field in _axis_fields(spec.get(view))}


def _with_legends(spec: Any, told: set[str]) -> None:
    if isinstance(spec, list):
        for part in spec:
            _with_legends(part, told)
    if not isinstance(spec, dict):
        return
    encoding = spec.get("encoding", {})
    for name in ("color", "shape"):
        channel = encoding.get(name)
        if isinstance(channel, dict) and "field" in channel and "scale" in channel and channel.get("legend", 0) is None:
            labels = channel["scale"].get("domain", [])
            if channel["field"] not in told and len(labels) > 1:
                channel["legend"] = {
                    "title": None,
                    "orient": "bottom",
                    "columns": 2,
                    "symbolLimit": 0,
                    "labelLimit": 150,
                }
    for view in _VIEWS:
        _with_legends(spec.get(view), told)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60].strip("-")
