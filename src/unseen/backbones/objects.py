"""Models that exist in Python only: modules of torch, timm, transformers and open_clip, and plain callables.

An object becomes `object:NAME@DIGEST`, a name like any other while somebody holds it. The digest is of weights, code
and settings, so that a training step makes another model of it. A module is copied first: nothing that happens
to the copy (evaluation mode, device, memory layout) reaches the one that its owner may still be training.
"""

from __future__ import annotations

import copy
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unseen.backbones.backbone import Backbone
from unseen.backbones.load import BackboneSource, wrap_module
from unseen.backbones.names import ModelName
from unseen.backbones.transforms import ForeignTransform, read_transform
from unseen.core.errors import BackboneError, UnknownNameError, UnseenError
from unseen.core.identity import digest
from unseen.core.records import ModelCard, Preprocessing

SCHEME = "object"
OBJECT_HINT = "Objects are found in the process that holds them, while it does: use one worker, or a name."
_HELD: dict[str, Backbone] = {}
#: How many hold each.
_HOLDERS: Counter[str] = Counter()
#: A callable gets pixels as they are: what `Taps` computes with these is the value of a byte.
_BYTES = {"mean": (0.0, 0.0, 0.0), "std": (1 / 255, 1 / 255, 1 / 255)}


def as_backbone(
    model: Any,
    *,
    name: str = "",
    transform: Callable[[Any], Any] | None = None,
    preprocessing: Preprocessing | None = None,
) -> Backbone:
    """A module or a callable as a backbone.

    Args:
        model: a module, whose pooled features are what enters its class head or, without one, what it gives; or a
            callable from uint8 images (n, h, w, 3) - with a transform, from what that gives - to an array (n, d).
        name: for its id; what it is called in its class or function by default.
        transform: from a Pillow image to the tensor that the model takes.
        preprocessing: the same as a record.

    Raises:
        BackboneError: it is neither, or it fails on one blank image.
    """
    if transform is not None and preprocessing is not None:
        raise BackboneError("give a transform or a preprocessing, not both.")
    if isinstance(model, Backbone):
        # As it is now: its module may have been trained since it was made, under whatever name.
        module = model.module
        made = replace(model, module=module.again(model) if isinstance(module, _Called) else snapshot(module))
        if transform is not None or preprocessing is not None:
            raise BackboneError("a backbone brings its own preprocessing. Replace it there, or give the module.")
    elif isinstance(model, nn.Module):
        made = _module_backbone(snapshot(model), preprocessing, transform)
    elif callable(model):
        made = _callable_backbone(model, preprocessing, transform)
    else:
        raise BackboneError(
            f"{type(model).__name__} is no model. Give a name such as timm:resnet50, a checkpoint or .onnx file, a "
            "torch module, or a function from a batch of images to an array."
        )
    label = name or made.card.architecture or made.card.name or made.id
    own = digest([made.weights, _structure(made.module), made.preprocessing.to_dict()], length=12)
    card = replace(made.card, id=f"{SCHEME}:{_plain(label)}@{own}", name=label, group="object")
    return replace(made, card=card)


def hold(backbone: Backbone) -> str:
    """Make a backbone findable by its name, which is returned."""
    _HELD[backbone.id] = backbone
    _HOLDERS[backbone.id] += 1
    return backbone.id


def hold_again(name: str) -> bool:
    """One more holder of what is held already; whether it is."""
    if name in _HELD:
        _HOLDERS[name] += 1
    return name in _HELD


def release(name: str) -> None:
    """Forget what `hold` has made findable, when nobody else holds it."""
    _HOLDERS[name] -= 1
    if _HOLDERS[name] < 1:
        _HELD.pop(name, None)
        del _HOLDERS[name]


class ObjectSource(BackboneSource):
    """Models that somebody holds in this process."""

    listed = False

    def cards(self) -> Iterator[ModelCard]:
        return iter([backbone.card for backbone in _HELD.values()])

    def load(self, name: ModelName) -> Backbone:
        found = _HELD.get(str(name))
        if found is None:
            raise UnknownNameError("model object", str(name), _HELD, hint=OBJECT_HINT)
        return found

    def check(self, name: ModelName) -> None:
        self.load(name)

    def revision(self, name: ModelName) -> str:
        return self.load(name).weights


def snapshot(module: nn.Module) -> nn.Module:
    """A copy of a module on the CPU, in evaluation mode and float32; wrappers for several devices are taken off."""
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


def _module_backbone(module: nn.Module, preprocessing: Preprocessing | None, transform: Any) -> Backbone:
    read = read_transform(transform) if transform is not None else None
    foreign = ForeignTransform(transform) if transform is not None and read is None else None
    chosen = preprocessing or read
    label = type(module).__name__
    try:
        if foreign is not None:
            made = _wrapped(module, label, torch.zeros(1, *foreign.shape), Preprocessing())
        else:
            made = _known(module, label, chosen) or wrap_module(label, module, preprocessing=chosen)
        made = replace(made, card=replace(made.card, architecture=label), transform=foreign)
        made.feature_dim  # noqa: B018 - one blank image tells whether it can be run at all
    except UnseenError:
        raise
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        raise BackboneError(
            f"{label} fails on one blank image: {type(error).__name__}: {first}. If it takes other inputs than "
            "(n, 3, 224, 224), give transform= or preprocessing=."
        ) from error
    return made


def _known(module: nn.Module, label: str, preprocessing: Preprocessing | None) -> Backbone | None:
    """A module of a library whose cut between features and head is known."""
    library = {kind.__module__.partition(".")[0] for kind in type(module).__mro__}
    if "timm" in library and hasattr(module, "forward_head"):
        from unseen.backbones.sources.timm import timm_backbone

        made = timm_backbone(module, ModelName(SCHEME, label), architecture=label)
    elif "transformers" in library:
        from unseen.backbones.sources.hf import transformers_backbone

        made = transformers_backbone(module, ModelName(SCHEME, label))
    elif "open_clip" in library:
        from unseen.backbones.sources.open_clip import open_clip_backbone

        made = open_clip_backbone(module, ModelName(SCHEME, label))
    else:
        return None
    return made if preprocessing is None else replace(made, preprocessing=preprocessing)


def _wrapped(module: nn.Module, label: str, blank: Tensor, preprocessing: Preprocessing) -> Backbone:
    from unseen.backbones.forwards import classifier_forward, find_classifier, output_forward

    if (known := _known(module, label, preprocessing)) is not None:
        return known
    classifier = find_classifier(module, blank)
    forward = classifier_forward(classifier) if classifier else output_forward
    return Backbone(ModelCard(id=label, group=SCHEME), module, forward, preprocessing)


class _Called(nn.Module):
    """A function of the user's in the place of a module.

    Attributes:
        own_fingerprint: of what it gives for a few images: its code may read weights from anywhere.
    """

    def __init__(self, function: Callable[[Any], Any], *, prepared: bool) -> None:
        super().__init__()
        self.function, self.prepared, self.own_fingerprint = function, prepared, ""

    def again(self, backbone: Backbone) -> _Called:
        """The same function, with the fingerprint of what it gives now."""
        made = _Called(self.function, prepared=self.prepared).eval()
        made.look(backbone)
        return made

    def look(self, backbone: Backbone) -> None:
        shown = backbone.example(4, seed=0)
        with torch.inference_mode():
            features = self(shown if self.prepared else shown.permute(0, 3, 1, 2).float())
        self.own_fingerprint = hashlib.sha256(features.cpu().numpy().tobytes()).hexdigest()[:16]

    def forward(self, images: Tensor) -> Tensor:
        given: Any = images
        if not self.prepared:
            given = images.permute(0, 2, 3, 1).round().to(torch.uint8).cpu().numpy()
        found = self.function(given)
        found = found if isinstance(found, Tensor) else torch.from_numpy(np.array(found, np.float32))
        if found.ndim != 2 or len(found) != len(images):
            raise BackboneError(
                f"the function gives shape {tuple(found.shape)} for {len(images)} images; ({len(images)}, features) "
                "is needed."
            )
        return found.detach().float()


def _callable_backbone(function: Any, preprocessing: Preprocessing | None, transform: Any) -> Backbone:
    from unseen.backbones.forwards import output_forward

    foreign = ForeignTransform(transform) if transform is not None else None
    label = getattr(function, "__name__", type(function).__name__)
    module = _Called(function, prepared=foreign is not None).eval()
    made = Backbone(
        card=ModelCard(id=label, name=label, group=SCHEME, architecture=_plain(label) or "function"),
        module=module,
        forward=output_forward,
        preprocessing=replace(preprocessing or Preprocessing(resize=256), **_BYTES),  # type: ignore[arg-type]
        transform=foreign,
        exportable=False,
    )
    try:
        module.look(made)
    except UnseenError:
        raise
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        raise BackboneError(f"{label} fails on four images: {type(error).__name__}: {first}") from error
    return made


def _structure(module: nn.Module) -> list[Any]:
    """What a module computes beside its state: classes, their code, settings such as strides, tensors that no
    `state_dict` has."""
    kept = set(module.state_dict())
    found: list[Any] = [
        [name, _content(value)]
        for name, value in module.named_buffers(remove_duplicate=False)
        if name not in kept  # buffers that are not persistent
    ]
    for name, part in module.named_modules():
        own = {k: _content(v) for k, v in vars(part).items() if k not in _OF_TORCH}
        plain = {k: v for k, v in sorted(own.items()) if v is not None}
        found.append([name, f"{type(part).__module__}.{type(part).__qualname__}", _code_of(type(part)), plain])
    return found


#: Attributes of every module: its state, which is looked at elsewhere, and hooks.
_OF_TORCH = frozenset(vars(nn.Module())) | {"own_fingerprint"}
_LIBRARIES = ("torch", "torchvision", "timm", "transformers", "open_clip")


def _code_of(kind: type) -> str:
    """Of `forward`; of every method where the class is the user's own."""
    found = []
    for each in kind.__mro__:
        if each is nn.Module:
            break
        library = each.__module__.partition(".")[0] in _LIBRARIES
        found += [_content(value) for name, value in sorted(vars(each).items()) if not library or name == "forward"]
    return digest([each for each in found if each is not None])


def _content(value: Any, depth: int = 4) -> Any:
    """What an attribute is by its content, as JSON values; None where that cannot be told."""
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
    consts = [repr(each).split(" at 0x")[0] for each in code.co_consts]
    inner = hashlib.sha256(code.co_code + repr((consts, code.co_names)).encode()).hexdigest()[:16]
    return [inner, cells, _content(function.__defaults__, depth - 1)]


def _filled(cell: Any) -> bool:
    try:
        return not isinstance(cell.cell_contents, type)
    except ValueError:
        return False


def _plain(text: str) -> str:
    """A label without the characters that names are parted at."""
    return "".join(c if c.isalnum() or c in "._-" else "-" for c in text).strip("-")
