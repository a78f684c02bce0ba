"""From class names to a benchmark: `unseen cog run FOLDER` finds the synsets, and a person's edits count."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from unseen.cli import main

#: Seen and unseen classes whose names say what they are, and two that do not.
SURE = ("accordion", "okapi", "emu", "pizza", "panda", "crayfish", "flamingo", "platypus", "gerenuk", "lobster",
        "pagoda", "stapler", "saxophone", "trilobite", "joshua_tree", "metronome", "mandolin", "euphonium")  # fmt: skip
OPEN = ("crane", "hedgehog_thing")


@pytest.fixture
def photos(tmp_path: Path, home: Path, make_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of classes with names only; the current folder is another one."""
    made = make_folder(tmp_path / "classes", classes=20, per_class=4)
    for folder, name in zip(sorted(made.iterdir()), (*SURE, *OPEN), strict=True):
        (tmp_path / "data" / "photos").mkdir(parents=True, exist_ok=True)
        folder.rename(tmp_path / "data" / "photos" / name)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("COLUMNS", "160")
    return tmp_path / "data" / "photos"


@pytest.fixture
def run(photos: Path, small_model: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[Any, str]]:
    def call(*more: str, data: str = "../data/photos") -> tuple[Any, str]:
        options = ["--models", small_model, "--seeds", "1", "--shots", "all", "--solver", "ncm", "--levels", "2"]
        code = main(["cog", "run", data, *options, "--json", *more])
        captured = capsys.readouterr()
        assert code == 0, captured.err
        return json.loads(captured.out), captured.err

    return call


def test_audit_settle_run_edit_run_again(
    photos: Path, run: Callable[..., tuple[Any, str]], small_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # The audit proposes a mapping of all classes, where the user stands, and it is taken back as it is.
    assert main(["audit", "../data/photos", "--write-mapping", "wnids.tsv"]) == 0
    printed = capsys.readouterr().err
    text = Path("wnids.tsv").read_text()
    assert all(f"\n{name}\t" in text for name in (*SURE, *OPEN))
    left = [line.split("\t")[0] for line in text.splitlines() if line.endswith("\t?")]
    assert set(OPEN) <= set(left) and f"{len(left)} of them have a ?" in printed
    first, _ = run(data="../data/photos?wnids=wnids.tsv")
    assert first["evaluated"] == 3

    # Settled: another mapping, so other cells.
    Path("wnids.tsv").write_text(text.replace("crane\t?", "crane\tn03126707"))
    second, _ = run(data="../data/photos?wnids=wnids.tsv")
    assert second["evaluated"] == 3
    assert not {cell["id"] for cell in first["results"]} & {cell["id"] for cell in second["results"]}
    again, _ = run(data="../data/photos?wnids=wnids.tsv")
    assert again["evaluated"] == 0

    # Edited once more, and put back: computed anew, and then there already.
    Path("wnids.tsv").write_text(text.replace("crane\t?", "crane\t-").replace("okapi\tn02439398", "okapi\t-"))
    third, _ = run(data="../data/photos?wnids=wnids.tsv")
    assert third["evaluated"] == 3
    Path("wnids.tsv").write_text(text)
    back, _ = run(data="../data/photos?wnids=wnids.tsv")
    assert back["evaluated"] == 0
    assert {cell["id"] for cell in back["results"]} == {cell["id"] for cell in first["results"]}


def test_names_alone(photos: Path, run: Callable[..., tuple[Any, str]]) -> None:
    made, printed = run()
    assert made["evaluated"] == 3
    file = Path("photos-wnids.tsv")
    text = file.read_text()
    assert all(f"\n{name}\t" in text for name in (*SURE, *OPEN)), "all classes have a line"
    assert "photos-wnids.tsv has them all" in printed
    for words in ("crane", "n03126707 crane", "hedgehog_thing"):
        assert words in printed
    # A second run takes the file, which is the user's now; an edit makes other cells.
    assert run()[0]["evaluated"] == 0
    assert file.read_text() == text
    settled = text.replace("crane\t?", "crane\tn03126707")
    file.write_text(settled)
    edited, printed = run()
    assert edited["evaluated"] == 3
    assert "n03126707 crane" not in printed, "it is settled"
    # A class that is new in the folder is listed; the file is not changed.
    (photos / "koala").mkdir()
    for i in range(4):
        Image.new("RGB", (32, 32), (40 * i, 9, 9)).save(photos / "koala" / f"{i}.png")
    _, printed = run()
    assert "without an id: hedgehog_thing, koala" in printed
    assert file.read_text() == settled


def test_a_file_of_other_classes_is_not_taken(
    photos: Path, small_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("photos-wnids.tsv").write_text("zebra\tn02391049\n")
    assert main(["cog", "run", "../data/photos", "--models", small_model]) == 2
    assert "Move that file away" in capsys.readouterr().err
    assert Path("photos-wnids.tsv").read_text() == "zebra\tn02391049\n"


def test_bad_data_is_found_before_anything_is_planned(
    photos: Path, small_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["cog", "run", "../data/photos", "--models", small_model, "--dry-run"]
    assert main([*run, "--levels", "9"]) == 2
    assert "too few for a seen set and 9 levels" in capsys.readouterr().err
    assert main([*run, "--levels", "nowhere.json"]) == 2
    assert "nowhere.json" in capsys.readouterr().err
    assert main([*run, "--levels", "0"]) == 2
    assert main([*run, "--measure", "lim"]) == 2
    assert "Did you mean 'lin'" in capsys.readouterr().err
