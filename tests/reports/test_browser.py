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
