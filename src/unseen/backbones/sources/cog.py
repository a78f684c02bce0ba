"""`cog:NAME`: the 31 models of ImageNet-CoG, from the files that their authors published.

`weights=PATH` is such a file. Without it, the folder of weights (`UNSEEN_COG_WEIGHTS`, or `weights/cog` in the home
folder) is searched: `<folder>/<model>/<published name>`, then the only file of `<folder>/<model>/`, then
`<folder>/<published name>` if no other model publishes a file of that name. A file that is not found is downloaded.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from unseen.backbones.backbone import FEATURES, Backbone
from unseen.backbones.load import BackboneSource, ModelName
from unseen.core.errors import CheckpointError, UnknownNameError, UsageError
from unseen.core.files import Checksum, DownloadError, download, home, read_toml
from unseen.core.identity import file_digest
from unseen.core.records import ModelCard
from unseen.core.run_record import LoadedModel


@dataclass(frozen=True)
class Stage:
    """One stage of NAT-M4: blocks are (kernel, expansion); the first of them has the stride and changes the width."""

    width: int
    stride: int
    attends: bool
    blocks: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class CogModel:
    """A model's card and how its authors publish its weights; `cards.toml` describes the attributes."""

    card: ModelCard
    file: str
    page: str
    urls: tuple[str, ...] = ()
    sha256: str = ""
    format: str = "torch"
    containers: tuple[str, ...] = ("",)
    prefixes: tuple[str, ...] = ("",)
    ignored: tuple[str, ...] = ()
    head: bool = True
    layout: str = "same"
    layer: str = "global average pool"
    classifier: str = ""
    stages: tuple[Stage, ...] = ()

    @property
    def id(self) -> str:
        """Return the id without the scheme, such as "s-dino"."""
        return self.card.id.removeprefix("cog:")


@cache
def cog_models() -> Mapping[str, CogModel]:
    """Return every model by its id, in the order of the paper."""
    found = msgspec.convert(read_toml("unseen.backbones.cog", "cards.toml")["models"], list[CogModel])
    return {model.id: model for model in found}


class CogSource(BackboneSource):
    """The models of Table 1 of the ImageNet-CoG paper."""

    paths = ("weights",)

    def cards(self) -> Iterator[ModelCard]:
        for model in cog_models().values():
            yield model.card

    def check(self, name: ModelName) -> None:
        name.check_options("weights")
        _find_model(name)

    def load(self, name: ModelName) -> Backbone:
        self.check(name)
        model = _find_model(name)
        return load_cog(model, locate(model, name.options.get("weights")), name)

    def revision(self, name: ModelName) -> str:
        path = locate(_find_model(name), name.options.get("weights"))
        return "sha256 " + file_digest(_main_file(path))[:16]


def load_cog(model: CogModel, path: Path, name: ModelName) -> Backbone:
    """Build a model and fill it from its published file; strict about every name and shape."""
    from unseen.backbones.cog.architectures import build_network
    from unseen.backbones.cog.formats import fit, read_published

    card = model.card
    assert card.preprocessing is not None
    preprocessing = name.adjust(card.preprocessing)
    if preprocessing.size != card.preprocessing.size and card.architecture.startswith(("deit", "t2t", "resnet50_clip")):
        raise UsageError(f"{card.id} takes images of {card.preprocessing.size} pixels only; leave size= out.")
    tensors = read_published(model, path)
    module, forward = build_network(model)
    if difference := fit(model, module, tensors):
        raise CheckpointError(
            f"{card.id}: {path.name} does not fit {card.architecture}: {difference}. The file begins with "
            f"{next(iter(tensors), 'no tensor at all')!r}. {model.file} from {model.page} is needed."
        )
    return Backbone(
        card=replace(card, id=str(name)),
        module=module.eval(),
        forward=forward,
        preprocessing=preprocessing,
        prefix_tokens=_prefix_tokens(card.architecture),
        notes=(_provenance(model, path), *((card.notes,) if card.notes else ())),
        loaded=LoadedModel(path.name, architecture=card.architecture, matched=len(module.state_dict()), layer=FEATURES),
    )


def _find_model(name: ModelName) -> CogModel:
    if name.rest not in cog_models():
        raise UnknownNameError("model of ImageNet-CoG", name.rest, cog_models())
    return cog_models()[name.rest]


def _main_file(path: Path) -> Path:
    """Return the file whose checksum identifies the weights; for a TensorFlow checkpoint, its index."""
    if path.is_dir():
        return next(iter(sorted(path.glob("*.index"))), path)
    return path if path.is_file() else path.with_name(path.name + ".index")


def _provenance(model: CogModel, path: Path) -> str:
    """Describe the loaded file by its checksum, and whether it is the published one."""
    found = file_digest(_main_file(path))
    if not model.sha256:
        known = "its authors publish no checksum to compare with"
    elif found.startswith(model.sha256):
        known = "as published"
    else:
        known = f"not the published file, which begins with {model.sha256[:16]}"
    return f"{path.name}: sha256 {found}, {known}"


def _prefix_tokens(architecture: str) -> int:
    if not architecture.startswith(("deit", "t2t")):
        return 0
    return 2 if "distilled" in architecture else 1


def weights_folder() -> Path:
    """Return the folder with the published files."""
    if chosen := os.environ.get("UNSEEN_COG_WEIGHTS"):
        return Path(chosen).expanduser()
    return home() / "weights" / "cog"


def locate(model: CogModel, weights: str | None = None) -> Path:
    """Return the model's file: `weights` if the user chose one, else from the folder, else downloaded into it."""
    if weights is not None:
        path = Path(weights).expanduser()
        if not path.exists() and not path.with_name(path.name + ".index").exists():
            raise CheckpointError(f"{model.card.id}: there is no file at {path}. It should be {_wanted(model)}.")
        return path
    found = find_in_folder(model, weights_folder())
    return found if found is not None else _fetch_model(model, weights_folder() / model.id)


def find_in_folder(model: CogModel, folder: Path) -> Path | None:
    """Return the model's file in a folder of weights, or None."""
    own = folder / model.id
    if (own / model.file).is_file():
        return own / model.file
    inside = [path for path in own.glob("*") if path.is_file() and path.suffix not in (".part", ".lock")]
    if len(inside) == 1:
        return inside[0]
    unique = sum(other.file == model.file for other in cog_models().values()) == 1
    return folder / model.file if unique and (folder / model.file).is_file() else None


def _fetch_model(model: CogModel, folder: Path) -> Path:
    by_hand = f"Download {_wanted(model)} to {folder / model.file}, or give its path: {model.card.id}?weights=PATH"
    if not model.urls:
        raise CheckpointError(
            f"{model.card.id}: its weights are not in {folder}, and its authors publish them where only a browser "
            f"can fetch them. {by_hand}."
        )
    try:
        # The first address is the file itself, with its checksum; it is downloaded last, so that an interrupted
        # download is never taken for complete.
        for url in reversed(model.urls):
            is_file = url == model.urls[0]
            name = model.file if is_file else unquote(Path(urlsplit(url).path).name)
            download(url, folder / name, Checksum(sha256=model.sha256) if is_file else None)
    except DownloadError as error:
        raise CheckpointError(
            f"{model.card.id}: its weights are not in {folder} and could not be downloaded: {error} {by_hand}."
        ) from error
    return folder / model.file


def _wanted(model: CogModel) -> str:
    return f"{model.file} from {model.page}"
