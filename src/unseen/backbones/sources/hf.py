"""`hf:ORG/NAME[@REV]` and `transformers:PATH`: vision models of the transformers library.

Options: `output` selects the features: "cls" (the class token), "mean" (over patch tokens or
positions), "pooled" (the model's own pooler), "projected" (the image embedding of a model with two towers). Without it:
projected for two towers, else the class token where there is one, else the mean. `trust_remote_code=true` runs code
of the repository; nothing else does. Preprocessing is that of the model's own image processor.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from unseen.backbones.backbone import Backbone, CallableTransform, Forward, TextTower
from unseen.backbones.load import BackboneSource, ModelName
from unseen.backbones.model_files import files_digest, safetensors_header
from unseen.core.errors import BackboneError, CheckpointError, UnknownNameError
from unseen.core.extras import cached_file, check_available, ensure_torchvision, import_extra
from unseen.core.guard import guarded
from unseen.core.isolate import Trial, try_isolated
from unseen.core.records import ModelCard, Preprocessing
from unseen.core.run_record import LoadedModel

if TYPE_CHECKING:
    from torch import Tensor, nn

    from unseen.core.arrays import Float32Array

#: Outputs that can be the features, and their descriptions for the run record.
_LAYERS = {
    "cls": "class token",
    "mean": "mean over patch tokens or positions",
    "pooled": "output of the model's pooler",
    "projected": "image embedding",
}
_FILTERS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}
_OPTIONS = ("output", "trust_remote_code")
_CONFIG, _WEIGHTS = "config.json", "model.safetensors"
_LARGEST_CONFIG, _LARGEST_SIDE = 16 << 20, 4096
#: Attention that transformers itself has; any other is code that it fetches from the hub.
_OWN_KERNELS = (None, "", "eager", "sdpa", "flex_attention")
#: Parameters that a network may have beside those in the weights, such as a pooler, and bytes to build it.
_MORE_PARAMETERS, _ROOM = 32_000_000, 1 << 30


class TransformersSource(BackboneSource):
    """Folders that `save_pretrained` has written."""

    pattern, hint = "transformers:PATH", "a folder that save_pretrained of transformers has written"
    extra = "hf"
    paths: ClassVar[tuple[str, ...]] = ("",)

    def check(self, name: ModelName) -> None:
        name.check_options(*_OPTIONS)
        self._place(name)

    def load(self, name: ModelName) -> Backbone:
        self.check(name)
        place, revision = self._place(name)
        return load_transformers(place, name, revision)

    def revision(self, name: ModelName) -> str:
        code = (".py",) if name.flag("trust_remote_code") else ()
        return files_digest(Path(self._place(name)[0]), ".safetensors", ".bin", ".json", *code)

    def _place(self, name: ModelName) -> tuple[str, str | None]:
        folder = Path(name.rest).expanduser()
        if not (folder / "config.json").is_file():
            what = "has no config.json" if folder.is_dir() else "does not exist"
            raise BackboneError(f"the folder {str(folder)!r} {what}. Give one that save_pretrained has written.")
        _transformers()
        return str(folder), None


class HfSource(TransformersSource):
    """Models of the Hugging Face hub, by name and revision."""

    pattern, hint = "hf:ORG/NAME[@REV]", "a vision model of the Hugging Face hub"
    paths = ()

    def revision(self, name: ModelName) -> str:
        repository, revision = self._place(name)
        config = cached_file(repository, "config.json", revision)
        # The cache keeps a snapshot per commit: its folder is named after it.
        return f"{repository} {config.resolve().parent.name if config else revision or 'main'}"

    def repository(self, name: ModelName) -> str:
        return name.rest.partition("@")[0]

    def _place(self, name: ModelName) -> tuple[str, str | None]:
        repository, _, revision = name.rest.partition("@")
        if repository.count("/") > 1 or not repository:
            raise BackboneError(f"{name} is not a model of the hub: write hf:ORG/NAME or hf:ORG/NAME@REVISION.")
        _transformers()
        check_available(repository, revision=revision or None, what=str(name))
        return repository, revision or None


def load_transformers(place: str, name: ModelName, revision: str | None = None) -> Backbone:
    """Load a model from a folder or the hub, with its image processor."""
    transformers = _transformers()
    trust = name.flag("trust_remote_code")
    with guarded(name, "a model of images", error=BackboneError):
        if not trust:
            _check_folder(_fetch(place, revision), name)
        more = {"revision": revision, "trust_remote_code": trust}
        model, info = transformers.AutoModel.from_pretrained(place, output_loading_info=True, **more)
        processor = transformers.AutoImageProcessor.from_pretrained(place, **more)
        tokenizer = None
        if hasattr(model, "get_text_features"):
            with contextlib.suppress(OSError, ValueError, ImportError, KeyError):  # image features need no tokenizer
                tokenizer = transformers.AutoTokenizer.from_pretrained(place, **more)
        built = transformers_backbone(model, name, processor=processor, tokenizer=tokenizer)
    folder = Path(place)
    code = files_digest(folder, ".py") if trust and any(folder.glob("*.py")) else ""
    return replace(built, loaded=_loaded(built, place, info), code=code)


def _fetch(place: str, revision: str | None) -> Path:
    """Return the folder with the configuration and the weights, which are downloaded from the hub if necessary."""
    fetch = _transformers().utils.hub.cached_file
    folder = Path(str(fetch(place, _CONFIG, revision=revision))).parent
    if not any(folder.glob("*.safetensors")):
        fetch(place, _WEIGHTS, revision=revision, _raise_exceptions_for_missing_entries=False)
    return folder


def _check_folder(folder: Path, name: ModelName) -> None:
    """Raise if a configuration names code of the hub, or a network that is larger than its weights."""
    with guarded(f"the configuration of {name}", "JSON", error=BackboneError):
        if (folder / _CONFIG).stat().st_size > _LARGEST_CONFIG:
            raise BackboneError(f"the configuration of {name} is larger than {_LARGEST_CONFIG:,} bytes.")
        config = json.loads((folder / _CONFIG).read_text(encoding="utf-8"))
        if code := _named_code(config):
            raise BackboneError(
                f"{name}: its configuration names code of the hub ({code}), which was not fetched. Remove that entry, "
                "or let the code run: trust_remote_code=true."
            )
    if not list_weights(folder):
        return  # transformers states what is missing
    local = Path(name.rest).expanduser().is_dir()
    content = files_digest(folder, ".safetensors", ".bin", ".json") if local else folder.name
    try_network(f"{__name__}:check_network", "transformers", folder, name, content)


def list_weights(folder: Path) -> list[Path]:
    """Return the files of weights in a folder."""
    return [path for path in sorted(folder.iterdir()) if path.suffix in (".safetensors", ".bin")]


def try_network(check: str, module: str, folder: Path, name: ModelName, content: str) -> None:
    """Build the network of a folder in a process with limits, unless the same content was built before."""
    size = sum(path.stat().st_size for path in list_weights(folder))
    trial = Trial(check, (str(folder),), str(name), "a model", (module,), size, _ROOM)
    try_isolated(trial, content, error=BackboneError)


def _named_code(config: object, key: str = "") -> str:
    """Return the kernel of the hub that a configuration names, or ""."""
    chosen = key.endswith(("implementation", "implementation_internal"))
    if isinstance(config, dict | list):
        inner = config.items() if isinstance(config, dict) else ((key, value) for value in config)
        return next(filter(None, (_named_code(value, key if chosen else str(each)) for each, value in inner)), "")
    kernel = chosen and config not in _OWN_KERNELS
    return f"{key}: {config}" if kernel or (key.startswith("use_kernel") and config) else ""


def check_network(folder: str) -> None:
    """Build the network of a configuration without memory for its weights, and compare its size with the weights."""
    import torch

    transformers = _transformers()
    config = transformers.AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        model = transformers.AutoModel.from_config(config)
    check_size(model, Path(folder))


def check_size(model: nn.Module, folder: Path) -> None:
    """Compare the size of a network with the weights in a folder.

    Raises:
        CheckpointError: the network has far more parameters than the weights.
    """
    wanted = sum(parameter.numel() for parameter in [*model.parameters(), *model.buffers()])
    held = 0
    for path in list_weights(folder):
        if path.suffix == ".safetensors":
            with guarded(path.name, "a safetensors file", error=CheckpointError):
                held += sum(math.prod(entry["shape"]) for entry in safetensors_header(path).values())
        else:
            held += path.stat().st_size // 2
    if wanted > 2 * held + _MORE_PARAMETERS:
        raise CheckpointError(f"its configuration describes {wanted:,} parameters, and its weights hold {held:,}.")


def _loaded(built: Backbone, place: str, info: Mapping[str, Any]) -> LoadedModel:
    """Return how transformers loaded a model; a pooler that the features do not use is not missing."""
    assert built.loaded is not None
    lacking = [*info.get("missing_keys", ()), *(str(each[0]) for each in info.get("mismatched_keys", ()))]
    pooler = built.loaded.layer == _LAYERS["pooled"]
    missing = sorted(n for n in map(str, lacking) if pooler or ".pooler." not in f".{n}")
    files = list_weights(Path(place)) if Path(place).is_dir() else []
    return replace(
        built.loaded,
        file=files[0].name if len(files) == 1 else Path(place).name if files else place,
        matched=len(built.module.state_dict()) - len(set(lacking)),
        missing=tuple(missing),
        unused=tuple(sorted(map(str, info.get("unexpected_keys", ())))),
    )


def transformers_backbone(
    model: nn.Module, name: ModelName, *, processor: object = None, tokenizer: object = None
) -> Backbone:
    """Wrap a model of transformers; without a processor it gets ImageNet's usual preprocessing."""
    model = model.eval()
    prefix = _prefix_tokens(model)
    usual = "projected" if hasattr(model, "get_image_features") else "cls" if prefix else "mean"
    output = name.options.get("output") or usual
    if output not in _LAYERS:
        raise UnknownNameError("output", output, _LAYERS)
    config: Any = getattr(model, "config", None)
    preprocessing, transform = _preprocessing(processor, config)
    architecture = str(getattr(config, "model_type", type(model).__name__))
    card = ModelCard(id=str(name), name=name.rest, group="transformers", architecture=architecture, source="hub")
    return Backbone(
        card=card,
        module=model,
        forward=_forward(output, prefix),
        preprocessing=name.adjust(preprocessing),
        prefix_tokens=prefix,
        notes=(f"features: {output}", *(() if transform is None else ("preprocessing by its own processor",))),
        transform=transform,
        text=_text_tower(model, tokenizer) if tokenizer is not None else None,
        loaded=LoadedModel(architecture=architecture, layer=_LAYERS[output]),
    )


def _prefix_tokens(model: Any) -> int:
    """Return the number of class and register tokens before the patch tokens."""
    names = [name.rpartition(".")[2] for name, _ in model.named_parameters()]
    if not any(name in ("cls_token", "class_embedding") for name in names):
        return 0
    return 1 + int(getattr(getattr(model, "config", None), "num_register_tokens", 0) or 0)


def _forward(output: str, prefix: int) -> Forward:
    def forward(module: nn.Module, images: Tensor) -> tuple[Tensor, Tensor | None]:
        model: Any = module
        if output == "projected":
            found = model.get_image_features(pixel_values=images)
            return getattr(found, "pooler_output", found).flatten(1), None
        # `base_model` is the network without the head of a task.
        inner = model.vision_model if hasattr(model, "get_image_features") else getattr(model, "base_model", model)
        found = inner(pixel_values=images)
        if output == "pooled":
            if getattr(found, "pooler_output", None) is None:
                raise BackboneError("the model has no pooler. Use output=cls or output=mean.")
            return found.pooler_output.flatten(1), None
        hidden = found.last_hidden_state
        if hidden.ndim == 4:
            return hidden.mean((2, 3)), None
        if output == "cls":
            return hidden[:, 0], None
        return (hidden[:, prefix:] if hidden.ndim == 3 else hidden[:, None]).mean(1), None

    return forward


def _text_tower(model: Any, tokenizer: Any) -> TextTower:
    import torch

    def embed(texts: Sequence[str]) -> Float32Array:
        longest = getattr(getattr(model.config, "text_config", None), "max_position_embeddings", None)
        tokens = tokenizer(list(texts), padding="max_length", truncation=True, max_length=longest, return_tensors="pt")
        with torch.inference_mode():
            found = model.get_text_features(**tokens)
        embedded: Float32Array = getattr(found, "pooler_output", found).float().numpy()
        return embedded

    return embed


def _preprocessing(processor: Any, config: Any) -> tuple[Preprocessing, CallableTransform | None]:
    """Return the processor as a record if that gives the same on a test image; otherwise the processor itself."""
    side = getattr(config, "image_size", None) or getattr(getattr(config, "vision_config", None), "image_size", None)
    side = int(side[0] if isinstance(side, list | tuple) else side or 224)
    sizes = [] if processor is None else [processor.to_dict().get(key) or {} for key in ("size", "crop_size")]
    if not 0 < side <= _LARGEST_SIDE or any(int(edge) > _LARGEST_SIDE for each in sizes for edge in each.values()):
        raise BackboneError(f"it takes images of more than {_LARGEST_SIDE:,} pixels a side.")
    if processor is None:
        return Preprocessing(size=side, resize=round(side * 256 / 224)), None
    record = _record(processor)
    own = CallableTransform(lambda image: processor(images=image, return_tensors="np")["pixel_values"])
    if record is not None and own.shape == (3, record.size, record.size) and agrees(own, record):
        return record, None
    return Preprocessing(size=int(own.shape[-1]), resize=int(own.shape[-1])), own


def _record(processor: Any) -> Preprocessing | None:
    given = processor.to_dict()
    size, crop = given.get("size") or {}, given.get("crop_size") or {}
    steps = [given.get(f"do_{step}", True) for step in ("resize", "rescale", "normalize")]
    if not all(steps) or abs(float(given.get("rescale_factor", 1 / 255)) * 255 - 1) > 1e-6:
        return None
    resize = int(size.get("shortest_edge") or size.get("height") or 0)
    squash = "height" in size
    cropped = int(crop.get("height") or 0) if given.get("do_center_crop") else 0
    final = cropped or (resize if squash else 0)
    if not final or resize < final or (squash and size["height"] != size.get("width")):
        return None
    if cropped and crop.get("width") != cropped:
        return None
    return Preprocessing.from_dict(
        {
            "size": final,
            "resize": resize,
            "mode": "squash" if squash else "shortest",
            "interpolation": _FILTERS.get(int(given.get("resample", 2)), "bilinear"),
            "mean": list(given["image_mean"]),
            "std": list(given["image_std"]),
        }
    )


def agrees(own: CallableTransform, record: Preprocessing) -> bool:
    """Return whether a record gives the same as another transform, up to the rounding of grey values.

    The record's arithmetic is torchvision's on Pillow images; a processor may resize tensors instead.
    """
    import numpy as np
    from PIL import Image
    from torchvision import transforms

    ramp = np.linspace(0, 255, 300 * 400 * 3).reshape(300, 400, 3)
    wave = 40 * np.sin(np.arange(400) / 9.0)[None, :, None]
    image = Image.fromarray(np.clip(ramp + wave, 0, 255).astype(np.uint8))
    sides = (record.resize, record.resize) if record.mode == "squash" else record.resize
    mode = transforms.InterpolationMode(record.interpolation)
    chain = [transforms.Resize(sides, mode), transforms.CenterCrop(record.size), transforms.ToTensor()]
    ours = transforms.Compose([*chain, transforms.Normalize(record.mean, record.std)])(image).numpy()
    grey = 1 / (255 * min(record.std))
    return bool(np.abs(ours - own(image)).max() < 1.5 * grey)


def _transformers() -> Any:
    """Import transformers; without its progress bars and advice, unless the user has imported it."""
    first = "transformers" not in sys.modules
    # Some networks fetch compiled code from the hub as soon as they are imported; no name asks for that.
    os.environ.setdefault("USE_HUB_KERNELS", "0")
    ensure_torchvision()
    library: Any = import_extra("transformers", "hf")
    if first:
        library.utils.logging.set_verbosity_error()
        library.utils.logging.disable_progress_bar()
    return library
