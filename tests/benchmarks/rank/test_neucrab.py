"""NeuCRaB end to end on small networks: scores, ground truth, the table, stages from scratch, published tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from unseen.benchmarks.rank.neucrab import TRUTH, NeucrabBenchmark

from unseen.backbones import load_backbone
from unseen.benchmarks.rank.published import GROUPS, ranking_table, source
from unseen.benchmarks.rank.table import ranking_rows
from unseen.benchmarks.rank.truth import fine_tuned_truth, hold_out, join
from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import DataError, UnknownNameError, UsageError
from unseen.core.records import Cell, Result
from unseen.data import load_dataset
from unseen.finetuning.stages import train_stages
from unseen.ranking import SCORES

SECOND = "random:test_resnet?size=64"


def truth(model: str, dataset: str, top1: float) -> Result:
    return Result(Cell("neucrab", model, dataset, {"score": TRUTH}), metrics={"top1": top1})


def scored(score: str, model: str, dataset: str, *terms: float) -> Result:
    cell = Cell("neucrab", model, dataset, {"score": score})
    return Result(cell, metrics={"gflops": 2.0}, seconds=0.5, details={"terms": list(terms)})


def test_the_table_by_hand() -> None:
    results = [truth(m, t, v) for t in ("x", "y") for m, v in (("a", 0.9), ("b", 0.6), ("c", 0.3))]
    results += [scored("logme", m, "x", v) for m, v in (("a", 3.0), ("b", 2.0), ("c", 1.0))]
    results += [scored("logme", m, "y", v) for m, v in (("a", 1.0), ("b", 3.0), ("c", 2.0))]
    results += [scored("leep", m, "x", v) for m, v in (("a", -2.0), ("b", -1.0))]
    results += [scored("ncti", m, t, 1.0, v, 0.0) for t in ("x", "y") for m, v in (("a", 3.0), ("b", 2.0), ("c", 1.0))]
    rows = {row.score: row for row in ranking_rows(results)}
    assert list(rows) == ["leep", "logme", "ncti"]
    assert rows["logme"].recall_at_1 == 0.5
    assert rows["logme"].relative_at_1 == pytest.approx((1 + 0.6 / 0.9) / 2)
    assert rows["logme"].recall_at_3 == 1.0
    assert rows["logme"].kendall == pytest.approx((1 - 1 / 3) / 2)
    assert (rows["logme"].gflops, rows["logme"].seconds, rows["logme"].pairs) == (2.0, 0.5, 6)
    assert (rows["leep"].tasks, rows["leep"].pairs, rows["leep"].kendall) == (1, 2, -1.0)
    assert rows["ncti"].kendall == pytest.approx(1.0)
    assert {row.score for row in ranking_rows(results, models={"a", "b"})} == {"leep", "logme", "ncti"}
    with pytest.raises(DataError, match="truth = true"):
        ranking_rows(results[6:])


def test_a_plan_has_a_cell_per_score_and_one_for_the_truth() -> None:
    cells = NeucrabBenchmark().plan("m", "d")
    assert [cell.parameters["score"] for cell in cells] == [*SCORES, TRUTH]
    assert [c.parameters["score"] for c in NeucrabBenchmark(scores=("logme",), truth=False).plan("m", "d")] == ["logme"]
    with pytest.raises(UnknownNameError, match="logme"):
        NeucrabBenchmark(scores=("logm",))
    with pytest.raises(UsageError, match="learning rate"):
        NeucrabBenchmark(learning_rates=())


@pytest.mark.slow
def test_every_score_and_the_truth_on_real_networks(images: Path, home: Path, small_model: str) -> None:
    bench = Workbench(home)
    benchmark = NeucrabBenchmark(steps=(6,), learning_rates=(0.05, 0.005), batch_size=8)
    results = []
    for model in (small_model, SECOND):
        results += benchmark.evaluate(benchmark.plan(model, f"folder:{images}"), bench)
    assert [r.error for r in results if not r.ok] == []
    assert {row.score for row in ranking_rows(results)} == set(SCORES)
    found = next(r for r in results if r.cell.parameters["score"] == TRUTH)
    assert len(found.sweep) == 2
    assert found.metrics["validation"] == max(trial["validation"] for trial in found.sweep)
    costs = {r.cell.parameters["score"]: r.metrics["gflops"] for r in results if "gflops" in r.metrics}
    assert costs["finetune-5"] > costs["finetune-1"] > 0


def test_validation_chooses_and_test_is_only_reported(images: Path, small_model: str) -> None:
    dataset = load_dataset(f"folder:{images}")
    train, validation = hold_out(dataset, 0)
    assert len(train) + len(validation) == len(dataset.split("train"))
    assert not set(train.names) & set(validation.names)
    both = join(validation, dataset.split("test"))
    assert np.asarray(both.open(len(validation))).tolist() == np.asarray(dataset.split("test").open(0)).tolist()
    found = fine_tuned_truth(
        load_backbone(small_model), dataset, steps=(2,), learning_rates=(0.01, 0.1), batch_size=4, seed=0
    )
    chosen = max(found.sweep, key=lambda trial: trial["validation"])
    assert (found.top1, found.validation) == (chosen["test"], chosen["validation"])


def test_stages_are_checkpoints_that_load(tmp_path: Path, make_folder: Callable[..., Path]) -> None:
    make_folder(tmp_path / "images", classes=3, per_class=6)
    split = load_dataset(f"folder:{tmp_path / 'images'}?test=0").split("train")
    losses: list[float] = []
    paths = train_stages(
        "test_resnet",
        split,
        tmp_path / "stages",
        classes=3,
        stages=(0, 2, 12),
        size=32,
        batch_size=9,
        progress=lambda step, steps, loss: losses.append(loss),
    )
    assert [path.name for path in paths] == [f"test_resnet-{n}.safetensors" for n in (0, 2, 12)]
    assert np.mean(losses[-3:]) < np.mean(losses[:3])
    models = [load_backbone(f"file:{path}?arch=timm:test_resnet&size=32") for path in paths]
    assert len({model.weights for model in models}) == 3
    assert all(model.has_head for model in models)
    again = train_stages("test_resnet", split, tmp_path / "b", classes=3, stages=(2,), size=32, batch_size=9)
    assert load_backbone(f"file:{again[0]}?arch=timm:test_resnet&size=32").preprocessing.size == 32


def test_stages_that_make_no_sense_are_refused(images: Path, tmp_path: Path) -> None:
    split = load_dataset(f"folder:{images}").split("train")
    with pytest.raises(UsageError, match="ascending"):
        train_stages("test_resnet", split, tmp_path, classes=3, stages=(5, 2))
    with pytest.raises(DataError, match="counted from 0"):
        train_stages("test_resnet", split, tmp_path, classes=2, stages=(1,))


def test_published_tables_are_those_of_the_paper() -> None:
    tables = {group: ranking_table(group) for group in GROUPS}
    assert [table.number for table in tables.values()] == [1, 2, 3]
    assert all(set(table.rows) <= set(SCORES) and len(table.rows) == 11 for table in tables.values())
    assert tables["I"].rows["nleep"]["kendall"] == 76.0
    assert tables["I"].rows["leep"]["kendall"] is None
    assert tables["II"].rows["linear"]["pearson"] == 79.30
    assert tables["III"].rows["finetune-5"]["gflops"] == 2.91e6
    # Four tasks: recalls come in quarters.
    recalls = [row[c] for t in tables.values() for row in t.rows.values() for c in ("recall@1", "recall@3")]
    assert {value for value in recalls if value is not None} <= {0.0, 25.0, 50.0, 75.0, 100.0}
    assert "CVPR 2021" in source()
    with pytest.raises(UnknownNameError, match="group"):
        ranking_table("IV")
