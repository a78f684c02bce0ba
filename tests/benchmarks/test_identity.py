"""What makes a result this result: every option is changed, and the ids must change with it or the numbers must not."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from unseen.benchmarks import BENCHMARKS, Workbench, make_benchmark
from unseen.core.identity import identify, parameters_of
from unseen.core.records import Cell
from unseen.features import Extraction
from unseen.study import Study, plan_study, run_study

MODEL = "random:test_efficientnet?size=64"
#: Three classes of ImageNet-1K and seven that are eligible as unseen, with their WordNet ids.
WNIDS = {
    "ant": "n02219486",
    "panda": "n02510455",
    "pizza": "n07873807",
    "anchor": "n02709367",
    "emu": "n01519873",
    "ferry": "n03329663",
    "hedgehog": "n01893825",
    "okapi": "n02439398",
    "pagoda": "n03874965",
    "wrench": "n04606574",
}


def ids(benchmark: str, **options: Any) -> set[str]:
    return {cell.id for cell in make_benchmark(benchmark, options).plan("m", "d")}


#: Another value than the default for every option, and what must be in force for it to matter.
OTHER: dict[str, dict[str, tuple[Any, dict[str, Any]]]] = {
    "probe": {
        "memory_limit": (5, {}),
        "solver": ("ridge", {}),
        "shots": ((1,), {}),
        "seeds": ((1,), {}),
        "layer": ("logits", {}),
        "validation": ("drawn", {}),
        "square_root": (True, {}),
        "only": (("folder:/elsewhere",), {}),
    },
    "regression": {
        "memory_limit": (5, {}),
        "layer": ("logits", {}),
        "validation": ("drawn", {}),
        "square_root": (True, {}),
        "only": (("folder:/elsewhere",), {}),
    },
    "multilabel": {
        "seeds": ((1,), {}),
        "memory_limit": (5, {}),
        "layer": ("logits", {}),
        "validation": ("drawn", {}),
        "square_root": (True, {}),
        "only": (("folder:/elsewhere",), {}),
    },
    "cog": {
        "drop_unknown": (True, {}),
        "memory_limit": (5, {}),
        "solver": ("ridge", {}),
        "shots": ((1,), {}),
        "seeds": ((1,), {}),
        "layer": ("logits", {}),
        "validation": ("own", {}),
        "square_root": (True, {}),
        "balanced": (3, {}),
        "seen": ("FILE", {}),
        "levels": (4, {}),
        "size": (2, {}),
        "measure": ("wu-palmer", {}),
        "vectors": ("FILE", {}),
        "rerank": ("wu-palmer", {}),
        "controls": (2, {}),
        "ontology": ("FILE", {}),
        "draw_seed": (1, {}),
        "only": (("folder:/elsewhere",), {}),
    },
    "cog-finetune": {
        "drop_unknown": (True, {}),
        "start": ("zero", {}),
        "steps": (3, {}),
        "rates": ((0.5,), {}),
        "batch_size": (7, {}),
        "seeds": ((1,), {}),
        "seen": ("FILE", {}),
        "levels": (4, {}),
        "size": (2, {}),
        "measure": ("wu-palmer", {}),
        "vectors": ("FILE", {}),
        "rerank": ("wu-palmer", {}),
        "controls": (2, {}),
        "ontology": ("FILE", {}),
        "draw_seed": (1, {}),
        "only": (("folder:/elsewhere",), {}),
    },
    "zsl": {
        "drop_unknown": (True, {}),
        "methods": (("ESZSL",), {}),
        "split": ("SS", {}),
        "split_file": ("FILE", {"split": "2-hops"}),
        "splits": (3, {}),
        "embedding": ("FILE", {}),
        "grid": ("quick", {}),
        "robustness": (True, {}),
        "calibration": (0.5, {}),
        "normalise": ("none", {}),
        "share": (0.3, {}),
        "seed": (1, {}),
        "test_on": ("folder:/elsewhere", {}),
        "layer": ("logits", {}),
        "templates": ("FILE", {"embedding": "prompts"}),
        "text_model": ("random:test_resnet", {"embedding": "prompts"}),
        "class_names": ("open_clip", {"embedding": "prompts"}),
        "descriptions": ("FILE", {"embedding": "prompts"}),
        "combine": ("max", {"embedding": "prompts"}),
        "only": (("folder:/elsewhere",), {}),
    },
    "clip": {
        "templates": ("FILE", {}),
        "text_model": ("random:test_resnet", {}),
        "class_names": ("open_clip", {}),
        "descriptions": ("FILE", {}),
        "combine": ("max", {}),
        "split": ("train", {}),
        "only": (("folder:/elsewhere",), {}),
    },
    "vtab": {
        "adaptation": ("finetune", {}),
        "sweep": ("heavyweight", {"adaptation": "finetune"}),
        "learning_rates": ((0.5,), {}),
        "steps": ((7,), {}),
        "batch_size": (7, {}),
        "budgets": ((5,), {}),
        "trials": (3, {"adaptation": "finetune", "sweep": "heavyweight"}),
        "longest": (9, {"adaptation": "finetune", "sweep": "heavyweight"}),
        "seeds": ((7,), {}),
        "preprocessing": ("own", {}),
        "patches": (True, {}),
        "reduced_strides": (True, {"patches": True}),
        "start": ("probe", {"adaptation": "finetune"}),
        "micro_batch": (4, {"adaptation": "finetune"}),
        "feeders": (2, {"adaptation": "finetune"}),
        "cache_bytes": (0, {"adaptation": "finetune"}),
        "adaptation_size": (4, {"adaptation": "lora"}),
        "epochs": (7, {"adaptation": "finetune", "sweep": "peft-1k"}),
        "adamw_rates": ((0.5,), {"adaptation": "finetune", "sweep": "peft-1k"}),
        "weight_decays": ((0.5,), {"adaptation": "finetune", "sweep": "peft-1k"}),
        "selection_seeds": (3, {"adaptation": "finetune"}),
        "only": (("folder:/elsewhere",), {}),
    },
    "rank": {
        "scores": (("logme",), {}),
        "layers": (("logits",), {}),
        "layer": ("logits", {}),
        "sample": (9, {}),
        "split": ("test", {}),
        "seed": (1, {}),
        "truth": (True, {}),
        "learning_rates": ((0.5,), {"truth": True}),
        "steps": ((7,), {"truth": True}),
        "truth_seeds": (2, {"truth": True}),
        "batch_size": (7, {"truth": True}),
        "metric": ("balanced", {}),
        "prefer": ("cheap", {}),
        "early_learning_rate": (0.5, {"scores": ("finetune-1",)}),
        "only": (("folder:/elsewhere",), {}),
    },
}


@pytest.mark.parametrize("benchmark", sorted(BENCHMARKS))
def test_every_option_changes_the_ids_or_is_declared_neutral(benchmark: str, tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_text("n02123045\n")
    fields = dataclasses.fields(BENCHMARKS.get(benchmark))
    assert {f.name for f in fields} <= set(OTHER[benchmark]), "every option has another value here"
    for field in fields:
        value, context = OTHER[benchmark][field.name]
        value = str(tmp_path / "file.txt") if value == "FILE" else value
        before, after = ids(benchmark, **context), ids(benchmark, **{**context, field.name: value})
        if field.name == "only":
            assert after == set()
        elif field.metadata.get("neutral"):
            # It may add or leave out cells; those in both runs are the same cells.
            assert before & after, field.name
        else:
            assert before != after, field.name
            assert field.metadata.get("axis") or not before & after or benchmark == "rank", field.name


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(Extraction)])
def test_every_extraction_setting_changes_the_ids_or_is_declared_neutral(field: str) -> None:
    other: dict[str, Any] = {
        "device": "cuda",
        "runtime": "torch",
        "precision": "bf16",
        "dtype": "float16",
        "workers": 3,
        "batch_size": 3,
        "part_size": 3,
        "truncated": "accept",
        "graphs": Path("elsewhere"),
    }
    changed = parameters_of(Extraction(**{field: other[field]})) != parameters_of(Extraction())
    neutral = next(f for f in dataclasses.fields(Extraction) if f.name == field).metadata["neutral"]
    assert changed is not bool(neutral)


def test_the_version_is_part_of_what_a_cell_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in BENCHMARKS:
        kind = BENCHMARKS.get(name)
        before = ids(name)
        monkeypatch.setattr(kind, "version", kind.version + 1)
        assert not before & ids(name), name


def test_the_version_of_a_solver_and_of_a_method_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from unseen.probes.solvers import SOLVERS
    from unseen.zeroshot.catalogue import METHODS

    before, others = ids("probe"), ids("probe", solver="ridge")
    monkeypatch.setitem(SOLVERS, "ridge", dataclasses.replace(SOLVERS["ridge"], version=99))
    assert ids("probe") == before
    assert not others & ids("probe", solver="ridge")
    before = ids("zsl", methods=("ESZSL", "SAE"))
    monkeypatch.setattr(METHODS.get("SAE"), "version", 99)
    assert len(before & ids("zsl", methods=("ESZSL", "SAE"))) == 1


def test_names_of_what_is_kept_on_the_way() -> None:
    cell = Cell("vtab", "m", "d", {"seed": 1, "preprocessing": "plain"}, "w+d", "1")
    other = dataclasses.replace(cell, parameters={"seed": 2, "preprocessing": "plain"})
    assert cell.name_of("search", without=("seed",)) == other.name_of("search", without=("seed",))
    assert cell.name_of("search") != other.name_of("search")
    for change in ({"revision": "w+e"}, {"version": "2"}, {"parameters": {"preprocessing": "own"}}, {"model": "n"}):
        assert dataclasses.replace(cell, **change).name_of("search", without=("seed",)) != cell.name_of(  # type: ignore[arg-type]
            "search", without=("seed",)
        )
    assert cell.data == "d"
    assert identify("a", "1", "x") != identify("a", "1", ["x"]) != identify("a", "2", ["x"])


# ---- files behind options and names ----------------------------------------------------------------------------------


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Ten classes of six small pictures, with a mapping beside them."""
    generator = np.random.default_rng(0)
    for number, name in enumerate(WNIDS):
        folder = tmp_path / "images" / name
        folder.mkdir(parents=True)
        for i in range(6):
            pixels = generator.normal(100 + 12 * number, 30, (24, 24, 3)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{i}.png")
    (tmp_path / "wnids.tsv").write_text("".join(f"{n}\t{w}\n" for n, w in WNIDS.items()))
    return tmp_path / "images"


def planned(home: Path, data: str, benchmark: str, options: dict[str, Any], **extraction: Any) -> set[str]:
    study = Study("s", (MODEL,), (data,), {benchmark: options}, extraction)  # type: ignore[arg-type]
    return {cell.id for cell in plan_study(study, home).cells}


COG = {"levels": 2, "size": 2, "solver": "ncm", "seeds": (1,)}


def test_an_edited_mapping_is_another_question(home: Path, images: Path) -> None:
    mapping = images.parent / "wnids.tsv"
    data = f"folder:{images}?wnids={mapping}"
    before = planned(home, data, "cog", COG)
    outcome = run_study(Study("s", (MODEL,), (data,), {"cog": COG}), home)
    assert outcome.evaluated == 3
    mapping.write_text(mapping.read_text().replace(WNIDS["emu"], "n02005790"))  # an ibis after all
    assert not before & planned(home, data, "cog", COG)
    again = run_study(Study("s", (MODEL,), (data,), {"cog": COG}), home)
    assert again.evaluated == 3
    concepts = [{c["name"]: c["id"] for c in r.details["concepts"]} for r in again.results]
    assert all(found.get("emu", "n02005790") == "n02005790" for found in concepts)


@pytest.mark.parametrize(("benchmark", "option"), [("cog", "seen"), ("cog-finetune", "seen"), ("cog", "ontology")])
def test_an_edited_file_behind_an_option_is_another_question(
    benchmark: str, option: str, home: Path, images: Path, tmp_path: Path
) -> None:
    file = tmp_path / "file.txt"
    edges = "".join(f"{n}\tthing\n" for n in WNIDS)
    file.write_text("n02219486\nn02510455\n" if option == "seen" else edges)
    data = f"folder:{images}?wnids={images.parent / 'wnids.tsv'}"
    options = {"levels": 2, "size": 2, option: str(file)}
    if option == "ontology":
        (tmp_path / "seen.txt").write_text("ant\npanda\npizza\n")
        options["seen"] = str(tmp_path / "seen.txt")
    before = planned(home, data, benchmark, options)
    assert planned(home, data, benchmark, options) == before
    file.write_text(file.read_text() + ("n07873807\n" if option == "seen" else "young ant\tant\n"))
    assert not before & planned(home, data, benchmark, options)


def test_an_edited_split_or_embedding_is_another_question(home: Path, images: Path, tmp_path: Path) -> None:
    names = list(WNIDS)
    split = tmp_path / "split.json"
    split.write_text('{"unseen": ["emu", "ferry"]}')
    embedding = tmp_path / "vectors.npy"
    np.save(embedding, np.eye(len(names)))
    options = {"methods": ["ESZSL"], "split": f"file:{split}", "embedding": str(embedding)}
    before = planned(home, f"folder:{images}", "zsl", options)
    split.write_text('{"unseen": ["emu", "okapi"]}')
    between = planned(home, f"folder:{images}", "zsl", options)
    np.save(embedding, 2 * np.eye(len(names)))
    after = planned(home, f"folder:{images}", "zsl", options)
    assert len(before | between | after) == 3


def test_another_measure_is_another_fine_tuning(home: Path, images: Path) -> None:
    data = f"folder:{images}?wnids={images.parent / 'wnids.tsv'}"
    found = [planned(home, data, "cog-finetune", {"levels": 2, "size": 2, "measure": m}) for m in ("lin", "wu-palmer")]
    assert not found[0] & found[1]


def test_what_a_dataset_to_test_on_holds_is_part_of_the_cell(home: Path, images: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(images, other)
    options = {"methods": ["ESZSL"], "test_on": f"folder:{other}"}
    before = planned(home, f"folder:{images}", "zsl", options)
    shutil.rmtree(other / "emu")
    assert not before & planned(home, f"folder:{images}", "zsl", options)


@pytest.mark.parametrize("setting", [{"truncated": "accept"}, {"runtime": "torch"}, {"dtype": "float16"}])
def test_another_extraction_is_another_question(setting: dict[str, Any], home: Path, images: Path) -> None:
    cut = images / "emu" / "0.png"
    Image.fromarray(np.random.default_rng(1).integers(0, 255, (200, 200, 3), np.uint8)).save(cut.with_suffix(".jpg"))
    whole = cut.with_suffix(".jpg").read_bytes()
    cut.with_suffix(".jpg").write_bytes(whole[: len(whole) * 3 // 4])
    study = Study("s", (MODEL,), (str(images),), {"probe": {"solver": "ncm", "seeds": (1,)}})
    first = run_study(study, home)
    second = run_study(dataclasses.replace(study, extraction=Extraction(**setting)), home)
    assert (first.evaluated, second.evaluated) == (1, 1)
    unreadable = [r.record.count("image") for r in (first.results[0], second.results[0])]
    assert unreadable == [1, 0 if "truncated" in setting else 1]


@pytest.mark.slow
def test_a_heavy_search_with_other_preprocessing_tries_its_own_settings(home: Path, small_model: str) -> None:
    data = "procedural:sprites-location?train=16&val=8&test=8"
    options = {"adaptation": "finetune", "sweep": "heavyweight", "trials": 2, "longest": 1, "seeds": (0,)}
    found = [
        run_study(Study("s", (small_model,), (data,), {"vtab": {**options, "preprocessing": p}}), home, report=False)
        for p in ("plain", "own")
    ]
    assert [outcome.evaluated for outcome in found] == [1, 1]
    assert len(list((home / "vtab" / "runs").glob("trial-*.json"))) == 4


# ---- what is declared neutral changes no number ----------------------------------------------------------------------


def test_neutral_extraction_settings_change_no_number(tmp_path: Path, images: Path) -> None:
    study = Study("s", (MODEL,), (str(images),), {"probe": {"solver": "ncm", "seeds": (1,)}})
    base = run_study(study, tmp_path / "base", report=False)
    rows = Workbench(tmp_path / "base").split(MODEL, study.datasets[0], "test").features[:]
    for number, setting in enumerate(
        ({"workers": 1}, {"batch_size": 3}, {"part_size": 4}, {"graphs": tmp_path / "graphs"}, {"device": "cpu"})
    ):
        how = Extraction(**setting)  # type: ignore[arg-type]
        other = run_study(dataclasses.replace(study, extraction=how), tmp_path / str(number), report=False)
        assert [c.id for c in other.plan.cells] == [c.id for c in base.plan.cells]
        assert other.results[0].metrics == base.results[0].metrics
        again = Workbench(tmp_path / str(number), how=how).split(MODEL, study.datasets[0], "test").features[:]
        np.testing.assert_allclose(again, rows, rtol=1e-4, atol=1e-5)


def test_neutral_options_change_no_number(tmp_path: Path, images: Path) -> None:
    data = f"folder:{images}?wnids={images.parent / 'wnids.tsv'}"

    def metrics(name: str, benchmark: str, options: dict[str, Any]) -> dict[str, Any]:
        outcome = run_study(Study("s", (MODEL,), (data,), {benchmark: options}), tmp_path / name, report=False)
        assert not outcome.failed
        return {r.cell.id: dict(r.metrics) for r in outcome.results}

    few, many = metrics("a", "cog", {**COG, "controls": 1}), metrics("b", "cog", {**COG, "controls": 3})
    assert len(few) == 4
    assert {k: many[k] for k in few} == few
    options = {"methods": ["ESZSL"], "grid": "quick", "share": 0.4, "embedding": "glove"}
    plain, folds = metrics("c", "zsl", options), metrics("d", "zsl", {**options, "robustness": True})
    assert len(folds) == 4
    assert {k: folds[k] for k in plain} == plain
