"""Compute the numbers of docs/evidence/vtab.md again that come from the published tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.balduzzi import readings

from unseen.benchmarks.vtab.analysis import published_settings, sweep_gains
from unseen.benchmarks.vtab.published_tables import (
    paper_tables,
    published_aggregations,
    score_table,
)
from unseen.metrics.aggregation import agreement_with_mean
from unseen.metrics.subsets import left_out_taus, unseen_pair_accuracy

PAGE = (Path(__file__).parents[3] / "docs" / "evidence" / "vtab.md").read_text()
NAMES = {
    "per dataset": "datasets",
    "per group": "groups",
    "Balduzzi et al.": "balduzzi",
    "geometric mean": "geometric",
    "average rank": "average-rank",
    "average rank, perturbed": "perturbed-rank",
    "average rank, robust": "robust-rank",
    "elimination": "elimination",
}


def rows(head: str) -> list[list[str]]:
    """The cells of the table that begins with `head`."""
    lines = PAGE[PAGE.index(f"| {head} |") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_table_4_is_as_computed() -> None:
    written = {NAMES[cells[0]]: cells[1:] for cells in rows("aggregation")}
    assert set(written) == set(NAMES.values())
    for column, size in enumerate(("1000", "full")):
        found = agreement_with_mean(score_table(size=size, adaptation="lightweight").scores, published_aggregations())  # type: ignore[arg-type]
        for name, printed in paper_tables().table4.items():
            tau, deviation = printed[size]  # type: ignore[index]
            assert written[name][2 * column] == f"{tau:.3f} ± {deviation:.3f}"
            assert written[name][2 * column + 1] == f"{found[name]:.3f}", (name, size)


def test_readings_are_as_computed() -> None:
    few, full = (readings(score_table("lightweight", size).scores) for size in ("1000", "full"))  # type: ignore[arg-type]
    written = {cells[0]: cells[1:] for cells in rows("game")}
    assert set(written) == set(few)
    for name, cells in written.items():
        values = [few[name][0], full[name][0], few[name][1], full[name][1]]
        assert [cell.strip("*") for cell in cells] == [f"{value:.3f}" for value in values], name


def test_numbers_of_the_text_are_as_computed() -> None:
    tables = [score_table("lightweight", size).scores for size in ("1000", "full")]  # type: ignore[arg-type]
    pairs = [f"{unseen_pair_accuracy(table):.3f}" for table in tables]
    assert f"probability {pairs[0]} (1,000) and {pairs[1]} (full)" in " ".join(PAGE.split())
    left = [f"{left_out_taus(table).mean():.2f}" for table in tables]
    assert f"with tau {left[0]} (1,000) and {left[1]} (full)" in " ".join(PAGE.split())
    gains = {row.model: sum(points.values()) / 19 for row, points in sweep_gains(published_settings("1000"))}
    scratch = gains["published:From-Scratch"]
    assert re.search(rf"From-Scratch gains {scratch:.1f} points", PAGE)
    assert scratch == pytest.approx(59.2 - 42.1, abs=0.1)
