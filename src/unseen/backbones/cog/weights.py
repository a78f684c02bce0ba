"""Where a model's published file is on this machine: given, in a folder the user fills, or downloaded into it.

The folder is `UNSEEN_COG_WEIGHTS`, or `weights/cog` in the home of `unseen`. A model's file is looked for as
`<folder>/<model>/<published name>`, then as the only file of `<folder>/<model>/`, then as `<folder>/<published name>`
where no other model publishes a file of that name.
"""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from unseen.backbones.cog.cards import CogModel, cog_models
from unseen.backbones.cog.download import DownloadError, download
from unseen.core.errors import CheckpointError
from unseen.core.files import home


def weights_folder() -> Path:
    """The folder that holds the published files."""
    if chosen := os.environ.get("UNSEEN_COG_WEIGHTS"):
        return Path(chosen).expanduser()
    return home() / "weights" / "cog"


def locate(model: CogModel, given: str | None = None) -> Path:
    """The model's file: `given` if it is, else from the folder, else downloaded into it.

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
    """The model's file in a folder of weights, or None."""
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


def file_digest(path: Path) -> str:
    """sha256 of a file in hex; of an unchanged file it is computed once."""
    status = path.stat()
    return _digest(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=64)
def _digest(path: Path, _size: int, _changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
