"""The tables of the VTAB paper: whole, and consistent with themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unseen.benchmarks.vtab import published_tables as vtab
from unseen.core.errors import DataError


@pytest.mark.parametrize(("adaptation", "methods"), [("lightweight", 18), ("heavyweight", 4), ("linear", 17)])
@pytest.mark.parametrize("size", ["1000", "full"])
def test_every_mean_is_the_mean_of_its_row(adaptation: str, methods: int, size: str) -> None:
    table = vtab.score_table(adaptation, size)  # type: ignore[arg-type]
    assert table.scores.shape == (methods, 19)
    assert np.abs(table.scores.mean(axis=1) - table.means).max() < 0.1
    assert (table.scores > 0).all()
    assert (table.scores <= 100).all()


def test_rows_are_sorted_by_their_mean() -> None:
    for size in ("1000", "full"):
        means = vtab.score_table("lightweight", size).means  # type: ignore[arg-type]
        assert (np.diff(means) >= 0).all()


def test_spot_checks_against_the_printed_page() -> None:
    light = vtab.score_table("lightweight", "1000")
    assert light.row("Sup-Rot-100%")[[0, 11, 18]].tolist() == [89.9, 48.2, 32.8]
    assert light.means[light.methods.index("From-Scratch")] == 42.1
    full = vtab.score_table("lightweight", "full")
    assert full.row("Cond-BigGAN")[0] == 0.1
    assert vtab.score_table("heavyweight", "full").row("Sup-Ex-100%")[18] == 99.1
    assert vtab.score_table("linear", "1000").row("BigBiGAN")[6] == 69.8
    with pytest.raises(DataError, match="no method"):
        light.row("DINO")


def test_table_1_repeats_table_7() -> None:
    folder = Path(vtab.__file__).parent / "published"
    assert (folder / "table1.csv").read_text() == (folder / "table7.csv").read_text()


def test_nineteen_tasks_in_three_groups() -> None:
    rows = vtab.vtab_tasks().values()
    assert [sum(r.group == g for r in rows) for g in vtab.GROUPS] == [7, 4, 8]
    assert len({r.data for r in rows}) == 16
    assert sorted(m for kind in vtab.method_kinds().values() for m in kind) == sorted(
        vtab.score_table("lightweight", "1000").methods
    )


def test_the_authors_results_file(golden_data: Path) -> None:
    path = golden_data / "results" / "vtab_results.csv"
    shared = ("Cond-BigGAN", "Exemplar", "From-Scratch", "Jigsaw", "Rotation", "Sup-100%", "VAE", "WAE-MMD")
    full, printed = vtab.read_results_file(path, "full"), vtab.score_table("lightweight", "full")
    assert len(full.methods) == 16
    for method in shared:  # the printed medians, before they were rounded
        assert np.abs(full.row(method) - printed.row(method)).max() < 0.051
    few, printed = vtab.read_results_file(path, "1000"), vtab.score_table("lightweight", "1000")
    for method in shared:  # another run of the protocol, which moves DMLab and dSprites by up to 48 points
        assert np.median(np.abs(few.row(method) - printed.row(method))) < 2.5
    assert vtab.read_results_file(path, "full").row("Cond-BigGAN")[0] == pytest.approx(0.148, abs=1e-3)
    with pytest.raises(DataError, match="not a VTAB results file"):
        vtab.read_results_file(Path(__file__), "1000")


def test_tables_3_to_5() -> None:
    assert vtab.human_scores()["clevr-count"]["human"] == 99.0
    assert vtab.aggregation_taus("1000")["average-rank"] == (0.873, 0.023)
    tasks = {row.name for row in vtab.vtab_tasks().values()}
    for size in ("1000", "full"):
        subsets = vtab.best_subsets(size)  # type: ignore[arg-type]
        assert [len(s.tasks) for s in subsets] == [5] * 5
        assert all(set(s.tasks) <= tasks for s in subsets)
