"""Classes, splits, embeddings and methods of the zero-shot benchmark: checked before extraction, and in the record."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unseen import evaluate_zeroshot
from unseen.benchmarks import make_benchmark
from unseen.benchmarks.benchmark import benchmark_of, command_of
from unseen.benchmarks.workbench import given_models
from unseen.benchmarks.zsl.details import details_of, parameters_of
from unseen.benchmarks.zsl.protocol import ZslBenchmark
from unseen.benchmarks.zsl.tables import zsl_tables
from unseen.cli import main
from unseen.core.errors import DataError, UnknownNameError, UnseenError, UsageError
from unseen.core.records import Result
from unseen.engines import make_engine
from unseen.stats import split_interval
from unseen.study import Study, plan_study, run_study
from unseen.zeroshot.catalogue import GROUPS, expand_methods

MODEL = "random:test_resnet?size=64"
NAMES = ["red fox", "barn_owl", "emu", "okapi", "elk", "yak", "gnu", "seal"]


@pytest.fixture
def folder(tmp_path: Path, make_folder: Callable[..., Path]) -> Path:
    images = make_folder(tmp_path / "world", classes=8, per_class=6)
    for number, name in enumerate(NAMES):
        (images / f"class{number}").rename(images / name)
    return images


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path / "attributes.csv"
    path.write_text("\n".join(",".join([name, *map(str, rng.random(4))]) for name in NAMES))
    return path


def refused(folder: Path, home: Path, words: str, **options: object) -> None:
    study = Study("check", (MODEL,), (f"folder:{folder}",), {"zsl": options})
    with pytest.raises(UnseenError, match=words):
        plan_study(study, home)
    assert not (home / "features").exists()


def test_files_are_checked_before_extraction(folder: Path, table: Path, home: Path, tmp_path: Path) -> None:
    file = tmp_path / "unseen.txt"
    file.write_text("red fox\nbarnowl\n")
    refused(folder, home, r"'barnowl' \(did you mean 'barn_owl'\?\)", split=f"file:{file}", embedding=str(table))
    refused(folder, home, "Did you mean 'glove'", split="SS", embedding="gloves")
    refused(folder, home, "has no attributes", split="SS", embedding="attributes")
    refused(folder, home, "unknown zero-shot split 'PSS'", split="PSS", embedding=str(table))
    refused(folder, home, "none of openai", split="SS", embedding="prompts", templates="nothing")
    refused(folder, home, "there is no such file", split="SS", embedding=str(tmp_path / "v.vec"))
    table.write_text(table.read_text().replace("okapi", "okpai"))
    refused(
        folder, home, r"no row for 1 of 8 classes: 'okapi' \(did you mean 'okpai'", split="SS", embedding=str(table)
    )


def test_dry_run_checks_them(folder: Path, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "unseen.txt"
    file.write_text("red fox\nokapii\n")
    command = ["zsl", "run", str(folder), "--models", MODEL, "--dry-run", "--split", f"file:{file}"]
    assert main(command) == 2
    assert "did you mean 'okapi'" in " ".join(capsys.readouterr().err.split())


def test_every_image_of_an_unseen_class_is_tested(folder: Path, table: Path, home: Path, tmp_path: Path) -> None:
    file = tmp_path / "unseen.txt"
    file.write_text("red fox\nemu\n")
    (result,) = results_of(folder, home, split=f"file:{file}", embedding=str(table))
    images = {name: len(list((folder / name).iterdir())) for name in NAMES}
    assert result.details["test_images"] == images["red fox"] + images["emu"]
    used = result.details["train_images"] + result.details["test_images"] + result.details["seen_test_images"]
    assert used == sum(images.values())


def test_the_wrong_split_of_a_release_is_refused(release: Path, home: Path) -> None:
    study = Study("s", ("xlsa17:res101",), (f"xlsa17:AWA1?root={release}",), {"zsl": {"split": "SS"}})
    with pytest.raises(DataError, match="split=SS"):
        plan_study(study, home)


def results_of(folder: Path, home: Path, **options: object) -> list[Result]:
    recorded: list[Result] = []
    study = Study("zsl", (MODEL,), (f"folder:{folder}",), {"zsl": {"methods": "SAE", "grid": "quick", **options}})
    with make_engine("local", workers=1) as engine:
        run_study(study, home, engine, report=False, on_result=recorded.append)
    return recorded


def test_the_record_has_classes_and_search(folder: Path, table: Path, home: Path, tmp_path: Path) -> None:
    file = tmp_path / "unseen.txt"
    file.write_text("red_fox\nbarn owl\nunicorn\n")
    options = {"split": f"file:{file}", "embedding": str(table), "drop_unknown": True, "robustness": True}
    results = results_of(folder, home, **options)
    assert [result.error for result in results] == [""] * 4
    for result in results:
        record = result.record
        assert (record.classes_given, record.classes_used) == (8, 8)
        assert [(each.name, each.reason) for each in record.dropped if each.kind == "class"] == [
            ("unicorn", "in the split file, but no class of the dataset")
        ]
        assert result.details["unseen_classes"] == 2
        assert record.search is not None and record.search.tried == len(result.sweep)
        for name, value in record.search.edges.items():
            values = [trial[name] for trial in result.sweep]
            assert value == result.details["best"][name] and value in (min(values), max(values))


def test_an_unreadable_class_is_in_the_record(folder: Path, table: Path, home: Path, tmp_path: Path) -> None:
    """Unseen classes without a readable image leave the candidates, and the record says so."""
    for image in (folder / "emu").iterdir():
        image.write_bytes(b"no image")
    file = tmp_path / "unseen.json"
    file.write_text(json.dumps(["red fox", "barn_owl", "emu"]))
    (result,) = results_of(folder, home, split=f"file:{file}", embedding=str(table))
    assert result.error == ""
    assert (result.record.classes_given, result.record.classes_used) == (8, 7)
    assert [(e.name, e.reason) for e in result.record.dropped if e.kind == "class"] == [("emu", "no image")]
    for image in (folder / "okapi").iterdir():
        image.write_bytes(b"no image")
    (result,) = results_of(folder, home, split=f"file:{file}", embedding=str(table))
    assert [(e.name, e.reason) for e in result.record.dropped if e.kind == "class"] == [
        ("okapi", "no training image"),
        ("emu", "no image"),
    ]
    assert result.record.classes_used == 6


def test_groups_of_methods_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert ZslBenchmark(methods=("all", "f-CLSWGAN")).chosen == (*GROUPS["all"], "f-CLSWGAN")
    assert ZslBenchmark(methods=("all", "generative")).chosen == (*GROUPS["all"], *GROUPS["generative"])
    assert ZslBenchmark(methods=("all", "prompt")).chosen == (*GROUPS["all"], "prompt")
    assert set(expand_methods(["inductive", "transductive"])) == set(GROUPS["all"])
    assert expand_methods(["ALE-tran", "transductive"])[0] == "ALE-tran"
    assert set(expand_methods(["transductive"])) == set(GROUPS["transductive"])
    with pytest.raises(UnknownNameError, match="Did you mean 'generative'"):
        ZslBenchmark(methods=("generativ",))
    assert main(["zsl", "run", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for group in ("all", "inductive", "transductive", "generative"):
        assert group in shown


def test_dropping_is_part_of_a_cell_only_where_it_is_on() -> None:
    off = make_benchmark("zsl", {"methods": ["SAE"]}).plan(MODEL, "d")[0]
    on = make_benchmark("zsl", {"methods": ["SAE"], "drop_unknown": True}).plan(MODEL, "d")[0]
    assert "drop_unknown" not in off.parameters
    assert on.parameters["drop_unknown"] is True


# ---- random class splits ---------------------------------------------------------------------------------------------


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    attributes, labels = rng.uniform(size=(20, 8)), np.repeat(np.arange(20), 15)
    features = attributes[labels] @ rng.normal(size=(8, 24)) + rng.normal(size=(300, 24))
    return {"features": features, "labels": labels, "attributes": attributes}


def run_splits(home: Path, dataset: str, **options: object) -> list[Result]:
    study = Study("splits", (given_models(dataset)[0],), (dataset,), {"zsl": {"grid": "quick", **options}})
    with make_engine("local", workers=1) as engine:
        outcome = run_study(study, home, engine)
    assert not outcome.failed
    return list(outcome.results)


def by_split(results: list[Result]) -> dict[tuple[str, int], Result]:
    return {(parameters_of(r).method, parameters_of(r).class_split): r for r in results}


def test_random_class_splits_are_stored_one_by_one_and_resumed(
    home: Path, tmp_path: Path, arrays: dict[str, np.ndarray]
) -> None:
    np.savez(tmp_path / "own.npz", **arrays)
    name, methods = f"features:{tmp_path}/own.npz", ["ESZSL", "SAE"]
    alone = run_splits(home, name, methods=methods)
    three = by_split(run_splits(home, name, methods=methods, splits=3))
    assert {cell.cell.id for cell in alone} < {result.cell.id for result in three.values()}
    assert len({tuple(details_of(three["SAE", k]).per_class) for k in range(4)}) == 4, "other classes in each split"
    five = by_split(run_splits(home, name, methods=methods, splits=5))
    assert all(five[key].metrics == result.metrics for key, result in three.items())
    assert [details_of(five["SAE", k]).pool for k in (0, 5)] == [20, 20]
    answer = evaluate_zeroshot(**_renamed(arrays), methods=methods, grid="quick", splits=5)
    for key, result in by_split(list(answer.splits)).items():
        stored = five[key].metrics
        assert all(result.metrics[m] == pytest.approx(stored[m]) for m in ("zsl", "ts", "tr", "H", "AUSUC"))
    assert len(answer.splits) == 10
    usual, table = zsl_tables(list(five.values()), {})
    assert usual.caption.startswith("By method")
    assert table.caption.startswith("Over random class splits")
    decision = answer.decision(over="splits")
    shown = {row[0].text: row[1] for row in table.rows}
    for method in methods:
        values = [five[method, k].metrics["zsl"] for k in range(1, 6)]
        assert shown[method].value == pytest.approx(np.mean(values)) == pytest.approx(decision.intervals[method].value)
        assert shown[method].interval == decision.intervals[method] == split_interval(values, 4, 20)
        assert len(shown[method].cells) == 5
    assert [row[0].text for row in table.rows] == list(decision.order)
    assert "5 random class splits with 4 of 20 classes unseen" in table.notes[0]
    assert any("classes in 5 random splits" in note for note in table.notes)


def _renamed(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    return {"embeddings" if name == "attributes" else name: value for name, value in arrays.items()}


def test_a_published_split_is_divided_anew(home: Path, tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    labels = arrays["labels"]
    held = np.where(np.arange(300) % 5 == 0, "test_seen", "trainval")
    np.savez(tmp_path / "fixed.npz", **arrays, split=np.where(labels < 15, held, "test_unseen"))
    found = by_split(run_splits(home, f"features:{tmp_path}/fixed.npz", methods=["ESZSL"], splits=2))
    assert list(details_of(found["ESZSL", 0]).per_class) == [str(i) for i in range(15, 20)]
    for number in (1, 2):
        details = details_of(found["ESZSL", number])
        assert (details.seen_classes, details.unseen_classes, details.test_images) == (15, 5, 75)
        assert details.train_images + details.seen_test_images == 225, "every image is used"
        assert details.seen_test_images == 45, "a fifth of each seen class"


def test_random_class_splits_need_classes_to_sample_from(release: Path, home: Path) -> None:
    with pytest.raises(UsageError, match="two or more"):
        ZslBenchmark(splits=1)
    with pytest.raises(UsageError, match="samples classes of PS or SS"):
        ZslBenchmark(splits=3, split="all")
    with pytest.raises(UsageError, match="a share of classes"):
        evaluate_zeroshot(np.ones((4, 2)), [0, 0, 1, 1], np.ones((2, 2)), unseen=[0, 1], splits=3)
    study = Study("splits", ("xlsa17:res101",), (f"xlsa17:AWA1?root={release}",), {"zsl": {"splits": 3}})
    with pytest.raises(UnseenError, match="the audit clears 2"):
        plan_study(study, home)


def test_the_command_of_a_cell_of_a_random_split_plans_it() -> None:
    cells = ZslBenchmark(methods=("SAE",), splits=4).plan("features:own", "features:own.npz")
    for cell in cells:
        assert cell.id in {each.id for each in benchmark_of(cell).plan(cell.model, cell.dataset)}
    assert "--splits 4" in command_of(cells[-1])
    assert "--splits" not in command_of(cells[0])
