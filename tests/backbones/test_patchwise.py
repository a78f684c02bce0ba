"""Patches and smaller strides, against networks changed by hand."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

from unseen.backbones import load_backbone
from unseen.backbones.forwards import cut_patches, patchwise, with_reduced_strides
from unseen.core.errors import BackboneError


def test_patches_against_a_loop(small_model: str) -> None:
    backbone = load_backbone(small_model)
    images = torch.randn(2, 3, 224, 224)
    patches = cut_patches(images)
    assert patches.shape == (18, 3, 64, 64)
    for n in range(2):
        for k in range(9):
            top, left = 16 + 64 * (k // 3), 16 + 64 * (k % 3)
            assert torch.equal(patches[9 * n + k], images[n, :, top : top + 64, left : left + 64])
    looked = patchwise(backbone)
    with torch.inference_mode():
        features, logits = looked.forward(looked.module, images)
        by_hand = torch.stack(
            [backbone.forward(backbone.module, patches[9 * n : 9 * n + 9])[0].mean(0) for n in range(2)]
        )
    assert logits is None
    assert torch.allclose(features, by_hand, atol=1e-5)
    assert looked.id != backbone.id
    assert looked.preprocessing.size == 224


def last_map(module: nn.Module, images: torch.Tensor) -> torch.Size:
    """The shape of what the last convolution with more than one pixel of context gives."""
    shapes: list[torch.Size] = []
    layers = [m for m in module.modules() if isinstance(m, nn.Conv2d) and m.kernel_size != (1, 1)]
    hooks = [m.register_forward_hook(lambda _m, _i, out: shapes.append(out.shape)) for m in layers]
    with torch.inference_mode():
        module(images)
    for hook in hooks:
        hook.remove()
    return shapes[-1]


def test_strides_of_a_resnet_by_hand() -> None:
    backbone = load_backbone("random:resnet18?size=64")
    by_hand = copy.deepcopy(backbone.module)
    by_hand.conv1.stride = (1, 1)
    by_hand.layer4[0].conv1.stride = (1, 1)
    by_hand.layer4[0].downsample[0].stride = (1, 1)
    found = with_reduced_strides(backbone)
    images = torch.randn(2, 3, 64, 64)
    with torch.inference_mode():
        one, other = (backbone.forward(m, images)[0] for m in (found.module, by_hand))
        whole = backbone.forward(backbone.module, images)[0]
    assert torch.equal(one, other)
    assert not torch.allclose(one, whole)
    assert last_map(backbone.module, images)[-1] == 2
    assert last_map(found.module, images)[-1] == 8  # a quarter of the overall stride
    assert found.weights == backbone.weights


@pytest.mark.parametrize("architecture", ["test_resnet", "test_efficientnet", "resnet18d", "mobilenetv3_small_050"])
def test_strides_of_other_networks_are_quartered(architecture: str) -> None:
    backbone = load_backbone(f"random:{architecture}?size=96")
    images = torch.randn(1, 3, 64, 64)
    looked = patchwise(backbone, reduced_strides=True)
    before, after = last_map(backbone.module, images), last_map(looked.module, images)
    assert after[-1] == 4 * before[-1]
    assert looked.id.endswith("patches=192/64&strides=reduced")
    assert looked.feature_dim == backbone.feature_dim


def test_a_network_without_strides_to_reduce_is_refused() -> None:
    with pytest.raises(BackboneError, match="no two strided convolutions"):
        with_reduced_strides(load_backbone("random:test_vit?size=64"))


def test_a_network_of_one_size_is_refused_before_anything_is_extracted() -> None:
    def picky(module: nn.Module, images: torch.Tensor) -> tuple[torch.Tensor, None]:
        assert images.shape[-1] == 96, f"Input height ({images.shape[-1]}) doesn't match model (96)."
        return backbone.forward(module, images)[0], None

    backbone = load_backbone("random:test_resnet?size=96")
    with pytest.raises(BackboneError, match=r"patches of 64 pixels: Input height \(64\)"):
        patchwise(replace(backbone, forward=picky))
