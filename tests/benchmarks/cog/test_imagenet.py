"""ImageNet-CoG end to end, as a user would: levels, check, run, page, charts; over folders and over tar files."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import fields
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from unseen.benchmarks.cog.protocol import CogBenchmark
from unseen.cli import main
from unseen.core.records import Result
from unseen.features import FeatureWriter
from unseen.features.part import PartRows
from unseen.results import ResultsDatabase

CAPS = "train=8&test=2&min=6"


@pytest.fixture(scope="module")
def tree_module() -> ModuleType:
    path = Path(__file__).parents[2] / "imagenet_tree.py"
    spec = spec_from_file_location("imagenet_tree", path)
    assert spec and spec.loader
    module = module_from_spec(spec)
    sys.modules["imagenet_tree"] = module
    spec.loader.exec_module(module)
    return module


def results(home: Path) -> list[Result]:
    with ResultsDatabase(home / "results.sqlite", read_only=True) as database:
        return database.latest()


class Counted:
    """Count the images whose features are written to the store."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.images = 0
        write = FeatureWriter.write

        def counting(writer: FeatureWriter, rows: PartRows) -> None:
            self.images += len(rows.features)
            write(writer, rows)

        monkeypatch.setattr(FeatureWriter, "write", counting)


def domains_of(found: list[Result]) -> dict[str, list[str]]:
    return {r.cell.parameters["level"]: [c["id"] for c in r.details["concepts"]] for r in found}


@pytest.fixture
def tree(tree_module: ModuleType, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that writes a small ImageNet in a layout, makes its levels, and says where all is."""

    def make(layout: str = "folders", **sizes: int) -> Any:
        made = tree_module.make_imagenet(tmp_path / "data", layout, **sizes)
        monkeypatch.setenv("UNSEEN_IMAGENET_1K", str(made.in1k))
        monkeypatch.setenv("UNSEEN_IMAGENET_21K", str(made.in21k))
        monkeypatch.setenv("UNSEEN_COG_LEVELS", str(tmp_path / "levels.json"))
        size = str((len(made.others) - len(made.short)) // 6)
        levels = ["cog", "levels", "--images", str(made.in21k), "--min-images", "8", "--size", size]
        assert main([*levels, "--output", str(tmp_path / "levels.json")]) == 0
        return made

    return make


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["folders", "tars"])
def test_everything_is_a_view_of_one_extraction(
    layout: str,
    tree: Any,
    tmp_path: Path,
    home: Path,
    small_model: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Levels, controls, re-ranked and text levels, balanced and few-shot variants, levels of other files: one pass."""
    made = tree(layout, seen=24, others=96, short=3)
    counted = Counted(monkeypatch)
    run = ["cog", "run", "--data", f"imagenet?{CAPS}", "--models", small_model, "--seeds", "1", "--solver", "ncm"]

    def cells(*more: str) -> list[Result]:
        before = {result.cell.id for result in results(home)} if (home / "results.sqlite").exists() else set()
        code = main([*run, "--shots", "all", *more])
        assert code == 0, capsys.readouterr().err
        return [result for result in results(home) if result.cell.id not in before]

    plain = cells()
    once = counted.images
    unseen = [wnid for wnid in made.others if wnid not in made.short]
    trained = sum(made.counts[wnid] for wnid in made.seen)
    # Of ImageNet-1K all, of every other concept at most 8 to train and 2 to test; one file is not a picture.
    assert once == trained + 2 * 24 + sum(min(8, made.counts[w] - 2) + 2 for w in unseen) - 1
    levels = {
        level["name"]: sorted(row[0] for row in level["concepts"])
        for level in json.loads((tmp_path / "levels.json").read_text())["levels"]
    }
    found = domains_of(plain)
    assert {name: sorted(ids) for name, ids in found.items() if name != "seen"} == levels
    assert set(found["seen"]) <= set(made.seen)

    controls = cells("--controls", "3")
    assert sorted(domains_of(controls)) == ["R1", "R2", "R3"], "the levels are there already"
    for option in (["--rerank", "resnik"], ["--rerank", "text"], ["--measure", "wu-palmer"], ["--size", "6"]):
        other = domains_of(cells(*option))
        assert list(other) == list(found) and any(other[name] != found[name] for name in levels), option
    balanced = cells("--balanced", "3")
    assert {count for result in balanced for count in result.details["train_per_class"]} == {3}
    assert len(cells("--shots", "1", "2")) == 12
    assert counted.images == once, "nothing went through the model again"


@pytest.mark.slow
def test_the_blurred_imagenet_stands_in_for_the_seen_concepts(
    tree: Any,
    tmp_path: Path,
    home: Path,
    small_model: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = tree(seen=12, others=48, short=2)
    blurred = tmp_path / "blurred"
    shutil.copytree(made.in1k / "train", blurred / "train_blurred")
    shutil.copytree(made.in1k / "val", blurred / "val_blurred")
    monkeypatch.setenv("UNSEEN_IMAGENET_1K_BLURRED", str(blurred))
    run = ["cog", "run", "--models", small_model, "--seeds", "1", "--solver", "ncm", "--shots", "all", "--data"]
    counted = Counted(monkeypatch)
    assert main([*run, f"imagenet?{CAPS}"]) == 0, capsys.readouterr().err
    whole = counted.images
    assert main([*run, f"imagenet?seen=in1k-blurred&{CAPS}"]) == 0, capsys.readouterr().err
    # The unseen concepts are extracted already; the seen ones are other images.
    assert counted.images - whole == sum(made.counts[wnid] for wnid in made.seen) + 2 * 12
    assert len({result.cell.dataset for result in results(home)}) == 2


#: Another value of every option, and the options beside which it acts.
OTHER: dict[str, list[str]] = {
    "solver": ["ridge"],
    "shots": ["1"],
    "seeds": ["7,"],
    "layer": ["logits"],
    "square_root": [],
    "balanced": ["3"],
    "seen": ["SEEN"],
    "levels": ["3"],
    "size": ["4"],
    "measure": ["wu-palmer"],
    "rerank": ["resnik"],
    "vectors": ["VECTORS", "--measure", "text"],
    "controls": ["2"],
    "ontology": ["ONTOLOGY", "--seen", "SEEN"],
    "draw_seed": ["5"],
    "memory_limit": ["1"],
}
#: Options that are refused on ImageNet, with a word of the reason.
REFUSED = {"validation": (["own"], "no validation split")}


@pytest.mark.slow
def test_every_option_acts_on_imagenet_or_is_refused(
    tree: Any, tmp_path: Path, home: Path, small_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tree(seen=12, others=48, short=2)
    unseen = [wnid for wnid in made.others if wnid not in made.short]
    (tmp_path / "seen.txt").write_text("\n".join(made.seen[:8]) + "\n")
    edges = [f"{wnid},{'near' if i % 3 else 'far'}" for i, wnid in enumerate([*made.seen, *unseen])]
    (tmp_path / "ontology.csv").write_text("\n".join(["child,parent", "near,all", "far,all", *edges]) + "\n")
    (tmp_path / "vectors.txt").write_text("".join(f"{word} {i} {7 - i} 1\n" for i, word in enumerate(WORDS)))
    files = {"SEEN": "seen.txt", "ONTOLOGY": "ontology.csv", "VECTORS": "vectors.txt"}
    run = ["cog", "run", "--data", f"imagenet?{CAPS}", "--models", small_model]

    def outcome(*given: str) -> dict[Any, Any]:
        """What was asked and what came of it, by level, shots and seed."""
        words = [str(tmp_path / files[word]) if word in files else word for word in given]
        usual = {"--shots": "all", "--seeds": "22,", "--solver": "ncm"}
        rest = [part for name, value in usual.items() if name not in words for part in (name, value)]
        code = main([*run, *rest, *words, "--json"])
        captured = capsys.readouterr()
        assert code == 0, captured.err
        asked = json.loads(captured.out)["results"]
        stored = {result.cell.id: result for result in results(home)}
        return {
            (r["parameters"]["level"], r["parameters"]["shots"], r["parameters"]["seed"]): (
                r["metrics"],
                stored[r["id"]].details["concepts"],
                stored[r["id"]].details["train_per_class"],
            )
            for r in asked
        }

    capsys.readouterr()
    usual = outcome()
    own = {field.name: field for field in fields(CogBenchmark) if field.name != "only"}
    # drop_unknown acts on classes that an ontology lacks: tests/benchmarks/cog/test_classes.py.
    assert own.keys() - {"drop_unknown"} == OTHER.keys() | REFUSED.keys(), "every option is tried"
    for name, given in OTHER.items():
        found = outcome(f"--{name.replace('_', '-')}", *given, *(["--controls", "1"] if name == "draw_seed" else []))
        if own[name].metadata.get("neutral"):
            assert found.items() >= usual.items(), f"{name} is declared to change no number"
        else:
            assert found != usual, f"{name} changes nothing"
    for name, (given, why) in REFUSED.items():
        assert main([*run, f"--{name}", *given]) == 2
        assert why in capsys.readouterr().err
    # Options that would change nothing beside others.
    file = str(tmp_path / "levels.json")
    for words in (
        ["--vectors", str(tmp_path / "vectors.txt")],
        ["--levels", file, "--size", "3"],
        ["--levels", file, "--measure", "resnik"],
    ):
        assert main([*run, *words]) == 2
        assert "would change nothing" in capsys.readouterr().err


WORDS = ("bird", "dog", "fish", "plant", "used", "large", "small")


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["folders", "tars"])
def test_from_a_root_to_a_page(
    layout: str,
    tree_module: ModuleType,
    tmp_path: Path,
    home: Path,
    small_model: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tree = tree_module.make_imagenet(tmp_path / "data", layout)
    levels = tmp_path / "levels.json"
    monkeypatch.setenv("UNSEEN_IMAGENET_1K", str(tree.in1k))
    monkeypatch.setenv("UNSEEN_IMAGENET_21K", str(tree.in21k))
    monkeypatch.setenv("UNSEEN_COG_LEVELS", str(levels))

    # Concepts short of images never enter a level.
    code = main(
        ["cog", "levels", "--images", str(tree.in21k), "--min-images", "8", "--size", "50", "--output", str(levels)]
    )
    assert code == 0, capsys.readouterr().err
    chosen = {row[0] for level in json.loads(levels.read_text())["levels"] for row in level["concepts"]}
    assert len(chosen) == 250
    assert not chosen.intersection(tree.short) and not chosen.intersection(tree.seen)

    capsys.readouterr()
    assert main(["cog", "check", "--data", f"imagenet?{CAPS}", "--json"]) == 0
    counted = json.loads(capsys.readouterr().out)
    gaps = sum(map(len, json.loads(levels.read_text())["gaps"]))
    assert counted["concepts"] == len(tree.seen) + 250 + gaps
    assert counted["images"]["test"] == 2 * counted["concepts"], "two of every concept in either release"

    run = ["cog", "run", "--data", f"imagenet?{CAPS}", "--models", small_model, "--shots", "2,all", "--seeds", "2"]
    code = main(run)
    captured = capsys.readouterr()
    assert code == 0, captured.err
    found = results(home)
    assert len(found) == 6 * 2 * 2
    assert all(result.ok for result in found)
    assert {result.cell.parameters["level"] for result in found} == {"seen", "L1", "L2", "L3", "L4", "L5"}
    assert {result.details["classes"] for result in found} == {50}, "domains have one size"
    page = (home / "reports" / "cog.html").read_text()
    assert "Top-1 by level" in page

    assert main(["cog", "chart", "finetune", "--output", str(tmp_path / "none.svg")]) == 2
    assert "unseen cog finetune" in capsys.readouterr().err
    for kind in ("levels", "relative", "few-shot", "few-shot-relative", "distance", "images"):
        chart = tmp_path / f"{kind}.svg"
        assert main(["cog", "chart", kind, "--output", str(chart)]) == 0, capsys.readouterr().err
        assert chart.read_text().startswith("<svg")
    assert main(["cog", "chart", "pie", "--output", str(tmp_path / "x.svg")]) == 2
    capsys.readouterr()

    assert main(run) == 0
    assert "0 cells evaluated, 24 cached" in capsys.readouterr().err


@pytest.mark.slow
def test_a_check_lists_problems(
    tree_module: ModuleType,
    tmp_path: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tree = tree_module.make_imagenet(tmp_path / "data")
    monkeypatch.setenv("UNSEEN_IMAGENET_1K", str(tree.in1k))
    monkeypatch.setenv("UNSEEN_IMAGENET_21K", str(tree.in21k))
    monkeypatch.setenv("UNSEEN_COG_LEVELS", str(tmp_path / "levels.json"))
    for concept, words in ((tree.short[0], "fewer than the 6 + 2 images"), ("n99999999", "are not in")):
        (tmp_path / "levels.json").write_text(json.dumps({"L1": [*tree.others[:5], concept]}))
        assert main(["cog", "check", "--data", f"imagenet?{CAPS}"]) == 2
        printed = capsys.readouterr().err
        assert words in printed and concept in printed
        assert printed.startswith("unseen: error: ") and printed.count("\n") == 1


@pytest.mark.slow
def test_the_whole_of_imagenet_cog_is_planned(small_model: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cog", "check", "--plan", "--models", small_model, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)["plan"]
    (cost,) = plan["models"]
    assert cost["model"] == small_model
    assert min(cost["disk_gb"], cost["extraction_tflop"], cost["probe_tflop"]) > 0
    arguments = ["--solver", "paper", "--gpu-gflops", "100"]
    assert main(["cog", "check", "--plan", "--models", small_model, *arguments]) == 0
    text = capsys.readouterr().out
    assert "7,110,655 per model" in text and " h on one GPU, " in text
