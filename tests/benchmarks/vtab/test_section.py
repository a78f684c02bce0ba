"""The section of VTAB on the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unseen.benchmarks.vtab.analysis import (
    ModelScores,
    metric_agreement,
    metric_means,
    reference_tasks,
    vtab_settings,
)
from unseen.benchmarks.vtab.protocol import MINI
from unseen.benchmarks.vtab.ranking import compare
from unseen.benchmarks.vtab.section import vtab_section
from unseen.core.errors import DataError
from unseen.core.records import Cell, Result
from unseen.reports import save_chart
from unseen.reports.blocks import Material
from unseen.study import write_report

MODELS = ("timm:a", "timm:b", "random:c")


def results(datasets: tuple[str, ...] = MINI, **parameters: object) -> list[Result]:
    rng = np.random.default_rng(0)
    found = []
    for strength, model in enumerate(MODELS):
        for dataset in datasets:
            for seed in range(3):
                top1 = float(np.clip(0.7 - 0.15 * strength + rng.normal(0, 0.05), 0.01, 1))
                setting = {"adaptation": "linear", "sweep": "lightweight", "seed": seed, **parameters}
                found.append(
                    Result(
                        Cell("vtab", model, dataset, setting),
                        {"top1": top1, "mean_per_class": top1 - 0.01, "kappa": top1 - 0.1},
                    )
                )
    return found


def scores_of(found: list[Result]) -> list[ModelScores]:
    return [row for setting in vtab_settings(Material(found)) for row in setting.scores]


def test_the_section_has_its_figures_and_tables(tmp_path: Path) -> None:
    section = vtab_section(Material(results()), "vtab")
    assert section is not None
    titles = [figure.title for figure in section.figures]
    assert titles[0] == "Means by group of tasks"
    assert "Where the best model gains" in titles
    assert [row[0].text for row in section.tables[0].rows] == ["a", "b", "c, random weights"]
    assert len(section.tables) == 1, "tables of the paper are in `unseen vtab analyse`"
    for number, figure in enumerate(section.figures):
        path = save_chart(figure.spec, tmp_path / f"{number}.svg")
        assert path.stat().st_size > 2000


def test_a_mean_over_fewer_tasks_is_not_compared() -> None:
    whole = results()
    some = [r for r in whole if r.cell.model != "random:c" or "grocery" in r.cell.dataset]
    best = [Result(r.cell, {**r.metrics, "top1": 0.99}, details=r.details) for r in some if r.cell.model == "random:c"]
    section = vtab_section(Material([r for r in some if r.cell.model != "random:c"] + best), "vtab")
    assert section is not None
    ranked, incomplete = section.tables[:2]
    assert [row[0].text for row in ranked.rows] == ["a", "b"]
    assert [row[0].text for row in incomplete.rows] == ["c, random weights"]
    assert "not ranked" in incomplete.caption
    (note,) = incomplete.notes
    assert note.startswith("c, random weights: 4 tasks of 6 missing: Shapes-Count, Shapes-Distance, Sprites-Location")
    assert not any(cell.mark for cell in incomplete.rows[0])
    means = next(figure for figure in section.figures if figure.title == "Means by group of tasks")
    assert "c, random weights" not in means.description
    assert {standing.model for standing in section.standings} == {"timm:a", "timm:b"}
    assert section.headlines[0].text.startswith("a adapts best, with ")


def test_published_methods_are_rows_of_the_table_of_their_tasks() -> None:
    section = vtab_section(Material(results(("vtab:svhn", "vtab:pets"))), "vtab")
    assert section is not None
    table = section.tables[0]
    assert table.columns == ["method", "Pets", "SVHN", "2 tasks"]
    assert table.groups == ["", "Natural", "Natural", "Mean of"]
    assert len(table.rows) == 3 + 17
    assert "linear" in table.caption
    means = [row[-1].value for row in table.rows]
    assert means == sorted(means, reverse=True)  # type: ignore[type-var]


def test_the_page_is_written(tmp_path: Path) -> None:
    page = write_report(results(), tmp_path / "page.html", title="VTAB")
    assert "VTAB: unseen tasks, with few labels" in page.read_text()


def test_budgets_become_a_curve_and_stay_out_of_the_means() -> None:
    runs = [r for steps in (40, 400) for r in results(budget=steps)]
    (setting,) = vtab_settings(Material(runs))
    assert not setting.rows
    curves = setting.scores
    assert [row.budget for row in curves if row.model == "timm:a"] == [40, 400]
    assert {len(row.summaries) for row in curves} == {6}
    section = vtab_section(Material(runs), "vtab")
    assert section is not None
    assert [figure.title for figure in section.figures] == ["Accuracy under a budget of steps"]
    assert not section.headlines
    assert "a (linear, 40 steps)" in [row[0].text for row in section.tables[0].rows]


def test_no_results_no_section() -> None:
    assert vtab_section(Material([]), "vtab") is None


def test_medians_of_a_model() -> None:
    first = scores_of(results())[0]
    by_hand = np.mean([np.median(summary.values) for summary in first.summaries.values()])
    mean = first.mean(reference_tasks([first])).interval
    assert mean is not None
    assert mean.value == pytest.approx(by_hand)
    (setting,) = vtab_settings(Material(results()))
    assert metric_agreement(metric_means(setting)) == {"mean_per_class": 1.0, "kappa": 1.0}


def test_comparison_on_the_tasks_of_the_paper() -> None:
    (ranking,) = compare(results(("vtab:pets", "procedural:shapes-count")))
    assert list(ranking.tasks) == ["pets"]
    assert sum(not row.source for row in ranking.rows) == 3
    with pytest.raises(DataError, match="never run"):
        compare(results())
    with pytest.raises(DataError, match="no VTAB results"):
        compare([])


def test_runs_of_two_steps_are_compared_apart() -> None:
    """`vtab compare` after `--steps 2`: Pets must not fall from 70 to 5."""
    tasks = ("vtab:pets", "vtab:svhn")
    whole = results(tasks, steps=[2500, 10_000])
    short = [Result(r.cell, {"top1": 0.05}, details=r.details) for r in results(tasks[:1], steps=[2])]
    own = vtab_settings(Material([*whole, *short]))
    assert [(s.group.words, sorted(row.summaries)) for s in own for row in s.scores if row.model == "timm:a"] == [
        ("steps [2500,10000]", ["pets", "svhn"]),
        ("steps [2]", ["pets"]),
    ]
    first, second = compare([*whole, *short])
    (alone,) = compare(whole)
    assert first.tables({})[0].rows == alone.tables({})[0].rows
    assert (second.setting, list(second.tasks)) == ("steps [2]", ["pets"])
    assert second.tables({})[0].rows[-1][-1].value == pytest.approx(0.05)


def test_sizes_roots_and_adaptations_are_kept_apart() -> None:
    both = [*results(("vtab:pets",)), *results(("vtab:pets?size=full",)), *results(("vtab:pets?root=/a/x",))]
    tuned = results(("vtab:pets",), adaptation="finetune")
    scratch = results(("vtab:pets",), adaptation="scratch")
    own = compare([*both, *tuned, *scratch])
    assert [(c.setting, c.table, c.size, sum(not row.source for row in c.rows)) for c in own] == [
        ("table linear, size 1000", "linear", "1000", 3),
        ("table linear, size full", "linear", "full", 3),
        ("table linear, size 1000, root x", "linear", "1000", 3),
        ("table lightweight, size 1000", "lightweight", "1000", 6),
    ]
    shown = [[row[0].text for row in c.tables({})[0].rows] for c in own]
    names = [sorted(name for name in names if name.startswith("timm:a")) for names in shown]
    assert names == [["timm:a"], ["timm:a"], ["timm:a"], ["timm:a (fine-tuned)", "timm:a (from scratch)"]]
    assert len(compare(both, size="full")) == 1


def test_embedded_tasks_do_not_hide_the_published_ones() -> None:
    (only,) = compare([*results(("vtab:pets",), steps=[1]), *results(steps=[2])])
    assert (only.setting, len(only.rows)) == ("", 20)


def test_the_section_shows_settings_apart() -> None:
    section = vtab_section(Material([*results(steps=[5000]), *results(steps=[2])]), "vtab")
    assert section is not None
    assert section.prose[0] == (
        "These are results of 2 settings, which do not compare and are shown separately: (1) steps [5000]; "
        "(2) steps [2]."
    )
    means = [f.title for f in section.figures if f.title.startswith("Means")]
    assert means == ["Means by group of tasks · steps [5000]", "Means by group of tasks · steps [2]"]
    tables = [table for table in section.tables if table.caption.startswith("VTAB, top-1")]
    assert [len(table.rows) for table in tables] == [3, 3]
    assert [h.question for h in section.headlines] == ["Unseen tasks · steps [5000]", "Unseen tasks · steps [2]"]
