"""A backbone: a module, its preprocessing, and the function that returns its features.

Every source (packaged weights, timm, torchvision, checkpoint files, plug-ins) builds this record.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor, nn

from unseen.backbones.load import LOGITS, POOLED
from unseen.core.errors import BackboneError, first_line
from unseen.core.identity import digest
from unseen.core.records import ModelCard, Preprocessing
from unseen.core.run_record import LoadedModel

#: What `pooled` contains by default, as the run record states it.
FEATURES = "pooled features"

#: (module, images) -> (pooled features (n, d), class logits (n, c) or None where there is no head).
Forward = Callable[[nn.Module, Tensor], tuple[Tensor, Tensor | None]]


class Transform(Protocol):
    """Protocol of third-party transforms from an image to a module's input.

    Attributes:
        fingerprint: changes when the transform does.
        shape: of its output, (c, h, w).
    """

    fingerprint: str
    shape: tuple[int, ...]

    def __call__(self, image: Image.Image) -> npt.NDArray[np.float32]: ...


class TextTower(Protocol):
    """The text encoder of a model, which maps texts into the space of its image features."""

    def __call__(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return (n, d) embeddings of n texts."""


@dataclass(frozen=True, eq=False)
class Backbone:
    """A feature extractor.

    Attributes:
        module: in evaluation mode, on the CPU.
        forward: returns pooled features and class logits of the module.
        preprocessing: how an image becomes its input.
        prefix_tokens: class and register tokens in front of the patch tokens of a transformer; 0 elsewhere.
        notes: remarks on how it was loaded, such as ignored keys.
        transform: third-party transform of images, used instead of `preprocessing`.
        exportable: whether the module can be traced into a graph.
        text: the text tower of a model with two towers.
        loaded: how the model was loaded: file, network, architecture, tensors; None if the source does not know.
        code: digest of the code that computes the features, if it may change while the weights stay the same.
    """

    card: ModelCard
    module: nn.Module
    forward: Forward
    preprocessing: Preprocessing
    prefix_tokens: int = 0
    notes: tuple[str, ...] = field(default=())
    transform: Transform | None = None
    exportable: bool = True
    text: TextTower | None = None
    loaded: LoadedModel | None = None
    code: str = ""

    @property
    def id(self) -> str:
        return self.card.id

    @cached_property
    def weights(self) -> str:
        """Return a digest of everything that features depend on: parameters, buffers, code and transform."""
        own = getattr(self.module, "own_fingerprint", None) or state_digest(self.module)
        own = digest([own, self.code]) if self.code else own
        return own if self.transform is None else digest([own, self.transform.fingerprint])

    @cached_property
    def has_head(self) -> bool:
        """Return whether the model has class logits."""
        return self._probe[1] is not None

    @cached_property
    def feature_dim(self) -> int:
        return self._probe[0]

    @cached_property
    def _probe(self) -> tuple[int, int | None]:
        """Return the widths of features and logits, from one blank image."""
        blank = self.blank_input()
        try:
            with torch.inference_mode():
                features, logits = self.forward(self.module, blank)
        except (AssertionError, RuntimeError, ValueError) as error:
            shape, first = tuple(blank.shape[1:]), first_line(error)
            raise BackboneError(f"{self.id!r} does not take images of shape {shape}: {first}") from error
        if features.ndim != 2:
            raise BackboneError(
                f"{self.id!r} gives features of shape {tuple(features.shape)}; two dimensions (images, features) "
                f"are needed. Pool them in the function that registers the model."
            )
        return features.shape[1], None if logits is None else logits.shape[1]

    def blank_input(self, count: int = 1) -> Tensor:
        """Return normalised images of zeros with the model's input shape."""
        size = self.preprocessing.size
        shape = (3, size, size) if self.transform is None else self.transform.shape
        return torch.zeros(count, *shape)

    def example(self, count: int, *, seed: int | None = None) -> Tensor:
        """Return smooth random images (blank ones without a seed) in the format of a runtime's input."""
        shape = (
            (3, self.preprocessing.size, self.preprocessing.size) if self.transform is None else self.transform.shape
        )
        images = torch.zeros(count, *shape)
        if seed is not None:
            coarse = torch.rand(count, shape[0], 8, 8, generator=torch.Generator().manual_seed(seed))
            images = torch.nn.functional.interpolate(coarse, size=shape[-2:], mode="bilinear")
        if self.transform is not None:
            return images
        return images.mul(255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()

    def layer_names(self) -> list[str]:
        """Return all layers: the pooled features, the logits, then the modules by name."""
        named = [name for name, _ in self.module.named_modules() if name]
        return [POOLED, *([LOGITS] if self.has_head else []), *named]

    def with_measured_card(self) -> Backbone:
        """Return the backbone with measured parameters, FLOPs and feature dimension on its card."""
        parameters, flops = measure_cost(self)
        card = replace(
            self.card,
            parameters=parameters,
            flops=flops,
            feature_dim=self.feature_dim,
            preprocessing=self.preprocessing,
        )
        return replace(self, card=card)


def state_digest(module: nn.Module) -> str:
    """Return 16 hex digits of the sha256 of a module's state: names, types, shapes and bytes, in name order."""
    running = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        value = tensor.detach().cpu().contiguous()
        running.update(f"{name}:{value.dtype}:{tuple(value.shape)};".encode())
        running.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return running.hexdigest()[:16]


def measure_cost(backbone: Backbone) -> tuple[int, int]:
    """Return parameters and FLOPs of the pooled features of one image, without the class head.

    A multiply-add is two operations; convolutions and matrix products are counted. Parameters are those that the
    features depend on, read off the autograd graph.
    """
    from torch.utils.flop_counter import FlopCounterMode

    module, counter = backbone.module, FlopCounterMode(display=False)
    frozen = [p for p in module.parameters() if p.is_floating_point() and not p.requires_grad]
    for p in frozen:
        p.requires_grad_(True)
    try:
        with torch.enable_grad(), counter:
            features, logits = backbone.forward(module, backbone.blank_input())
        parameters = sum(p.numel() for p in _leaves(features))
    finally:
        for p in frozen:
            p.requires_grad_(False)
    head = 0 if logits is None else 2 * features.shape[1] * logits.shape[1]
    return parameters, int(counter.get_total_flops()) - head


def _leaves(tensor: Tensor) -> set[Tensor]:
    """Return the leaf tensors that a tensor was computed from."""
    found: set[Tensor] = set()
    seen: set[object] = set()
    pending: list[Any] = [tensor.grad_fn]
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.add(node.variable)
        pending.extend(parent for parent, _ in node.next_functions)
    return found
