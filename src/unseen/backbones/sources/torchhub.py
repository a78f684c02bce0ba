"""`torchhub:FOLDER/NAME`: models of the `hubconf.py` in a checkout on this machine.

A hubconf is code, and it runs. So a checkout is a folder that the user has made. A repository of the network,
`torchhub:OWNER/REPO/NAME`, is fetched and run only with `trust_remote_code=true`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from unseen.backbones.backbone import Backbone
from unseen.backbones.load import BackboneSource, ModelName, wrap_module
from unseen.backbones.model_files import folder_digest
from unseen.core.errors import BackboneError, first_line
from unseen.core.extras import ensure_torchvision
from unseen.core.records import Preprocessing


class TorchHubSource(BackboneSource):
    """Models of a `hubconf.py`."""

    pattern = "torchhub:FOLDER/NAME"
    hint = "a model of a checkout's hubconf.py; OWNER/REPO/NAME of the network only with ?trust_remote_code=true"

    def check(self, name: ModelName) -> None:
        name.check_options("trust_remote_code")
        _place(name)

    def load(self, name: ModelName) -> Backbone:
        import torch

        self.check(name)
        repository, model, local = _place(name)
        code = folder_digest(Path(repository)) if local else ""
        ensure_torchvision()
        try:
            hub: Any = torch.hub
            with _fresh_imports(repository):
                built = hub.load(
                    repository, model, source="local" if local else "github", trust_repo=True, verbose=False
                )
        except Exception as error:  # a hubconf may raise anything
            first = first_line(error)
            raise BackboneError(f"{name} could not be built: {type(error).__name__}: {first}") from error
        if not isinstance(built, torch.nn.Module):
            raise BackboneError(f"{name} is {type(built).__name__}, not a torch module.")
        wrapped = wrap_module(str(name), built, preprocessing=name.adjust(Preprocessing(resize=256)))
        return replace(wrapped, code=code)

    def revision(self, name: ModelName) -> str:
        repository, _, local = _place(name)
        return folder_digest(Path(repository)) if local else repository


#: Modules that checkouts have imported in this process.
_IMPORTED: set[str] = set()


@contextmanager
def _fresh_imports(repository: str) -> Iterator[None]:
    """Import the modules of a checkout anew: not those of another one, and not as they were before an edit."""
    for name in _IMPORTED & set(sys.modules):
        del sys.modules[name]
    before = set(sys.modules)
    try:
        yield
    finally:
        folder = Path(repository)
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file and folder in Path(file).parents:
                _IMPORTED.add(name)


def _place(name: ModelName) -> tuple[str, str, bool]:
    """Return repository, model, and whether it is a folder; raise if its code is not trusted."""
    repository, _, model = name.rest.rpartition("/")
    folder = Path(repository).expanduser()
    if (folder / "hubconf.py").is_file():
        return str(folder.resolve()), model, True
    if name.flag("trust_remote_code") and repository.count("/") == 1:
        return repository, model, False
    raise BackboneError(
        f"{name}: there is no {folder / 'hubconf.py'}. Check the repository out and give its folder, "
        "torchhub:FOLDER/NAME; or let its code be fetched and run, torchhub:OWNER/REPO/NAME?trust_remote_code=true."
    )
