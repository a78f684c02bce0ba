"""NAT-M4: the largest ImageNet subnet that Neural Architecture Transfer found in its supernet.

Paper:      Lu et al., "Neural architecture transfer", TPAMI 2021 [P]
Shapes:     images (n, 3, s, s) -> features (n, 1536)
Implements: inverted residual blocks in five stages, with the depths, kernel sizes and expansions of the subnet that
            its authors list (width multiplier 1.2)
Differs:    the authors test it at 240 pixels; ImageNet-CoG at 224 (B.1). Names of parameters are those of the
            published weights.
Expected:   9.1 M parameters, 80.5 % top-1 on ImageNet-1K at 240 pixels with the published weights
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from torch import Tensor, nn


class Stage(NamedTuple):
    """One stage: blocks are (kernel, expansion); the first of them has the stride and changes the width."""

    width: int
    stride: int
    attends: bool
    blocks: tuple[tuple[int, int], ...]


#: The published subnet: kernel sizes and expansions in order, stage by stage.
NAT_M4: tuple[Stage, ...] = (
    Stage(32, 2, False, ((3, 3), (5, 4), (3, 3))),
    Stage(48, 2, True, ((5, 4), (5, 4), (3, 6), (5, 3))),
    Stage(96, 2, False, ((7, 6), (5, 6), (3, 3), (5, 4))),
    Stage(136, 1, True, ((3, 6), (5, 6), (7, 6), (3, 4))),
    Stage(192, 2, True, ((3, 6), (3, 6), (5, 6), (3, 3))),
)


class SqueezeExcite(nn.Module):
    """Channel attention: a quarter of the channels, rounded to eights; ReLU; hard sigmoid."""

    def __init__(self, width: int) -> None:
        super().__init__()
        hidden = _round_to_eights(width // 4)
        self.fc = nn.Sequential(
            OrderedDict(reduce=nn.Conv2d(width, hidden, 1), relu=nn.ReLU(), expand=nn.Conv2d(hidden, width, 1))
        )

    def forward(self, maps: Tensor) -> Tensor:
        pooled = maps.mean(dim=(2, 3), keepdim=True)
        return maps * nn.functional.hardsigmoid(self.fc(pooled))


class InvertedBlock(nn.Module):
    """Expand, depthwise convolution, project; with the identity beside it where nothing changes shape."""

    def __init__(self, width_in: int, width: int, kernel: int, stride: int, expansion: int, attends: bool) -> None:
        super().__init__()
        middle = width_in * expansion
        parts = nn.ModuleDict()
        if expansion != 1:
            parts["inverted_bottleneck"] = _convolution(width_in, middle, 1, act=True)
        parts["depth_conv"] = _convolution(middle, middle, kernel, stride=stride, groups=middle, act=True)
        if attends:
            parts["depth_conv"].add_module("se", SqueezeExcite(middle))
        parts["point_linear"] = _convolution(middle, width, 1)
        self.mobile_inverted_conv = parts
        self.has_shortcut = stride == 1 and width_in == width

    def forward(self, maps: Tensor) -> Tensor:
        out = maps
        for part in self.mobile_inverted_conv.values():
            out = part(out)
        return maps + out if self.has_shortcut else out


class NATNet(nn.Module):
    """The subnet; `forward` gives class logits, `forward_features` what enters the classifier."""

    def __init__(
        self,
        stages: tuple[Stage, ...] = NAT_M4,
        *,
        stem: int = 24,
        mix: int = 1536,
        classes: int = 1000,
    ) -> None:
        super().__init__()
        self.first_conv = _convolution(3, stem, 3, stride=2, act=True)
        blocks: list[nn.Module] = [InvertedBlock(stem, stem, 3, 1, 1, attends=False)]
        width = stem
        for stage in stages:
            stride = stage.stride
            for kernel, expansion in stage.blocks:
                blocks.append(InvertedBlock(width, stage.width, kernel, stride, expansion, stage.attends))
                width, stride = stage.width, 1
        self.blocks = nn.ModuleList(blocks)
        self.final_expand_layer = _convolution(width, 6 * width, 1, act=True)
        self.feature_mix_layer = nn.Sequential(
            OrderedDict(conv=nn.Conv2d(6 * width, mix, 1, bias=False), act=nn.Mish())
        )
        self.classifier = nn.Sequential(OrderedDict(linear=nn.Linear(mix, classes)))

    def forward_features(self, images: Tensor) -> Tensor:
        maps = self.first_conv(images)
        for block in self.blocks:
            maps = block(maps)
        pooled = self.final_expand_layer(maps).mean(dim=(2, 3), keepdim=True)
        mixed: Tensor = self.feature_mix_layer(pooled)
        return mixed.flatten(1)

    def forward_head(self, features: Tensor) -> Tensor:
        logits: Tensor = self.classifier(features)
        return logits

    def forward(self, images: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(images))


def _convolution(
    width_in: int, width: int, kernel: int, *, stride: int = 1, groups: int = 1, act: bool = False
) -> nn.Sequential:
    layers = OrderedDict[str, nn.Module](
        conv=nn.Conv2d(width_in, width, kernel, stride, kernel // 2, groups=groups, bias=False),
        bn=nn.BatchNorm2d(width),
    )
    if act:
        layers["act"] = nn.Mish()
    return nn.Sequential(layers)


def _round_to_eights(value: int) -> int:
    """The nearest multiple of eight, but never below nine tenths of the value (MobileNet's rule)."""
    rounded = max(8, (value + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * value else rounded
