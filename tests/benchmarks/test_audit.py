"""Sanity checks: each passes on clean data, and fails on the fault that it is made for."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from unseen.benchmarks.audit import Check, _Probe, _subsample, run_checks
from unseen.benchmarks.workbench import SplitRows, Workbench
from unseen.cli.application import application
from unseen.core.errors import UsageError


@pytest.fixture
def folder(tmp_path: Path, make_folder: Callable[..., Path]) -> Path:
    """Four classes with training and test images of their own; a patch of its own distinguishes each image."""
    root, generator = tmp_path / "photos", np.random.default_rng(0)
    whole = make_folder(tmp_path / "whole", classes=4, per_class=18)
    for image in sorted(whole.rglob("*.png")):
        target = root / ("test" if int(image.stem) < 6 else "train") / image.parent.name / image.name
        target.parent.mkdir(parents=True, exist_ok=True)
        with Image.open(image) as picture:
            patch = Image.fromarray(generator.integers(0, 255, (5, 5, 3), np.uint8)).resize((24, 24))
            picture.paste(patch, tuple(generator.integers(0, 24, 2).tolist()))
            picture.save(target)
    return root


def by_name(checks: Iterable[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


@pytest.fixture
def run(tmp_path: Path, small_model: str) -> Callable[..., dict[str, Check]]:
    def run(data: Path, model: str = small_model) -> dict[str, Check]:
        return by_name(run_checks(Workbench(tmp_path / "home"), f"folder:{data}", [model]))

    return run


def test_clean_data_passes(run: Callable[..., dict[str, Check]], folder: Path) -> None:
    found = run(folder)
    status = {name: check.status for name, check in found.items()}
    assert status.pop("random weights score lower") == "skipped", "the model has random weights itself"
    assert set(status.values()) == {"pass"}
    assert "10 permutations" in found["shuffled labels score at chance"].found
    assert all(check.meaning == "" for check in found.values() if check.status == "pass")


def test_faults_of_data_are_found(run: Callable[..., dict[str, Check]], folder: Path) -> None:
    shutil.copy(folder / "train/class0/010.png", folder / "test/class1/copy.png")
    (folder / "train/class2/broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    for image in sorted((folder / "train/class3").iterdir())[1:]:
        image.unlink()
    found = run(folder)
    assert found["all images are readable"].status == "fail"
    assert "train/class2/broken.png" in found["all images are readable"].meaning
    copies = found["no copies between training and test images"]
    assert (copies.status, copies.found) == ("fail", "1 test images")
    assert found["classes are balanced"].status == "warning"
    assert found["classes are balanced"].found.startswith("1 to 13 training images per class")


def test_few_images_do_not_show_that_weights_help(
    run: Callable[..., dict[str, Check]], folder: Path, tmp_path: Path
) -> None:
    import timm
    import torch

    torch.manual_seed(1)
    path = tmp_path / "untrained.pth"
    torch.save(timm.create_model("test_efficientnet", pretrained=False).state_dict(), path)
    check = run(folder, f"file:{path}?arch=timm:test_efficientnet&size=64")["random weights score lower"]
    assert check.status == "warning"
    assert "random:test_efficientnet?size=64" in check.found
    assert check.meaning.startswith("Fewer than 50 test images")


def _rows(features: np.ndarray, labels: np.ndarray) -> SplitRows:
    return SplitRows(features.astype(np.float32), labels, np.arange(len(labels)), len(labels))


def _separable(classes: int = 4, per_class: int = 30, noise: float = 0.3) -> dict[str, SplitRows]:
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(classes, 8))
    labels = np.repeat(np.arange(classes), per_class)
    return {
        split: _rows(centres[labels] + noise * generator.normal(size=(len(labels), 8)), labels)
        for split in ("train", "test")
    }


def test_labels_that_are_not_shuffled_fail_the_control(monkeypatch: pytest.MonkeyPatch) -> None:
    probe = _Probe(_separable(), "m", 0)
    assert probe.check_shuffled_labels().status == "pass"

    class Identity:
        def permutation(self, values: np.ndarray) -> np.ndarray:
            return values

    monkeypatch.setattr(probe, "generator", Identity())
    assert probe.check_shuffled_labels().status == "fail"


def test_shuffled_labels_rarely_fail_on_correct_code() -> None:
    """The control is a test at the level 0.999: no failure in 12 data sets, balanced or not."""
    generator = np.random.default_rng(1)
    for number in range(12):
        shares = generator.dirichlet(np.ones(3))
        labels = {split: np.sort(generator.choice(3, 60, p=shares)) for split in ("train", "test")}
        labels = {split: np.concatenate([np.arange(3).repeat(2), each]) for split, each in labels.items()}
        rows = {split: _rows(generator.normal(size=(len(each), 5)), each) for split, each in labels.items()}
        assert _Probe(rows, "m", number).check_shuffled_labels().status == "pass"


def test_weights_that_help_no_more_than_random_ones_fail() -> None:
    rows = _separable()
    check = _Probe(rows, "m", 0).check_random_weights("random:m", rows)
    assert check.status == "fail"
    assert check.meaning.startswith("The weights may not have been loaded")


def test_features_without_information_fail() -> None:
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 30)
    rows = {split: _rows(generator.normal(size=(120, 8)), labels) for split in ("train", "test")}
    probe = _Probe(rows, "m", 0)
    assert probe.check_majority().status == "fail"
    assert _Probe(_separable(noise=0.8), "m", 0).check_majority().status == "pass"


def test_subsamples_keep_proportions() -> None:
    labels = np.repeat([0, 1, 2], [600, 300, 100])
    rows = _subsample(labels, 100, np.random.default_rng(0))
    assert np.bincount(labels[rows]).tolist() == [60, 30, 10]
    assert len(np.unique(rows)) == 100
    assert np.array_equal(_subsample(labels, 1000, np.random.default_rng(0)), np.arange(1000))


def test_numbers_are_refused(tmp_path: Path, images: Path) -> None:
    table = tmp_path / "t.csv"
    lines = [f"{path.relative_to(tmp_path)},{number / 7}" for number, path in enumerate(sorted(images.rglob("*.png")))]
    table.write_text("image,size\n" + "\n".join(lines))
    with pytest.raises(UsageError, match="needs class labels"):
        next(run_checks(Workbench(tmp_path / "home"), f"csv:{table}?label=size&target=number", ["random:test_resnet"]))


def test_command_prints_json_and_exits_with_3_on_failure(folder: Path, home: Path, small_model: str) -> None:
    runner = CliRunner()
    command = ["check", str(folder), "--models", small_model]
    passed = runner.invoke(application, [*command, "--no-copies", "--json"])
    assert passed.exit_code == 0, passed.output
    rows = json.loads(passed.stdout)
    assert [set(row) for row in rows] == [{"name", "model", "status", "found", "meaning"}] * len(rows)
    assert "no copies between training and test images" not in {row["name"] for row in rows}
    shutil.copy(folder / "train/class0/010.png", folder / "test/class0/copy.png")
    failed = runner.invoke(application, command, env={"COLUMNS": "140"})
    assert type(failed.exception).__name__ == "CellsFailedError"
    assert "1 of 7 checks failed" in str(failed.exception)
    assert "what it means" in failed.stdout
