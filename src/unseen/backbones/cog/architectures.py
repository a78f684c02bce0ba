"""The networks of ImageNet-CoG by name, and where in each of them the features are."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from unseen.backbones.backbone import Forward
from unseen.backbones.forwards import classifier_forward, output_forward
from unseen.backbones.sources.cog import CogModel, Stage
from unseen.backbones.sources.timm import create_timm, timm_forward
from unseen.backbones.sources.torchvision import create_torchvision
from unseen.core.extras import ensure_torchvision


def build_network(model: CogModel) -> tuple[nn.Module, Forward]:
    """Build the network of a model with random weights, in evaluation mode, and its forward function."""
    name = model.card.architecture
    if name == "nat-m4":
        network: nn.Module = NATNet(model.stages)
    elif name == "t2t-vit-t-14":
        network = T2TViT()
    elif name in ("inception_v3", "vgg19_bn"):
        # torchvision initialises weights on construction, a minute of random numbers that are overwritten later.
        network = create_torchvision(name, init_weights=False)
    elif name == "resnet50_clip":
        # timm calls the projection of the attention pool a classifier: with 1024 outputs it is `encode_image`.
        network = create_timm(name, num_classes=1024)
    else:
        network = create_timm(name.partition("-same")[0], num_classes=1000 if model.head else 0)
        if "-same" in name:
            _pad_at_end(network, convolutions=name == "resnet50-same")
    if model.classifier == "output":
        return network.eval(), output_forward
    return network.eval(), classifier_forward(model.classifier) if model.classifier else timm_forward


def _pad_at_end(model: Any, *, convolutions: bool) -> None:
    """Pad a ResNet-50 as TensorFlow and JAX do: strided layers are padded at the end first.

    Args:
        convolutions: whether the convolutions are padded so too (JAX), or the first pooling alone (SimCLR, whose
            TensorFlow code pads convolutions itself, evenly).
    """
    layers: Any = import_module("timm.layers")
    model.maxpool = layers.create_pool2d("max", kernel_size=3, stride=2, padding="same")
    for name, layer in list(model.named_modules()) if convolutions else ():
        if isinstance(layer, nn.Conv2d) and layer.stride != (1, 1) and layer.kernel_size != (1, 1):
            sizes = layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride
            model.set_submodule(name, layers.Conv2dSame(*sizes, bias=False))


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
        parts = OrderedDict[str, nn.Module]()
        if expansion != 1:
            parts["inverted_bottleneck"] = _convolution(width_in, middle, 1, act=True)
        parts["depth_conv"] = _convolution(middle, middle, kernel, stride=stride, groups=middle, act=True)
        if attends:
            parts["depth_conv"].add_module("se", SqueezeExcite(middle))
        parts["point_linear"] = _convolution(middle, width, 1)
        self.mobile_inverted_conv = nn.Sequential(parts)
        self.has_shortcut = stride == 1 and width_in == width

    def forward(self, maps: Tensor) -> Tensor:
        out: Tensor = self.mobile_inverted_conv(maps)
        return maps + out if self.has_shortcut else out


class NATNet(nn.Module):
    """The subnet, from images to class logits."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        super().__init__()
        width = 24
        self.first_conv = _convolution(3, width, 3, stride=2, act=True)
        blocks: list[nn.Module] = [InvertedBlock(width, width, 3, 1, 1, attends=False)]
        for stage in stages:
            stride = stage.stride
            for kernel, expansion in stage.blocks:
                blocks.append(InvertedBlock(width, stage.width, kernel, stride, expansion, stage.attends))
                width, stride = stage.width, 1
        self.blocks = nn.Sequential(*blocks)
        self.final_expand_layer = _convolution(width, 6 * width, 1, act=True)
        self.feature_mix_layer = nn.Sequential(
            OrderedDict(conv=nn.Conv2d(6 * width, 1536, 1, bias=False), act=nn.Mish())
        )
        self.classifier = nn.Sequential(OrderedDict(linear=nn.Linear(1536, 1000)))

    def forward(self, images: Tensor) -> Tensor:
        maps = self.final_expand_layer(self.blocks(self.first_conv(images)))
        mixed = self.feature_mix_layer(maps.mean(dim=(2, 3), keepdim=True))
        logits: Tensor = self.classifier(mixed.flatten(1))
        return logits


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
    """Return the nearest multiple of eight, at least nine tenths of the value (MobileNet's rule)."""
    rounded = max(8, (value + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * value else rounded


class TokenAttention(nn.Module):
    """Single-head attention that changes the width of its tokens, so that the values serve as the shortcut."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width_in, 3 * width, bias=False)
        self.proj = nn.Linear(width, width)
        # By the width of what enters, not of the queries: so the published weights were trained.
        self.scale = width_in**-0.5

    def forward(self, tokens: Tensor) -> Tensor:
        query, key, value = self.qkv(tokens).chunk(3, dim=-1)
        mixed = functional.scaled_dot_product_attention(query, key, value, scale=self.scale)
        shortcut: Tensor = value + self.proj(mixed)
        return shortcut


class TokenTransformer(nn.Module):
    """One transformer layer of the tokens-to-token module: T' = MLP(MSA(T)), Eq. (1) of [P]."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width_in)
        self.attn = TokenAttention(width_in, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(width, width), "fc2": nn.Linear(width, width)})

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = self.attn(self.norm1(tokens))
        hidden = functional.gelu(self.mlp["fc1"](self.norm2(tokens)))
        mixed: Tensor = tokens + self.mlp["fc2"](hidden)  # Eq. (1)
        return mixed


class TokensToToken(nn.Module):
    """Three soft splits with a transformer between them: each token gathers its neighbours."""

    def __init__(self, width: int, token_width: int) -> None:
        super().__init__()
        self.attention1 = TokenTransformer(3 * 7 * 7, token_width)
        self.attention2 = TokenTransformer(token_width * 3 * 3, token_width)
        self.project = nn.Linear(token_width * 3 * 3, width)

    def forward(self, images: Tensor) -> Tensor:
        tokens = functional.unfold(images, kernel_size=7, stride=4, padding=2).transpose(1, 2)
        for layer in (self.attention1, self.attention2):
            maps = _as_map(layer(tokens))  # Eq. (2): back to the grid
            tokens = functional.unfold(maps, kernel_size=3, stride=2, padding=1).transpose(1, 2)
        projected: Tensor = self.project(tokens)
        return projected


class T2TViT(nn.Module):
    """The whole network, T2T-ViT-t-14, from images of 224 pixels to class logits."""

    def __init__(self) -> None:
        super().__init__()
        ensure_torchvision()
        from timm.models.vision_transformer import Block

        width = 384
        self.tokens_to_token = TokensToToken(width, 64)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(sinusoid_positions((224 // 16) ** 2 + 1, width), requires_grad=False)
        self.blocks = nn.Sequential(
            *(Block(width, 6, mlp_ratio=3.0, qkv_bias=False, norm_layer=nn.LayerNorm) for _ in range(14))
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 1000)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.tokens_to_token(images)
        tokens = torch.cat([self.cls_token.expand(tokens.shape[0], -1, -1), tokens], dim=1) + self.pos_embed
        logits: Tensor = self.head(self.norm(self.blocks(tokens))[:, 0])
        return logits


def sinusoid_positions(positions: int, width: int) -> Tensor:
    """Return the fixed position table (1, positions, width): sines in even columns, cosines in odd ones."""
    frequency = 10000.0 ** (-2.0 * (torch.arange(width, dtype=torch.float64) // 2) / width)
    angles = torch.arange(positions, dtype=torch.float64)[:, None] * frequency
    angles[:, 0::2] = angles[:, 0::2].sin()
    angles[:, 1::2] = angles[:, 1::2].cos()
    return angles.float()[None]


def _as_map(tokens: Tensor) -> Tensor:
    count, length, width = tokens.shape
    side = math.isqrt(length)
    return tokens.transpose(1, 2).reshape(count, width, side, side)
