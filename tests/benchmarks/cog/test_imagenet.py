"""ImageNet-CoG end to end, as a user would: levels, check, run, page, charts; over folders and over tar files."""

from __future__ import annotations

import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from unseen.cli import main
from unseen.core.records import Result
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
        ["cog", "levels", "--images", str(tree.in21k), "--min-images", "8", "--size", "50", "--out", str(levels)]
    )
    assert code == 0, capsys.readouterr().err
    chosen = {row[0] for level in json.loads(levels.read_text())["levels"] for row in level["concepts"]}
    assert len(chosen) == 250
    assert not chosen.intersection(tree.short) and not chosen.intersection(tree.seen)

    caps = ["--train", "8", "--test", "2", "--least", "6"]
    code = main(["cog", "check", str(tree.in21k), "--levels", str(levels), "--in1k", str(tree.in1k), *caps])
    out = capsys.readouterr().out
    assert code == 0, out
    assert "250" in out.replace(",", "") or "L5" in out.upper()

    run = ["cog", "run", "--data", f"imagenet?{CAPS}", "--models", small_model, "--shots", "2,all", "--seeds", "2"]
    code = main(run)
    captured = capsys.readouterr()
    assert code == 0, captured.err
    found = results(home)
    assert len(found) == 6 * 2 * 2
    assert all(result.ok for result in found)
    assert {result.cell.parameters["level"] for result in found} == {"seen", "L1", "L2", "L3", "L4", "L5"}
    assert {result.details["classes"] for result in found} == {50, 60}
    page = (home / "reports" / "cog.html").read_text()
    assert "Top-1 by level" in page

    for kind in ("levels", "relative", "few-shot", "few-shot-relative", "distance", "images", "controls"):
        chart = tmp_path / f"{kind}.svg"
        assert main(["cog", "chart", kind, "--out", str(chart)]) == 0, capsys.readouterr().err
        assert chart.read_text().startswith("<svg")
    assert main(["cog", "chart", "pie", "--out", str(tmp_path / "x.svg")]) == 2
    capsys.readouterr()

    assert main(run) == 0
    assert "0 cells evaluated, 24 were there already" in capsys.readouterr().err


@pytest.mark.slow
def test_a_check_says_what_is_wrong(
    tree_module: ModuleType, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = tree_module.make_imagenet(tmp_path / "data")
    levels = tmp_path / "levels.json"
    levels.write_text(json.dumps({"L1": [*tree.others[:5], tree.short[0]]}))
    code = main(
        ["cog", "check", str(tree.in21k), "--levels", str(levels), "--train", "8", "--test", "2", "--least", "6"]
    )
    captured = capsys.readouterr()
    assert code == 2
    assert tree.short[0] in captured.out + captured.err
    assert captured.err.startswith("unseen: error: ") and captured.err.count("\n") == 1


@pytest.mark.slow
def test_the_whole_of_imagenet_cog_is_planned(small_model: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cog", "check", "--plan", "--models", small_model, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)["plan"]
    assert plan["totals"]["images"] == 6_810_655 + 300_000
    assert plan["totals"]["disk_gb"] > 0
    assert plan["totals"]["extraction_hours"] > 0
