"""`file:PATH?arch=timm:resnet50`: one's own checkpoint, in the architecture that it was trained with.

Options: `arch` is a timm name, or one of another source (`torchvision:NAME`), guessed from names and shapes when left
out; `key` is where the state dict stands in the file ("teacher"), found by itself when left out; `ema=true` prefers an
average of the weights; `partial=true` accepts a checkpoint that fills only part of the network; `rename=true` takes
tensors that agree with the network in order and shape under other names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from unseen.backbones.backbone import Backbone
from unseen.backbones.checkpoints import LoadReport, find_state_dict, load_into, read_checkpoint, rename_in_order
from unseen.backbones.guess import guess_architecture
from unseen.backbones.load import DEFAULT_ARCHITECTURES, BackboneSource, architecture, build_backbone
from unseen.backbones.names import ModelName
from unseen.core.errors import CheckpointError
from unseen.core.identity import file_digest
from unseen.core.records import ModelCard

_OPTIONS = ("arch", "key", "ema", "partial", "rename")


class FileSource(BackboneSource):
    """Checkpoints on this machine."""

    pattern, hint = "file:PATH?arch=timm:NAME", "your own checkpoint; the path alone does too, arch is then guessed"
    paths = ("",)

    def cards(self) -> Iterator[ModelCard]:
        return iter(())

    def check(self, name: ModelName) -> None:
        name.check_options(*_OPTIONS)
        if name.options.get("arch"):
            architecture(_arch(name), name)
        _existing(name)

    def load(self, name: ModelName) -> Backbone:
        self.check(name)
        path = _existing(name)
        checkpoint = read_checkpoint(path)
        arch, notes = _arch(name), []
        if not arch:
            guess = guess_architecture(checkpoint, path.name)
            arch = guess.arch
            notes.append(f"the architecture was not named; {arch} fits ({100 * guess.share:.0f} % of its tensors)")
        built, report, headless = _filled(name, arch, path, checkpoint)
        notes.append(f"{path.name}: {report.sentence()}")
        if headless:
            notes.append("the class head is not in the file: features only, no class probabilities")
        card = ModelCard(id=str(name), name=Path(name.rest).name, group="file", architecture=arch, source=name.rest)
        return replace(built, card=card, notes=tuple(notes))

    def revision(self, name: ModelName) -> str:
        return "sha256 " + file_digest(_existing(name))[:16]


def _filled(name: ModelName, arch: str, path: Path, checkpoint: Any) -> tuple[Backbone, LoadReport, bool]:
    """The network with the file's weights in it, how they fitted, and whether the file has no class head."""
    built = build_backbone(arch, name)
    key, ema = name.options.get("key"), name.flag("ema")
    tensors, prefix = find_state_dict(checkpoint, built.module, key, ema=ema)
    head = _head_name(built.module)
    if name.flag("rename"):
        named = rename_in_order(tensors, built.module)
        if named is None:
            raise CheckpointError(f"{path.name} does not agree with {arch} in order and shape: rename=true cannot be.")
        report = replace(load_into(built.module, named, ""), renamed=True)
        headless = _check(report, head, path, arch, partial=name.flag("partial"))
        if headless:
            built = build_backbone(arch, name, 0)
            load_into(built.module, named, "")
        return built, report, headless
    if head and (classes := _head_classes(tensors, prefix, head, built.module)) is not None:
        built = build_backbone(arch, name, classes)
    report = load_into(built.module, tensors, prefix)
    if report.matched == 0 and (renamed := rename_in_order(tensors, built.module)) is not None:
        raise CheckpointError(
            f"{path.name} names its tensors otherwise than {arch}, but all {len(renamed)} agree in order and shape. "
            "Add rename=true to take them so."
        )
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
    return arch if ":" in arch or not arch else f"{DEFAULT_ARCHITECTURES}:{arch}"


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
