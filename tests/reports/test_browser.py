"""The page in a real browser: charts are drawn, columns sort, nothing is refused by the page's own policy."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

from unseen.core.records import ModelCard, Result
from unseen.study import write_report

Browse = Callable[[Path], tuple[str, str]]

# Runs after the page's own script: sorts, highlights, downloads, switches the theme; leaves a note of each.
PROBE = """
<script>
addEventListener("load", () => {
  const note = (name, value) => document.body.setAttribute("data-" + name, value);
  const wait = setInterval(async () => {
    if (document.documentElement.dataset.ready !== "yes") return;
    clearInterval(wait);
    const table = document.querySelector("table.linked");
    const models = () => [...table.tBodies[0].rows].map((row) => row.dataset.key).join(" ");
    const heads = [...table.querySelectorAll("thead button")];
    const last = heads[heads.length - 1];
    last.click(); note("down", models()); note("sort", last.parentNode.getAttribute("aria-sort"));
    last.click(); note("up", models());
    heads[0].click(); note("names", models());
    table.tBodies[0].rows[0].dispatchEvent(new PointerEvent("pointerenter"));
    await new Promise((resolve) => setTimeout(resolve, 300));
    note("focus", document.querySelectorAll("tr.focus").length);
    note("faded", document.querySelectorAll("figure svg .mark-symbol path[opacity='0.18']").length);
    const texts = [];
    URL.createObjectURL = (blob) => { texts.push(blob.text()); return "#"; };
    for (const button of document.querySelectorAll("[data-download]")) button.click();
    const [csv, json] = await Promise.all(texts);
    note("csv", csv.split("\\n")[0]); note("json", JSON.parse(json).length);
    document.getElementById("theme").click();
    note("theme", document.documentElement.dataset.theme);
    note("paper", getComputedStyle(document.body).backgroundColor);
    note("width", document.documentElement.scrollWidth <= innerWidth);
  }, 50);
});
</script>
"""


def noted(document: str, name: str) -> str:
    found = re.search(rf'<body[^>]* data-{name}="([^"]*)"', document)
    assert found, f"the page left no note of {name!r}"
    return found.group(1)


def test_the_page_works(results: list[Result], cards: dict[str, ModelCard], tmp_path: Path, browse: Browse) -> None:
    page = write_report(results, tmp_path / "page.html", title="A small study", cards=cards)
    before, end, after = page.read_text(encoding="utf-8").rpartition("</body>")
    page.write_text(before + PROBE + end + after, encoding="utf-8")
    document, console = browse(page)
    assert console == "", "no error, and nothing that the page's own policy refused"
    assert 'data-ready="yes"' in document
    charts = re.findall(r"<figure>.*?</figure>", document, re.DOTALL)
    assert len(charts) == 2
    for chart in charts:
        assert "<svg" in chart
        assert chart.count("</path>") >= 3
        assert "EfficientNet-Lite2" in chart
        assert "could not be drawn" not in chart
    order = ["packaged:efficientnet-lite2", "packaged:efficientnet-lite0", "random:resnet18"]
    assert noted(document, "down").split() == order
    assert noted(document, "sort") == "descending"
    assert noted(document, "up").split() == order[::-1]
    assert noted(document, "names").split() == [order[1], order[0], order[2]]
    assert int(noted(document, "focus")) >= 1
    assert int(noted(document, "faded")) == 4, "two of three dots in each of two charts"
    assert noted(document, "csv").startswith("cell,benchmark,version,model,dataset,revision,parameters.seed,")
    assert noted(document, "json") == str(len(results))
    assert noted(document, "theme") in ("light", "dark")
    assert noted(document, "width") == "true", "nothing sticks out to the right"


def test_hostile_names_do_not_run(results: list[Result], tmp_path: Path, browse: Browse) -> None:
    name = (
        "timm:</script><script>document.body.dataset.owned='yes'</script><img src=x onerror=\"document.title='owned'\">"
    )
    hostile = [dataclasses.replace(r, cell=dataclasses.replace(r.cell, model=name)) for r in results[:3]]
    document, console = browse(write_report([*hostile, *results[6:]], tmp_path / "page.html", title=name))
    assert console == ""
    assert 'data-ready="yes"' in document
    assert not re.search(r"<body[^>]*data-owned", document)
    assert "<title>owned" not in document
    assert "<img" not in document.partition("<script")[0]


LEGEND = """
<script>
addEventListener("load", () => {
  const note = (name, value) => document.body.setAttribute("data-" + name, value);
  const faded = () => document.querySelectorAll("figure svg .mark-symbol path[opacity='0.1']").length;
  const pause = () => new Promise((resolve) => setTimeout(resolve, 200));
  const wait = setInterval(async () => {
    if (document.documentElement.dataset.ready !== "yes") return;
    clearInterval(wait);
    const entry = (key) => document.querySelector(`.legend [data-key="${key}"]`);
    entry("m:a").dispatchEvent(new PointerEvent("pointerenter")); await pause(); note("one", faded());
    entry("m:a").dispatchEvent(new PointerEvent("pointerleave")); await pause(); note("none", faded());
    entry("second").click(); await pause(); note("kept", faded());
    entry("m:a").dispatchEvent(new PointerEvent("pointerleave")); await pause(); note("still", faded());
    entry("second").click(); await pause(); note("again", faded());
    const point = document.querySelector("figure svg .mark-symbol path");
    const at = point.getBoundingClientRect();
    for (const kind of ["pointerover", "pointermove", "mouseover", "mousemove"])
      point.dispatchEvent(new MouseEvent(kind, { bubbles: true, clientX: at.x + 2, clientY: at.y + 2 }));
    await pause();
    const shown = document.querySelector("#vg-tooltip-element img");
    note("hover", shown ? shown.src.slice(0, 15) : "");
    note("cell", document.querySelector("td img").naturalWidth);
    note("width", document.documentElement.scrollWidth <= innerWidth);
  }, 50);
});
</script>
"""


def test_one_legend_shows_models_and_groups_alone(tmp_path: Path, browse: Browse) -> None:
    """Of three models in two groups; a point has a picture on hover, a table has one in a cell."""
    import altair as alt
    from PIL import Image

    from unseen.reports.blocks import Figure, Key, Section, Table, TableCell
    from unseen.reports.charts import FOCUS, series_channels, to_spec, without_legends
    from unseen.reports.page import write_sections
    from unseen.reports.pictures import thumbnail

    picture = thumbnail(Image.new("RGB", (90, 60), "red"))
    keys = [
        Key(f"model {n}", "#0072B2", "●", key=f"m:{n}", group=g)
        for n, g in zip("abc", ("first", "second", "second"), strict=True)
    ]
    rows = [{"model": k.key, "group": k.group, "name": k.label, "x": i, "image": picture} for i, k in enumerate(keys)]
    color, shape = series_channels(keys)
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_point(filled=True)
        .encode(
            x="x:Q",
            color=color,
            shape=shape,
            opacity=alt.condition(FOCUS, alt.value(1), alt.value(0.1)),
            tooltip=["name:N", "image:N"],
        )
        .add_params(alt.param(name="focus", value=""))
    )
    section = Section(
        "Models",
        "models",
        answer=[("", "Yes.")],
        legend=keys,
        figures=[Figure("A chart", without_legends(to_spec(chart)), "Three points.")],
        tables=[Table("Pictures", ["name", "it"], [[TableCell("red"), TableCell("", picture=picture)]])],
    )
    page = write_sections([section], tmp_path / "page.html", title="A page")
    before, end, after = page.read_text(encoding="utf-8").rpartition("</body>")
    page.write_text(before + LEGEND + end + after, encoding="utf-8")
    document, console = browse(page)
    assert console == ""
    found = {
        name: noted(document, name) for name in ("one", "none", "kept", "still", "again", "hover", "cell", "width")
    }
    assert found == {
        "one": "2",
        "none": "0",
        "kept": "1",
        "still": "1",
        "again": "0",
        "hover": "data:image/jpeg",
        "cell": "64",
        "width": "true",
    }
    assert "data-download=" not in document.partition("<script")[0], "no button without data"
