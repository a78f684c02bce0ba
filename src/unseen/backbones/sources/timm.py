"""`timm:NAME`: any model of timm, pretrained through timm's own cache."""

from __future__ import annotations

import importlib.util
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unseen.backbones.backbone import FEATURES, Backbone, pool_layer
from unseen.backbones.load import BackboneSource, ModelName
from unseen.core.errors import BackboneError, UnknownNameError, UsageError
from unseen.core.extras import cached_file, check_available, ensure_torchvision
from unseen.core.guard import guarded
from unseen.core.records import ModelCard, Preprocessing
from unseen.core.run_record import LoadedModel

if TYPE_CHECKING:
    from torch import Tensor, nn

_HUB = "hf-hub:"
_REGISTERED = re.compile(rb"^@register_model\s+def (\w+)\(", re.MULTILINE)


class TimmSource(BackboneSource):
    """Models of the timm package, with the weights that timm knows for them."""

    pattern, listed = "timm:NAME", False
    hint = "any model of timm (--source timm lists them), timm:*dino* for several, timm:hf-hub:ORG/NAME"

    def cards(self) -> Iterator[ModelCard]:
        for name in _timm().list_models(pretrained=True):
            yield ModelCard(
                id=f"timm:{name}", name=name, group="timm", architecture=name.partition(".")[0], source="timm"
            )

    def load(self, name: ModelName) -> Backbone:
        self.check(name)
        repository = self.repository(name)
        if repository and not name.rest.startswith(_HUB) and cached_file(repository, "pytorch_model.bin") is None:
            check_available(repository, "model.safetensors", what=f"timm:{name.rest}")
        model = create_timm(name.rest, pretrained=True)
        architecture = name.rest.rpartition("/")[2].partition(".")[0]
        loaded = LoadedModel(
            _weights_name(model), architecture=architecture, matched=len(model.state_dict()), layer=FEATURES
        )
        return replace(timm_backbone(model, name, architecture=architecture), loaded=loaded)

    def check(self, name: ModelName) -> None:
        name.check_options()
        check_timm(name.rest)

    def build(self, name: ModelName, classes: int | None = None) -> Backbone:
        return timm_backbone(create_timm(name.rest, num_classes=classes), name, architecture=name.rest)

    def revision(self, name: ModelName) -> str:
        return f"timm {version('timm')}"

    def repository(self, name: ModelName) -> str:
        if name.rest.startswith(_HUB):
            return name.rest.removeprefix(_HUB)
        published: Any = _timm().models.get_pretrained_cfg(name.rest, allow_unregistered=True)
        found = str(getattr(published, "hf_hub_id", None) or "")
        if getattr(published, "file", None):
            return ""
        return f"{found}{name.rest}" + ("" if "." in name.rest else f".{published.tag}") if found == "timm/" else found


def check_timm(name: str) -> None:
    """Refuse an architecture that timm does not have, without importing timm."""
    architecture = name.partition(".")[0]
    if name.startswith(_HUB):
        check_available(name.removeprefix(_HUB), what=f"timm:{name}")
    elif architecture not in _registered() and architecture not in (known := architectures()):
        raise UnknownNameError("timm model", architecture, known)


def architectures() -> list[str]:
    """Return timm's architectures: from timm if it is imported, else from its source files."""
    known = [] if "timm" in sys.modules else _registered()  # the caller may have registered more
    return known or list(_timm().list_models())


@cache
def _registered() -> list[str]:
    package = importlib.util.find_spec("timm")
    folders = package.submodule_search_locations or [] if package else []
    files = [path for folder in folders for path in Path(folder, "models").glob("*.py")]
    return sorted({name.decode() for path in files for name in _REGISTERED.findall(path.read_bytes())})


def _weights_name(model: nn.Module) -> str:
    """Return the name of the weights that timm loads: a file, a repository of the hub, or the end of an address."""
    published: dict[str, Any] = dict(getattr(model, "pretrained_cfg", None) or {})
    file, address = Path(str(published.get("file") or "")).name, str(published.get("url") or "")
    return file or str(published.get("hf_hub_id") or "") or address.rpartition("/")[2]


def create_timm(name: str, *, pretrained: bool = False, num_classes: int | None = None) -> nn.Module:
    """Call `timm.create_model`, with the usual number of classes by default, and raise errors of this package."""
    check_timm(name)
    advice = f"Without weights (timm's cache or network), use random:{name}, or file:WEIGHTS?arch=timm:{name}."
    with guarded(f"timm:{name}", "a model", error=BackboneError, advice=advice):
        model: nn.Module = _timm().create_model(name, pretrained=pretrained, num_classes=num_classes)
    return model.eval()


def timm_backbone(model: nn.Module, name: ModelName, *, architecture: str) -> Backbone:
    """Wrap a timm model with the preprocessing that timm knows for it."""
    published = timm_preprocessing(model)
    preprocessing = name.adjust(published)
    size = preprocessing.size
    return Backbone(
        card=ModelCard(id=str(name), name=architecture, group="timm", architecture=architecture, source="timm"),
        module=model,
        forward=timm_forward,
        preprocessing=preprocessing,
        prefix_tokens=int(getattr(model, "num_prefix_tokens", 0)),
        notes=_settle_size(model, size) if size != published.size else (),
        loaded=LoadedModel(architecture=architecture, layer=FEATURES),
    )


def timm_forward(module: nn.Module, images: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return the input and the output of a timm model's classifier."""
    model: Any = module
    maps = model.forward_features(images)
    pooled = model.forward_head(maps, pre_logits=True)
    logits = model.forward_head(maps) if model.num_classes else None
    return pool_layer(pooled), logits


def _settle_size(module: nn.Module, size: int) -> tuple[str, ...]:
    """Make a transformer of one size take images of another, as timm's `img_size` does; return a note if it does."""
    model: Any = module
    if getattr(model, "dynamic_img_size", False) or not hasattr(model, "set_input_size"):
        return ()
    try:
        model.set_input_size(img_size=(size, size))
    except (AssertionError, RuntimeError, ValueError) as error:
        raise UsageError(f"{type(model).__name__} cannot take images of {size} pixels: {error}") from error
    return (f"position embeddings or windows are stretched to images of {size} pixels",)


def timm_preprocessing(model: nn.Module) -> Preprocessing:
    """Return the evaluation transform that a timm model was published with."""
    config: dict[str, Any] = _timm().data.resolve_model_data_config(model)
    size = int(config["input_size"][-1])
    squash = config.get("crop_mode") == "squash"
    return Preprocessing(
        size=size,
        resize=math.floor(size / float(config["crop_pct"])),
        mode="squash" if squash else "shortest",
        interpolation=config["interpolation"],
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
    )


def _timm() -> Any:
    ensure_torchvision()
    import timm

    return timm
