"""Forward functions that return (pooled features, class logits), one for each kind of module; patch-wise features."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from unseen.backbones.backbone import Backbone, Forward
from unseen.backbones.load import LOGITS, POOLED
from unseen.core.errors import BackboneError, UnknownNameError


def timm_forward(module: nn.Module, images: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return the input and the output of a timm model's classifier."""
    model: Any = module
    maps = model.forward_features(images)
    pooled = model.forward_head(maps, pre_logits=True)
    logits = model.forward_head(maps) if model.num_classes else None
    return pool_layer(pooled), logits


def classifier_forward(classifier: str) -> Forward:
    """Return a forward function whose features are the input of the module `classifier`, and logits its output."""

    def forward(module: nn.Module, images: Tensor) -> tuple[Tensor, Tensor | None]:
        entered: list[Tensor] = []
        handle = module.get_submodule(classifier).register_forward_pre_hook(
            lambda _module, arguments: entered.append(arguments[0])
        )
        try:
            logits = module(images)
        finally:
            handle.remove()
        return pool_layer(entered[-1]), logits

    return forward


def output_forward(module: nn.Module, images: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return the output of a module without a head as its features."""
    return pool_layer(module(images)), None


def pool_layer(value: Any, *, prefix_tokens: int = 0) -> Tensor:
    """Return one vector per image from the output of a layer.

    Maps (n, c, h, w) are averaged over space. Tokens (n, t, c) give the class token where there are prefix tokens, else
    their average. A tuple or dict gives its first tensor.
    """
    if isinstance(value, dict):
        value = next(v for v in value.values() if isinstance(v, Tensor))
    if isinstance(value, tuple | list):
        value = next(v for v in value if isinstance(v, Tensor))
    tensor: Tensor = value
    if tensor.ndim == 4:
        return tensor.mean(dim=(2, 3))
    if tensor.ndim == 3:
        return tensor[:, 0] if prefix_tokens else tensor.mean(dim=1)
    return tensor.flatten(1)


def find_classifier(module: nn.Module, images: Tensor) -> str | None:
    """Return the name of the linear layer whose output is the module's output, or None."""
    names = {m: name for name, m in module.named_modules() if isinstance(m, nn.Linear)}
    outputs: dict[int, str] = {}
    handles = [
        m.register_forward_hook(lambda m, _inputs, output: outputs.__setitem__(id(output), names[m])) for m in names
    ]
    try:
        with torch.no_grad():
            final = module(images)
    finally:
        for handle in handles:
            handle.remove()
    return outputs.get(id(final)) if isinstance(final, Tensor) else None


def replace_module(module: nn.Module, name: str, other: nn.Module) -> None:
    """Put `other` in the place of the submodule `name`."""
    parent, _, last = name.rpartition(".")
    owner = module.get_submodule(parent) if parent else module
    if isinstance(owner, nn.Sequential):
        owner[int(last)] = other
    else:
        setattr(owner, last, other)


class Taps(nn.Module):
    """A backbone as a module: from uint8 images, or what its own transform gives, to one (n, d) tensor per asked layer.

    Args:
        layers: "pooled", "logits" or names of modules, in the order in which the outputs are wanted.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, backbone: Backbone, layers: Sequence[str] = (POOLED,)) -> None:
        super().__init__()
        check_layers(backbone, layers)
        self.layers = tuple(layers)
        self.module = backbone.module
        self._forward = backbone.forward
        self._prefix_tokens = backbone.prefix_tokens
        self._prepared = backbone.transform is not None
        preprocessing = backbone.preprocessing
        self.register_buffer("mean", torch.tensor(preprocessing.mean).mul(255).view(1, 3, 1, 1))
        self.register_buffer("deviation", torch.tensor(preprocessing.std).mul(255).view(1, 3, 1, 1))

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        images = pixels
        if not self._prepared:
            images = (pixels.permute(0, 3, 1, 2).to(self.mean.dtype) - self.mean) / self.deviation
        caught: dict[str, Tensor] = {}
        handles = [
            self.module.get_submodule(name).register_forward_hook(
                lambda _module, _inputs, output, name=name: caught.__setitem__(
                    name, pool_layer(output, prefix_tokens=self._prefix_tokens)
                )
            )
            for name in self.layers
            if name not in (POOLED, LOGITS)
        ]
        try:
            pooled, logits = self._forward(self.module, images)
        finally:
            for handle in handles:
                handle.remove()
        caught[POOLED] = pooled
        if logits is not None:
            caught[LOGITS] = logits
        return tuple(caught[name] for name in self.layers)


def check_layers(backbone: Backbone, layers: Sequence[str]) -> None:
    """Refuse a layer that the backbone does not have, with the names that come close."""
    if LOGITS in layers and not backbone.has_head:
        raise BackboneError(f"{backbone.id!r} has no class head, so it gives no logits or class probabilities.")
    names = backbone.layer_names()
    for layer in layers:
        if layer not in names:
            raise UnknownNameError(f"layer of {backbone.id!r}", layer, names)


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
    _try(averaged, f"{backbone.id!r} cannot be applied to patches of {PATCH} pixels")
    return averaged


def with_reduced_strides(backbone: Backbone) -> Backbone:
    """Return a copy with stride 1 in the first and last strided convolutions, and in a shortcut beside the last.

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
    """Cut (n, 3, 224, 224) images into (9 n, 3, 64, 64) patches, the nine of an image one after the other."""
    low = (INPUT - CROP) // 2
    middle = images[:, :, low : low + CROP, low : low + CROP]
    side = CROP // PATCH
    blocks = middle.reshape(-1, 3, side, PATCH, side, PATCH)
    return blocks.permute(0, 2, 4, 1, 3, 5).reshape(-1, 3, PATCH, PATCH)


def _strided(backbone: Backbone, module: nn.Module) -> list[tuple[Any, int]]:
    """Return the layers with a stride above one, in order of use, with the side of their input."""
    found: list[tuple[Any, int]] = []

    def note(layer: nn.Module, given: tuple[Tensor, ...], _: Any) -> None:
        found.append((layer, given[0].shape[-1]))

    kinds = (nn.Conv2d, nn.AvgPool2d, nn.MaxPool2d)
    hooks = [layer.register_forward_hook(note) for layer in module.modules() if isinstance(layer, kinds)]
    try:
        # An input of the network's own size: it may accept no other.
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
    except (RuntimeError, ValueError, AssertionError) as error:  # a network rejects an input size in many ways
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
