"""`file:PATH?arch=timm:resnet50`: your own checkpoint, in the architecture that it was trained with.

Options: `arch` is a timm name, or one of another source (`torchvision:NAME`); without it the architecture is inferred
from names and shapes. `key` is the network in the file ("teacher", "state_dict.module.encoder_q", or a part of such a
path); without it the network that fits, and of several the one that the training recipe evaluates. `ema=true` chooses
an average of the weights; `partial=true` accepts a checkpoint that fills only part of the network; `rename=true` takes
tensors that agree with the network in order and shape under other names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unseen.backbones.backbone import FEATURES, Backbone
from unseen.backbones.checkpoints import load_into, read_checkpoint, rename_in_order, sentence
from unseen.backbones.load import DEFAULT_ARCHITECTURES, BackboneSource, ModelName, architecture, build_backbone
from unseen.backbones.model_files import check_weights_file, may_hold_several_networks
from unseen.backbones.networks import find_network, guess_architecture, head_name
from unseen.core.errors import CheckpointError
from unseen.core.identity import file_digest
from unseen.core.records import ModelCard
from unseen.core.run_record import LoadedModel

if TYPE_CHECKING:
    from torch import Tensor, nn

_OPTIONS = ("arch", "key", "ema", "partial", "rename")


class FileSource(BackboneSource):
    """Checkpoints on this machine."""

    pattern, hint = "file:PATH?arch=timm:NAME", "your own checkpoint; the path alone is enough, arch is then inferred"
    paths = ("",)

    def check(self, name: ModelName) -> None:
        name.check_options(*_OPTIONS)
        if name.options.get("arch"):
            architecture(_arch(name), name)
        name.flag("ema"), name.flag("partial"), name.flag("rename")
        check_weights_file(_existing(name))

    def load(self, name: ModelName) -> Backbone:
        self.check(name)
        path = _existing(name)
        checkpoint = read_checkpoint(path)
        arch, notes = _arch(name), []
        if not arch:
            arch, share = guess_architecture(checkpoint, path.name, name.options.get("key"))
            notes.append(f"the architecture was inferred: {arch} fits ({100 * share:.0f} % of its tensors)")
        built = _fill(name, arch, path, checkpoint)
        card = ModelCard(id=str(name), name=Path(name.rest).name, group="file", architecture=arch, source=name.rest)
        return replace(built, card=card, notes=(*notes, *built.notes))

    def revision(self, name: ModelName) -> str:
        path = _existing(name)
        # The rule that chooses among several networks can change the result, so it is part of the revision.
        rule = " networks.2" if may_hold_several_networks(path) else ""
        return f"sha256 {file_digest(path)[:16]}{rule}"


def _fill(name: ModelName, arch: str, path: Path, checkpoint: object) -> Backbone:
    """Build the architecture, load the file's weights into it, and record how they fit."""
    built = build_backbone(arch, name)
    choice = find_network(checkpoint, built.module, name.options.get("key"), ema=name.flag("ema"))
    chosen = choice.network
    tensors, prefix = chosen.tensors, chosen.prefix
    head, renamed = head_name(built.module), name.flag("rename")
    if renamed:
        own = {key: tensor for key, tensor in tensors.items() if key.startswith(prefix)}
        named, prefix = rename_in_order(own, built.module), ""
        if named is None:
            raise CheckpointError(
                f"{path.name} does not agree with {arch} in order and shape, so rename=true does not apply."
            )
        tensors = named
    elif head and (classes := _head_classes(tensors, prefix, head, built.module)) is not None:
        built = build_backbone(arch, name, classes)
    report = load_into(built.module, tensors, prefix)
    if report.matched == 0 and (agreeing := rename_in_order(tensors, built.module)) is not None:
        choice.require_unique(path.name)
        raise CheckpointError(
            f"{path.name} has other tensor names than {arch}, but all {len(agreeing)} agree in order and shape. "
            "Add rename=true to load them in this order."
        )
    outside = tuple(n for n in report.missing if head is None or not n.startswith(f"{head}."))
    _check(report, outside, path, arch, partial=name.flag("partial"))
    choice.require_unique(path.name)
    how = " by order and shape, not by name" if renamed else f" under {prefix!r}" if prefix else ""
    notes = [f"{path.name}: {sentence(report)}{how}"]
    if report.missing and not outside:
        notes.append("the class head is not in the file: features only, no class probabilities")
        built = build_backbone(arch, name, 0)
        load_into(built.module, tensors, prefix)
    # Tensors of alternative networks do not count as unused.
    others = tuple(each.prefix for each in choice.alternatives if each.container == chosen.container and each.prefix)
    loaded = replace(
        report,
        file=path.name,
        network=chosen.path if choice.alternatives or "key" in name.options else "",
        alternatives=tuple(each.path for each in choice.alternatives),
        architecture=arch,
        inferred=not _arch(name),
        missing=outside,
        unused=tuple(n for n in report.unused if not n.startswith(others)),
        layer=FEATURES,
    )
    return replace(built, notes=tuple(notes), loaded=loaded)


def _existing(name: ModelName) -> Path:
    return name.file("checkpoint", "a .pth, .pt or .safetensors")


def _arch(name: ModelName) -> str:
    arch = name.options.get("arch", "")
    return arch if ":" in arch or not arch else f"{DEFAULT_ARCHITECTURES}:{arch}"


def _head_classes(tensors: Mapping[str, Tensor], prefix: str, head: str, model: nn.Module) -> int | None:
    """Return the number of classes of the file's head if it is another class head than the architecture's."""
    weight = tensors.get(f"{prefix}{head}.weight")
    own: Any = model.get_submodule(head).weight
    if weight is None or weight.shape == own.shape or weight.shape[1:] != own.shape[1:]:
        return None
    return int(weight.shape[0])


def _check(report: LoadedModel, outside: tuple[str, ...], path: Path, architecture: str, *, partial: bool) -> None:
    """Raise if nothing fits, or if tensors outside the class head are missing and `partial` is false."""
    if report.matched == 0:
        raise CheckpointError(
            f"{path.name} does not fit {architecture}: no tensor matches by name and shape. First in the file: "
            f"{report.unused[0]}; first in the architecture: {report.missing[0]}. Give the right arch=."
        )
    if outside and not partial:
        raise CheckpointError(
            f"{path.name} fits {architecture} only in part: {sentence(report)}. Give the right arch=, or partial=true "
            f"to leave the rest at random."
        )
