"""Read weights from untrusted files without running them, copy them into an architecture, and report the result.

Reads safetensors, and torch files through `weights_only`, which refuses any pickle that names code. `networks.py`
chooses the network inside a training checkpoint.
"""

from __future__ import annotations

import argparse
import math
import pickle
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from unseen.backbones.model_files import check_weights_file, refuse_code
from unseen.core.errors import CheckpointError
from unseen.core.extras import ensure_torchvision
from unseen.core.guard import guarded
from unseen.core.run_record import LoadedModel

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

#: Parts of names that sharding, compiling and checkpointing add.
_WRAPPERS = re.compile(r"(?:_fsdp_wrapped_module|_checkpoint_wrapped_module|_orig_mod|_forward_module)\.")

#: Ends of the names of position embeddings, which depend on the size of the images.
POSITIONS = ("pos_embed", "pos_embedding", "position_embedding", "position_embeddings", "positional_embedding")

#: Tensors of a class head that a file may lack.
_HEAD_TENSORS = 4


def sentence(loaded: LoadedModel) -> str:
    """Return in words how tensors fit an architecture, for notes and error messages."""
    words = [f"{loaded.matched} tensors matched", *(f"{each} resized" for each in loaded.resized)]
    if loaded.missing:
        words.append(f"{len(loaded.missing)} missing or of another shape (first: {loaded.missing[0]})")
    if loaded.unused:
        words.append(f"{len(loaded.unused)} unused (first: {loaded.unused[0]})")
    return "; ".join(words)


def read_checkpoint(path: Path) -> object:
    """Return the plain containers and tensors of a file. Code in it is never run."""
    check_weights_file(path)
    if path.suffix != ".safetensors":
        return load_plain(path, path.name, [argparse.Namespace])  # a harmless record of training scripts
    with guarded(path.name, "a safetensors file", error=CheckpointError):
        from safetensors.torch import load_file

        return load_file(path)


def load_plain(source: Path | BinaryIO, file: str, safe: list[Any]) -> object:
    """Return the plain containers and tensors of a torch file.

    Args:
        file: name of the file, for error messages.
        safe: classes that may be called, as of `torch.serialization.safe_globals`.
    """
    import torch

    with guarded(file, "a checkpoint", error=CheckpointError), torch.serialization.safe_globals(safe):
        try:
            return torch.load(source, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            if named := re.search(r"GLOBAL ([\w.]+)", str(error)):
                raise refuse_code(file, named[1]) from error
            raise CheckpointError(
                f"{file} cannot be read as a checkpoint: it is damaged, or it is not a torch file of plain tensors."
            ) from error


def state_dicts(value: object) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """Yield every mapping with tensors inside a checkpoint, with the dotted keys that lead to it.

    A mapping in several places is entered once, so that a file cannot cause an endless search.
    """
    from torch import Tensor

    waiting, entered = [("", value)], set[int]()
    while waiting:
        path, mapping = waiting.pop()
        if not isinstance(mapping, Mapping):
            continue
        if tensors := {_unwrapped(_key_text(k)): v for k, v in mapping.items() if isinstance(v, Tensor)}:
            yield path, tensors
        if id(mapping) not in entered:
            entered.add(id(mapping))
            inner = [(f"{path}.{_key_text(key)}" if path else _key_text(key), each) for key, each in mapping.items()]
            waiting += reversed(inner)


def _key_text(key: object) -> str:
    """Return a key as text; any other object, which may be nested without end, by its type."""
    return str(key) if isinstance(key, str | int | float) else type(key).__name__


def load_into(module: nn.Module, tensors: Mapping[str, Tensor], prefix: str) -> LoadedModel:
    """Copy every tensor that matches by name and shape into `module`, and report."""
    own = module.state_dict()
    fitting, resized = {}, []
    for name, tensor in own.items():
        found = tensors.get(prefix + name)
        if found is not None and found.shape != tensor.shape and name.endswith(POSITIONS):
            fitted = resize_positions(found, tensor.shape)
            if fitted is not None:
                resized.append(f"{name} {tuple(found.shape)} to {tuple(tensor.shape)}")
                found = fitted
        if found is not None and found.shape == tensor.shape:
            fitting[name] = found
    module.load_state_dict(fitting, strict=False)
    return LoadedModel(
        matched=len(fitting),
        missing=tuple(n for n in own if n not in fitting and not n.endswith("num_batches_tracked")),
        unused=tuple(n for n in tensors if not (n.startswith(prefix) and n[len(prefix) :] in fitting)),
        resized=tuple(resized),
    )


def rename_in_order(tensors: Mapping[str, Tensor], module: nn.Module) -> dict[str, Tensor] | None:
    """Return the tensors under the module's own names if all agree in order and shape; else None.

    A module that ends in a class head which the file lacks agrees too.
    """
    own = module.state_dict()
    if not tensors or not 0 <= len(own) - len(tensors) <= _HEAD_TENSORS:
        return None
    renamed = dict(zip(own, tensors.values(), strict=False))
    return renamed if all(own[name].shape == found.shape for name, found in renamed.items()) else None


def resize_positions(found: Tensor, wanted: torch.Size) -> Tensor | None:
    """Resize position embeddings (1, n, d) from one square grid to another, and keep class and register tokens.

    Return None if the width differs or a grid is not square.
    """
    ensure_torchvision()
    from timm.layers.pos_embed import resample_abs_pos_embed

    if found.ndim != 3 or len(wanted) != 3 or found.shape[2] != wanted[2] or found.shape[0] != wanted[0]:
        return None
    for extra in range(9):  # a class token, and up to eight registers
        old, new = math.isqrt(found.shape[1] - extra), math.isqrt(wanted[1] - extra)
        if old * old == found.shape[1] - extra and new * new == wanted[1] - extra and min(old, new) > 1:
            resized: Tensor = resample_abs_pos_embed(found, [new, new], [old, old], num_prefix_tokens=extra)
            return resized
    return None


def _unwrapped(name: str) -> str:
    """Return a name without the parts that wrappers for sharding, compiling and checkpointing add."""
    return _WRAPPERS.sub("", name)
