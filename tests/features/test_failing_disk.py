"""Disks, mounts and machines that fail for a while: never a row less, never another error than ours."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from unseen.backbones import load_backbone
from unseen.core import guard
from unseen.core.errors import DataError, UnavailableError
from unseen.core.guard import passing_reason, patiently, read_patiently
from unseen.data import load_dataset
from unseen.features import FeatureStore, extract

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "WAITS", (0.0, 0.0, 0.0))


def raise_often(error: BaseException, times: int) -> Callable[[], str]:
    left = [times]

    def act() -> str:
        if left[0]:
            left[0] -= 1
            raise error
        return "done"

    return act


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENOMEM, errno.EACCES, errno.ENFILE])
def test_what_may_pass_is_tried_four_times(code: int) -> None:
    error = OSError(code, os.strerror(code))
    assert patiently(raise_often(error, 3)) == "done"
    with pytest.raises(UnavailableError, match=r"x\.png cannot be read at present: .*, 4 times\."):
        read_patiently(raise_often(error, 4), "x.png")


@pytest.mark.parametrize("code", [errno.ENOENT, errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.ENOSPC])
def test_what_lasts_is_not_tried_again(code: int) -> None:
    error = OSError(code, os.strerror(code))
    with pytest.raises(OSError) as caught:
        read_patiently(raise_often(error, 1), "x.png")
    assert caught.value is error


def test_the_cause_behind_an_error_decides() -> None:
    def wrapped() -> None:
        try:
            raise OSError(errno.EIO, "Input/output error")
        except OSError:
            raise DataError("cannot read the archive") from None

    with pytest.raises(UnavailableError):
        read_patiently(wrapped, "x.tar")
    assert passing_reason(DataError("not an image")) is None
    assert passing_reason(OSError("image file is truncated")) is None, "Pillow's word for a bad file has no number"


def test_a_file_that_asks_for_all_memory_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    assert passing_reason(MemoryError()) is None
    monkeypatch.setattr(guard, "_memory_is_short", lambda: True)
    assert passing_reason(MemoryError()) == "the memory is used up"


def test_a_mount_that_went_away_is_no_skipped_image(
    tmp_path: Path, small_model: str, make_folder: Callable[..., Path]
) -> None:
    images = make_folder(tmp_path / "images", classes=2, per_class=4)
    dataset, backbone = load_dataset(f"folder:{images}"), load_backbone(small_model)
    fingerprint = dataset.split("train").fingerprint
    assert fingerprint
    images.rename(tmp_path / "away")
    with pytest.raises(UnavailableError, match="its folder is gone"):
        extract(backbone, dataset, "train", FeatureStore(tmp_path / "store"))
    assert not [e for e in FeatureStore(tmp_path / "store").entries() if e.manifest and e.manifest.complete]
    (tmp_path / "away").rename(images)
    assert not extract(backbone, dataset, "train", FeatureStore(tmp_path / "store"))["pooled"].skipped


@pytest.mark.slow
def test_every_system_call_fails_once_and_for_good(tmp_path: Path, make_folder: Callable[..., Path]) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("a C compiler on Linux is needed to make system calls fail")
    library = tmp_path / "failing_calls.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, HERE / "failing_calls.c", "-ldl"], check=True)
    images = make_folder(tmp_path / "images", classes=2, per_class=3)
    next(images.rglob("*.png")).write_bytes(b"nonsense")
    done = subprocess.run(
        [sys.executable, HERE / "failing_extraction.py", tmp_path],
        env={**os.environ, "LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    print(outcomes)
    assert outcomes["calls"] > 100 and outcomes["errors"] > 100, "the calls were seen and failed"
    assert outcomes["foreign"] == []
    assert outcomes["wrong"] == []
    assert outcomes["not_resumed"] == []
