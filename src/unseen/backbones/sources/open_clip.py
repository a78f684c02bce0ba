"""`open_clip:ARCH/TAG`: models of open_clip with both towers, or `open_clip:PATH`, a folder with its own files.

A folder holds open_clip_config.json and open_clip_model.safetensors (or open_clip_pytorch_model.bin), as
`push_to_hf_hub` writes them. Features are the image tower's output; the text tower gives class embeddings of the same
space.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unseen.backbones.backbone import Backbone, CallableTransform, ImageTransform, TextTower, read_transform
from unseen.backbones.load import BackboneSource, ModelName
from unseen.backbones.model_files import files_digest
from unseen.backbones.sources.hf import check_size, try_network
from unseen.core.errors import BackboneError, UnknownNameError
from unseen.core.extras import check_available, ensure_torchvision, import_extra
from unseen.core.guard import guarded
from unseen.core.records import ModelCard, Preprocessing
from unseen.core.registry import IF_EXISTS
from unseen.core.run_record import LoadedModel

if TYPE_CHECKING:
    from torch import Tensor, nn

    from unseen.core.arrays import Float32Array

_CONFIG = "open_clip_config.json"


class OpenClipSource(BackboneSource):
    """Models of the open_clip package."""

    pattern, hint, listed = "open_clip:ARCH/TAG", "CLIP models with a text tower, or open_clip:PATH", False
    extra = "clip"
    paths = (IF_EXISTS,)

    def cards(self) -> Iterator[ModelCard]:
        for arch, tag in _open_clip().list_pretrained():
            name = f"{arch}/{tag}"
            yield ModelCard(id=f"open_clip:{name}", name=name, group="open_clip", architecture=arch, source="open_clip")

    def check(self, name: ModelName) -> None:
        name.check_options()
        _chosen(name)

    def load(self, name: ModelName) -> Backbone:
        self.check(name)
        model_name, tag = _chosen(name)
        library = _open_clip()
        if (folder := _folder(name)) is not None:
            content = files_digest(folder, ".json", ".safetensors", ".bin")
            try_network(f"{__name__}:check_network", "torch", folder, name, content)
        if tag:
            _check_cached(library, model_name, tag, name)
        with guarded(name, "a model of open_clip", error=BackboneError):
            model, _, transform = library.create_model_and_transforms(model_name, pretrained=tag or None)
            tokenizer = library.get_tokenizer(model_name)
        built = open_clip_backbone(model, name, transform=transform, tokenizer=tokenizer)
        assert built.loaded is not None
        matched = len(model.state_dict())  # open_clip refuses a file that does not fit
        return replace(built, loaded=replace(built.loaded, file=tag, matched=matched))

    def revision(self, name: ModelName) -> str:
        model_name, tag = _chosen(name)
        if (folder := _folder(name)) is not None:
            return files_digest(folder, ".json", ".safetensors", ".bin")
        return f"open_clip {version('open_clip_torch')} {model_name} {tag}"


def check_network(folder: str) -> None:
    """Build the network of a folder without memory for its weights, and compare its size with the weights."""
    import torch

    with torch.device("meta"):
        model = _open_clip().create_model(f"local-dir:{folder}", device="meta", load_weights=False)
    check_size(model, Path(folder))


def open_clip_backbone(
    model: nn.Module, name: ModelName, *, transform: ImageTransform | None = None, tokenizer: Any = None
) -> Backbone:
    """Wrap a model of open_clip."""
    model = model.eval()
    if transform is None:
        from open_clip.transform import image_transform_v2

        transform = image_transform_v2(_preprocess_config(model), is_train=False)
    record = read_transform(transform)
    return Backbone(
        card=ModelCard(id=str(name), name=name.rest, group="open_clip", architecture=name.rest, source="open_clip"),
        module=model,
        forward=_image_forward,
        preprocessing=name.adjust(record or Preprocessing()),
        notes=("features: the image tower's output, before it is scaled to length 1",),
        transform=CallableTransform(transform) if record is None else None,
        text=_text_tower(model, tokenizer) if tokenizer is not None else None,
        loaded=LoadedModel(architecture=name.rest.partition("/")[0], layer="image embedding"),
    )


def _image_forward(module: nn.Module, images: Tensor) -> tuple[Tensor, Tensor | None]:
    model: Any = module
    return model.encode_image(images), None


def _text_tower(model: Any, tokenizer: Any) -> TextTower:
    import torch

    def embed(texts: Sequence[str]) -> Float32Array:
        with torch.inference_mode():
            found: Float32Array = model.encode_text(tokenizer(list(texts))).float().numpy()
        return found

    return embed


def _preprocess_config(model: Any) -> object:
    from open_clip.transform import PreprocessCfg

    given = getattr(model.visual, "preprocess_cfg", None) or {}
    size = getattr(model.visual, "image_size", None)
    return PreprocessCfg(**({**({"size": size} if size else {}), **given}))


def _chosen(name: ModelName) -> tuple[str, str]:
    """Return open_clip's name of the model, and its tag."""
    library = _open_clip()
    if (folder := _folder(name)) is not None:
        if not (folder / _CONFIG).is_file():
            raise BackboneError(f"the folder {str(folder)!r} has no {_CONFIG}.")
        return f"local-dir:{folder}", ""
    arch, _, tag = name.rest.partition("/")
    if name.rest.startswith("hf-hub:"):
        check_available(name.rest.removeprefix("hf-hub:"), _CONFIG, what=str(name))
        return name.rest, ""
    if arch not in library.list_models():
        raise UnknownNameError("open_clip model", arch, library.list_models())
    tags = library.list_pretrained_tags_by_model(arch)
    if tag not in tags:
        raise UnknownNameError(
            f"weights of open_clip:{arch}", tag or "(none)", tags, hint=f"Write open_clip:{arch}/TAG."
        )
    return arch, tag


def _folder(name: ModelName) -> Path | None:
    path = Path(name.rest.removeprefix("local-dir:")).expanduser()
    return path if path.is_dir() or name.rest.startswith(("local-dir:", "/", ".", "~")) else None


def _check_cached(library: Any, arch: str, tag: str, name: ModelName) -> None:
    """Raise at once if the weights are on the hub and the hub cannot be reached."""
    found = library.get_pretrained_cfg(arch, tag)
    repository = str(found.get("hf_hub") or "").strip("/")
    if repository:
        check_available(repository, "open_clip_model.safetensors", what=str(name))


def _open_clip() -> Any:
    ensure_torchvision()
    return import_extra("open_clip", "clip")
