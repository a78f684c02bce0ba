"""`file:PATH?arch=timm:resnet50`: one's own checkpoint, in the architecture that it was trained with.

Options: `arch` (needed) is a timm name, or one of another source (`torchvision:NAME`); `key` is where the state dict
stands in the file ("teacher"), found by itself when left out; `partial=true` accepts a checkpoint that fills only part
of the network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from torch import Tensor, nn

from unseen.backbones.backbone import Backbone
from unseen.backbones.checkpoints import LoadReport, find_state_dict, load_into, read_checkpoint
from unseen.backbones.load import DEFAULT_ARCHITECTURES, BackboneSource, architecture, build_backbone
from unseen.backbones.names import ModelName
from unseen.core.errors import CheckpointError, UsageError
from unseen.core.identity import file_digest
from unseen.core.records import ModelCard


class FileSource(BackboneSource):
    """Checkpoints on this machine."""

    pattern, hint = "file:PATH?arch=timm:NAME", "your own checkpoint; the path alone does too: mine.pth?arch=..."
    paths = ("",)

    def cards(self) -> Iterator[ModelCard]:
        return iter(())

    def check(self, name: ModelName) -> None:
        name.check_options("arch", "key", "partial")
        architecture(_arch(name), name)
        _existing(name)

    def load(self, name: ModelName) -> Backbone:
        self.check(name)
        arch = _arch(name)
        built, report, headless = _filled(name, arch, _existing(name))
        notes = [f"{Path(name.rest).name}: {report.sentence()}"]
        if headless:
            notes.append("the class head is not in the file: features only, no class probabilities")
        card = ModelCard(id=str(name), name=Path(name.rest).name, group="file", architecture=arch, source=name.rest)
        return replace(built, card=card, notes=tuple(notes))

    def revision(self, name: ModelName) -> str:
        return "sha256 " + file_digest(_existing(name))[:16]


def _filled(name: ModelName, arch: str, path: Path) -> tuple[Backbone, LoadReport, bool]:
    """The network with the file's weights in it, how they fitted, and whether the file has no class head."""
    built = build_backbone(arch, name)
    tensors, prefix = find_state_dict(read_checkpoint(path), built.module, name.options.get("key"))
    head = _head_name(built.module)
    if head and (classes := _head_classes(tensors, prefix, head, built.module)) is not None:
        built = build_backbone(arch, name, classes)
    report = load_into(built.module, tensors, prefix)
    headless = _check(report, head, path, arch, partial=name.flag("partial"))
    if headless:
        built = build_backbone(arch, name, 0)
        load_into(built.module, tensors, prefix)
    return built, report, headless


def _existing(name: ModelName) -> Path:
    path = Path(name.rest).expanduser()
    if not path.is_file():
        raise CheckpointError(f"no checkpoint at {path}. Give the path of a .pth, .pt or .safetensors file.")
    return path


def _arch(name: ModelName) -> str:
    arch = name.options.get("arch", "")
    if not arch:
        raise UsageError(f"file:{name.rest} needs its architecture: file:{name.rest}?arch=timm:resnet50")
    return arch if ":" in arch else f"{DEFAULT_ARCHITECTURES}:{arch}"


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
