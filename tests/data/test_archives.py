"""Reading single files out of tar files: against the standard library, and against everything that can be wrong."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unseen.core.errors import DataError
from unseen.data import archives
from unseen.data.archives import index_tar

pytestmark = pytest.mark.usefixtures("home")

Files = list[tuple[str, bytes]]


def write_tar(path: Path, files: Files, form: int = tarfile.USTAR_FORMAT, **fields: object) -> Path:
    with tarfile.open(path, "w", format=form) as archive:
        for name, data in files:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            for field, value in fields.items():
                setattr(member, field, value)
            archive.addfile(member, io.BytesIO(data))
    return path


def later(path: Path) -> None:
    """Sets the time of change a second ahead: small tars are of one size, and a test is faster than the clock."""
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 10**9))


def contents(path: Path) -> Files:
    index = index_tar(path)
    return [(name, index.read(i)) for i, name in enumerate(index.names)]


def reference(path: Path) -> Files:
    """What the standard library reads."""
    with tarfile.open(path, "r:") as archive:
        return [(m.name, archive.extractfile(m).read()) for m in archive if m.isreg()]  # type: ignore[union-attr]


SMALL: Files = [("n1_1.JPEG", b"a" * 700), ("n1_2.JPEG", b""), ("n1_10.JPEG", b"b" * 512), ("deep/er/x.JPEG", b"c")]

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS.keys())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8", exclude_characters="\0/"), min_size=1, max_size=40).filter(
                lambda name: name.strip(". ") == name
            ),
            st.binary(max_size=1500),
        ),
        max_size=6,
    )
)
def test_any_names_and_contents(tmp_path: Path, form: int, files: Files) -> None:
    try:
        path = write_tar(tmp_path / "any.tar", files, form)
    except ValueError:
        return  # the old format cannot hold every name
    os.utime(path, ns=(0, hash(str(files)) % 10**18))  # examples follow one another faster than a clock ticks
    assert contents(path) == reference(path)


def test_long_names_links_and_folders(tmp_path: Path) -> None:
    path = tmp_path / "odd.tar"
    long_name = "/".join(["folder" * 6] * 5) + "/x.JPEG"
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        folder = tarfile.TarInfo("n1")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name in ("n1/a.JPEG", long_name):
            member = tarfile.TarInfo(name)
            member.size = 3
            archive.addfile(member, io.BytesIO(b"abc"))
        link = tarfile.TarInfo("n1/link.JPEG")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    assert contents(path) == [("n1/a.JPEG", b"abc"), (long_name, b"abc")]


def test_a_split_prefix_is_put_together(tmp_path: Path) -> None:
    name = "a" * 90 + "/" + "b" * 90
    assert contents(write_tar(tmp_path / "p.tar", [(name, b"x")])) == [(name, b"x")]


def test_a_tar_in_a_tar(tmp_path: Path) -> None:
    inner = write_tar(tmp_path / "n1.tar", SMALL).read_bytes()
    outer = index_tar(write_tar(tmp_path / "all.tar", [("n0.tar", b""), ("n1.tar", inner), ("z", b"end")]))
    index = outer.nested(1)
    assert [(n, index.read(i)) for i, n in enumerate(index.names)] == SMALL
    with pytest.raises(DataError, match=r"all\.tar, n0\.tar is not a tar file, or .* cut off before its first file"):
        outer.nested(0)


def test_an_archive_is_walked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_tar(tmp_path / "a.tar", SMALL)
    walked: list[str] = []
    walk = archives._walk
    monkeypatch.setattr(archives, "_walk", lambda *a: walked.append(a[-1]) or walk(*a))  # type: ignore[func-returns-value]
    first, second = contents(path), contents(path)
    assert first == second == SMALL
    assert len(walked) == 1
    later(write_tar(path, [("other", b"new")]))
    assert contents(path) == [("other", b"new")]
    assert len(walked) == 2


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"format": "unseen-archive/1"}', "null"])
def test_a_damaged_note_is_made_anew(tmp_path: Path, home: Path, damage: str) -> None:
    path = write_tar(tmp_path / "a.tar", SMALL)
    assert contents(path) == SMALL
    (note,) = (home / "archives").iterdir()
    good = note.read_text()
    note.write_text(damage)
    assert contents(path) == SMALL
    assert note.read_text() == good
    assert json.loads(good)["path"] == str(path)


def test_a_home_that_cannot_be_written_stops_no_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("UNSEEN_HOME", str(blocked))
    assert contents(write_tar(tmp_path / "a.tar", SMALL)) == SMALL


def _cut(data: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "broken.tar"
    path.write_bytes(data)
    return path


BROKEN: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "in a file": (lambda d: d[:600], r"damaged or cut off before its first file"),
    "in a header": (lambda d: d[: 1536 + 100], r"cut off at or after n1_1\.JPEG"),
    "between files": (lambda d: d[:1536], r"cut off at or after n1_1\.JPEG"),
    "empty": (lambda d: b"", "cut off before its first file"),
    "damaged inside": (lambda d: d[:1536] + b"\xff" * 512 + d[2048:], r"damaged or cut off at or after n1_1\.JPEG"),
    "text": (lambda d: b"hello " * 200, "is not a tar file"),
    "gzip": (gzip.compress, "compressed with gzip"),
}


@pytest.mark.parametrize(("damage", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_archives_say_so(tmp_path: Path, damage: Callable[[bytes], bytes], message: str) -> None:
    whole = write_tar(tmp_path / "whole.tar", SMALL).read_bytes()
    with pytest.raises(DataError, match=message):
        index_tar(_cut(damage(whole), tmp_path))


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9])
def test_broken_archives_of_other_dialects_say_so(tmp_path: Path, keep: float) -> None:
    files = [(f"{'long' * 40}{i}.JPEG", bytes(900)) for i in range(10)]
    whole = write_tar(tmp_path / "whole.tar", files, tarfile.GNU_FORMAT).read_bytes()
    end = whole.rindex(b"JPEG") + 900
    with pytest.raises(DataError, match=r"broken.tar"):
        index_tar(_cut(whole[: int(end * keep)], tmp_path))


def test_a_missing_archive_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read .*none\.tar: No such file"):
        index_tar(tmp_path / "none.tar")


def test_an_archive_that_changed_after_it_was_indexed(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", SMALL)
    index = index_tar(path)
    later(write_tar(path, [("x", b"1")]))
    with pytest.raises(DataError, match="has changed since it was indexed"):
        index.read(0)


def test_many_threads_and_many_archives(tmp_path: Path) -> None:
    paths = [
        write_tar(tmp_path / f"{k}.tar", [(f"{k}_{i}", b"%d-%d" % (k, i) * 99) for i in range(9)]) for k in range(8)
    ]
    indexes = [index_tar(path) for path in paths]
    barrier = threading.Barrier(8)

    def work(start: int) -> int:
        barrier.wait()
        for step in range(400):
            k, i = (start + step) % 8, step % 9
            assert indexes[k].read(i) == b"%d-%d" % (k, i) * 99
        return start

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == list(range(8))
