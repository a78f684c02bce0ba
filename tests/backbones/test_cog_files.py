"""Published files on disk: torch files with foreign code in them, the folder of weights, downloads."""

from __future__ import annotations

import collections
import hashlib
import http.server
import io
import pickle
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from unseen.backbones import backbone_revision, load_backbone
from unseen.backbones.cog.formats import flatten, read_torch_file
from unseen.backbones.sources.cog import (
    cog_models,
    find_in_folder,
    locate,
    weights_folder,
)
from unseen.core.errors import CheckpointError
from unseen.core.files import Checksum, DownloadError, download


class Trap:
    """Creates a file where anything unpickles it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return open, (str(self.path), "w")


class Options:
    """A training script's options: a class that no reader has."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.nested = {"weights": torch.ones(2)}


# Torch files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_tensors_are_read_and_no_code_runs(zipped: bool, tmp_path: Path) -> None:
    base = torch.arange(24.0).reshape(4, 6)
    state = collections.OrderedDict(
        whole=base,
        view=base[1:3, ::2],
        turned=base.T,
        half=torch.randn(3).half(),
        brain=torch.randn(3).bfloat16(),
        count=torch.tensor(7),
        flags=torch.tensor([True, False]),
        empty=torch.zeros(0, 4),
        parameter=nn.Parameter(torch.randn(2, 2)),
    )
    trap = tmp_path / "trap"
    path = tmp_path / "w.ckpt"
    torch.save(
        {"model": state, "options": Options(0.1), "trap": [Trap(trap)], "epoch": 3},
        path,
        _use_new_zipfile_serialization=zipped,
    )
    tree = read_torch_file(path, path.name)
    assert not trap.exists()
    assert tree["epoch"] == 3
    assert list(tree["model"]) == list(state)
    for name, value in state.items():
        assert tree["model"][name].dtype == value.dtype
        torch.testing.assert_close(tree["model"][name], value.detach(), rtol=0, atol=0)
    # What an unknown object held can be read, the object itself is not made.
    assert tree["options"]["rate"] == 0.1
    torch.testing.assert_close(tree["options"]["nested"]["weights"], torch.ones(2))


def test_a_tensor_outside_its_storage_is_refused(tmp_path: Path) -> None:
    honest, forged = tmp_path / "honest.ckpt", tmp_path / "forged.ckpt"
    torch.save({"w": torch.zeros(64), "options": Options(0.1)}, honest)
    with zipfile.ZipFile(honest) as source, zipfile.ZipFile(forged, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name.endswith("data.pkl"):
                # The tensor's size, 64, stands in a tuple of one: make it 255, beyond the storage.
                assert data.count(b"K@\x85") == 1
                data = data.replace(b"K@\x85", b"K\xff\x85")
            target.writestr(name, data)
    assert read_torch_file(honest, "honest.ckpt")["w"].shape == (64,)
    with pytest.raises(CheckpointError, match=r"forged\.ckpt") as caught:
        read_torch_file(forged, "forged.ckpt")
    assert "storage" in str(caught.value)


@pytest.mark.parametrize("contents", [b"", b"not a pickle at all", pickle.dumps({"a": 1}), b"PK\x03\x04 half a zip"])
def test_what_is_not_a_torch_file_is_refused(contents: bytes, tmp_path: Path) -> None:
    path = tmp_path / "w.ckpt"
    path.write_bytes(contents)
    with pytest.raises(CheckpointError, match=r"w\.ckpt"):
        read_torch_file(path, path.name)
    with pytest.raises(CheckpointError, match=r"inside\.pth"):
        read_torch_file(contents, "inside.pth")


def test_contents_without_a_file(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    torch.save({"model": {"a": torch.ones(3)}}, buffer)
    assert flatten(read_torch_file(buffer.getvalue(), "inside.pth")).keys() == {"model.a"}


# The folder of weights ------------------------------------------------------------------------------------------------


@pytest.fixture
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNSEEN_COG_WEIGHTS", str(tmp_path / "weights"))
    (tmp_path / "weights").mkdir()
    return tmp_path / "weights"


def test_the_folder_is_in_the_home_unless_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: Path
) -> None:
    assert weights_folder() == chosen
    monkeypatch.delenv("UNSEEN_COG_WEIGHTS")
    monkeypatch.setenv("UNSEEN_HOME", str(tmp_path / "home"))
    assert weights_folder() == tmp_path / "home" / "weights" / "cog"


def test_where_a_file_is_looked_for(chosen: Path) -> None:
    dino, cutmix = cog_models()["s-dino"], cog_models()["r-cutmix"]
    assert find_in_folder(dino, chosen) is None
    (chosen / dino.file).touch()
    assert find_in_folder(dino, chosen) == chosen / dino.file
    (chosen / "s-dino").mkdir()
    (chosen / "s-dino" / "renamed.pth").touch()
    assert find_in_folder(dino, chosen) == chosen / "s-dino" / "renamed.pth"
    (chosen / "s-dino" / dino.file).touch()
    assert find_in_folder(dino, chosen) == chosen / "s-dino" / dino.file
    # Three models publish a file of this name: in the open it could be any of them.
    (chosen / cutmix.file).touch()
    assert find_in_folder(cutmix, chosen) is None
    (chosen / "r-cutmix").mkdir()
    (chosen / "r-cutmix" / f"{cutmix.file}.part").touch()
    assert find_in_folder(cutmix, chosen) is None


def test_a_model_from_the_folder(
    chosen: Path, resnet50: tuple[dict[str, Tensor], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = chosen / "resnet50-19c8e357.pth"
    torch.save(resnet50[0], path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    backbone = load_backbone("cog:resnet50")
    assert backbone.id == "cog:resnet50"
    assert backbone.notes[0] == f"{path.name}: sha256 {digest}, not the published file, which begins with 19c8e357"
    assert backbone_revision("cog:resnet50") == f"sha256 {digest[:16]}"
    path.unlink()


def test_without_network_the_error_names_the_expected_path(chosen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dino = replace(cog_models()["s-dino"], urls=("http://127.0.0.1:9/dino_resnet50_pretrain.pth",))
    with pytest.raises(CheckpointError) as caught:
        locate(dino)
    message = str(caught.value)
    assert "cog:s-dino" in message
    assert "cannot be reached" in message
    assert str(chosen / "s-dino" / dino.file) in message
    with pytest.raises(CheckpointError, match=r"cog:s-compress: .*only a browser.*drive\.google\.com"):
        locate(cog_models()["s-compress"])


# Downloads ------------------------------------------------------------------------------------------------------------

CONTENTS = bytes(range(256)) * 4000


class _Handler(http.server.BaseHTTPRequestHandler):
    """Serves `CONTENTS`; `/short` breaks off half-way, `/gone` does not exist."""

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        if self.path.startswith("/gone"):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENTS)))
        self.end_headers()
        self.wfile.write(CONTENTS[: len(CONTENTS) // 2] if "/short" in self.path else CONTENTS)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Any]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as running:
        running.requests = []
        running.address = f"http://127.0.0.1:{running.server_address[1]}"
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_a_download_is_checked_and_not_repeated(server: Any, tmp_path: Path) -> None:
    digest = hashlib.sha256(CONTENTS).hexdigest()
    target = download(f"{server.address}/file", tmp_path / "a" / "file", Checksum(sha256=digest[:8]))
    assert target.read_bytes() == CONTENTS
    assert not target.with_name("file.part").exists()
    download(f"{server.address}/file", target, Checksum(sha256=digest[:8]))
    assert len(server.requests) == 1


def test_an_incomplete_download_is_not_kept(server: Any, tmp_path: Path) -> None:
    target = tmp_path / "file"
    with pytest.raises(DownloadError, match=r"broke off after 512000 of 1024000 bytes"):
        download(f"{server.address}/short", target)
    assert [path.name for path in tmp_path.iterdir()] == ["file.lock"]
    assert download(f"{server.address}/file", target).read_bytes() == CONTENTS


def test_a_part_of_an_interrupted_download_is_replaced(server: Any, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(b"something else")
    assert download(f"{server.address}/file", tmp_path / "file").read_bytes() == CONTENTS


def test_a_file_with_another_checksum_is_not_kept(server: Any, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="another file than the published one"):
        download(f"{server.address}/file", tmp_path / "file", Checksum(sha256="deadbeef"))
    assert [path.name for path in tmp_path.iterdir()] == ["file.lock"]


def test_what_cannot_be_fetched(server: Any, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="answers 404"):
        download(f"{server.address}/gone", tmp_path / "file")
    with pytest.raises(DownloadError, match="not an address"):
        download("file:///etc/passwd", tmp_path / "file")


def test_every_file_of_a_model_is_fetched_into_its_folder(server: Any, chosen: Path) -> None:
    simclr = cog_models()["s-simclr-v2"]
    names = [url.rpartition("/")[2] for url in simclr.urls]
    local = replace(simclr, urls=tuple(f"{server.address}/{name}" for name in names))
    assert locate(local) == chosen / "s-simclr-v2" / simclr.file
    assert {path.name for path in (chosen / "s-simclr-v2").iterdir() if path.suffix != ".lock"} == set(names)
    assert len(server.requests) == 2
    assert locate(local) == chosen / "s-simclr-v2" / simclr.file
    assert len(server.requests) == 2


def test_two_at_once_fetch_once(server: Any, tmp_path: Path) -> None:
    def fetch() -> None:
        download(f"{server.address}/file", tmp_path / "file")

    workers = [threading.Thread(target=fetch) for _ in range(4)]
    run: Callable[[threading.Thread], None]
    for run in (threading.Thread.start, threading.Thread.join):
        for worker in workers:
            run(worker)
    assert (tmp_path / "file").read_bytes() == CONTENTS
    assert len(server.requests) == 1
