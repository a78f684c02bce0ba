"""Several layers of a backbone in one pass, from raw pixels.

`Taps` is what runs: eager in torch, or exported to ONNX. It takes uint8 images as they are decoded, (n, h, w, 3), and
normalises them inside the graph: no float copy is made outside, and a quarter of the bytes travel.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from unseen.backbones.backbone import LOGITS, POOLED, Backbone
from unseen.backbones.forwards import pool_layer
from unseen.core.errors import BackboneError, UnknownNameError


class Taps(nn.Module):
    """A backbone as a module from uint8 images to a tuple with one (n, d) tensor per asked layer.

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
        preprocessing = backbone.preprocessing
        self.register_buffer("mean", torch.tensor(preprocessing.mean).mul(255).view(1, 3, 1, 1))
        self.register_buffer("deviation", torch.tensor(preprocessing.std).mul(255).view(1, 3, 1, 1))

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
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
