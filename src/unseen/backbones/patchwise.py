"""Patch-wise features: nine patches of an image, one by one through the network, averaged.

Paper:      Zhai et al., 2019, Appendix C (for Relative Patch Location and Jigsaw)
Implements: of an input of 224: central crop of 192, 3 x 3 patches of 64, the mean of the nine representations
Differs:    the network is taken as it is; the paper also halves two of its strides
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from unseen.backbones.backbone import Backbone, Forward

INPUT, CROP, PATCH = 224, 192, 64


def patchwise(backbone: Backbone) -> Backbone:
    """The same network, looked through by patches. Its id says so, and its features are stored apart."""
    preprocessing = replace(backbone.preprocessing, size=INPUT, resize=INPUT, mode="squash")
    identity = f"{backbone.id}{'&' if '?' in backbone.id else '?'}patches={CROP}/{PATCH}"
    return replace(
        backbone,
        card=replace(backbone.card, id=identity, preprocessing=preprocessing),
        forward=_averaged(backbone.forward),
        preprocessing=preprocessing,
    )


def cut_patches(images: Tensor) -> Tensor:
    """(n, 3, 224, 224) -> (9 n, 3, 64, 64), the nine patches of an image one after the other."""
    low = (INPUT - CROP) // 2
    middle = images[:, :, low : low + CROP, low : low + CROP]
    side = CROP // PATCH
    blocks = middle.reshape(-1, 3, side, PATCH, side, PATCH)
    return blocks.permute(0, 2, 4, 1, 3, 5).reshape(-1, 3, PATCH, PATCH)


def _averaged(forward: Forward) -> Forward:
    def look(module: nn.Module, images: Tensor) -> tuple[Tensor, Tensor | None]:
        features, _ = forward(module, cut_patches(images))
        count = (CROP // PATCH) ** 2
        # Class logits of patches mean little, and their average less: there are none.
        return torch.mean(features.reshape(-1, count, features.shape[1]), dim=1), None

    return look
