"""The networks of ImageNet-CoG that are not plain ResNets, against references written with plain functions.

Each reference asks a `Store` for its tensors by their published names, so that one run gives both the contents of the
file and the features that must come out of it. VGG, Inception and DeiT are the networks of torchvision and timm
themselves, saved under their own names.
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from unseen.backbones.sources.cog import cog_models

Check = Callable[..., None]


def pycls_efficientnet(
    store: Any, images: Tensor, depths: list[int], widths: list[int], stem: int, head: int
) -> Tensor:
    """EfficientNet under the names of pycls, which gives it blue-green-red images."""

    def conv(maps: Tensor, name: str, width: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> Tensor:
        weight = store.weight(f"{name}.weight", width, maps.shape[1] // groups, kernel, kernel)
        return functional.conv2d(maps, weight, stride=stride, padding=kernel // 2, groups=groups)

    maps = functional.silu(store.norm(conv(images[:, [2, 1, 0]], "stem.conv", stem, 3, 2), "stem.bn"))
    rows = zip(depths, widths, [1, 6, 6, 6, 6, 6, 6], [1, 2, 2, 2, 1, 2, 1], [3, 3, 5, 3, 5, 5, 3], strict=True)
    for stage, (depth, width, expansion, stride, kernel) in enumerate(rows, start=1):
        for block in range(1, depth + 1):
            at, width_in, step = f"s{stage}.b{block}", maps.shape[1], stride if block == 1 else 1
            inner = maps
            if expansion != 1:
                inner = functional.silu(store.norm(conv(inner, f"{at}.exp", width_in * expansion), f"{at}.exp_bn"))
            middle = inner.shape[1]
            inner = conv(inner, f"{at}.dwise", middle, kernel, step, middle)
            inner = functional.silu(store.norm(inner, f"{at}.dwise_bn"))
            squeezed = conv(inner.mean((2, 3), keepdim=True), f"{at}.se.f_ex.0", width_in // 4)
            squeezed = functional.silu(squeezed + store.vector(f"{at}.se.f_ex.0.bias", width_in // 4)[:, None, None])
            gate = (
                conv(squeezed, f"{at}.se.f_ex.2", middle) + store.vector(f"{at}.se.f_ex.2.bias", middle)[:, None, None]
            )
            inner = store.norm(conv(inner * gate.sigmoid(), f"{at}.lin_proj", width), f"{at}.lin_proj_bn")
            maps = maps + inner if step == 1 and width_in == width else inner
    maps = functional.silu(store.norm(conv(maps, "head.conv", head), "head.conv_bn"))
    store.weight("head.fc.weight", 1000, head)
    store.vector("head.fc.bias", 1000)
    return maps.mean((2, 3))


def nat_m4(store: Any, images: Tensor) -> Tensor:
    """NAT-M4 under its published names."""
    kernels = [3, 5, 3, 5, 5, 3, 5, 7, 5, 3, 5, 3, 5, 7, 3, 3, 3, 5, 3]
    expansions = [3, 4, 3, 4, 4, 6, 3, 6, 6, 3, 4, 6, 6, 6, 4, 6, 6, 6, 3]
    widths = [32] * 3 + [48] * 4 + [96] * 4 + [136] * 4 + [192] * 4
    strides = [2, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1]
    squeezes = [False] * 3 + [True] * 4 + [False] * 4 + [True] * 8

    def conv(maps: Tensor, name: str, width: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> Tensor:
        weight = store.weight(f"{name}.conv.weight", width, maps.shape[1] // groups, kernel, kernel)
        return store.norm(functional.conv2d(maps, weight, None, stride, kernel // 2, 1, groups), f"{name}.bn")

    def block(maps: Tensor, at: str, width: int, kernel: int, stride: int, expansion: int, squeeze: bool) -> Tensor:
        inner = maps
        if expansion > 1:
            inner = functional.mish(conv(maps, f"{at}.inverted_bottleneck", maps.shape[1] * expansion))
        middle = inner.shape[1]
        inner = functional.mish(conv(inner, f"{at}.depth_conv", middle, kernel, stride, middle))
        if squeeze:
            hidden = {128: 32, 192: 48, 288: 72, 144: 40, 576: 144, 816: 208, 544: 136, 1152: 288}[middle]
            fc = f"{at}.depth_conv.se.fc"
            gate = functional.conv2d(
                inner.mean((2, 3), keepdim=True),
                store.weight(f"{fc}.reduce.weight", hidden, middle, 1, 1),
                store.vector(f"{fc}.reduce.bias", hidden),
            ).relu()
            gate = functional.conv2d(
                gate,
                store.weight(f"{fc}.expand.weight", middle, hidden, 1, 1),
                store.vector(f"{fc}.expand.bias", middle),
            )
            inner = inner * functional.relu6(gate + 3) / 6
        inner = conv(inner, f"{at}.point_linear", width)
        return maps + inner if stride == 1 and maps.shape[1] == width else inner

    maps = functional.mish(conv(images, "first_conv", 24, 3, 2))
    maps = block(maps, "blocks.0.mobile_inverted_conv", 24, 3, 1, 1, squeeze=False)
    rows = zip(widths, kernels, strides, expansions, squeezes, strict=True)
    for number, row in enumerate(rows, start=1):
        maps = block(maps, f"blocks.{number}.mobile_inverted_conv", *row)
    maps = functional.mish(conv(maps, "final_expand_layer", 1152)).mean((2, 3), keepdim=True)
    features = functional.mish(functional.conv2d(maps, store.weight("feature_mix_layer.conv.weight", 1536, 1152, 1, 1)))
    store.weight("classifier.linear.weight", 1000, 1536)
    store.vector("classifier.linear.bias", 1000)
    return features.flatten(1)


def t2t_vit(store: Any, images: Tensor) -> Tensor:
    """T2T-ViT-t-14 under its published names, attention written out."""

    def norm(tokens: Tensor, name: str) -> Tensor:
        width = tokens.shape[-1]
        weight, bias = store.vector(f"{name}.weight", width, 0.5, 1.5), store.vector(f"{name}.bias", width)
        return functional.layer_norm(tokens, (width,), weight, bias, 1e-5)

    def linear(tokens: Tensor, name: str, width: int, bias: bool = True) -> Tensor:
        weight = store.weight(f"{name}.weight", width, tokens.shape[-1])
        return functional.linear(tokens, weight, store.vector(f"{name}.bias", width) if bias else None)

    def attend(tokens: Tensor, name: str, width: int, heads: int, scale: float) -> tuple[Tensor, Tensor]:
        qkv = linear(tokens, f"{name}.qkv", 3 * width, bias=False)
        query, key, value = (
            part.unflatten(-1, (heads, width // heads)).transpose(1, 2) for part in qkv.split(width, dim=-1)
        )
        mixed = (query @ key.transpose(-1, -2) * scale).softmax(-1) @ value
        return linear(mixed.transpose(1, 2).flatten(2), f"{name}.proj", width), qkv[..., 2 * width :]

    def mlp(tokens: Tensor, name: str, hidden: int) -> Tensor:
        return linear(functional.gelu(linear(tokens, f"{name}.fc1", hidden)), f"{name}.fc2", tokens.shape[-1])

    tokens = functional.unfold(images, 7, padding=2, stride=4).transpose(1, 2)
    for number in (1, 2):
        at = f"tokens_to_token.attention{number}"
        attended, value = attend(norm(tokens, f"{at}.norm1"), f"{at}.attn", 64, 1, tokens.shape[-1] ** -0.5)
        tokens = value + attended
        tokens = tokens + mlp(norm(tokens, f"{at}.norm2"), f"{at}.mlp", 64)
        side = int(tokens.shape[1] ** 0.5)
        maps = tokens.transpose(1, 2).unflatten(-1, (side, side))
        tokens = functional.unfold(maps, 3, padding=1, stride=2).transpose(1, 2)
    tokens = linear(tokens, "tokens_to_token.project", 384)
    store["cls_token"], store["pos_embed"] = torch.full((1, 1, 384), 0.1), torch.rand(1, 197, 384)
    tokens = torch.cat([store["cls_token"].expand(len(images), -1, -1), tokens], dim=1) + store["pos_embed"]
    for number in range(14):
        at = f"blocks.{number}"
        tokens = tokens + attend(norm(tokens, f"{at}.norm1"), f"{at}.attn", 384, 6, 64**-0.5)[0]
        tokens = tokens + mlp(norm(tokens, f"{at}.norm2"), f"{at}.mlp", 1152)
    store.weight("head.weight", 1000, 384)
    store.vector("head.bias", 1000)
    return norm(tokens, "norm")[:, 0]


def clip_resnet(store: Any, images: Tensor) -> Tensor:
    """The image tower of CLIP RN50 under OpenAI's names."""

    def unit(maps: Tensor, at: str, number: int | str, width: int, kernel: int = 1, stride: int = 1) -> Tensor:
        conv, norm = (f"conv{number}", f"bn{number}") if isinstance(number, int) else ("downsample.0", "downsample.1")
        weight = store.weight(f"{at}{conv}.weight", width, maps.shape[1], kernel, kernel)
        # Weights are published in half precision.
        store[f"{at}{conv}.weight"] = weight = weight.half().float()
        return store.norm(functional.conv2d(maps, weight, stride=stride, padding=kernel // 2), at + norm)

    maps = images
    for number, width, stride in ((1, 32, 2), (2, 32, 1), (3, 64, 1)):
        maps = unit(maps, "visual.", number, width, 3, stride).relu()
    maps = functional.avg_pool2d(maps, 2)
    for stage, count in enumerate((3, 4, 6, 3), start=1):
        for block in range(count):
            at, width = f"visual.layer{stage}.{block}.", 32 * 2**stage
            pool = 2 if stage > 1 and block == 0 else 1
            shortcut = unit(functional.avg_pool2d(maps, pool), at, "shortcut", 4 * width) if block == 0 else maps
            inner = unit(unit(maps, at, 1, width).relu(), at, 2, width, 3).relu()
            maps = (unit(functional.avg_pool2d(inner, pool), at, 3, 4 * width) + shortcut).relu()
    tokens = maps.flatten(2).permute(0, 2, 1)
    tokens = torch.cat([tokens.mean(1, keepdim=True), tokens], dim=1)
    tokens = tokens + store.weight("visual.attnpool.positional_embedding", 50, 2048)

    def project(values: Tensor, letter: str, width: int = 2048) -> Tensor:
        name = f"visual.attnpool.{letter}_proj"
        return functional.linear(
            values, store.weight(f"{name}.weight", width, 2048), store.vector(f"{name}.bias", width)
        )

    query, key, value = (project(tokens, letter).unflatten(-1, (32, 64)).transpose(1, 2) for letter in "qkv")
    mixed = (query[:, :, :1] @ key.transpose(-1, -2) / 8).softmax(-1) @ value
    return project(mixed.transpose(1, 2).flatten(2)[:, 0], "c", 1024)


def save(value: object, path: Path, **arguments: object) -> Path:
    torch.save(value, path, **arguments)
    return path


@pytest.mark.parametrize(
    ("name", "depths", "widths", "stem", "head"),
    [
        ("a-efficientnet-b1", [2, 3, 3, 4, 4, 5, 2], [16, 24, 40, 80, 112, 192, 320], 32, 1280),
        ("a-efficientnet-b4", [2, 4, 4, 6, 6, 8, 2], [24, 32, 56, 112, 160, 272, 448], 48, 1792),
    ],
)
def test_efficientnet(
    name: str,
    depths: list[int],
    widths: list[int],
    stem: int,
    head: int,
    folder: Path,
    check_published: Check,
    references: SimpleNamespace,
) -> None:
    store, images = references.Store(), references.images
    with torch.inference_mode():
        expected = pycls_efficientnet(store, images, depths, widths, stem, head)
    published = {"epoch": 99, "model_state": dict(store), "optimizer_state": {}, "cfg": "MODEL:\n  TYPE: effnet\n"}
    check_published(name, save(published, folder / "w.pyth"), expected, images)


def test_nat_m4(folder: Path, check_published: Check, references: SimpleNamespace) -> None:
    store, images = references.Store(), references.images
    with torch.inference_mode():
        expected = nat_m4(store, images)
    check_published("a-nat-m4", save(dict(store), folder / "net.weights"), expected, images)


def test_t2t_vit(folder: Path, check_published: Check, references: SimpleNamespace) -> None:
    store, images = references.Store(), torch.rand(2, 3, 224, 224)
    with torch.inference_mode():
        expected = t2t_vit(store, images)
    published = {"epoch": 309, "arch": "t2t_vit_t_14", "state_dict_ema": dict(store)}
    check_published("a-t2t-vit-t-14", save(published, folder / "w.pth.tar"), expected, images)


@pytest.mark.parametrize(
    "name", ["a-deit-s", "a-deit-s-distilled", pytest.param("a-deit-b-distilled", marks=pytest.mark.slow)]
)
def test_deit(name: str, folder: Path, check_published: Check) -> None:
    from unseen.backbones.sources.timm import create_timm

    model, size = cog_models()[name], cog_models()[name].card.preprocessing.size
    network = create_timm(model.card.architecture, pretrained=False)
    images = torch.rand(1, 3, size, size)
    with torch.inference_mode():
        network.norm.bias.normal_()
        tokens = network.forward_features(images)
    expected = tokens[:, 0]
    assert not torch.allclose(expected, tokens[:, 1], rtol=0.1)
    check_published(name, save({"model": network.state_dict()}, folder / "w.pth"), expected, images)


@pytest.mark.parametrize(
    ("name", "last", "size"),
    [pytest.param("a-vgg19", "classifier.6", 64, marks=pytest.mark.slow), ("a-inception-v3", "fc", 96)],
)
def test_torchvision(name: str, last: str, size: int, folder: Path, check_published: Check) -> None:
    from unseen.backbones.sources.torchvision import create_torchvision

    network = create_torchvision(cog_models()[name].card.architecture, weights=None, init_weights=False).eval()
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    images = torch.rand(1, 3, size, size)
    owner, _, attribute = last.rpartition(".")
    path = save(network.state_dict(), folder / "w.pth")
    with torch.inference_mode():
        (network.get_submodule(owner) if owner else network).__setattr__(attribute, nn.Identity())
        expected = network(images)
    check_published(name, path, expected, images)


def test_clip(folder: Path, check_published: Check, references: SimpleNamespace) -> None:
    """Out of a TorchScript archive, as OpenAI publishes it, with the text tower beside the image tower."""
    store, images = references.Store(), torch.rand(1, 3, 224, 224)
    with torch.inference_mode():
        expected = clip_resnet(store, images)
    root = nn.Module()
    for name, value in {**store, "text_projection": torch.zeros(8, 4), "transformer.ln.weight": torch.ones(8)}.items():
        *path, last = name.split(".")
        owner = root
        for part in path:
            if not hasattr(owner, part):
                owner.add_module(part, nn.Module())
            owner = getattr(owner, part)
        half = "conv" in name or "downsample.0" in name
        owner.register_parameter(last, nn.Parameter(value.half() if half else value, requires_grad=False))
    root.forward = types.MethodType(lambda self, x: x, root)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(root, torch.zeros(1), check_trace=False).save(folder / "RN50.pt")
    check_published("d-clip", folder / "RN50.pt", expected, images)
