"""Ways to get (pooled features, class logits) out of a module, one for each kind of module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from unseen.backbones.backbone import Backbone, Forward
from unseen.backbones.names import LOGITS, POOLED
from unseen.core.errors import BackboneError, UnknownNameError


def timm_forward(module: nn.Module, images: Tensor) -> tuple[Tensor, Tensor | None]:
    """timm's own cut: everything before the classifier, then the classifier."""
    model: Any = module
    maps = model.forward_features(images)
    pooled = model.forward_head(maps, pre_logits=True)
    logits = model.forward_head(maps) if model.num_classes else None
    return pool_layer(pooled), logits


def classifier_forward(classifier: str) -> Forward:
    """Features are what enters the module named `classifier`; logits are what leaves it."""

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
    """The module has no head: what it returns is the features."""
    return pool_layer(module(images)), None


def pool_layer(value: Any, *, prefix_tokens: int = 0) -> Tensor:
    """One vector per image from whatever a layer returned.

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
    """The name of the linear layer whose output is the module's output, or None where there is no such layer."""
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
