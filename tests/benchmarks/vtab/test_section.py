"""The section of VTAB on the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unseen.benchmarks.vtab.analysis import (
    budget_curves,
    kind_means,
    linear_against_finetuning,
    metric_agreement,
    model_scores,
    pair_differences,
    published_scores,
    standings,
)
from unseen.benchmarks.vtab.section import vtab_section
from unseen.benchmarks.vtab.suites import MINI
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
                        details={"task": {"title": dataset}},
                    )
                )
    return found


def test_the_section_has_what_was_asked_for(tmp_path: Path) -> None:
    section = vtab_section(Material(results()), "vtab")
    assert section is not None
    titles = [figure.title for figure in section.figures]
    assert titles[0] == "Means by group of tasks"
    assert "Where the best model gains" in titles
    assert "Do other aggregations rank these models alike?" in titles
    assert [row[0].text for row in section.tables[0].rows] == ["a", "b", "c"]
    captions = " ".join(table.caption for table in section.tables)
    assert "not comparable with embedded ones" in captions
    assert "11,628 subsets" in captions
    for number, figure in enumerate(section.figures):
        path = save_chart(figure.spec, tmp_path / f"{number}.svg")
        assert path.stat().st_size > 2000


def test_a_mean_over_fewer_tasks_is_not_compared() -> None:
    whole = results()
    some = [r for r in whole if r.cell.model != "random:c" or "grocery" in r.cell.dataset]
    best = [Result(r.cell, {**r.metrics, "top1": 0.99}, details=r.details) for r in some if r.cell.model == "random:c"]
    section = vtab_section(Material([r for r in some if r.cell.model != "random:c"] + best), "vtab")
    assert section is not None
    last = section.tables[0].rows[-1]
    assert (last[0].text, last[0].note, last[-1].text) == ("c", "2 of 6 tasks", "–")
    assert section.points[0][0] == "Best: a"


def test_published_methods_stand_in_the_table_of_their_tasks() -> None:
    section = vtab_section(Material(results(("vtab:pets", "vtab:svhn"))), "vtab")
    assert section is not None
    table = section.tables[0]
    assert table.columns == ["method", "Pets", "SVHN", "mean"]
    assert len(table.rows) == 3 + 17
    assert "linear" in table.caption
    means = [row[-1].sort for row in table.rows]
    assert means == sorted(means, reverse=True)  # type: ignore[type-var]


def test_the_page_is_written(tmp_path: Path) -> None:
    page = write_report(results(), tmp_path / "page.html", title="VTAB")
    assert "vtab: unseen tasks, with few labels" in page.read_text()


def test_budgets_become_a_curve_and_stay_out_of_the_means() -> None:
    runs = [r for steps in (40, 400) for r in results(budget=steps)]
    assert not model_scores(runs)
    curves = budget_curves(runs)
    assert [row["steps"] for row in curves if row["model"] == "timm:a"] == [40, 400]
    assert {row["tasks"] for row in curves} == {6}
    section = vtab_section(Material(runs), "vtab")
    assert section is not None
    assert any(figure.title.startswith("Accuracy under a budget") for figure in section.figures)


def test_a_search_shows_what_matters(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    sweep = tuple(
        {
            "learning_rate": float(10 ** rng.uniform(-3, 0)),
            "flip": bool(k % 2),
            "accuracy": float(rng.uniform(0.5, 0.6)),
        }
        for k in range(30)
    )
    base = results(("vtab:pets",))
    searched = [Result(r.cell, r.metrics, sweep=sweep, details=r.details) for r in base]
    section = vtab_section(Material(searched), "vtab")
    assert section is not None
    assert sum(figure.title.startswith("What matters") for figure in section.figures) == 3
    violins = [figure for figure in section.figures if figure.title.startswith("flip on")]
    assert len(violins) == 3
    assert save_chart(violins[0].spec, tmp_path / "violin.svg").stat().st_size > 2000


def test_no_results_no_section() -> None:
    assert vtab_section(Material([]), "vtab") is None


def test_medians_and_intervals_of_a_model() -> None:
    first = model_scores(results())[0]
    by_hand = np.mean([np.median(values) for values in first.runs.values()])
    groups = first.groups()
    assert groups["all"].value == pytest.approx(by_hand)
    assert list(groups) == ["natural", "structured", "all"]
    assert groups["all"].low <= by_hand <= groups["all"].high
    assert metric_agreement(results()) == {"mean_per_class": 1.0, "kappa": 1.0}


def test_standings_on_shared_tasks() -> None:
    own = model_scores(results(("vtab:pets", "procedural:shapes-count")))
    rows = standings(own)
    assert list(rows[0].scores) == ["pets"]
    assert sum(row.own for row in rows) == 3
    with pytest.raises(DataError, match="never run"):
        standings(model_scores(results()))
    with pytest.raises(DataError, match="no VTAB results"):
        standings([])


def test_figure_5_linear_evaluation_agrees_less_on_structured_tasks() -> None:
    found = linear_against_finetuning("1000")
    assert len(found) == 19
    natural = np.mean([found[t] for t in ("caltech101", "cifar100", "dtd", "flowers102", "pets", "sun397")])
    structured = np.mean([found[t] for t in ("clevr-distance", "dsprites-location", "smallnorb-azimuth", "dmlab")])
    assert natural > 0.75
    assert structured < natural - 0.1


def test_figure_4_supervised_pretraining_helps_natural_tasks_most() -> None:
    found = pair_differences(published_scores("Sup-100%"), published_scores("From-Scratch"))
    assert next(iter(found)) == "pets"
    assert found["pets"] == pytest.approx(89.1 - 13.3)
    assert found["clevr-distance"] < 0  # "even the best ImageNet representations fail to capture these aspects"


def test_figure_2_kinds_of_methods() -> None:
    rows = {(row["kind"], row["group"]): row for row in kind_means("1000")}
    assert rows["supervised", "natural"]["mean"] > rows["self-supervised", "natural"]["mean"] + 15
    assert rows["self-supervised", "structured"]["mean"] == pytest.approx(
        rows["supervised", "structured"]["mean"], abs=5
    )
    assert rows["from scratch", "natural"]["std"] == 0.0
