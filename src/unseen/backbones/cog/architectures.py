"""The networks of ImageNet-CoG by name, and where in each of them the features are."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from unseen.backbones.backbone import Forward
from unseen.backbones.forwards import classifier_forward, output_forward, timm_forward
from unseen.backbones.sources.timm import create_timm
from unseen.backbones.sources.torchvision import create_torchvision
from unseen.core.errors import UnknownNameError
from unseen.core.extras import ensure_torchvision

#: From whether the class head is built to a network with random weights and its forward function.
Builder = Callable[[bool], tuple[nn.Module, Forward]]


def build_network(architecture: str, *, head: bool) -> tuple[nn.Module, Forward]:
    """Build a network with random weights, in evaluation mode, and its forward function.

    Args:
        head: whether to build the class head of 1000 classes.
    """
    if architecture not in ARCHITECTURES:
        raise UnknownNameError("architecture of ImageNet-CoG", architecture, ARCHITECTURES)
    module, forward = ARCHITECTURES[architecture](head)
    return module.eval(), forward


def class_token_forward(module: nn.Module, images: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return a transformer's class token after the last norm; a distillation token is ignored."""
    model: Any = module
    tokens = model.forward_features(images)
    return tokens[:, 0], model.forward_head(tokens)


def features_forward(module: nn.Module, images: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return `forward_features` (one vector per image) and its logits by `forward_head`."""
    model: Any = module
    features = model.forward_features(images)
    return features, model.forward_head(features)


def _resnet_same(*, convolutions: bool) -> Builder:
    """Build a ResNet-50 padded as in TensorFlow and JAX: strided layers are padded at the end first.

    Args:
        convolutions: whether the convolutions are padded so too (JAX), or the first pooling alone (SimCLR, whose
            TensorFlow code pads convolutions itself, evenly).
    """

    def build(head: bool) -> tuple[nn.Module, Forward]:
        ensure_torchvision()
        from timm import layers as timm_layers

        layers: Any = timm_layers
        model: Any = create_timm("resnet50", num_classes=1000 if head else 0)
        model.maxpool = layers.create_pool2d("max", kernel_size=3, stride=2, padding="same")
        strided = [
            (name, module)
            for name, module in model.named_modules()
            if isinstance(module, nn.Conv2d) and module.stride != (1, 1) and module.kernel_size != (1, 1)
        ]
        for name, module in strided if convolutions else ():
            owner, _, last = name.rpartition(".")
            same = layers.Conv2dSame(
                module.in_channels, module.out_channels, module.kernel_size, module.stride, bias=False
            )
            setattr(model.get_submodule(owner), last, same)
        return model, timm_forward

    return build


def _with_head(name: str, forward: Forward, **arguments: Any) -> Builder:
    """Build a network of timm whose published file always has its class head."""
    return lambda _head: (create_timm(name, **arguments), forward)


def _optional_head(name: str) -> Builder:
    return lambda head: (create_timm(name, num_classes=1000 if head else 0), timm_forward)


def _torchvision(name: str, classifier: str) -> Builder:
    # torchvision initialises weights on construction, a minute of random numbers that are overwritten later.
    return lambda _head: (create_torchvision(name, init_weights=False), classifier_forward(classifier))


#: Builders by architecture of a card; the argument is whether the file has a class head.
ARCHITECTURES: dict[str, Builder] = {
    "resnet50": _optional_head("resnet50"),
    "resnet152": _optional_head("resnet152"),
    "resnet50-same": _resnet_same(convolutions=True),
    "resnet50-same-pool": _resnet_same(convolutions=False),
    # timm calls the projection of the attention pool a classifier: with 1024 outputs it is `encode_image`.
    "resnet50_clip": _with_head("resnet50_clip", output_forward, num_classes=1024),
    "efficientnet_b1": _with_head("efficientnet_b1", timm_forward),
    "efficientnet_b4": _with_head("efficientnet_b4", timm_forward),
    "deit_small_patch16_224": _with_head("deit_small_patch16_224", class_token_forward),
    "deit_small_distilled_patch16_224": _with_head("deit_small_distilled_patch16_224", class_token_forward),
    "deit_base_distilled_patch16_384": _with_head("deit_base_distilled_patch16_384", class_token_forward),
    "inception_v3": _torchvision("inception_v3", "fc"),
    "vgg19_bn": _torchvision("vgg19_bn", "classifier.6"),
    "t2t-vit-t-14": lambda _head: (T2TViT(), class_token_forward),
    "nat-m4": lambda _head: (NATNet(), features_forward),
}


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
    """The whole network; `forward` gives class logits, `forward_features` every token after the last norm."""

    def __init__(
        self,
        *,
        depth: int = 14,
        width: int = 384,
        heads: int = 6,
        mlp_ratio: float = 3.0,
        token_width: int = 64,
        size: int = 224,
        classes: int = 1000,
    ) -> None:
        super().__init__()
        ensure_torchvision()
        from timm.models.vision_transformer import Block

        positions = (size // 16) ** 2 + 1
        self.tokens_to_token = TokensToToken(width, token_width)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(sinusoid_positions(positions, width), requires_grad=False)
        self.blocks = nn.ModuleList(
            Block(width, heads, mlp_ratio=mlp_ratio, qkv_bias=False, norm_layer=nn.LayerNorm) for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward_features(self, images: Tensor) -> Tensor:
        tokens = self.tokens_to_token(images)
        tokens = torch.cat([self.cls_token.expand(tokens.shape[0], -1, -1), tokens], dim=1) + self.pos_embed
        for block in self.blocks:
            tokens = block(tokens)
        normed: Tensor = self.norm(tokens)
        return normed

    def forward_head(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.head(tokens[:, 0])
        return logits

    def forward(self, images: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(images))


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
