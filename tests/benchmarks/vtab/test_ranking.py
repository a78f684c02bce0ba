"""The table of VTAB: one for all outputs, with published rows, without incomplete ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unseen.benchmarks.vtab.analysis import ModelScores, published_scores, vtab_settings
from unseen.benchmarks.vtab.published_tables import published_result, published_results, score_table
from unseen.benchmarks.vtab.ranking import compare, rank
from unseen.core.records import Cell, Result
from unseen.core.run_record import RunRecord, SplitCounts
from unseen.data.sources.vtab import vtab_tasks
from unseen.reports.blocks import Material
from unseen.results import render
from unseen.results.grid import pack_correct
from unseen.results.table import result_tables
from unseen.stats import accuracy_interval, paired_difference

TASKS = tuple(vtab_tasks())
IMAGES = 400


def runs(model: str, right: float, tasks: tuple[str, ...] = TASKS, *, root: str = "", test: int = 0) -> list[Result]:
    """Three seeds per task; all models fail on similar images, so that they are positively correlated."""
    found = []
    for number, task in enumerate(tasks):
        hard = np.random.default_rng([1, number]).random(IMAGES)
        for seed in range(3):
            noise = np.random.default_rng([2, number, seed, *model.encode()]).random(IMAGES)
            correct = 0.9 * hard + 0.1 * noise < right
            dataset = f"vtab:{task}?root={root}" if root else f"vtab:{task}"
            parameters = {"adaptation": "linear", "sweep": "lightweight", "seed": seed}
            record = RunRecord(images={"test": SplitCounts(test, test, 6084)}) if test else RunRecord()
            found.append(
                Result(
                    Cell("vtab", model, dataset, parameters, revision=f"{model}+{task}"),
                    {"top1": float(correct.mean()), "mean_per_class": float(correct.mean())},
                    details={"correct": pack_correct(correct), "test_images": IMAGES, "classes": 4},
                    record=record,
                )
            )
    return found


def scores_of(results: list[Result]) -> list[ModelScores]:
    return [row for setting in vtab_settings(Material(results)) for row in setting.scores]


def row_of(scores: list[ModelScores], model: str) -> ModelScores:
    return next(row for row in scores if row.model == model)


def test_one_table_in_the_order_of_the_paper_with_group_means() -> None:
    own = runs("timm:a", 0.5, TASKS[::-1])
    (table,) = result_tables(own)
    titles = [task.title for task in vtab_tasks().values()]
    assert list(table.columns) == [
        "method", *titles, "Natural", "Specialized", "Structured", "groups", "19 tasks",
    ]  # fmt: skip
    assert list(table.groups) == [
        "", *["Natural"] * 7, *["Specialized"] * 4, *["Structured"] * 8, *["Mean of"] * 5,
    ]  # fmt: skip
    row = next(row for row in table.rows if row[0].text == "timm:a")
    medians = {t: np.median([r.metrics["top1"] for r in own if r.cell.dataset == f"vtab:{t}"]) for t in TASKS}
    assert [cell.value for cell in row[1:20]] == pytest.approx([medians[task] for task in TASKS])
    groups = [
        np.mean([medians[t] for t in TASKS if vtab_tasks()[t].group == g])
        for g in ("natural", "specialized", "structured")
    ]
    assert [cell.value for cell in row[20:]] == pytest.approx([*groups, np.mean(groups), np.mean([*medians.values()])])
    assert row[1].n == IMAGES
    assert row[1].chance == 0.25
    assert all(cell.interval and cell.interval.low < (cell.value or 0) < cell.interval.high for cell in row[1:])
    assert len(row[-1].cells) == 3 * 19


def test_every_output_has_the_same_numbers_and_no_path() -> None:
    own = [*runs("timm:a", 0.5, root="/secret/disk/vtab"), *runs("timm:b", 0.6, root="/secret/disk/vtab")]
    (table,) = result_tables(own, {"timm:a": "A", "timm:b": "B"})
    shown = next(row for row in table.rows if row[0].text == "B")[-1].full
    for text in (render.latex_table(table, "t"), render.markdown_table(table), render.csv_table(table)):
        assert "secret" not in text
    assert shown.partition(" ")[0] in render.latex_table(table, "t")
    assert r"\multicolumn{7}{c}{Natural}" in render.latex_table(table, "t")
    assert "Median over 3 seeds" in " ".join(table.notes)
    (ranking,) = compare(own)
    (found,) = [row[-1].full for table in ranking.tables({}) for row in table.rows if row[0].text == "timm:b"]
    assert found == shown


def test_roots_that_differ_are_named_by_their_last_part() -> None:
    own = [*runs("timm:a", 0.5, TASKS[:2], root="/secret/one"), *runs("timm:a", 0.6, TASKS[:2], root="/secret/two")]
    captions = [table.caption for table in result_tables(own)]
    assert [caption.partition(" · ")[2] for caption in captions] == ["root one", "root two"]


def test_published_rows_are_results_with_a_source() -> None:
    table, found = score_table("linear", "1000"), published_results("linear", "1000")
    assert len(found) == table.scores.size
    assert [100 * result.metrics["top1"] for result in found] == pytest.approx(table.scores.ravel().tolist())
    assert {result.record.source for result in found} == {"Zhai et al., 2019, Table 9"}
    pets = next(r for r in found if r.cell.model == "published:Sup-100%" and r.cell.dataset == "vtab:pets")
    n = vtab_tasks()["pets"].sizes[2]
    expected = accuracy_interval(np.arange(n) < round(pets.metrics["top1"] * n))
    assert (pets.metrics["top1_low"], pets.metrics["top1_high"]) == (expected.low, expected.high)
    rows = published_scores("lightweight", "full")
    assert (len(rows), rows[0].size, rows[0].source) == (18, "full", "Zhai et al., 2019, Table 6")


def test_models_are_compared_image_by_image() -> None:
    """The intervals of two models overlap; on the same images their difference is significant."""
    own = scores_of([*runs("timm:a", 0.5), *runs("timm:b", 0.51)])
    ranking = rank(own)
    a, b = (row_of(own, model) for model in ("timm:a", "timm:b"))
    difference = ranking.decisions[ranking.mean].pairs[b.key, a.key]
    assert difference.paired
    pets = next(column for column in ranking.columns if column.tasks == ("pets",))
    found = ranking.decisions[pets].pairs[b.key, a.key]
    first, second = (row.summaries["pets"].candidate.outcomes for row in (b, a))
    assert first is not None and second is not None
    expected = paired_difference(first, second)
    assert (found.value, found.low, found.high) == (expected.value, expected.low, expected.high)


def test_the_mean_of_groups_weighs_every_group_alike_also_image_by_image() -> None:
    """The paired difference against its standard error from the per-image differences of every task."""
    tasks = ("caltech101", "pets", "camelyon", "dmlab", "kitti-distance", "svhn")  # no two share images
    own = scores_of([*runs("timm:a", 0.5, tasks), *runs("timm:b", 0.6, tasks)])
    ranking = rank(own)
    (column,) = [column for column in ranking.columns if column.by_group]
    found = ranking.decisions[column].pairs[row_of(own, "timm:b").key, row_of(own, "timm:a").key]
    weights = [1 / 3 / [vtab_tasks()[t].group for t in tasks].count(vtab_tasks()[task].group) for task in tasks]
    values, variance = 0.0, 0.0
    for task, weight in zip(tasks, weights, strict=True):
        outcomes = [row_of(own, m).summaries[task].candidate.outcomes for m in ("timm:b", "timm:a")]
        differences = np.subtract(*outcomes)  # type: ignore[arg-type]
        values += weight * differences.mean()
        variance += weight**2 * differences.var(ddof=1) / IMAGES
    assert found.paired
    assert found.value == pytest.approx(values)
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * variance**0.5, rel=0.05)


def test_an_unfinished_model_does_not_shrink_the_comparison() -> None:
    own = [*runs("timm:a", 0.5), *runs("timm:b", 0.6), *runs("timm:c", 0.99, ("pets",))]
    (ranking,) = compare(own)
    assert len(ranking.tasks) == 19
    assert {row.model for row in ranking.rows if not row.source} == {"timm:a", "timm:b"}
    ((left, lacks),) = ranking.incomplete
    assert left.model == "timm:c"
    assert lacks.startswith("18 tasks of 19 missing: Caltech101, ")
    incomplete = ranking.tables({})[-1]
    assert [row[0].text for row in incomplete.rows] == ["timm:c"]
    assert incomplete.notes == [f"timm:c: {lacks}."]
    (alone,) = compare([result for result in own if result.cell.model == "timm:c"])
    assert (len(alone.tasks), len(alone.rows)) == (1, 18)


def test_incomplete_test_sets_are_never_ranked_among_published_rows() -> None:
    whole, small = runs("timm:a", 0.5), runs("timm:b", 0.99, test=40)
    (ranking,) = compare([*whole, *small])
    assert [row.model for row, _ in ranking.incomplete] == ["timm:b"]
    assert "Caltech101 test has 40 of 6,084 images" in ranking.incomplete[0][1]
    ranked, listed = result_tables([*whole, *small])
    assert "timm:b" not in [row[0].text for row in ranked.rows]
    assert [row[0].text for row in listed.rows] == ["timm:b"]
    # If all data are incomplete, models are ranked among themselves.
    (only,) = compare(small)
    assert [row.model for row in only.rows] == ["timm:b"]
    assert "not comparable with published" in only.note
    (table,) = result_tables(small)
    assert "Data are incomplete: not comparable with published numbers." in table.notes


def test_old_results_without_outcomes_use_their_stored_bounds() -> None:
    old = [
        replace(r, metrics={**r.metrics, "top1_low": r.metrics["top1"] - 0.02, "top1_high": r.metrics["top1"] + 0.03})
        for r in (replace(r, details={"test_images": IMAGES}) for r in runs("timm:a", 0.5, ("pets", "svhn")))
    ]
    (row,) = scores_of(old)
    interval = row.summaries["pets"].interval
    assert interval.value - interval.low == pytest.approx(0.02, abs=0.01)
    assert rank([row]).decisions  # the table is made


def test_fixed_budgets_have_the_usual_table() -> None:
    own = [
        replace(r, cell=replace(r.cell, parameters={**r.cell.parameters, "budget": 40}))
        for r in runs("timm:a", 0.5, TASKS[:2])
    ]
    (table,) = result_tables(own)
    assert list(table.columns) == ["model", "Caltech101", "CIFAR-100", "2 tasks"]
    assert [row[0].text for row in table.rows] == ["timm:a"]


def test_the_table_states_whose_examples_and_how_many_parameters_were_trained() -> None:
    own = []
    for number, result in enumerate(runs("timm:a", 0.5)):
        whose = ("authors' subset", "own sample", "")[number // 3 % 3]
        parameters = {**result.cell.parameters, "adaptation": "lora"}
        cell = replace(result.cell, parameters=parameters)
        details = {**result.details, "trainable": 1000 + number // 3}
        own.append(replace(result, cell=cell, details=details, record=RunRecord(provenance=whose)))  # type: ignore[arg-type]
    (table,) = result_tables(own)
    row = next(row for row in table.rows if row[0].text == "timm:a")
    assert (table.columns[-1], row[-1].text, row[-1].sort) == ("trained parameters", "1,009", 1009)
    titles = [task.title for task in vtab_tasks().values()]
    note = next(note for note in table.notes if note.startswith("1,000 examples"))
    authors, sample, unknown = note.removesuffix(".").split("; ")
    assert authors.startswith(f"1,000 examples: authors' subset ({titles[0]}, ")
    assert sample.startswith(f"own sample ({titles[1]}, ")
    assert unknown.startswith(f"unknown ({titles[2]}, ")
    for shown in (render.latex_table(table, "t"), render.markdown_table(table)):
        assert f"own sample ({titles[1]}" in shown
        assert "1,009" in shown


def test_rows_of_the_literature_are_ranked_if_they_are_complete() -> None:
    more = [
        published_result(
            method, task, "1000", 55.0, {"adaptation": "finetune", "sweep": "lightweight"}, "Some, 2022, T. 1"
        )
        for method, tasks in (("VPT-Deep", TASKS), ("Half", TASKS[:5]))
        for task in tasks
    ]
    (ranking,) = compare(runs("timm:a", 0.5), literature=more)
    names = [row.model for row in ranking.ordered]
    assert "published:VPT-Deep" in names and "published:Half" not in names
    assert [(row.model, lacks[:19]) for row, lacks in ranking.incomplete] == [("published:Half", "14 tasks of 19 miss")]
    (table, incomplete) = ranking.tables({})
    assert any("Some, 2022, T. 1" in note for note in table.notes)
    row = next(row for row in table.rows if row[0].text.startswith("VPT-Deep"))
    assert row[1].value == pytest.approx(0.55)
    assert row[1].interval is not None and row[1].interval.low < 0.55 < row[1].interval.high
    assert "incomplete, not ranked" in incomplete.caption
