"""The networks of ImageNet-CoG by name, and where in each of them the features are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from unseen.backbones.backbone import Forward
from unseen.backbones.forwards import classifier_forward, output_forward, timm_forward
from unseen.backbones.sources.timm import create_timm
from unseen.backbones.sources.torchvision import create_torchvision
from unseen.core.errors import UnknownNameError
from unseen.core.torchvision_shim import ensure_torchvision


def build_network(architecture: str, *, head: bool) -> tuple[nn.Module, Forward]:
    """The network with random weights, in evaluation mode, and its way to features and logits.

    Args:
        head: whether to build the class head of 1000 classes.
    """
    if architecture not in ARCHITECTURES:
        raise UnknownNameError("architecture of ImageNet-CoG", architecture, ARCHITECTURES)
    module, forward = ARCHITECTURES[architecture](head)
    return module.eval(), forward


def class_token_forward(module: nn.Module, images: Tensor) -> tuple[Tensor, Tensor | None]:
    """A transformer's class token after the last norm; a distillation token beside it is left alone."""
    model: Any = module
    tokens = model.forward_features(images)
    return tokens[:, 0], model.forward_head(tokens)


def features_forward(module: nn.Module, images: Tensor) -> tuple[Tensor, Tensor | None]:
    """`forward_features` gives one vector per image, `forward_head` the logits of it."""
    model: Any = module
    features = model.forward_features(images)
    return features, model.forward_head(features)


def _resnet(name: str) -> Callable[[bool], tuple[nn.Module, Forward]]:
    return lambda head: (create_timm(name, pretrained=False, num_classes=1000 if head else 0), timm_forward)


def _resnet_same(*, convolutions: bool) -> Callable[[bool], tuple[nn.Module, Forward]]:
    """ResNet-50 as TensorFlow and JAX pad it: what a strided layer lacks is added at the end first.

    Args:
        convolutions: whether the convolutions are padded so too (JAX), or the first pooling alone (SimCLR, whose
            TensorFlow code pads convolutions itself, evenly).
    """

    def build(head: bool) -> tuple[nn.Module, Forward]:
        ensure_torchvision()
        from timm import layers as timm_layers

        layers: Any = timm_layers
        model: Any = create_timm("resnet50", pretrained=False, num_classes=1000 if head else 0)
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


def _efficientnet(name: str) -> Callable[[bool], tuple[nn.Module, Forward]]:
    return lambda _head: (create_timm(name, pretrained=False), timm_forward)


def _deit(name: str) -> Callable[[bool], tuple[nn.Module, Forward]]:
    return lambda _head: (create_timm(name, pretrained=False), class_token_forward)


def _vgg(_head: bool) -> tuple[nn.Module, Forward]:
    # torchvision initialises on construction whatever is loaded later: a minute of normal draws for nothing.
    return create_torchvision("vgg19_bn", weights=None, init_weights=False), classifier_forward("classifier.6")


def _inception(_head: bool) -> tuple[nn.Module, Forward]:
    return create_torchvision("inception_v3", weights=None, init_weights=False), classifier_forward("fc")


def _t2t_vit(_head: bool) -> tuple[nn.Module, Forward]:
    from unseen.backbones.cog.t2t_vit import T2TViT

    return T2TViT(), class_token_forward


def _nat(_head: bool) -> tuple[nn.Module, Forward]:
    from unseen.backbones.cog.nat import NATNet

    return NATNet(), features_forward


def _clip(_head: bool) -> tuple[nn.Module, Forward]:
    # timm calls the projection of the attention pool a classifier: with 1024 outputs it is `encode_image`.
    return create_timm("resnet50_clip", pretrained=False, num_classes=1024), output_forward


#: Architecture of a card to its builder, which is told whether the file has a class head.
ARCHITECTURES: dict[str, Callable[[bool], tuple[nn.Module, Forward]]] = {
    "resnet50": _resnet("resnet50"),
    "resnet152": _resnet("resnet152"),
    "resnet50-same": _resnet_same(convolutions=True),
    "resnet50-same-pool": _resnet_same(convolutions=False),
    "resnet50_clip": _clip,
    "efficientnet_b1": _efficientnet("efficientnet_b1"),
    "efficientnet_b4": _efficientnet("efficientnet_b4"),
    "deit_small_patch16_224": _deit("deit_small_patch16_224"),
    "deit_small_distilled_patch16_224": _deit("deit_small_distilled_patch16_224"),
    "deit_base_distilled_patch16_384": _deit("deit_base_distilled_patch16_384"),
    "inception_v3": _inception,
    "vgg19_bn": _vgg,
    "t2t-vit-t-14": _t2t_vit,
    "nat-m4": _nat,
}
