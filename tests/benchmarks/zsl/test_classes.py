"""Classes, splits, embeddings and methods of the zero-shot benchmark: checked before extraction, and in the record."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from unseen.benchmarks import make_benchmark
from unseen.benchmarks.zsl.protocol import ZslBenchmark
from unseen.cli import main
from unseen.core.errors import DataError, UnknownNameError, UnseenError
from unseen.core.records import Result
from unseen.engines import make_engine
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
