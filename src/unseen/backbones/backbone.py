"""A backbone: a module, its preprocessing, and the function that returns its features.

Every source (packaged weights, timm, torchvision, checkpoint files, plug-ins) builds this record. Importing this module
does not import torch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from unseen.core.errors import BackboneError, UnseenError, first_line
from unseen.core.identity import digest
from unseen.core.records import ModelCard, Preprocessing
from unseen.core.run_record import LoadedModel

if TYPE_CHECKING:
    from PIL import Image
    from torch import Tensor, nn

    from unseen.core.arrays import Float32Array

#: (module, images) -> (pooled features (n, d), class logits (n, c) or None where there is no head).
Forward: TypeAlias = "Callable[[nn.Module, Tensor], tuple[Tensor, Tensor | None]]"

#: Layer names that every backbone understands beside the names of its modules.
POOLED = "pooled"
LOGITS = "logits"

RuntimeName = Literal["auto", "onnx", "openvino", "torch"]

#: What `pooled` contains by default, as the run record states it.
FEATURES = "pooled features"


#: A third-party transform: from an image to a tensor or array (c, h, w).
ImageTransform: TypeAlias = "Callable[[Image.Image], object]"


#: The text encoder of a model: from n texts to (n, d) embeddings in the space of its image features.
TextTower: TypeAlias = "Callable[[Sequence[str]], Float32Array]"


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
    transform: CallableTransform | None = None
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

    @property
    def has_head(self) -> bool:
        """Return whether the model has class logits."""
        return self._outputs[1]

    @property
    def feature_dim(self) -> int:
        return self._outputs[0]

    @cached_property
    def _outputs(self) -> tuple[int, bool]:
        """Return the width of the features and whether there are logits, from one blank image."""
        import torch

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
        return features.shape[1], logits is not None

    def blank_input(self, count: int = 1) -> Tensor:
        """Return normalised images of zeros with the model's input shape."""
        import torch

        size = self.preprocessing.size
        shape = (3, size, size) if self.transform is None else self.transform.shape
        return torch.zeros(count, *shape)

    def example(self, count: int, *, seed: int | None = None) -> Tensor:
        """Return smooth random images (blank ones without a seed) in the format of a runtime's input."""
        import torch

        images = self.blank_input(count)
        if seed is not None:
            coarse = torch.rand(count, images.shape[1], 8, 8, generator=torch.Generator().manual_seed(seed))
            images = torch.nn.functional.interpolate(coarse, size=images.shape[-2:], mode="bilinear")
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
        known = replace(self.card, feature_dim=self.feature_dim, preprocessing=self.preprocessing)
        return replace(self, card=replace(known, parameters=parameters, flops=flops))


def pool_layer(value: Any, *, prefix_tokens: int = 0) -> Tensor:
    """Return one vector per image from the output of a layer.

    Average maps (n, c, h, w) over space. Of tokens (n, t, c), return the class token if there are prefix tokens, else
    the average. Of a tuple or dict, use the first tensor.
    """
    from torch import Tensor

    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, tuple | list):
        value = next(v for v in value if isinstance(v, Tensor))
    tensor: Tensor = value
    if tensor.ndim == 4:
        return tensor.mean(dim=(2, 3))
    if tensor.ndim == 3:
        return tensor[:, 0] if prefix_tokens else tensor.mean(dim=1)
    return tensor.flatten(1)


def state_digest(module: nn.Module) -> str:
    """Return 16 hex digits of the sha256 of a module's state: names, types, shapes and bytes, in name order."""
    import torch

    running = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        value = tensor.detach().cpu().contiguous()
        running.update(f"{name}:{value.dtype}:{tuple(value.shape)};".encode())
        running.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return running.hexdigest()[:16]


def measure_cost(backbone: Backbone) -> tuple[int, int]:
    """Return parameters and FLOPs of the pooled features of one image, without the class head.

    A multiply-add is two operations; convolutions and matrix products are counted. Parameters are those that the
    features depend on: those with a gradient.
    """
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    module, counter = backbone.module, FlopCounterMode(display=False)
    frozen = [p for p in module.parameters() if p.is_floating_point() and not p.requires_grad]
    for p in frozen:
        p.requires_grad_(True)
    try:
        with torch.enable_grad(), counter:
            features, logits = backbone.forward(module, backbone.blank_input())
        used = [p for p in module.parameters() if p.requires_grad]
        gradients = torch.autograd.grad(features.sum(), used, allow_unused=True) if features.requires_grad else ()
        parameters = sum(p.numel() for p, gradient in zip(used, gradients, strict=False) if gradient is not None)
    finally:
        for p in frozen:
            p.requires_grad_(False)
    head = 0 if logits is None else 2 * features.shape[1] * logits.shape[1]
    return parameters, int(counter.get_total_flops()) - head


# Preprocessing of other libraries: a `Preprocessing` if it is torchvision's usual chain `Resize`, `CenterCrop`,
# `ToTensor`, `Normalize` on Pillow images, whose arithmetic equals ours; otherwise the callable itself.

_TO_TENSOR = ("ToTensor", "MaybeToTensor", "PILToTensor", "ToImage")
_NEUTRAL = ("_convert_to_rgb", "MaybeConvertMode", "ToDtype", "ConvertImageDtype", "ToRGB", "RGB")


class CallableTransform:
    """A third-party callable from a Pillow image to a tensor or array, identified by its outputs for two images.

    Attributes:
        fingerprint: changes when the transform does.
        shape: of its output, (c, h, w).

    Raises:
        BackboneError: it fails, its output is not (c, h, w), or the output differs between two calls.
    """

    def __init__(self, function: ImageTransform) -> None:
        import numpy as np
        from PIL import Image

        self._function = function
        rng = np.random.default_rng(0)
        images = [Image.fromarray(rng.integers(0, 256, (h, w, 3), dtype=np.uint8)) for h, w in ((97, 131), (160, 120))]
        try:
            found, again = [self(image) for image in images], self(images[0])
        except UnseenError:
            raise
        except Exception as error:
            raise BackboneError(f"the transform fails on an RGB image: {type(error).__name__}: {error}") from error
        if not np.array_equal(found[0], again):
            raise BackboneError(
                "the transform returns different values on each call. Pass the transform for evaluation."
            )
        if found[0].shape != found[1].shape:
            raise BackboneError(
                f"the transform returns images of several sizes, {found[0].shape} and {found[1].shape}."
            )
        self.shape: tuple[int, ...] = found[0].shape
        self.fingerprint = hashlib.sha256(b"".join(one.tobytes() for one in found)).hexdigest()[:16]

    def __call__(self, image: Image.Image) -> Float32Array:
        import numpy as np

        value = self._function(image)
        value = value.detach().cpu().numpy() if hasattr(value, "detach") else value
        array = np.asarray(value, np.float32)
        array = array[0] if array.ndim == 4 and len(array) == 1 else array
        if array.ndim != 3:
            raise BackboneError(f"the transform returns shape {array.shape}; (channels, height, width) is needed.")
        return np.ascontiguousarray(array)


def read_transform(transform: object) -> Preprocessing | None:
    """Return the preprocessing that a torchvision transform does, or None if it is not a usual chain."""
    import numpy as np

    size = resize = 0
    mode, interpolation = "shortest", "bilinear"
    mean, std = [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]
    in_tensors = False
    for step in getattr(transform, "transforms", ()):
        name = getattr(step, "__name__", type(step).__name__)
        if name in ("Resize", "CenterCrop") and not in_tensors:
            sides = [int(side) for side in np.atleast_1d(step.size)]
            resizes = name == "Resize"
            if len(set(sides)) != 1 or (resizes and (resize or size or getattr(step, "max_size", None) is not None)):
                return None
            if resizes:
                resize, mode = sides[0], "squash" if len(sides) == 2 else "shortest"
                interpolation = str(getattr(step.interpolation, "value", step.interpolation))
            else:
                size = sides[0]
        elif name in _TO_TENSOR:
            in_tensors = True
        elif name == "Normalize":
            mean, std = list(map(float, step.mean)), list(map(float, step.std))
        elif name not in _NEUTRAL:
            return None
    size = size or (resize if mode == "squash" else 0)
    usual = in_tensors and size and resize >= size and len(mean) == len(std) == 3
    if not usual or interpolation not in ("nearest", "bilinear", "bicubic", "lanczos"):
        return None
    found = {"size": size, "resize": resize, "mode": mode, "interpolation": interpolation, "mean": mean, "std": std}
    return Preprocessing.from_dict(found)
