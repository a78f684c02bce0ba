"""Which architecture is in a checkpoint that nobody has named: the known one whose names and shapes it fills."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from unseen.backbones.checkpoints import find_state_dict, state_dicts
from unseen.core.errors import CheckpointError

#: Tried in this order; of equals the first is taken.
_TIMM = (
    *(f"resnet{depth}" for depth in (18, 34, 50, 101, 152)),
    *("wide_resnet50_2", "resnext50_32x4d", "mobilenetv2_100", "mobilenetv3_large_100", "efficientnet_b0"),
    *("vit_tiny_patch16_224", "vit_small_patch16_224", "vit_base_patch16_224", "vit_large_patch16_224"),
    *("vit_small_patch8_224", "vit_base_patch8_224", "vit_base_patch32_224", "vit_small_patch32_224"),
    *("vit_small_patch14_dinov2", "vit_base_patch14_dinov2", "vit_large_patch14_dinov2"),
    *("vit_small_patch14_reg4_dinov2", "vit_base_patch14_reg4_dinov2"),
    *("deit_small_distilled_patch16_224", "convnext_tiny", "convnext_small", "convnext_base"),
    *("swin_tiny_patch4_window7_224", "swin_base_patch4_window7_224"),
    *("regnety_032", "densenet121", "tf_efficientnet_lite0"),
)
_TORCHVISION = ("mobilenet_v2", "efficientnet_b0", "vit_b_16", "convnext_tiny", "densenet121", "vgg16", "alexnet")
#: Share of an architecture's tensors that a file must fill for a guess, class head and positions aside.
_ENOUGH = 0.97


@dataclass(frozen=True)
class Guess:
    """An architecture, the share of it that the file fills, and how many tensors of the file that takes."""

    arch: str
    share: float
    matched: int = 0


def guess_architecture(checkpoint: Any, name: str) -> Guess:
    """The architecture that a checkpoint's tensors fit.

    Args:
        checkpoint: what `read_checkpoint` gave.
        name: of the file, for the message.

    Raises:
        CheckpointError: none of those that are tried.
    """
    first = next(iter(state_dicts(checkpoint)), ("", {}))[1]
    best = Guess("", 0.0)
    for arch, module in _known():
        tensors, prefix = find_state_dict(checkpoint, module)
        found = Guess(arch, *_filled(module, tensors, prefix))
        # A ResNet-18 is wholly inside a ResNet-34: of those that are filled, the one that leaves least is meant.
        if (found.share >= _ENOUGH, found.matched, found.share) > (best.share >= _ENOUGH, best.matched, best.share):
            best = found
    if best.share >= _ENOUGH:
        return best
    near = f" Nearest: {best.arch}, of which it fills {100 * best.share:.0f} %." if best.share > 0.3 else ""
    shown = ", ".join(f"{key} {tuple(value.shape)}" for key, value in list(first.items())[:2])
    raise CheckpointError(
        f"the architecture of {name} is none that is known by its tensors ({shown} ...).{near} Name it: "
        f"{name}?arch=timm:NAME."
    )


def _known() -> Iterator[tuple[str, nn.Module]]:
    """Architectures without memory for their weights."""
    from unseen.backbones.sources.timm import create_timm
    from unseen.backbones.sources.torchvision import create_torchvision

    for name in _TIMM:
        with torch.device("meta"):
            built = create_timm(name, pretrained=False)
        yield f"timm:{name}", built
    for name in _TORCHVISION:
        with torch.device("meta"):
            built = create_torchvision(name, weights=None)
        yield f"torchvision:{name}", built


def _filled(module: nn.Module, tensors: Mapping[str, Tensor], prefix: str) -> tuple[float, int]:
    linear = [name for name, part in module.named_modules() if isinstance(part, nn.Linear)]
    head = f"{linear[-1]}." if linear else "\0"
    own = {
        name: tensor.shape
        for name, tensor in module.state_dict().items()
        if not name.startswith(head) and not name.endswith(("num_batches_tracked", "pos_embed", "pos_embedding"))
    }
    found = sum(prefix + name in tensors and tensors[prefix + name].shape == shape for name, shape in own.items())
    return found / max(len(own), 1), found
