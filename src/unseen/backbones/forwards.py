"""Forward functions that return (pooled features, class logits), one for each kind of module; patch-wise features."""

from __future__ import annotations

import copy
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from unseen.backbones.backbone import Backbone, Forward, pool_layer
from unseen.core.errors import BackboneError, first_line

if TYPE_CHECKING:
    from torch import Tensor, nn


def classifier_forward(classifier: str) -> Forward:
    """Return a forward function whose features are the input of the module `classifier`, and logits its output."""

    def forward(module: nn.Module, images: Tensor) -> tuple[Tensor, Tensor | None]:
        entered: list[Tensor] = []
        layer = module.get_submodule(classifier)
        with layer.register_forward_pre_hook(lambda _module, arguments: entered.append(arguments[0])):
            logits = module(images)
        return pool_layer(entered[-1]), logits

    return forward


def output_forward(module: nn.Module, images: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return the output of a module without a head as its features."""
    return pool_layer(module(images)), None


def find_classifier(module: nn.Module, images: Tensor) -> str | None:
    """Return the name of the linear layer whose output is the module's output, or None."""
    import torch
    from torch import nn

    outputs: dict[int, str] = {}
    with ExitStack() as hooks, torch.no_grad():
        for name, layer in module.named_modules():
            if isinstance(layer, nn.Linear):
                note = lambda _layer, _inputs, output, name=name: outputs.__setitem__(id(output), name)  # noqa: E731
                hooks.enter_context(layer.register_forward_hook(note))
        final = module(images)
    return outputs.get(id(final)) if isinstance(final, torch.Tensor) else None


# Patch-wise features: nine patches of an image, averaged.
#
# Paper:      Zhai et al., 2019 [P], Appendix C (for Relative Patch Location and Jigsaw)
# Implements: of an input of 224: central crop of 192, 3 x 3 patches of 64, the mean of the nine representations;
#             optionally stride 1 in the first and last strided convolutions, which quarters the overall stride (64 to
#             16 in [P])
# Differs:    [P]'s networks were trained with the smaller strides; for others they are optional
INPUT, CROP, PATCH = 224, 192, 64


def patchwise(backbone: Backbone, *, reduced_strides: bool = False) -> Backbone:
    """Return a backbone that averages the features of nine patches, under another id.

    Args:
        reduced_strides: take it with the smaller strides of `with_reduced_strides`.

    Raises:
        BackboneError: the network does not take patches of 64, or has no two strides to reduce.
    """
    import torch

    taken = with_reduced_strides(backbone) if reduced_strides else backbone
    preprocessing = replace(backbone.preprocessing, size=INPUT, resize=INPUT, mode="squash")
    identity = f"{backbone.id}{'&' if '?' in backbone.id else '?'}patches={CROP}/{PATCH}"
    identity += "&strides=reduced" if reduced_strides else ""
    averaged = replace(
        taken,
        card=replace(backbone.card, id=identity, preprocessing=preprocessing),
        forward=_averaged(taken.forward),
        preprocessing=preprocessing,
    )
    try:
        with torch.inference_mode():
            averaged.forward(averaged.module, averaged.blank_input())
    except (RuntimeError, ValueError, AssertionError) as error:  # a network rejects an input size in many ways
        raise BackboneError(
            f"{backbone.id!r} cannot be applied to patches of {PATCH} pixels: {first_line(error)}."
        ) from None
    return averaged


def with_reduced_strides(backbone: Backbone) -> Backbone:
    """Return a copy with stride 1 in the first and last strided convolutions, and in a shortcut beside the last.

    Raises:
        BackboneError: it has no two strided convolutions, one after the other.
    """
    from torch import nn

    module = copy.deepcopy(backbone.module)
    strided = _strided(backbone, module)
    convolutions = [(layer, side) for layer, side in strided if isinstance(layer, nn.Conv2d)]
    sizes = [side for _, side in convolutions]
    if len(set(sizes)) < 2:
        raise BackboneError(
            f"{backbone.id!r} has no two strided convolutions, one after the other: its strides cannot be reduced."
        )
    # The last level: the convolution and, in a residual block, the pooling of its shortcut. Poolings of levels before
    # it stay.
    for layer in [convolutions[0][0], *(layer for layer, side in strided if side == min(sizes))]:
        layer.stride = (1, 1)
        if not isinstance(layer, nn.Conv2d):
            layer.kernel_size, layer.padding = (1, 1), 0
    return replace(backbone, module=module)


def cut_patches(images: Tensor) -> Tensor:
    """Cut (n, 3, 224, 224) images into (9 n, 3, 64, 64) patches, the nine of an image one after the other."""
    low = (INPUT - CROP) // 2
    middle = images[:, :, low : low + CROP, low : low + CROP]
    side = CROP // PATCH
    blocks = middle.reshape(-1, 3, side, PATCH, side, PATCH)
    return blocks.permute(0, 2, 4, 1, 3, 5).reshape(-1, 3, PATCH, PATCH)


def _strided(backbone: Backbone, module: nn.Module) -> list[tuple[Any, int]]:
    """Return the layers with a stride above one, in order of use, with the side of their input."""
    import torch
    from torch import nn

    found: list[tuple[Any, int]] = []
    with ExitStack() as hooks, torch.inference_mode():
        for layer in module.modules():
            if isinstance(layer, nn.Conv2d | nn.AvgPool2d | nn.MaxPool2d):
                note = lambda layer, inputs, _output: found.append((layer, inputs[0].shape[-1]))  # noqa: E731
                hooks.enter_context(layer.register_forward_hook(note))
        backbone.forward(module, backbone.blank_input())  # of the network's own size: it may accept no other
    return [(layer, side) for layer, side in found if layer.stride not in (1, (1, 1))]


def _averaged(forward: Forward) -> Forward:
    def average(module: nn.Module, images: Tensor) -> tuple[Tensor, Tensor | None]:
        features, _ = forward(module, cut_patches(images))
        # Without logits: an average over patches means little.
        return features.reshape(-1, (CROP // PATCH) ** 2, features.shape[1]).mean(dim=1), None

    return average
