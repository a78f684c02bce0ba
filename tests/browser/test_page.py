"""Pages as readers use them: filter, sort, hover, cells, downloads; at three widths, light, dark and on paper."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from unseen.core.records import Cell, ModelCard, Result
from unseen.results.export import csv_lines
from unseen.results.rows import long_rows
from unseen.study import make_report, write_report

Visit = Callable[..., Any]


@pytest.fixture(scope="module")
def results(made_up: ModuleType) -> list[Result]:
    return list(made_up.everything())


@pytest.fixture(scope="module")
def few(results: list[Result], made_up: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models, one of them with random weights, all four questions."""
    path = tmp_path_factory.mktemp("few") / "page.html"
    return write_report(results, path, title="Three models: a page", cards=made_up.cards(), picture=picture)


@pytest.fixture(scope="module")
def many(made_up: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """31 models."""
    models = [f"cog:model-{n:02d}" for n in range(31)]
    groups = {m: ModelCard(m, f"Model {m[-2:]}", group=f"family {int(m[-2:]) % 4}") for m in models}
    path = tmp_path_factory.mktemp("many") / "page.html"
    return write_report(made_up.everything(models), path, title="31 models", cards=groups)


def picture(dataset: str, name: str) -> str:
    """A picture of one colour per class."""
    from PIL import Image

    from unseen.reports.page import thumbnail

    return thumbnail(Image.new("RGB", (64, 48), (sum(map(ord, name)) * 7 % 255, 90, 160)))


def faded(page: Any) -> int:
    """Marks of the first chart that are not shown in full."""
    page.wait_for_timeout(300)
    marks = "#overview figure svg .mark-symbol path"
    return sum(float(o) < 1 for o in page.eval_on_selector_all(marks, "all => all.map(m => m.getAttribute('opacity'))"))


def test_it_opens_with_an_answer_per_question(few: Path, visit: Visit) -> None:
    page = visit(few)
    questions = page.locator(".answers a").all_inner_texts()
    assert questions == ["Unseen concepts", "Unseen classes", "Unseen tasks", "Which checkpoint"]
    for text in page.locator(".answers p").all_inner_texts():
        assert re.search(r"\[\d+\.\d, \d+\.\d\]|\d\s±\s\d", text), f"an interval in {text!r}"
        words = r"(significant|statistically tied|no confidence interval|not above chance|tied)$"
        assert re.search(words, text), f"the evidence in {text!r}"
    assert page.locator("main section").first.get_attribute("id") == "overview"
    assert page.locator("#overview figure").count() == 1
    assert not re.search(r"±\s0\.0(?!\d)", page.content())
    assert "random weights" in page.locator("#overview .legend").inner_text()


def test_every_section_has_one_legend_of_the_same_looks(few: Path, visit: Visit) -> None:
    page = visit(few)
    looks: dict[str, set[tuple[str, str]]] = {}
    for section in ("overview", "cog", "zsl", "vtab", "rank"):
        entries = page.locator(f"#{section} .legend [data-key]")
        assert entries.count() == 3, section
        for entry in entries.all():
            mark = entry.locator("span")
            looks.setdefault(entry.get_attribute("data-key"), set()).add(
                (mark.get_attribute("style"), mark.inner_text())
            )
    assert all(len(found) == 1 for found in looks.values())
    assert len({next(iter(found)) for found in looks.values()}) == 3


@pytest.mark.parametrize("page_of", ["few", "many"])
@pytest.mark.parametrize("width", [1400, 800, 390])
def test_nothing_sticks_out_or_overlaps(page_of: str, width: int, visit: Visit, request: pytest.FixtureRequest) -> None:
    page = visit(request.getfixturevalue(page_of), width, color_scheme="dark" if width == 800 else "light")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = page.evaluate(
        """() => [...document.querySelectorAll(".legend")].map((legend) => {
            const outer = legend.closest("section").getBoundingClientRect();
            const own = [...legend.querySelectorAll("li")].map((entry) => entry.getBoundingClientRect());
            return [[outer.left, outer.right], own.map((box) => [box.left, box.top, box.right, box.bottom])];
        })"""
    )
    assert boxes
    for (left, right), entries in boxes:
        assert all(left <= box[0] and box[2] <= right for box in entries), "inside its card"
        assert not [(a, b) for i, a in enumerate(entries) for b in entries[:i] if overlap(a, b)]
    # Words of a chart: axis labels, names over tracks, legends inside.
    words = page.evaluate(
        """() => [...document.querySelectorAll("figure svg")].map((svg) => [...svg.querySelectorAll("text")]
            .filter((text) => text.textContent && text.getAttribute("opacity") !== "0" && text.style.display !== "none"
                && !text.closest(".role-axis-title") && !svg.querySelector(".mark-rect"))
            .map((text) => { const b = text.getBoundingClientRect();
                return [b.left + 1, b.top + 2, b.right - 1, b.bottom - 2, text.textContent]; }))"""
    )
    crossed = [(a[4], b[4]) for chart in words for i, a in enumerate(chart) for b in chart[:i] if overlap(a, b)]
    assert crossed == []


def test_words_of_charts_with_ticks_are_light_in_dark_mode(tmp_path: Path, visit: Visit) -> None:
    """Ticks are rectangles in the page, as the cells of a matrix are, whose words keep their own colour."""
    cells = [Cell("probe", model, "d", {"seed": seed}) for model in ("timm:a", "timm:b") for seed in (1, 2)]
    results = [Result(cell, {"top1": 0.5 + number / 10}) for number, cell in enumerate(cells)]
    page = visit(write_report(results, tmp_path / "page.html", title="Ticks"), color_scheme="dark")
    assert page.locator('#probe figure svg [aria-roledescription="tick"]').count() == 4
    colours = page.eval_on_selector_all("#probe figure svg text", "all => all.map(text => getComputedStyle(text).fill)")
    assert colours
    assert all(min(map(int, re.findall(r"\d+", colour)[:3])) > 120 for colour in colours), colours


def overlap(a: list[float], b: list[float]) -> bool:
    return a[0] < b[2] - 0.5 and b[0] < a[2] - 0.5 and a[1] < b[3] - 0.5 and b[1] < a[3] - 0.5


def test_filter_and_best_k(many: Path, visit: Visit) -> None:
    page = visit(many)
    rows, marks = page.locator("#overview tbody tr"), "#overview figure svg .mark-symbol path"
    assert rows.count() == 31
    page.fill("#filter", "model 1")
    page.wait_for_timeout(300)
    assert rows.filter(visible=True).count() == 12
    assert page.locator(marks).count() == 4 * 12, "four questions, twelve models"
    assert page.locator("#chosen").inner_text() == "12 of 31 models"
    page.fill("#filter", "")
    page.select_option("#best", "3")
    assert faded(page) == 4 * 28
    lit = page.locator("#overview tbody tr:not(.dim)").evaluate_all("all => all.map(row => row.dataset.key)")
    assert lit == [row.get_attribute("data-key") for row in rows.all()[:3]]
    page.locator("#overview .legend li[data-key='cog:model-20']").hover()
    assert faded(page) == 4 * 30, "the one under the pointer alone"
    page.select_option("#best", "0")
    page.mouse.move(5, 5)
    assert faded(page) == 0
    family = page.locator("#overview .legend li.group").first
    family.click()
    page.mouse.move(5, 5)
    assert faded(page) == 4 * 23, "a click keeps a family of eight"
    family.click()
    page.mouse.move(5, 5)
    assert faded(page) == 0


def test_sort(few: Path, visit: Visit) -> None:
    page = visit(few)
    table = page.locator("#overview table")
    names = lambda: [row.get_attribute("data-key") for row in table.locator("tbody tr").all()]  # noqa: E731
    head = table.locator("thead button").nth(1)
    best_first = ["packaged:efficientnet-lite0", "packaged:efficientnet-lite2", "random:tf_efficientnet_lite0"]
    head.click()
    assert (names(), table.locator("thead th").nth(1).get_attribute("aria-sort")) == (best_first, "descending")
    head.click()
    assert names() == best_first[::-1]


def test_hover_shows_words_and_pictures(few: Path, visit: Visit) -> None:
    page = visit(few)
    page.locator("#overview figure svg .mark-symbol path").first.hover()
    page.wait_for_selector("#vg-tooltip-element.visible")
    assert "efficientnet-lite0" in page.locator("#vg-tooltip-element").inner_text()
    concept = page.locator("#cog figure:has-text('Every unseen concept') svg .mark-symbol path").first
    concept.hover(force=True)
    page.wait_for_function("document.querySelector('#vg-tooltip-element')?.innerText.includes('nearest')")
    page.locator("th:has(img[data-picture])").first.dispatch_event("pointerover")
    assert page.locator("#peek").get_attribute("src").startswith("data:image/jpeg")


def test_a_number_leads_to_its_cells(few: Path, results: list[Result], made_up: ModuleType, visit: Visit) -> None:
    page = visit(few)
    page.locator("#cog tbody .to-cells").first.click()
    shown = page.locator("dialog#cell")
    assert shown.is_visible()
    parts = shown.locator("details.one")
    own = [r for r in results if r.cell.model == made_up.FEW[0] and r.cell.parameters.get("level") == "seen"]
    own = [r for r in own if r.cell.parameters["shots"] == "all"]
    assert parts.count() == len(own) == 2, "one per seed"
    parts.first.locator("summary").first.click()
    text = parts.first.inner_text()
    for word in ("solver", "logistic", own[0].cell.id, "Some CPU", "2026-11-17", "ICCV 2021", "unseen 0.1.0"):
        assert word in text
    assert "unseen cog run packaged:emoji --models packaged:efficientnet-lite0" in text
    assert "2 settings tried" in text
    page.keyboard.press("Escape")
    assert not shown.is_visible()
    page.locator("#cell-list > summary").click()
    page.fill("#find", "zsl SAE lite2")
    page.wait_for_function("document.getElementById('found').textContent.startsWith('1 of')")
    page.locator("#cell-list .to-cells").click()
    assert "SAE" in shown.inner_text() and "TPAMI 2018" in shown.inner_text()
    shown.locator("form button").click()
    page.locator("#overview figure svg .mark-symbol path").first.click()
    shown.wait_for(state="visible")


def test_downloads(few: Path, results: list[Result], visit: Visit) -> None:
    page = visit(few)

    def saved(selector: str) -> tuple[str, bytes]:
        with page.expect_download() as waiting:
            page.locator(selector).first.click()
        return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()

    name, content = saved("[data-download=csv]")
    assert name == "three-models-a-page-results.csv"
    found = list(csv.DictReader(io.StringIO(content.decode())))
    rows = [row for r in results for row in long_rows(r)]
    ours = list(csv.DictReader(csv_lines(rows, {name for row in rows for name in row["parameters"]})))
    key = lambda row: (row["cell"], row["metric"])  # noqa: E731
    assert {key(row): float(row["value"]) for row in found} == {key(row): float(row["value"]) for row in ours}
    assert found[0].keys() >= ours[0].keys() - {"study", "recorded"}
    name, content = saved("[data-download=json]")
    assert name == "three-models-a-page-results.json"
    assert {r["cell"]["id"]: r["metrics"] for r in json.loads(content)} == {r.cell.id: dict(r.metrics) for r in results}
    for kind, begin in (("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF-1.4")):
        name, content = saved(f"#overview [data-save={kind}]")
        assert name == f"three-models-a-page-accuracy-by-question.{kind}"
        assert content.startswith(begin)
    assert content.rstrip().endswith(b"%%EOF") and content[
        int(content.split(b"startxref\n")[1].split()[0]) :
    ].startswith(b"xref")


def test_it_prints_its_charts(few: Path, visit: Visit) -> None:
    page = visit(few)
    page.emulate_media(media="print")
    assert page.pdf().startswith(b"%PDF")
    assert not page.locator(".choose").is_visible() and not page.locator(".save").first.is_visible()


def test_hostile_names_stay_text(results: list[Result], made_up: ModuleType, tmp_path: Path, visit: Visit) -> None:
    name = "timm:</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    hostile = [
        replace(r, cell=replace(r.cell, model=name), error="") for r in results if r.cell.model == made_up.FEW[0]
    ]
    page = visit(write_report([*hostile, *results], tmp_path / "page.html", title=name))
    assert page.title() == name
    assert "<script>document.title" in page.locator("#overview .legend").inner_text()
    page.locator("#overview tbody .to-cells").first.click()
    page.locator("dialog details.one summary").first.click()
    assert page.locator("dialog img, dialog script, .legend img, table script").count() == 0
    assert page.title() == name


def test_the_data_is_small_and_whole(results: list[Result], made_up: ModuleType) -> None:
    data = make_report(results, title="x", cards=made_up.cards()).data
    carried = json.loads(gzip.decompress(base64.b64decode(data.text)))
    assert [entry["id"] for entry in carried["results"]] == list(data.ids)
    assert {*data.ids} == {result.cell.id for result in results}
    assert len(carried["parts"]) < len(results), "equal parts are held once"


def test_titles_of_tables_stay_in_sight_and_wide_tables_fit_a_desk(few: Path, visit: Visit) -> None:
    phone = visit(few, 390)
    ends = phone.eval_on_selector_all(
        "section > .scroll caption span", "all => all.map(each => each.getBoundingClientRect().right)"
    )
    assert ends and max(ends) <= 390, ends
    desk = visit(few, 1400)
    over = desk.eval_on_selector_all(
        "section > .scroll",
        "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.getAttribute('aria-label'))",
    )
    assert over == []


def test_alternative_text_survives_rendering(
    few: Path, visit: Visit, results: list[Result], made_up: ModuleType
) -> None:
    """Vega sets or removes the label of the element that it draws into."""
    page = visit(few)
    figures = [f for s in make_report(results, title="", cards=made_up.cards()).sections for f in s.figures]
    labels = page.eval_on_selector_all("[data-figure]", "all => all.map(e => [e.ariaLabel, !!e.querySelector('svg')])")
    assert len(labels) == len(figures)
    figures.sort(key=lambda figure: (figure.description, not figure.folded))  # equal descriptions: folded ones first
    for figure, (label, drawn) in zip(figures, sorted(labels), strict=True):
        assert label == figure.description and len(label) > 20
        assert drawn or figure.folded
