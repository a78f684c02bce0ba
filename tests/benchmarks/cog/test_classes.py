"""Classes of a CoG: misspelt ones are errors, dropped ones are in the run record with their reason."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from unseen.benchmarks import make_benchmark
from unseen.benchmarks.cog.domains import DomainRecipe, check_domains, make_domains
from unseen.core.errors import DataError
from unseen.core.records import Result
from unseen.data import Dataset, load_dataset
from unseen.engines import make_engine
from unseen.study import Study, plan_study, run_study

MODEL = "random:test_resnet?size=64"
NAMES = ["red fox", "barn_owl", "emu", "okapi", "class4", "class5", "class6", "class7", "class8", "class9"]


@pytest.fixture
def folder(tmp_path: Path, make_folder: Callable[..., Path]) -> Path:
    """Ten classes, the first four with names of words."""
    images = make_folder(tmp_path / "world", classes=10, per_class=6)
    for number, name in enumerate(NAMES[:4]):
        (images / f"class{number}").rename(images / name)
    return images


def recipe_of(folder: Path, *left_out: str, seen: str = "red_fox\nbarn owl\nemu\n", **more: object) -> DomainRecipe:
    """Write an ontology that has `red_fox` and `barn owl`, and the list of seen concepts."""
    names = ["red_fox", "barn owl", *NAMES[2:]]
    lines = [f"{name},{'near' if place < 6 else 'far'}" for place, name in enumerate(names) if name not in left_out]
    (folder.parent / "ontology.csv").write_text("\n".join(["child,parent", "near,root", "far,root", *lines]))
    (folder.parent / "seen.txt").write_text(seen)
    paths = {"ontology": str(folder.parent / "ontology.csv"), "seen": str(folder.parent / "seen.txt")}
    return DomainRecipe(**{**paths, "levels": 2, **more})  # type: ignore[arg-type]


def dataset_of(folder: Path) -> Dataset:
    return load_dataset(f"folder:{folder}")


def test_names_match_with_underscores_and_spaces(folder: Path) -> None:
    made = make_domains(dataset_of(folder), recipe_of(folder))
    assert {c.name for c in made.domains["seen"].concepts} == {"red fox", "barn_owl", "emu"}
    assert made.record.classes_given == 10


def test_a_class_that_the_ontology_lacks_is_an_error(folder: Path) -> None:
    file = folder.parent / "ontology.csv"
    recipe = recipe_of(folder, "class9")
    file.write_text(file.read_text().replace("okapi,", "Okapi,"))
    with pytest.raises(
        DataError, match=r"2 of 10 classes .* are not in ontology.csv: .*'okapi' \(did you mean 'Okapi'"
    ):
        check_domains(dataset_of(folder), recipe)
    made = make_domains(dataset_of(folder), replace(recipe, drop_unknown=True))
    lost = {each.name: each.reason for each in made.record.dropped}
    assert lost["okapi"] == lost["class9"] == "not in the ontology"


def test_a_seen_concept_that_the_ontology_lacks_is_an_error(folder: Path) -> None:
    recipe = recipe_of(folder, seen="red fox\nbarn owl\nemmu\n")
    with pytest.raises(DataError, match=r"1 of 3 seen concepts .*'emmu' \(did you mean 'emu'\?\)"):
        check_domains(dataset_of(folder), recipe)
    made = make_domains(dataset_of(folder), replace(recipe, drop_unknown=True))
    assert made.record.notes == ("1 seen concepts are not in the ontology: emmu",)


def test_a_wordnet_id_that_wordnet_lacks_is_an_error(folder: Path) -> None:
    ids = {"red fox": "n02119022", "barn_owl": "n01621127", "emu": "n01519873", "okapi": "n02439032"}
    made = dataset_of(folder)
    data = Dataset(made.card, made.class_names, made.splits, [ids.get(name) for name in made.class_names])
    with pytest.raises(DataError, match=r"not in WordNet: 'okapi' has n02439032\. Correct"):
        check_domains(data, DomainRecipe(levels=2))


def test_levels_name_their_classes_as_they_are_written(folder: Path) -> None:
    file = folder.parent / "levels.json"
    file.write_text(json.dumps({"L1": ["red_fox", "emu"], "L2": ["barn owl", "okapi"]}))
    recipe = replace(recipe_of(folder, seen="class4\nclass5\nclass6"), levels=str(file))
    # The ids are those of the ontology, which has red_fox and "barn owl".
    made = make_domains(dataset_of(folder), recipe)
    assert {c.name for c in made.domains["L1"].concepts} == {"red fox", "emu"}
    lost = {each.name: each.reason for each in made.record.dropped}
    assert lost["class7"] == "in no level of levels.json"
    file.write_text(json.dumps({"L1": ["red fox", "emmu"], "L2": ["barn_owl", "okapi"]}))
    with pytest.raises(DataError, match=r"1 of the 4 concepts .*'emmu' \(did you mean 'emu'\?\)"):
        make_domains(dataset_of(folder), recipe)
    file.write_text(json.dumps({"L1": ["red fox", "red_fox"], "L2": ["barn_owl", "okapi"]}))
    with pytest.raises(DataError, match="lists a concept of the level L1 twice"):
        make_domains(dataset_of(folder), recipe)


def test_every_class_is_used_or_dropped_with_a_reason(folder: Path) -> None:
    ids = {
        "red fox": "n02119022",  # ImageNet-1K
        "barn_owl": "n01621127",  # above great grey owl, which ImageNet-1K has
        "emu": "n01519873",
        "okapi": "n02439398",
        "class4": "n02123045",  # ImageNet-1K: tabby
        "class5": "n10787470",  # woman
        "class6": "n02123045",  # tabby again
        "class7": "n02081571",  # walrus
        "class8": "n02129604",  # ImageNet-1K: tiger
    }
    made = dataset_of(folder)
    data = Dataset(made.card, made.class_names, made.splits, [ids.get(name) for name in made.class_names])
    found = make_domains(data, DomainRecipe(levels=1, size=2))
    reasons = {each.name: each.reason for each in found.record.dropped}
    used = {concept.name for domain in found.domains.values() for concept in domain.concepts}
    assert used.isdisjoint(reasons) and used | set(reasons) == set(data.class_names)
    assert (found.record.classes_given, found.record.classes_used) == (10, 4)
    assert reasons["class9"] == "no WordNet id"
    assert reasons["class5"] == "not eligible as an unseen concept: sub-tree n00007846"
    assert reasons["barn_owl"] == "not eligible as an unseen concept: ancestors of seen"
    assert "cut: every domain has 2 classes" in reasons.values()
    tabbies = {name: reasons[name] for name in ("class4", "class6") if name in reasons}
    seen = {c.name for c in found.domains["seen"].concepts}
    if "class6" in seen:
        assert tabbies == {"class4": "'class6' has the same id n02123045"}
    else:
        assert set(tabbies.values()) == {"a seen concept that was not sampled: every domain has 2 classes"}


def test_one_image_per_class_is_refused_before_extraction(folder: Path, home: Path) -> None:
    for name in ("emu", "class9"):
        for file in sorted((folder / name).iterdir())[1:]:
            file.unlink()
    recipe = recipe_of(folder)
    options = {"ontology": recipe.ontology, "seen": recipe.seen, "levels": 2}
    for benchmark in ("cog", "cog-finetune"):
        study = Study("one", (MODEL,), (f"folder:{folder}",), {benchmark: options})
        with pytest.raises(DataError, match=r"have no test image: .*emu"):
            plan_study(study, home)
    assert not (home / "features").exists()


def test_the_results_have_the_record(folder: Path, home: Path) -> None:
    recipe = recipe_of(folder, "class9")
    options = {"ontology": recipe.ontology, "seen": recipe.seen, "levels": 2, "drop_unknown": True}
    tables = {"cog": {**options, "solver": "ncm", "seeds": [1]}, "cog-finetune": {**options, "steps": 1, "seeds": [1]}}
    recorded: list[Result] = []
    with make_engine("local") as engine:
        study = Study("record", (MODEL,), (f"folder:{folder}",), tables)
        run_study(study, home, engine, report=False, on_result=recorded.append)
    assert {result.cell.benchmark for result in recorded} == {"cog", "cog-finetune"}
    for result in recorded:
        assert not result.error
        record = result.record
        assert (record.classes_given, record.classes_used, record.count("class")) == (10, 9, 1)
        assert [(each.name, each.reason) for each in record.dropped] == [("class9", "not in the ontology")]
        assert set(record.images) == {"train", "test"}
        if result.cell.benchmark == "cog-finetune":
            assert record.search is not None and record.search.tried == 3
            assert "lr" not in result.sweep[0], "the probe alone is trained with no learning rate"


def test_dropping_is_part_of_a_cell_only_where_it_is_on(folder: Path) -> None:
    recipe = recipe_of(folder)
    options = {"ontology": recipe.ontology, "seen": recipe.seen, "levels": 2}
    for name in ("cog", "cog-finetune"):
        off = make_benchmark(name, options).plan(MODEL, f"folder:{folder}")[0]
        on = make_benchmark(name, {**options, "drop_unknown": True}).plan(MODEL, f"folder:{folder}")[0]
        assert "drop_unknown" not in off.parameters
        assert on.parameters["drop_unknown"] is True
    shutil.rmtree(folder)
