"""The command line as a user meets it: help, bad input in one line, exit codes, and a whole run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from unseen.cli import main, spread_lists


def outcome(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def study_file(tmp_path: Path, images: Path, small_model: str) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(
        f'name = "mine"\ntitle = "My study"\nmodels = ["{small_model}"]\ndatasets = ["folder:{images}"]\n'
        "[benchmarks.probe]\nseeds = [1, 2]\n"
    )
    return path


@pytest.mark.parametrize(
    ("given", "spread"),
    [
        (["rank", "--models", "a", "b", "c", "--top", "3"], "rank --models a --models b --models c --top 3"),
        (["x", "--models", "a", "--models", "b", "c"], "x --models a --models b --models c"),
        (["run", "study.toml", "--workers", "2", "y"], "run study.toml --workers 2 y"),
        (["x", "--models"], "x --models"),
    ],
)
def test_lists_are_spread(given: list[str], spread: str) -> None:
    assert spread_lists(given) == spread.split()


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = outcome(capsys, "--help")
    assert code == 0
    for command in ("run", "demo", "ls", "features", "results", "cog", "audit"):
        assert command in out


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    import unseen

    assert outcome(capsys, "--version")[1].strip() == f"unseen {unseen.__version__}"


def test_a_whole_run(capsys: pytest.CaptureFixture[str], study_file: Path, home: Path) -> None:
    code, out, err = outcome(capsys, "run", str(study_file), "--dry-run")
    assert (code, "2 cells to do" in out) == (0, True)
    code, out, err = outcome(capsys, "run", str(study_file))
    assert code == 0, err
    page = home / "reports" / "mine.html"
    assert f"Report: {page}" in out
    assert "My study" in page.read_text()
    code, out, err = outcome(capsys, "run", str(study_file))
    assert "0 cells evaluated, 2 were there already" in err
    code, out, _ = outcome(capsys, "results", "--json")
    rows = json.loads(out)
    assert {row["metric"] for row in rows} >= {"top1", "top5"}
    code, out, _ = outcome(capsys, "features", "ls", "--json")
    assert len(json.loads(out)) == 2


def test_failed_cells_give_three(capsys: pytest.CaptureFixture[str], tmp_path: Path, images: Path, home: Path) -> None:
    (tmp_path / "broken.pth").write_bytes(b"rubbish")
    path = tmp_path / "study.toml"
    path.write_text(f'models = ["file:broken.pth?arch=test_resnet"]\ndatasets = ["folder:{images}"]')
    code, out, err = outcome(capsys, "run", str(path))
    assert code == 3
    assert "5 of 5 cells failed" in err
    assert "cannot be read as a checkpoint" in out


def one_line(err: str) -> bool:
    return err.startswith("unseen: error: ") and err.count("\n") == 1


def write_study(tmp_path: Path, model: str, dataset: str) -> str:
    path = tmp_path / "study.toml"
    path.write_text(f'models = ["{model}"]\ndatasets = ["{dataset}"]\n')
    return str(path)


@pytest.mark.parametrize(
    ("model", "dataset", "words"),
    [
        ("packaged:eficientnet-lite0", "folder:IMAGES", "Did you mean 'efficientnet-lite0'"),
        ("tim:resnet18", "folder:IMAGES", "'timm:resnet18'"),
        ("random:test_resnet", "folder:NOWHERE", "NOWHERE"),
        ("random:test_resnet", "folder:EMPTY", "'vacant' is empty"),
        ("random:test_resnet", "packaged:grocry", "Did you mean 'grocery'"),
        ("random:test_resnet", "folder:IMAGES?sede=1", "seed"),
        ("file:none.pth?arch=test_resnet", "folder:IMAGES", "no checkpoint at"),
    ],
)
def test_bad_input_is_one_line_and_two(
    model: str, dataset: str, words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, images: Path, home: Path
) -> None:
    (tmp_path / "empty" / "vacant").mkdir(parents=True)
    (tmp_path / "empty" / "full").mkdir()
    (tmp_path / "empty" / "full" / "a.png").write_bytes((images / "class0" / "000.png").read_bytes())
    dataset = dataset.replace("IMAGES", str(images)).replace("NOWHERE", f"{tmp_path}/NOWHERE")
    dataset = dataset.replace("EMPTY", str(tmp_path / "empty"))
    code, _, err = outcome(capsys, "run", write_study(tmp_path, model, dataset))
    assert code == 2
    assert one_line(err), err
    assert words in err


def test_a_broken_study_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text('model = ["packaged:efficientnet-lite0"]')
    code, _, err = outcome(capsys, "run", str(tmp_path / "study.toml"))
    assert (code, one_line(err)) == (2, True)
    assert "unknown key 'model'. Did you mean 'models'" in err
    code, _, err = outcome(capsys, "run", str(tmp_path / "nothing.toml"))
    assert (code, one_line(err)) == (2, True)


@pytest.mark.parametrize("arguments", [["runn"], ["ls", "modles"], ["run"], ["results", "--no-such-option"]])
def test_wrong_usage_gives_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(capsys, *arguments)[0] == 2


@pytest.mark.parametrize("kind", ["models", "datasets", "tasks", "methods", "scores"])
def test_ls_gives_cards(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = outcome(capsys, "ls", kind, "--json")
    cards = json.loads(out)
    assert code == 0
    assert all(card["id"] for card in cards)
    code, out, _ = outcome(capsys, "ls", kind)
    assert (code, f"{len(cards)} {kind}" in out) == (0, True)


def test_a_checkpoint_of_another_architecture(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, images: Path, home: Path
) -> None:
    from unseen.backbones import load_backbone

    torch.save(load_backbone("random:test_resnet").module.state_dict(), tmp_path / "w.pth")
    code, _, err = outcome(capsys, "run", write_study(tmp_path, "file:w.pth?arch=resnet18", f"folder:{images}"))
    assert code == 3
    assert "fits timm:resnet18 only in part" in err or "does not fit timm:resnet18" in err


def test_a_flipped_byte_is_found_and_refused(capsys: pytest.CaptureFixture[str], study_file: Path, home: Path) -> None:
    outcome(capsys, "run", str(study_file))
    part = next((home / "features").rglob("part-00000.safetensors"))
    content = bytearray(part.read_bytes())
    content[-5] ^= 1
    part.write_bytes(bytes(content))
    code, out, err = outcome(capsys, "features", "verify")
    assert code == 2
    assert part.name in out + err
    # New cells need the features: reading refuses them, and says how to mend it.
    study_file.write_text(study_file.read_text().replace("[1, 2]", "[3]"))
    code, out, err = outcome(capsys, "run", str(study_file))
    assert code == 3
    assert "unseen features rm" in " ".join((out + err).split())


@pytest.mark.slow
def test_a_full_disk(tmp_path: Path, make_folder: Callable[..., Path], small_model: str) -> None:
    """On a real small file system: one clear line, nothing half-written taken for whole, and the re-run goes on."""
    images = make_folder(tmp_path / "images", classes=3, per_class=30)
    small, copy = tmp_path / "small", tmp_path / "copy"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(small)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("mounting a small file system is not allowed here")
    try:
        study = tmp_path / "study.toml"
        study.write_text(
            f'models = ["{small_model}"]\ndatasets = ["folder:{images}"]\n[extraction]\npart_size = 8\n'
            f'graphs = "{tmp_path}/graphs"\n[benchmarks.probe]\nseeds = [1]\n'
        )
        command = [sys.executable, "-m", "unseen", "run", str(study), "--home"]
        done = subprocess.run([*command, str(small)], capture_output=True, text=True, env=dict(os.environ), check=False)
        assert done.returncode == 2, done.stderr
        assert done.stderr.splitlines()[-1].startswith("unseen: error: ")
        assert "Traceback" not in done.stderr
        subprocess.run(["cp", "-r", str(small), str(copy)], check=True)
    finally:
        subprocess.run(["umount", str(small)], check=True)
    done = subprocess.run([*command, str(copy)], capture_output=True, text=True, env=dict(os.environ), check=False)
    assert done.returncode == 0, done.stderr
