"""The published weights of the 31 models of ImageNet-CoG: cards, download, and look-up on this machine.

The folder of weights is `UNSEEN_COG_WEIGHTS`, or `weights/cog` in the home folder. A model's file is looked for as
`<folder>/<model>/<published name>`, then as the only file of `<folder>/<model>/`, then as `<folder>/<published name>`
if no other model publishes a file of that name. This module does not import torch.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import tomllib
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from filelock import FileLock

from unseen.core.errors import CheckpointError
from unseen.core.files import home
from unseen.core.records import ModelCard, Preprocessing


@dataclass(frozen=True)
class CogModel:
    """A model's card and how its authors publish its weights.

    Attributes:
        id: without the scheme, such as "s-dino".
        layer: where its features are taken, in words.
        file: the name of the published file.
        urls: where it can be had; the first is `file` itself, others stand beside it. Empty: only by hand, at `page`.
        sha256: the beginning of the file's checksum, or "" where its authors give none.
        format: which reader the file needs.
        containers: dotted ways to the state dict, the first that is there.
        prefixes: what stands before the names in it, the first that fits.
        ignored: regular expressions of names that the network does not need.
        head: whether the file has a class head.
        layout: how published names become ours.
    """

    id: str
    card: ModelCard
    layer: str
    file: str
    urls: tuple[str, ...]
    page: str
    sha256: str
    format: str
    containers: tuple[str, ...]
    prefixes: tuple[str, ...]
    ignored: tuple[str, ...]
    head: bool
    layout: str


@cache
def cog_models() -> Mapping[str, CogModel]:
    """Return every model by its id, in the order of the paper."""
    table = tomllib.loads(files(__package__).joinpath("cards.toml").read_text(encoding="utf-8"))
    return {entry["id"]: _model({**table["defaults"], **entry}) for entry in table["models"]}


def _model(entry: Mapping[str, Any]) -> CogModel:
    card = ModelCard(
        id=f"cog:{entry['id']}",
        name=entry["name"],
        group=entry["group"],
        paper="cog",
        architecture=entry["architecture"],
        parameters=entry["parameters"],
        feature_dim=entry["feature_dim"],
        preprocessing=Preprocessing(
            size=entry["size"],
            resize=entry["size"],
            interpolation="bicubic",
            mean=tuple(entry["mean"]),
            std=tuple(entry["std"]),
        ),
        source=entry["urls"][0] if entry["urls"] else entry["page"],
        license=entry["license"],
        citation=entry["citation"],
        notes=_notes(entry),
    )
    own: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}
    return CogModel(card=card, **{field.name: own[field.name] for field in fields(CogModel) if field.name != "card"})


def _notes(entry: Mapping[str, Any]) -> str:
    checksum = "" if entry["sha256"] else "no published checksum"
    return "; ".join(part for part in (entry["notes"], checksum) if part)


_CHUNK = 1 << 20
_TIMEOUT_SECONDS = 60


class DownloadError(Exception):
    """The file could not be had, or is not the one that was promised."""


def download(url: str, target: Path, *, sha256: str = "") -> Path:
    """Fetch `url` to `target`, unless it is there already.

    Bytes go to `<target>.part`, which a later call goes on with; it is renamed when it is whole. Two processes do not
    fetch the same file at once.

    Args:
        sha256: the beginning of the file's checksum in hex, as torch puts it into file names; "" checks nothing.
    """
    if not url.startswith(("https://", "http://")):
        raise DownloadError(f"{url} is not an address that can be fetched.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(target.name + ".lock")):
            if not target.is_file():
                part = target.with_name(target.name + ".part")
                _fetch_part(url, part)
                _check(part, url, sha256)
                part.replace(target)
    except urllib.error.HTTPError as error:
        raise DownloadError(f"{url} answers {error.code} ({error.reason}).") from error
    except (urllib.error.URLError, http.client.HTTPException) as error:
        raise DownloadError(f"{url} cannot be reached ({getattr(error, 'reason', error)}).") from error
    except OSError as error:
        raise DownloadError(f"{url} could not be fetched to {target.parent} ({error}).") from error
    return target


def _fetch_part(url: str, part: Path) -> None:
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "unseen"})  # noqa: S310 - http(s) by the check above
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)  # noqa: S310 - likewise
    except urllib.error.HTTPError as error:
        if error.code != 416 or not have:
            raise
        # Nothing is left to send: the part is whole, or it is not of this file; the checksum or the size tells.
        error.close()
        return
    with response:
        resumed = response.status == 206
        length = response.headers.get("Content-Length")
        expected = int(length) + (have if resumed else 0) if length else None
        with part.open("ab" if resumed else "wb") as file:
            while chunk := response.read(_CHUNK):
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
    if expected is not None and part.stat().st_size != expected:
        raise DownloadError(
            f"{url} broke off after {part.stat().st_size} of {expected} bytes; the next try goes on from there."
        )


def _check(part: Path, url: str, sha256: str) -> None:
    with part.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if not found.startswith(sha256):
        part.unlink()
        raise DownloadError(f"{url} gave another file than the published one: sha256 {found}, not {sha256}...")


def weights_folder() -> Path:
    """Return the folder with the published files."""
    if chosen := os.environ.get("UNSEEN_COG_WEIGHTS"):
        return Path(chosen).expanduser()
    return home() / "weights" / "cog"


def locate(model: CogModel, given: str | None = None) -> Path:
    """Return the model's file: `given` if there is one, else from the folder, else downloaded into it.

    Args:
        given: a path that the user wrote; nothing else is tried then.
    """
    if given is not None:
        path = Path(given).expanduser()
        if not path.exists() and not path.with_name(path.name + ".index").exists():
            raise CheckpointError(f"{model.card.id}: there is no file at {path}. It should be {_wanted(model)}.")
        return path
    found = find_in_folder(model, weights_folder())
    return found if found is not None else _fetch(model, weights_folder() / model.id)


def find_in_folder(model: CogModel, folder: Path) -> Path | None:
    """Return the model's file in a folder of weights, or None."""
    own = folder / model.id
    if (own / model.file).is_file():
        return own / model.file
    inside = [path for path in own.glob("*") if path.is_file() and path.suffix not in (".part", ".lock")]
    if len(inside) == 1:
        return inside[0]
    unique = sum(other.file == model.file for other in cog_models().values()) == 1
    return folder / model.file if unique and (folder / model.file).is_file() else None


def _fetch(model: CogModel, folder: Path) -> Path:
    by_hand = (
        f"Download {_wanted(model)} and put it at {folder / model.file}, or give its path: {model.card.id}?weights=PATH"
    )
    if not model.urls:
        raise CheckpointError(
            f"{model.card.id}: its weights are not in {folder}, and its authors publish them where only a browser "
            f"can fetch them. {by_hand}."
        )
    try:
        # The first address is the file itself, with its checksum; what stands beside it comes first, so that a
        # download that was cut short is never taken for whole.
        for url in reversed(model.urls):
            is_file = url == model.urls[0]
            name = model.file if is_file else unquote(Path(urlsplit(url).path).name)
            download(url, folder / name, sha256=model.sha256 if is_file else "")
    except DownloadError as error:
        raise CheckpointError(
            f"{model.card.id}: its weights are not in {folder} and could not be downloaded: {error} {by_hand}."
        ) from error
    return folder / model.file


def _wanted(model: CogModel) -> str:
    return f"{model.file} from {model.page}"
