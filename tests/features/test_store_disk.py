"""Disks that are full, limited or read-only: real ones where mounting is allowed, and limits that work everywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from unseen.core.errors import DiskFullError, StoreError
from unseen.core.files import format_size, make_folder
from unseen.features import FeatureStore

SCRIPT = Path(__file__).parent / "store_process.py"


def mount(*arguments: str) -> bool:
    try:
        return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one megabyte, with a function to remount it with other options."""
    path = tmp_path / "disk"
    path.mkdir()
    if not mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", str(path)):
        pytest.skip("this user may not mount a file system")

    def remount(options: str) -> None:
        assert mount("-o", f"remount,{options}", str(path))

    yield path, remount
    subprocess.run(["umount", str(path)], check=True)


def test_a_full_disk_then_room_again(tmp_path, small_disk, store_process):
    path, remount = small_disk
    store, whole = FeatureStore(path / "features"), FeatureStore(tmp_path / "whole")
    sample = store_process.Sample(40, 4, dim=8192)  # ten parts of 131 kB
    sample.write(whole)

    with pytest.raises(DiskFullError) as caught:
        sample.write(store)

    message = str(caught.value)
    assert "the disk is full" in message
    assert "it needs 131" in message
    assert str(path) in message
    (entry,) = store.entries()
    assert 0 < entry.manifest.covered < 40
    assert not list(path.rglob("*.tmp"))
    assert store.verify() == []
    assert store.find(sample.key) is None

    remount("size=4m")
    assert sample.write(store) == 10 - entry.manifest.covered // 4
    assert store_process.snapshot(store, sample.key) == store_process.snapshot(whole, sample.key)


def test_a_disk_too_full_to_begin(small_disk, store_process):
    path, _ = small_disk
    with (path / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError, match="No space"):
        while True:
            filler.write(b"x" * 4096)
    sample = store_process.Sample()
    with pytest.raises(DiskFullError):
        sample.write(FeatureStore(path / "features"))
    (path / "filler").unlink()
    assert sample.write(FeatureStore(path / "features")) == 3


def test_a_read_only_disk_is_read_but_not_written(small_disk, store_process):
    path, remount = small_disk
    store = FeatureStore(path / "features")
    sample, other = store_process.Sample(), store_process.Sample(key=store_process.make_key(layer="logits"))
    sample.write(store)
    remount("ro")
    np.testing.assert_array_equal(store.open(sample.key).features.to_array(), sample.rows(0, 10)[0])
    assert store.verify() == []
    with pytest.raises(StoreError, match=r"cannot write .*Read-only.*--home or UNSEEN_HOME"):
        other.write(store)
    with pytest.raises(StoreError, match="cannot write"):
        store.remove(store.entries())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path, store_process):
    (tmp_path / "features").mkdir(mode=0o555)
    with pytest.raises(StoreError, match=r"cannot write .*--home or UNSEEN_HOME"):
        store_process.Sample().write(FeatureStore(tmp_path / "features"))


def test_a_file_in_the_way(tmp_path, store_process):
    (tmp_path / "features").write_text("not a folder")
    store = FeatureStore(tmp_path / "features")
    assert store.find(store_process.make_key()) is None
    with pytest.raises(StoreError, match="cannot write"):
        store_process.Sample().write(store)
    with pytest.raises(StoreError, match="there is a file of that name"):
        make_folder(tmp_path / "features")


def test_a_file_size_limit(tmp_path, store_process):
    """The kernel refuses a write beyond RLIMIT_FSIZE, in the middle of a part: 2000 rows of 28 bytes, limit 32 kB."""
    command = [sys.executable, str(SCRIPT), str(tmp_path), "4000", "2000", "--limit", "32768"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert said[:2] == ["holding", "full"]
    assert "a file size limit" in said[2]
    assert "it needs 56." in said[2]
    store = FeatureStore(tmp_path)
    (entry,) = store.entries()
    assert (entry.manifest.covered, entry.state) == (0, "partial")
    assert [path.name for path in entry.path.iterdir()] == ["manifest.json"]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (12_345_678, "12.3 MB"),
        (10_500_000_000, "10.5 GB"),
        (2_000_000_000_000, "2.0 TB"),
    ],
)
def test_sizes_are_readable(size, text):
    assert format_size(size) == text
