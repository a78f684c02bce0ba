"""The section on failures and run records."""

from __future__ import annotations

from dataclasses import replace

from unseen.core.records import Cell, Result
from unseen.core.run_record import Dropped, LoadedModel, RunRecord, SearchRecord, SplitCounts
from unseen.reports.blocks import Material, Section, Table
from unseen.reports.provenance import problems_section

USED = RunRecord({"train": SplitCounts(9, 9)}, 3, 3)
BAD = tuple(Dropped("image", f"{n}.png", "not an image", "train") for n in range(3))


def result(model: str = "m", record: RunRecord = USED, **more: str) -> Result:
    return Result(Cell("probe", model, "d:x"), {} if more else {"top1": 0.5}, record=record, **more)  # type: ignore[arg-type]


def section(*results: Result) -> Section:
    return problems_section(Material(results))


def table(made: Section, start: str) -> Table:
    return next(table for table in made.tables if table.caption.startswith(start))


def texts(found: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in found.rows]


def test_nothing_went_wrong_only_if_every_record_is_clean_and_no_cell_failed() -> None:
    assert section(result()).title == "Nothing went wrong"
    assert section(result(), result(record=replace(USED, notes=("odd",)))).title != "Nothing went wrong"
    assert section(result(), result(error="no")).title == "What went wrong"
    assert section(result(), result(record=RunRecord())).title == "No cell failed", "older results have no record"
    assert "older version" in section(result(record=RunRecord())).prose[-1]


def test_images_that_twenty_models_cannot_read_are_listed_once() -> None:
    made = section(*(result(f"m{n}", replace(USED, dropped=BAD)) for n in range(20)), result("other"))
    assert made.title == "What was dropped, and other findings"
    assert made.points == [("Findings", "3 unreadable images.")]
    rows = texts(table(made, "7 facts"))
    assert ["dropped: image 0.png of train: not an image", "x", "m0, m1, m2 and 17 more"] in rows
    whole = section(*(result(f"m{n}", replace(USED, dropped=BAD)) for n in range(20)))
    assert {row[-1] for row in texts(table(whole, "7 facts"))} == {"all 20 models"}
    assert not table(made, "7 facts").folded
    many = tuple(Dropped("image", str(n), "not an image") for n in range(50))
    assert table(section(result(record=replace(USED, dropped=many))), "54 facts").folded


def test_the_full_record_is_in_the_table() -> None:
    loaded = LoadedModel("a.pth", "teacher", ("student",), "net", True, 7, ("fc.weight",), ("head.bias",), (), "logits")
    record = replace(
        USED,
        images={"train": SplitCounts(1200, 1190, 6084)},
        classes_used=2,
        model=loaded,
        search=SearchRecord(4, {"C": 9.0}, {"C": (1.0, 9.0)}),
        provenance="own sample",
        dropped=(Dropped("candidate", "C=5", "diverged"),),
    )
    made = section(result(record=record), result(record=record))
    facts = [row[0] for row in texts(next(each for each in made.tables if "facts" in each.caption))]
    assert set(facts) >= {
        "images: train: found: 1200",
        "images: train: expected: 6084",
        "classes used: 2",
        "dropped: candidate C=5: diverged",
        "model: file: a.pth",
        "model: alternatives: student",
        "model: missing: fc.weight",
        "search: tried: 4",
        "search: edges: C: 9.0",
        "provenance: own sample",
    }
