"""The home folder, and files that are whole or not there."""

from __future__ import annotations

import errno
import multiprocessing
import os
from pathlib import Path

import pytest

from unseen.core import files
from unseen.core.errors import DataError, DiskFullError, StoreError, UsageError
from unseen.core.files import at_home, format_size, home, make_folder, map_file, write_whole


def test_home_is_what_was_said_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSEEN_HOME", str(tmp_path / "by-variable"))
    assert home() == tmp_path / "by-variable"
    assert home(tmp_path / "given") == tmp_path / "given"
    with at_home(tmp_path / "run"):
        assert home() == tmp_path / "run"
        assert home(tmp_path / "given") == tmp_path / "given"
    assert home() == tmp_path / "by-variable"
    monkeypatch.delenv("UNSEEN_HOME")
    assert home().name == "unseen"


def _write_often(path: str, letter: str, times: int) -> None:
    for _ in range(times):
        write_whole(Path(path), letter * 5000)


def test_writers_do_not_get_into_each_others_way(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.txt"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_often, args=(str(path), letter, 150)) for letter in "ab"]
    for writer in writers:
        writer.start()
    seen = set()
    while any(writer.is_alive() for writer in writers):
        if path.exists():
            seen.add(path.read_text())
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert seen <= {"a" * 5000, "b" * 5000}
    assert [p.name for p in path.parent.iterdir()] == ["file.txt"], "nothing is left behind"


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.txt"
    write_whole(path, "old")
    for number, kind in ((errno.ENOSPC, DiskFullError), (errno.EIO, StoreError)):

        def fail(_descriptor: int, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(kind, match=str(tmp_path)):
            write_whole(path, "new")
        monkeypatch.undo()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        write_whole(tmp_path, b"")


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_a_link_that_lies_in_wait_is_not_followed(link: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda _: "0000")
    victim = tmp_path / "victim"
    victim.write_text("precious")
    getattr(tmp_path / f".file.txt.{os.getpid()}-0000.tmp", link)(victim)
    with pytest.raises(StoreError):
        write_whole(tmp_path / "file.txt", "new")
    assert victim.read_text() == "precious"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (12_345, "12.3 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (12_300_000, "12.3 MB"),
        (5 * 10**9, "5.0 GB"),
        (2 * 10**12, "2.0 TB"),
        (12_345 * 10**12, "12345.0 TB"),
    ],
)
def test_sizes_as_people_read_them(size: int, text: str) -> None:
    assert format_size(size) == text


def test_folders_are_made_with_all_that_is_missing_above(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b" / "c" / "d")
    make_folder(tmp_path / "a" / "b" / "c" / "d")
    make_folder(tmp_path / "a" / "e")
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")) == ["a", "a/b", "a/b/c", "a/b/c/d", "a/e"]
    (tmp_path / "file").touch()
    with pytest.raises(StoreError):
        make_folder(tmp_path / "file")


def test_files_are_mapped_empty_ones_among_them(tmp_path: Path) -> None:
    (tmp_path / "full").write_bytes(b"abc")
    (tmp_path / "empty").touch()
    assert bytes(map_file(tmp_path / "full")) == b"abc"
    assert map_file(tmp_path / "empty") == b""
    with pytest.raises(DataError, match=r"cannot read .*gone: No such file"):
        map_file(tmp_path / "gone")


def test_a_folder_above_that_vanishes_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, left = files._make_levels, [3]

    def vanishing(folder: Path) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise FileNotFoundError(errno.ENOENT, "gone")
        make(folder)

    monkeypatch.setattr(files, "_make_levels", vanishing)
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir() and left == [-1]
    left[0] = 10**6
    with pytest.raises(StoreError, match="keep vanishing"):
        make_folder(tmp_path / "c")


def test_a_new_file_has_the_mode_that_any_new_file_gets(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        for mask, mode in ((0, 0o666), (0o027, 0o640)):
            os.umask(mask)
            write_whole(tmp_path / "file", b"x")
            assert (tmp_path / "file").stat().st_mode & 0o777 == mode
    finally:
        os.umask(before)
