"""`cog:NAME`: the 31 models of ImageNet-CoG, from the files that their authors published.

`weights=PATH` takes that file; otherwise it is looked for in the folder of weights (`UNSEEN_COG_WEIGHTS`) and, failing
that, downloaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from unseen.backbones.cog.release import CogModel, cog_models, locate
from unseen.backbones.load import BackboneSource, ModelName
from unseen.core.errors import CheckpointError, UnknownNameError, UsageError
from unseen.core.identity import file_digest
from unseen.core.records import ModelCard
from unseen.core.run_record import LoadedModel

if TYPE_CHECKING:
    from unseen.backbones.backbone import Backbone


class CogSource(BackboneSource):
    """The models of Table 1 of the ImageNet-CoG paper."""

    paths = ("weights",)

    def cards(self) -> Iterator[ModelCard]:
        for model in cog_models().values():
            yield model.card

    def check(self, name: ModelName) -> None:
        name.check_options("weights")
        _model(name)

    def load(self, name: ModelName) -> Backbone:
        name.check_options("weights")
        model = _model(name)
        return load_cog(model, locate(model, name.options.get("weights")), name)

    def revision(self, name: ModelName) -> str:
        model = _model(name)
        return "sha256 " + file_digest(_main_file(locate(model, name.options.get("weights"))))[:16]


def load_cog(model: CogModel, path: Path, name: ModelName) -> Backbone:
    """Build a model and fill it from its published file; strict about every name and shape."""
    from unseen.backbones.backbone import FEATURES, Backbone
    from unseen.backbones.cog.architectures import build_network
    from unseen.backbones.cog.formats import choose_prefix, read_published
    from unseen.backbones.cog.layouts import LAYOUTS, first_key, fit

    card = model.card
    assert card.preprocessing is not None
    preprocessing = name.adjust(card.preprocessing)
    if preprocessing.size != card.preprocessing.size and card.architecture.startswith(("deit", "t2t", "resnet50_clip")):
        raise UsageError(f"{card.id} takes images of {card.preprocessing.size} pixels only; leave size= out.")
    tensors = read_published(model, path)
    module, forward = build_network(card.architecture, head=model.head)
    layout = LAYOUTS[model.layout]
    prefix = choose_prefix(model, tensors, layout.rename(next(iter(module.state_dict()))))
    if difference := fit(module, tensors, layout, prefix=prefix, ignored=model.ignored):
        raise CheckpointError(
            f"{card.id}: {path.name} does not fit {card.architecture}: {difference.sentence()}. The file begins with "
            f"{first_key(tensors)!r}. {model.file} from {model.page} is needed."
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


def _model(name: ModelName) -> CogModel:
    try:
        return cog_models()[name.rest]
    except KeyError:
        raise UnknownNameError("model of ImageNet-CoG", name.rest, cog_models()) from None


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
