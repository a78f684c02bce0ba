"""`torchhub:FOLDER/NAME`: what the `hubconf.py` of a checkout on this machine builds.

A hubconf is code, and it runs. So a checkout is one that the user has made: a folder. A repository of the network,
`torchhub:OWNER/REPO/NAME?trust=true`, is fetched and run only where `trust=true` says so.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unseen.backbones.backbone import Backbone
from unseen.backbones.load import BackboneSource, wrap_module
from unseen.backbones.names import ModelName
from unseen.core.errors import BackboneError, UnknownNameError, first_line
from unseen.core.identity import file_digest
from unseen.core.records import ModelCard, Preprocessing
from unseen.core.torchvision_shim import ensure_torchvision


class TorchHubSource(BackboneSource):
    """Models of a `hubconf.py`."""

    pattern = "torchhub:FOLDER/NAME"
    hint = "what a checkout's hubconf.py builds; OWNER/REPO/NAME of the network only with ?trust=true"

    def cards(self) -> Iterator[ModelCard]:
        return iter(())

    def check(self, name: ModelName) -> None:
        name.check_options("trust")
        _place(name)

    def load(self, name: ModelName) -> Backbone:
        self.check(name)
        repository, model, local = _place(name)
        ensure_torchvision()
        try:
            hub: Any = torch.hub
            built = hub.load(repository, model, source="local" if local else "github", trust_repo=True, verbose=False)
        except Exception as error:  # whatever the hubconf raises
            if local and "Cannot find callable" in str(error):
                raise UnknownNameError(f"model of {repository}", model, _functions(Path(repository))) from None
            first = first_line(error)
            raise BackboneError(f"{name} could not be built: {type(error).__name__}: {first}") from error
        if not isinstance(built, nn.Module):
            raise BackboneError(f"{name} is {type(built).__name__}, not a torch module.")
        return wrap_module(str(name), built, preprocessing=name.adjust(Preprocessing(resize=256)))

    def revision(self, name: ModelName) -> str:
        repository, _, local = _place(name)
        return file_digest(Path(repository) / "hubconf.py")[:16] if local else repository


def _functions(folder: Path) -> list[str]:
    """What a hubconf defines itself, read without running it."""
    body = ast.parse((folder / "hubconf.py").read_text(encoding="utf-8")).body
    return [node.name for node in body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]


def _place(name: ModelName) -> tuple[str, str, bool]:
    """Repository, model, and whether it is a folder; what nobody has trusted is refused."""
    repository, _, model = name.rest.rpartition("/")
    folder = Path(repository).expanduser()
    if (folder / "hubconf.py").is_file():
        return str(folder.resolve()), model, True
    if name.flag("trust") and repository.count("/") == 1:
        return repository, model, False
    raise BackboneError(
        f"{name}: there is no {folder / 'hubconf.py'}. Check the repository out and give its folder, "
        "torchhub:FOLDER/NAME; or let its code be fetched and run, torchhub:OWNER/REPO/NAME?trust=true."
    )
