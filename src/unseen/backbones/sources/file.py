"""`file:PATH?arch=timm:resnet50`: one's own checkpoint, in the architecture that it was trained with.

Options: `arch` (needed) is a timm name, or `torchvision:NAME`; `key` is where the state dict stands in the file
("teacher"), found by itself when left out; `partial=true` accepts a checkpoint that fills only part of the network.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from torch import Tensor, nn

from unseen.backbones.backbone import Backbone
from unseen.backbones.checkpoints import LoadReport, find_state_dict, load_into, read_checkpoint
from unseen.backbones.forwards import output_forward
from unseen.backbones.names import ModelName
from unseen.backbones.sources.timm import create_timm, timm_backbone
from unseen.backbones.sources.torchvision import create_torchvision, torchvision_backbone
from unseen.core.errors import CheckpointError, UsageError
from unseen.core.records import ModelCard


class FileSource:
    """Checkpoints on this machine."""

    #: Parts of a name that are paths; "" is what follows the scheme.
    paths = ("",)

    def cards(self) -> Iterator[ModelCard]:
        return iter(())

    def load(self, name: ModelName) -> Backbone:
        name.check_options("arch", "key", "partial")
        path, architecture = Path(name.rest).expanduser(), _architecture(name)
        model = _create(architecture)
        checkpoint = read_checkpoint(path)
        tensors, prefix = find_state_dict(checkpoint, model, name.options.get("key"))
        head = _head_name(model)
        if head and (classes := _head_classes(tensors, prefix, head, model)) is not None:
            model = _create(architecture, num_classes=classes)
        report = load_into(model, tensors, prefix)
        notes = [f"{path.name}: {report.sentence()}"]
        headless = _check(report, head, path, architecture, partial=name.flag("partial"))
        if headless:
            notes.append("the class head is not in the file: features only, no class probabilities")
        return self._backbone(name, architecture, model, head if headless else None, tuple(notes))

    def _backbone(
        self, name: ModelName, architecture: str, model: nn.Module, drop: str | None, notes: tuple[str, ...]
    ) -> Backbone:
        scheme, _, rest = architecture.partition(":")
        if scheme == "torchvision":
            if drop:
                _replace(model, drop, nn.Identity())
            loaded = torchvision_backbone(model, ModelName("torchvision", rest, name.options))
            forward = output_forward if drop else loaded.forward
        else:
            if drop:
                model.reset_classifier(0)  # type: ignore[operator]
            loaded = timm_backbone(model, name, architecture=rest)
            forward = loaded.forward
        card = ModelCard(
            id=str(name), name=Path(name.rest).name, group="file", architecture=architecture, source=name.rest
        )
        return Backbone(
            card=card,
            module=model.eval(),
            forward=forward,
            preprocessing=loaded.preprocessing,
            prefix_tokens=loaded.prefix_tokens,
            notes=notes,
        )

    def revision(self, name: ModelName) -> str:
        path = Path(name.rest).expanduser()
        if not path.is_file():
            raise CheckpointError(f"no checkpoint at {path}. Give the path of a .pth, .pt or .safetensors file.")
        with path.open("rb") as file:
            return "sha256 " + hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _architecture(name: ModelName) -> str:
    architecture = name.options.get("arch", "")
    if not architecture:
        raise UsageError(f"file:{name.rest} needs its architecture: file:{name.rest}?arch=timm:resnet50")
    return architecture if ":" in architecture else f"timm:{architecture}"


def _create(architecture: str, num_classes: int | None = None) -> nn.Module:
    scheme, _, rest = architecture.partition(":")
    arguments = {} if num_classes is None else {"num_classes": num_classes}
    if scheme == "torchvision":
        return create_torchvision(rest, weights=None, **arguments)
    if scheme == "timm":
        return create_timm(rest, pretrained=False, **arguments)
    raise UsageError(f"arch={architecture} is not an architecture. Write arch=timm:NAME or arch=torchvision:NAME.")


def _head_name(model: nn.Module) -> str | None:
    """The dotted name of the last linear layer: the class head."""
    linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    getter = getattr(model, "get_classifier", None)
    head = getter() if callable(getter) else None
    if isinstance(head, nn.Linear):
        return str(next(name for name, module in model.named_modules() if module is head))
    return linear[-1] if linear else None


def _head_classes(tensors: Mapping[str, Tensor], prefix: str, head: str, model: nn.Module) -> int | None:
    """The number of classes in the file's head, where it differs from the architecture's but is one all the same."""
    weight = tensors.get(f"{prefix}{head}.weight")
    own = model.get_submodule(head).weight
    if weight is None or not isinstance(own, Tensor) or weight.ndim != own.ndim:
        return None
    return int(weight.shape[0]) if weight.shape != own.shape and weight.shape[1:] == own.shape[1:] else None


def _check(report: LoadReport, head: str | None, path: Path, architecture: str, *, partial: bool) -> bool:
    """Whether the network is whole but for its head; an error where it is not and nobody said that it may be."""
    outside = [n for n in report.missing if head is None or not n.startswith(f"{head}.")]
    if report.matched == 0:
        raise CheckpointError(
            f"{path.name} does not fit {architecture}: no tensor matches by name and shape. First in the file: "
            f"{report.unused[0]}; first in the architecture: {report.missing[0]}. Give the right arch=."
        )
    if outside and not partial:
        raise CheckpointError(
            f"{path.name} fits {architecture} only in part: {report.sentence()}. Give the right arch=, or partial=true "
            f"to leave the rest at random."
        )
    return bool(report.missing) and not outside


def _replace(model: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, last = name.rpartition(".")
    owner = model.get_submodule(parent) if parent else model
    if isinstance(owner, nn.Sequential):
        owner[int(last)] = module
    else:
        setattr(owner, last, module)
