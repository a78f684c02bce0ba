"""Figures for a paper: legends that stand alone, and colours that people with colour blindness tell apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from unseen.reports import theme
from unseen.reports.blocks import Figure, Section
from unseen.reports.charts import OTHERS, PALETTE, without_legends
from unseen.reports.theme import paper_spec

#: Machado, Oliveira & Fernandes, "A physiologically-based model for simulation of color vision deficiency", 2009:
#: severity 1.0, on linear RGB.
BLINDNESS = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
_TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    xyz = _TO_XYZ @ np.clip(rgb, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("palette", [PALETTE, OTHERS], ids=["models", "others"])
@pytest.mark.parametrize("kind", BLINDNESS)
def test_colours_are_told_apart_by_everybody(kind: str, palette: tuple[str, ...]) -> None:
    seen = [lab(np.array(BLINDNESS[kind]) @ linear(colour)) for colour in palette]
    nearest = min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2))
    assert nearest > 9, f"{nearest:.1f}"  # about 2.3 is a just noticeable difference


def test_what_is_not_a_model_has_no_colour_of_one() -> None:
    gaps = [float(np.linalg.norm(lab(linear(a)) - lab(linear(b)))) for a in OTHERS for b in PALETTE]
    assert min(gaps) > 15, f"{min(gaps):.1f}"


def test_a_figure_is_drawn_once_for_all_formats_and_equal_ones_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("vl_convert", reason="the extra 'figures' is not installed")
    drawn: list[str] = []

    def counting(spec: Mapping[str, Any], draw: Callable[..., str] = theme.drawn_chart) -> str:
        drawn.append(draw(spec))
        return drawn[-1]

    monkeypatch.setattr(theme, "drawn_chart", counting)

    def chart(value: int) -> Figure:
        spec = {
            "data": {"values": [{"x": value}]},
            "mark": "point",
            "encoding": {"x": {"field": "x", "type": "nominal"}},
        }
        return Figure(f"of {value}", spec, "")

    sections = [Section("", "a", figures=[chart(1), chart(2)]), Section("", "b", figures=[chart(1)])]
    written = theme.write_figures(sections, tmp_path)
    assert (len(drawn), len(written)) == (2, 9)
    for kind in theme.FORMATS:
        assert (tmp_path / f"a-01-of-1.{kind}").read_bytes() == (tmp_path / f"b-01-of-1.{kind}").read_bytes()
    with Image.open(tmp_path / "a-02-of-2.png") as picture:
        assert abs(picture.width - theme.COLUMN * theme.DPI) <= 2


def test_a_figure_alone_has_its_legend() -> None:
    import altair as alt

    rows = [{"x": x, "y": x, "name": name, "model": name} for x in range(3) for name in ("a", "b")]
    scale = alt.Scale(domain=["a", "b"], range=list(PALETTE[:2]))
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line()
        .encode(x="x:Q", y="y:Q", color=alt.Color("name:N", scale=scale))
    )
    spec = without_legends(chart.properties(width="container").to_dict())
    made = paper_spec(spec)
    assert made["encoding"]["color"]["legend"]["orient"] == "bottom"
    assert made["width"] == 300
    told = paper_spec({**spec, "encoding": {**spec["encoding"], "y": {"field": "name", "type": "nominal"}}})
    assert told["encoding"]["color"]["legend"] is None
    assert spec["encoding"]["color"]["legend"] is None, "the page's own stays as it was"
