"""Download VTAB's files from a server on this machine: resumption, checksums, unpacking, and what `check` advises."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from unseen.cli import main
from unseen.core.errors import DataError, DiskFullError
from unseen.core.files import Checksum, DownloadError, download
from unseen.data.sources.vtab import check as module
from unseen.data.sources.vtab import check_root, fetch_task, vtab_task, vtab_tasks
from unseen.data.sources.vtab.check import PublishedFile, published_files, unpack
from unseen.data.sources.vtab.tasks import class_names

CONTENT = bytes(range(256)) * 8000


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves files by name, with ranges; a name in `broken` breaks off half-way, once."""

    server: Any

    def do_GET(self) -> None:
        content = self.server.files.get(self.path.rpartition("/")[2])
        if content is None:
            self.send_error(404)
            return
        wanted = self.headers.get("Range")
        first = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.server.ranges else 0
        self.server.requests.append((self.path, wanted))
        rest = content[first:]
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        broken = self.path in self.server.broken
        self.server.broken -= {self.path}
        self.wfile.write(rest[: len(rest) // 2] if broken else rest)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Any]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.files, running.requests, running.broken, running.ranges = {}, [], set(), True  # type: ignore[attr-defined]
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def url(server: Any, name: str) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}/{name}"


def checksum(content: bytes) -> Checksum:
    return Checksum(len(content), hashlib.sha256(content).hexdigest())


@pytest.mark.parametrize("ranges", [True, False])
def test_a_download_that_broke_off_resumes(server: Any, tmp_path: Path, ranges: bool) -> None:
    server.files["a.bin"], server.broken, server.ranges = CONTENT, {"/a.bin"}, ranges
    with pytest.raises(DownloadError, match="broke off after 1024000 of 2048000 bytes"):
        download(url(server, "a.bin"), tmp_path / "a.bin", checksum(CONTENT))
    seen: list[tuple[int, int]] = []
    got = download(url(server, "a.bin"), tmp_path / "a.bin", checksum(CONTENT), lambda *each: seen.append(each))
    assert got.read_bytes() == CONTENT
    assert [wanted for _, wanted in server.requests] == [None, "bytes=1024000-"]
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.bin", "a.bin.lock"]


def test_a_resumed_file_with_another_beginning_is_refused_and_removed(server: Any, tmp_path: Path) -> None:
    server.files["a.bin"] = CONTENT
    (tmp_path / "a.bin.part").write_bytes(b"x" * 1000)
    with pytest.raises(DownloadError, match="another file than the published one: sha256"):
        download(url(server, "a.bin"), tmp_path / "a.bin", checksum(CONTENT))
    assert download(url(server, "a.bin"), tmp_path / "a.bin", checksum(CONTENT)).read_bytes() == CONTENT


def test_every_dataset_has_published_files_or_files_to_get_by_hand() -> None:
    by_hand = {task.data for task in vtab_tasks().values() if not published_files(task.data)}
    assert by_hand == {"resisc45", "retinopathy"}
    for task in vtab_tasks().values():
        for file in published_files(task.data):
            assert len(file.checksum.sha256) == 64 or len(file.checksum.md5) == 32
            assert file.url.startswith("https://") or file.checksum.sha256


def jpeg() -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (8, 8), (200, 20, 20)).save(stream, "JPEG")
    return stream.getvalue()


def archives(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """EuroSAT as a zip and DTD as a tar.gz on the server, with a few images."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in class_names("eurosat"):
            archive.writestr(f"2750/{name}/{name}_1.jpg", jpeg())
    server.files["EuroSAT.zip"] = packed.getvalue()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in (("dtd/labels/train1.txt", b"banded/a.jpg\n"), ("dtd/images/banded/a.jpg", jpeg())):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    server.files["dtd-r1.0.1.tar.gz"] = packed.getvalue()
    original = published_files

    def local(data: str) -> tuple[PublishedFile, ...]:
        return tuple(
            replace(file, url=url(server, file.name), checksum=checksum(server.files[file.name]))
            if file.name in server.files
            else file
            for file in original(data)
        )

    monkeypatch.setattr(module, "published_files", local)


def test_fetch_downloads_checks_and_unpacks(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archives(server, monkeypatch)
    server.broken = {"/EuroSAT.zip"}
    assert main(["vtab", "fetch", "eurosat", "dtd", "--root", str(tmp_path)]) != 0
    assert "broke off" in capsys.readouterr().err
    assert main(["vtab", "fetch", "resisc45", "eurosat", "dtd", "--root", str(tmp_path)]) == 2
    assert "vtab:resisc45 cannot be downloaded without an account" in capsys.readouterr().err
    assert (tmp_path / "dtd" / "labels" / "train1.txt").exists(), "the other tasks are downloaded"
    assert main(["vtab", "fetch", "eurosat", "dtd", "--root", str(tmp_path)]) == 0
    assert (tmp_path / "2750" / "Forest" / "Forest_1.jpg").read_bytes() == jpeg()
    assert (tmp_path / "dtd" / "labels" / "train1.txt").exists()
    assert "Next: unseen vtab check" in capsys.readouterr().out
    states = {status.task: status.state for status in check_root(tmp_path)}
    assert states["eurosat"] in ("incomplete", "broken") and states["pets"] == "missing"
    count = len(server.requests)
    fetch_task(vtab_task("eurosat"), tmp_path)
    assert len(server.requests) == count, "a file that is there is compared, not downloaded"
    (tmp_path / "EuroSAT.zip").write_bytes(b"damaged")
    with pytest.raises(DataError, match="not the published file: 7 instead of"):
        fetch_task(vtab_task("eurosat"), tmp_path)


def test_fetch_without_room_or_without_a_public_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="account or a browser"):
        fetch_task(vtab_task("resisc45"), tmp_path)
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 10**9})())
    with pytest.raises(DiskFullError, match=r"needs about 38\.0 GB"):
        fetch_task(vtab_task("clevr-count"), tmp_path)


def test_check_recognises_downloaded_archives(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archives(server, monkeypatch)
    (tmp_path / "EuroSAT.zip").write_bytes(server.files["EuroSAT.zip"])
    (tmp_path / "dtd-r1.0.1.tar.gz").write_bytes(server.files["dtd-r1.0.1.tar.gz"][:-9])
    (tmp_path / "NWPU-RESISC45.rar").write_bytes(b"Rar!")
    (tmp_path / "caltech-101").mkdir()
    (tmp_path / "caltech-101" / "101_ObjectCategories.tar.gz").write_bytes(b"?")
    found = {status.task: status for status in check_root(tmp_path)}
    assert {task: found[task].state for task in ("eurosat", "dtd", "resisc45", "caltech101")} == dict.fromkeys(
        ("eurosat", "dtd", "resisc45", "caltech101"), "packed"
    )
    assert f"unzip {tmp_path}/EuroSAT.zip -d {tmp_path}" in found["eurosat"].advice
    size, digest = len(server.files["EuroSAT.zip"]), checksum(server.files["EuroSAT.zip"]).sha256[:12]
    assert f"EuroSAT.zip ({size:,} bytes, sha256 {digest}...) has to be unpacked" in found["eurosat"].advice
    assert "remove it and fetch it again" in found["dtd"].advice
    assert f"unrar x {tmp_path}/NWPU-RESISC45.rar" in found["resisc45"].advice
    assert "tar -xf" in found["caltech101"].advice
    monkeypatch.undo()
    missing = {status.task: status.advice for status in check_root(tmp_path / "nothing")}
    assert "unseen vtab fetch dmlab --root" in missing["dmlab"]
    assert "dmlab.tar.gz (3,017,022,789 bytes, sha256 638b18fa69a5...)" in missing["dmlab"]
    assert "NWPU-RESISC45.rar" in missing["resisc45"] and "by hand; no checksum is published" in missing["resisc45"]
    assert "which TFDS prepares" in missing["retinopathy"] and "by hand" not in missing["retinopathy"]


def test_archives_that_lead_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "evil.tar.gz", "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("../evil.txt"))
    with pytest.raises(DataError, match=r"evil\.tar\.gz"):
        unpack(tmp_path / "evil.tar.gz", tmp_path / "inside")
    assert not (tmp_path / "evil.txt").exists()
    (tmp_path / "a.h5.gz").write_bytes(gzip.compress(b"content"))
    unpack(tmp_path / "a.h5.gz", tmp_path)
    assert (tmp_path / "a.h5").read_bytes() == b"content"
