"""Patch-wise features: nine patches of an image, one by one through the network, averaged.

Paper:      Zhai et al., 2019 [P], Appendix C (for Relative Patch Location and Jigsaw)
Implements: of an input of 224: central crop of 192, 3 x 3 patches of 64, the mean of the nine representations; on
            request the first and the last strided convolution step by one, which quarters the overall stride
            (64 to 16 in [P])
Differs:    [P]'s networks were trained with the smaller strides; for others it is a matter of choice
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from unseen.backbones.backbone import Backbone, Forward
from unseen.core.errors import BackboneError

INPUT, CROP, PATCH = 224, 192, 64


def patchwise(backbone: Backbone, *, reduced_strides: bool = False) -> Backbone:
    """The same network, looked through by patches. Its id says so, and its features are stored apart.

    Args:
        reduced_strides: take it with the smaller strides of `with_reduced_strides`.

    Raises:
        BackboneError: the network does not take patches of 64, or has no two strides to reduce.
    """
    taken = with_reduced_strides(backbone) if reduced_strides else backbone
    preprocessing = replace(backbone.preprocessing, size=INPUT, resize=INPUT, mode="squash")
    identity = f"{backbone.id}{'&' if '?' in backbone.id else '?'}patches={CROP}/{PATCH}"
    identity += "&strides=reduced" if reduced_strides else ""
    looking = replace(
        taken,
        card=replace(backbone.card, id=identity, preprocessing=preprocessing),
        forward=_averaged(taken.forward),
        preprocessing=preprocessing,
    )
    _try(looking, f"{backbone.id!r} cannot be looked through by patches of {PATCH} pixels")
    return looking


def with_reduced_strides(backbone: Backbone) -> Backbone:
    """A copy whose first and last strided convolutions step by one; a shortcut beside the last does so too.

    Raises:
        BackboneError: it has no two strided convolutions, one after the other.
    """
    module = copy.deepcopy(backbone.module)
    strided = _strided(backbone, module)
    sizes = [side for layer, side in strided if isinstance(layer, nn.Conv2d)]
    if len(set(sizes)) < 2:
        raise BackboneError(
            f"{backbone.id!r} has no two strided convolutions, one after the other: its strides cannot be reduced."
        )
    first = next(layer for layer, _ in strided if isinstance(layer, nn.Conv2d))
    _step_by_one(first)
    for layer, side in strided:
        # The last level: the convolution and, in a residual block, what its shortcut shrinks with. Poolings of levels
        # before it stay.
        if side == min(sizes):
            _step_by_one(layer)
    return replace(backbone, module=module)


def cut_patches(images: Tensor) -> Tensor:
    """(n, 3, 224, 224) -> (9 n, 3, 64, 64), the nine patches of an image one after the other."""
    low = (INPUT - CROP) // 2
    middle = images[:, :, low : low + CROP, low : low + CROP]
    side = CROP // PATCH
    blocks = middle.reshape(-1, 3, side, PATCH, side, PATCH)
    return blocks.permute(0, 2, 4, 1, 3, 5).reshape(-1, 3, PATCH, PATCH)


def _strided(backbone: Backbone, module: nn.Module) -> list[tuple[Any, int]]:
    """Layers of the module that step by more than one, in order of use, with the side of what they are given."""
    found: list[tuple[Any, int]] = []

    def note(layer: nn.Module, given: tuple[Tensor, ...], _: Any) -> None:
        found.append((layer, given[0].shape[-1]))

    kinds = (nn.Conv2d, nn.AvgPool2d, nn.MaxPool2d)
    hooks = [layer.register_forward_hook(note) for layer in module.modules() if isinstance(layer, kinds)]
    try:
        # Of its own size: a network that takes no other is not asked for one here.
        with torch.inference_mode():
            backbone.forward(module, backbone.blank_input())
    finally:
        for hook in hooks:
            hook.remove()
    return [(layer, side) for layer, side in found if max(_pair(layer.stride)) > 1]


def _pair(value: Any) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (int(value),)


def _step_by_one(layer: Any) -> None:
    if isinstance(layer, nn.Conv2d):
        layer.stride = (1, 1)
    else:  # the pooling of a shortcut, which has nothing to shrink any more
        layer.stride = layer.kernel_size = 1
        layer.padding = 0


def _try(backbone: Backbone, failed: str) -> None:
    try:
        with torch.inference_mode():
            backbone.forward(backbone.module, backbone.blank_input())
    except (RuntimeError, ValueError, AssertionError) as error:  # whatever a network says of a size it does not take
        raise BackboneError(
            f"{failed}: {str(error).splitlines()[0] if str(error) else type(error).__name__}."
        ) from None


def _averaged(forward: Forward) -> Forward:
    def look(module: nn.Module, images: Tensor) -> tuple[Tensor, Tensor | None]:
        features, _ = forward(module, cut_patches(images))
        count = (CROP // PATCH) ** 2
        # Class logits of patches mean little, and their average less: there are none.
        return torch.mean(features.reshape(-1, count, features.shape[1]), dim=1), None

    return look
