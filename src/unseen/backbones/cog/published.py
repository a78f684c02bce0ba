"""A published file, whatever its format, as the state dict that a card points at."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from unseen.backbones.cog.cards import CogModel
from unseen.backbones.cog.haiku_file import read_haiku_file
from unseen.backbones.cog.layouts import as_tensors
from unseen.backbones.cog.tensor_bundle import TensorBundle
from unseen.backbones.cog.torch_file import flatten, read_torch_file
from unseen.core.errors import CheckpointError
from unseen.core.guard import read_member


def read_published(model: CogModel, path: Path) -> dict[str, Tensor]:
    """The tensors of a model's file by their published names; nothing in the file is run."""
    match model.format:
        case "tensorflow":
            return _tensorflow(path)
        case "haiku":
            return read_haiku_file(path)
        case "torchscript":
            return flatten(read_torch_file(path, path.name))
        case "zip":
            return _state_dict(model, path, _from_zip(path))
        case _:
            return _state_dict(model, path, read_torch_file(path, path.name))


def choose_prefix(model: CogModel, tensors: Mapping[str, Tensor], first: str) -> str:
    """The first of the card's prefixes under which the network's first tensor stands."""
    return next((prefix for prefix in model.prefixes if prefix + first in tensors), model.prefixes[0])


def _state_dict(model: CogModel, path: Path, tree: Any) -> dict[str, Tensor]:
    for container in model.containers:
        inside: Any = tree
        for key in filter(None, container.split(".")):
            inside = inside.get(key) if isinstance(inside, Mapping) else None
        tensors = {str(k): v for k, v in inside.items() if isinstance(v, Tensor)} if isinstance(inside, Mapping) else {}
        if tensors:
            return tensors
    wanted = " or ".join(repr(container) for container in model.containers if container) or "its top level"
    found = ", ".join(map(repr, list(tree)[:5])) if isinstance(tree, Mapping) else type(tree).__name__
    raise CheckpointError(
        f"{model.card.id}: {path.name} has no tensors under {wanted}; it holds {found or 'nothing'}. "
        f"{model.file} from {model.page} is needed."
    )


def _from_zip(path: Path) -> Any:
    """The one torch file inside a plain zip archive, read in place."""
    if not zipfile.is_zipfile(path):
        return read_torch_file(path, path.name)
    with zipfile.ZipFile(path) as archive:
        members = [name for name in archive.namelist() if name.endswith((".pth.tar", ".pth", ".pt"))]
        if not members:  # what torch saves today is a zip archive itself
            return read_torch_file(path, path.name)
        if len(members) > 1:
            raise CheckpointError(f"{path.name} holds {len(members)} torch files; one is expected.")
        return read_torch_file(read_member(archive, members[0]), f"{members[0]} in {path.name}")


def _tensorflow(path: Path) -> dict[str, Tensor]:
    if path.is_dir():
        indices = sorted(path.glob("*.index"))
        if len(indices) != 1:
            raise CheckpointError(f"{path} holds {len(indices)} TensorFlow checkpoints (*.index); one is expected.")
        path = indices[0]
    bundle = TensorBundle(path)
    # What the optimiser kept of every variable would double the reading.
    return as_tensors(bundle, [name for name in bundle if not name.endswith("/Momentum")])
