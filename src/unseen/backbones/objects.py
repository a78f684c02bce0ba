"""Models that exist in Python only: modules of torch, timm, transformers and open_clip, and plain callables.

A registered object is called `object:NAME@DIGEST`. The digest covers weights, code and settings, so that a training
step changes it. A module is copied first: changes of the copy (evaluation mode, device, memory layout) do not affect
the original, which its owner may still be training.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from dataclasses import replace
from types import CellType, CodeType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unseen.backbones.backbone import Backbone, CallableTransform, ImageTransform, read_transform
from unseen.backbones.forwards import output_forward
from unseen.backbones.load import OBJECTS as OBJECTS
from unseen.backbones.load import ModelName, wrap_module
from unseen.backbones.sources.hf import transformers_backbone
from unseen.backbones.sources.open_clip import open_clip_backbone
from unseen.backbones.sources.timm import timm_backbone
from unseen.core.errors import BackboneError
from unseen.core.guard import guarded
from unseen.core.identity import digest
from unseen.core.records import ModelCard, Preprocessing
from unseen.core.registry import OBJECT_SCHEME
from unseen.core.run_record import LoadedModel

#: Deviation and mean of a callable's input: with them, `Taps` computes the value of each byte.
_BYTE, _ZERO = (1 / 255, 1 / 255, 1 / 255), (0.0, 0.0, 0.0)


def as_backbone(
    model: object,
    *,
    name: str = "",
    transform: ImageTransform | None = None,
    preprocessing: Preprocessing | None = None,
) -> Backbone:
    """Return a module or a callable as a backbone.

    Args:
        model: a module, or a callable that maps uint8 images (n, h, w, 3), or the outputs of `transform`, to an array
            (n, d). The features of a module are the input of its class head, or its output if it has no head.
        name: for its id; the name of the class or function by default.
        transform: maps a Pillow image to the tensor that the model takes.
        preprocessing: the same as a record.

    Raises:
        BackboneError: `model` is not a module or callable, or it fails on one blank image.
    """
    if transform is not None and preprocessing is not None:
        raise BackboneError("give a transform or a preprocessing, not both.")
    if isinstance(model, Backbone):
        # Its module may have been trained since the backbone was created.
        module = model.module
        made = replace(
            model, module=module.copy_for(model) if isinstance(module, _FunctionModule) else snapshot(module)
        )
        if transform is not None or preprocessing is not None:
            raise BackboneError("a backbone has its own preprocessing. Replace it there, or give the module.")
    elif isinstance(model, nn.Module):
        made = _module_backbone(snapshot(model), preprocessing, transform)
    elif callable(model):
        made = _callable_backbone(model, preprocessing, transform)
    else:
        raise BackboneError(
            f"{type(model).__name__} is not a model. Give a name such as timm:resnet50, a checkpoint or .onnx file, a "
            "torch module, or a function from a batch of images to an array."
        )
    label = name or made.card.architecture or made.card.name or made.id
    own = digest([made.weights, _structure(made.module), made.preprocessing.to_dict()], length=12)
    card = replace(made.card, id=f"{OBJECT_SCHEME}:{_plain(label)}@{own}", name=label, group="object")
    return replace(made, card=card)


def snapshot(module: nn.Module) -> nn.Module:
    """Copy a module to the CPU, in evaluation mode and float32, without wrappers for several devices."""
    inner: Any = getattr(module, "_orig_mod", module)  # of torch.compile
    if type(inner).__name__ in ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel"):
        inner = inner.module
    try:
        copied: nn.Module = copy.deepcopy(inner)
    except Exception as error:
        raise BackboneError(f"{type(inner).__name__} cannot be copied: {type(error).__name__}: {error}") from error
    copied = copied.cpu().eval()
    half = any(p.is_floating_point() and p.dtype != torch.float32 for p in copied.parameters())
    return (copied.float() if half else copied).requires_grad_(False)


def _module_backbone(
    module: nn.Module, preprocessing: Preprocessing | None, transform: ImageTransform | None
) -> Backbone:
    read = read_transform(transform) if transform is not None else None
    own = CallableTransform(transform) if transform is not None and read is None else None
    chosen = Preprocessing() if own is not None else preprocessing or read
    label = type(module).__name__
    advice = "If it takes other inputs than (n, 3, 224, 224), give transform= or preprocessing=."
    with guarded(label, "a model of images", error=BackboneError, advice=advice):
        blank = None if own is None else torch.zeros(1, *own.shape)
        made = _library_backbone(module, label, chosen) or wrap_module(label, module, preprocessing=chosen, blank=blank)
        made = replace(made, card=replace(made.card, architecture=label), transform=own)
        made.feature_dim  # noqa: B018 - one blank image shows whether it can be run at all
    return made


def _library_backbone(module: nn.Module, label: str, preprocessing: Preprocessing | None) -> Backbone | None:
    """Return a backbone of a module of a known library, or None."""
    library = {kind.__module__.partition(".")[0] for kind in type(module).__mro__}
    name = ModelName(OBJECT_SCHEME, label)
    if "timm" in library and hasattr(module, "forward_head"):
        made = timm_backbone(module, name, architecture=label)
    elif "transformers" in library:
        made = transformers_backbone(module, name)
    elif "open_clip" in library:
        made = open_clip_backbone(module, name)
    else:
        return None
    return made if preprocessing is None else replace(made, preprocessing=preprocessing)


class _FunctionModule(nn.Module):
    """Wrap a user's function as a module.

    Attributes:
        object_kind: identifies this class in the ids of objects; see `_kind_of`.
        own_fingerprint: digest of its outputs for a few images, because its code may read weights from any file.
    """

    object_kind = "function.1"

    def __init__(self, function: Callable[[object], object], *, prepared: bool) -> None:
        super().__init__()
        self.function, self.prepared, self.own_fingerprint = function, prepared, ""

    def copy_for(self, backbone: Backbone) -> _FunctionModule:
        """Return the same function with a fingerprint of its present outputs."""
        made = _FunctionModule(self.function, prepared=self.prepared).eval()
        made.set_fingerprint(backbone)
        return made

    def set_fingerprint(self, backbone: Backbone) -> None:
        images = backbone.example(4, seed=0)
        with torch.inference_mode():
            features = self(images if self.prepared else images.permute(0, 3, 1, 2).float())
        self.own_fingerprint = hashlib.sha256(features.cpu().numpy().tobytes()).hexdigest()[:16]

    def forward(self, images: Tensor) -> Tensor:
        inputs: Any = images if self.prepared else images.permute(0, 2, 3, 1).round().to(torch.uint8).cpu().numpy()
        features = self.function(inputs)
        features = features if isinstance(features, Tensor) else torch.from_numpy(np.array(features, np.float32))
        if features.ndim != 2 or len(features) != len(images):
            raise BackboneError(
                f"the function returns shape {tuple(features.shape)} for {len(images)} images; "
                f"({len(images)}, features) is needed."
            )
        return features.detach().float()


def _callable_backbone(
    function: Any, preprocessing: Preprocessing | None, transform: ImageTransform | None
) -> Backbone:
    own = CallableTransform(transform) if transform is not None else None
    label = getattr(function, "__name__", type(function).__name__)
    module = _FunctionModule(function, prepared=own is not None).eval()
    made = Backbone(
        card=ModelCard(id=label, name=label, group=OBJECT_SCHEME, architecture=_plain(label) or "function"),
        module=module,
        forward=output_forward,
        preprocessing=replace(preprocessing or Preprocessing(resize=256), mean=_ZERO, std=_BYTE),
        transform=own,
        exportable=False,
        loaded=LoadedModel(architecture="function", layer="the output of the function"),
    )
    with guarded(label, "a function of images", error=BackboneError):
        module.set_fingerprint(made)
    return made


def code_digest(module: nn.Module) -> str:
    """Return a digest of the classes of a module, their code and their settings, without its state."""
    return digest(_structure(module))


def _structure(module: nn.Module) -> list[object]:
    """Describe a module without its state: classes, their code, settings such as strides, non-persistent tensors."""
    kept = set(module.state_dict())
    found: list[Any] = [
        [name, _content(value)]
        for name, value in module.named_buffers(remove_duplicate=False)
        if name not in kept  # buffers that are not persistent
    ]
    for name, part in module.named_modules():
        own = {k: _content(v) for k, v in vars(part).items() if k not in _OF_TORCH}
        plain = {k: v for k, v in sorted(own.items()) if v is not None}
        found.append([name, *_kind_of(type(part)), plain])
    return found


#: Attributes of every module: its state, which has its own digest, and hooks.
_OF_TORCH = frozenset(vars(nn.Module())) | {"own_fingerprint"}
_LIBRARIES = ("torch", "torchvision", "timm", "transformers", "open_clip")


def _kind_of(kind: type) -> tuple[str, str]:
    """Return the name and a digest of the code of a module's class.

    A class of this package is known by a constant, `object_kind`, or by its class name. Moving, documenting or
    rewriting it therefore changes no id; raise the number in its `object_kind` if it computes other features.
    """
    if kind.__module__.partition(".")[0] == __name__.partition(".")[0]:
        return f"unseen:{getattr(kind, 'object_kind', kind.__name__)}", ""
    return f"{kind.__module__}.{kind.__qualname__}", _code_of(kind)


def _code_of(kind: type) -> str:
    """Return a digest of `forward` for a library's class, and of all methods and attributes for a user's class.

    Special attributes that are not methods do not count: they hold the documentation, and in newer versions of Python
    the line number of the class.
    """
    found = []
    for each in kind.__mro__:
        if each is nn.Module:
            break
        library = each.__module__.partition(".")[0] in _LIBRARIES
        own = {name: value for name, value in vars(each).items() if name == "forward" or not library}
        found += [_content(value) for name, value in sorted(own.items()) if _counts(name, value)]
    return digest([each for each in found if each is not None])


def _counts(name: str, value: object) -> bool:
    """Return whether an attribute of a class can change its features."""
    special = name.startswith("__") and name.endswith("__")
    return not special or (hasattr(value, "__code__") and not name.startswith("__annotate"))


def _content(value: Any, depth: int = 4) -> Any:
    """Return an attribute's content as JSON values; None if it cannot be described."""
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value)
    if isinstance(value, Tensor | np.ndarray):
        array = np.ascontiguousarray(value.detach().float().cpu().numpy() if isinstance(value, Tensor) else value)
        return [str(value.dtype), list(array.shape), hashlib.sha256(array.tobytes()).hexdigest()[:16]]
    if isinstance(value, list | tuple) and depth:
        return [_content(each, depth - 1) for each in value]
    if isinstance(value, dict) and depth:
        return [[repr(key), _content(each, depth - 1)] for key, each in value.items() if isinstance(key, str | int)]
    if isinstance(value, set | frozenset):
        return sorted(repr(each) for each in value if isinstance(each, str | int | float))
    function = getattr(value, "__func__", value)
    code = getattr(function, "__code__", None)
    if code is None or not depth:
        return None
    cells = [_content(cell.cell_contents, depth - 1) for cell in function.__closure__ or () if _filled(cell)]
    inner = _code_digest(code, getattr(function, "__doc__", None))
    return [inner, cells, _content(function.__defaults__, depth - 1)]


def _code_digest(code: CodeType, documentation: str | None = None) -> str:
    """Return a digest of compiled code, with the functions and comprehensions in it, without its documentation."""
    consts = [
        _constant(each)
        for position, each in enumerate(code.co_consts)
        if position or documentation is None or each != documentation
    ]
    return hashlib.sha256(code.co_code + repr((consts, code.co_names)).encode()).hexdigest()[:16]


def _constant(value: object) -> str:
    """Return a text for a constant of compiled code that is the same in every process."""
    if isinstance(value, CodeType):
        return _code_digest(value)
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def _filled(cell: CellType) -> bool:
    try:
        return not isinstance(cell.cell_contents, type)
    except ValueError:
        return False


def _plain(text: str) -> str:
    """Return a label without the separators of names."""
    return "".join(c if c.isalnum() or c in "._-" else "-" for c in text).strip("-")
