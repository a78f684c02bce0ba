"""The tables of the VTAB paper: whole, and consistent with themselves."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from unseen.benchmarks.vtab import published_tables as vtab
from unseen.core.arrays import FloatArray
from unseen.metrics.subsets import left_out_taus


def row(table: vtab.ScoreTable, method: str) -> FloatArray:
    found: FloatArray = table.scores[table.methods.index(method)]
    return found


def read_results_file(path: Path, size: str) -> vtab.ScoreTable:
    """Read the results file that the authors released: single values in full precision, two header rows."""
    sizes, names, _, *body = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
    heads = ["dSpr-Ori" if name == "dSpr-Orient" else name for name in names]
    columns = {head: i for i, (head, each) in enumerate(zip(heads, sizes, strict=True)) if each == size}
    titles = vtab.task_titles()
    scores = np.array([[float(values[columns[title]]) for title in titles.values()] for values in body])
    return vtab.ScoreTable(tuple(values[0] for values in body), tuple(titles), scores)


def printed_means(table: str, size: str) -> dict[str, float]:
    """Return the mean of each method as the paper prints it."""
    path = Path(vtab.__file__).parent / "published" / f"{table}.csv"
    rows = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    return {row["method"]: float(row["Mean"]) for row in rows if row["size"] == size}


@pytest.mark.parametrize(("adaptation", "methods"), [("lightweight", 18), ("heavyweight", 4), ("linear", 17)])
@pytest.mark.parametrize("size", ["1000", "full"])
def test_every_mean_is_the_mean_of_its_row(adaptation: str, methods: int, size: str) -> None:
    table = vtab.score_table(adaptation, size)  # type: ignore[arg-type]
    assert table.scores.shape == (methods, 19)
    means = printed_means({"lightweight": "table6", "heavyweight": "table7", "linear": "table9"}[adaptation], size)
    assert tuple(means) == table.methods
    assert np.abs(table.scores.mean(axis=1) - list(means.values())).max() < 0.1
    assert (table.scores > 0).all()
    assert (table.scores <= 100).all()


def test_rows_are_sorted_by_their_mean() -> None:
    for size in ("1000", "full"):
        assert (np.diff(list(printed_means("table6", size).values())) >= 0).all()


def test_spot_checks_against_the_printed_page() -> None:
    light = vtab.score_table("lightweight", "1000")
    assert row(light, "Sup-Rot-100%")[[0, 11, 18]].tolist() == [89.9, 48.2, 32.8]
    assert printed_means("table6", "1000")["From-Scratch"] == 42.1
    full = vtab.score_table("lightweight", "full")
    assert row(full, "Cond-BigGAN")[0] == 0.1
    assert row(vtab.score_table("heavyweight", "full"), "Sup-Ex-100%")[18] == 99.1
    assert row(vtab.score_table("linear", "1000"), "BigBiGAN")[6] == 69.8


def test_table_1_repeats_table_7() -> None:
    folder = Path(vtab.__file__).parent / "published"
    assert (folder / "table1.csv").read_text() == (folder / "table7.csv").read_text()


def test_nineteen_tasks_in_three_groups() -> None:
    rows = vtab.vtab_tasks().values()
    assert [sum(r.group == g for r in rows) for g in vtab.GROUPS] == [7, 4, 8]
    assert len({r.data for r in rows}) == 16
    assert sorted(m for kind in vtab.paper_tables().kinds.values() for m in kind) == sorted(
        vtab.score_table("lightweight", "1000").methods
    )


def test_the_authors_results_file(golden_data: Path) -> None:
    path = golden_data / "results" / "vtab_results.csv"
    shared = ("Cond-BigGAN", "Exemplar", "From-Scratch", "Jigsaw", "Rotation", "Sup-100%", "VAE", "WAE-MMD")
    full, printed = read_results_file(path, "full"), vtab.score_table("lightweight", "full")
    assert len(full.methods) == 16
    for method in shared:  # the printed medians, before they were rounded
        assert np.abs(row(full, method) - row(printed, method)).max() < 0.051
    few, printed = read_results_file(path, "1000"), vtab.score_table("lightweight", "1000")
    for method in shared:  # another run of the protocol, which moves DMLab and dSprites by up to 48 points
        assert np.median(np.abs(row(few, method) - row(printed, method))) < 2.5
    assert row(full, "Cond-BigGAN")[0] == pytest.approx(0.148, abs=1e-3)
    # Appendix N: 0.76 with the sixteen methods of this file. All examples give it, 1,000 do not (0.63).
    assert left_out_taus(full.scores).mean() == pytest.approx(0.76, abs=0.01)


def test_tables_3_to_5() -> None:
    tables = vtab.paper_tables()
    assert tables.table3["clevr-count"]["human"] == 99.0
    assert tables.table4["average-rank"]["1000"] == (0.873, 0.023)
    known = {row.name for row in vtab.vtab_tasks().values()}
    for size in ("1000", "full"):
        subsets = [set(row.tasks) for row in tables.table5 if row.size == size]
        assert [len(tasks) for tasks in subsets] == [5] * 5
        assert all(tasks <= known for tasks in subsets)
