"""`random:ARCH?seed=0`: the from-scratch reference. ARCH is a timm name, or such as `torchvision:NAME`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version

from unseen.backbones.backbone import Backbone
from unseen.backbones.load import BackboneSource, ModelName, architecture
from unseen.core.errors import UsageError
from unseen.core.records import ModelCard


class RandomSource(BackboneSource):
    """Any architecture that a source builds, with random weights."""

    pattern, hint = "random:ARCH", "any architecture of timm, or random:torchvision:NAME, with random weights"

    def cards(self) -> Iterator[ModelCard]:
        yield ModelCard(
            id="random:tf_efficientnet_lite0",
            name="EfficientNet-Lite0, random weights",
            group="reference",
            architecture="tf_efficientnet_lite0",
            notes="from-scratch reference",
        )

    def check(self, name: ModelName) -> None:
        _seed(name)
        architecture(name.rest, name)

    def load(self, name: ModelName) -> Backbone:
        import torch

        source, wanted = architecture(name.rest, name)
        torch.manual_seed(_seed(name))  # of the generator that `load_backbone` restores
        built = source.build(wanted)
        listed = {card.id: card.name for card in self.cards()}  # one name, listed or loaded
        label = listed.get(str(name), f"{wanted.rest}, random weights")
        card = replace(built.card, id=str(name), name=label, group="reference")
        return replace(built, card=card)

    def revision(self, name: ModelName) -> str:
        source, wanted = architecture(name.rest, name)
        # The release of torch draws the weights; its build ("+cpu") does not change them.
        return f"{source.revision(wanted)} torch {version('torch').partition('+')[0]}"


def _seed(name: ModelName) -> int:
    name.check_options("seed")
    text = name.options.get("seed", "0")
    if not text.isdecimal():
        raise UsageError(f"{name}: seed={text} is not a whole number.")
    return int(text)
