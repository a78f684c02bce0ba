"""`xlsa17:res101`, `features:vit`: the features that a dataset has, under the name of a model.

Such a dataset has the outputs of the model only. The name puts these features beside those of models that can be
loaded; loading it raises an error with an alternative. A user's features are called by their file or array:
`xlsa17:vit` for `xlsa17:CUB?features=vit.npy`, `features:vit` for `features:vit.npz`; the dataset knows which exist.
"""

from __future__ import annotations

from collections.abc import Iterator

from unseen.backbones.backbone import Backbone
from unseen.backbones.load import BackboneSource, ModelName
from unseen.core.errors import BackboneError, UnknownNameError
from unseen.core.records import ModelCard

_CARD = ModelCard(
    id="xlsa17:res101",
    name="ResNet-101 (published features)",
    group="published features",
    paper="gbu",
    architecture="resnet101",
    feature_dim=2048,
    source="xlsa17",
    notes="comes with the xlsa17 datasets; features only",
)


class GivenSource(BackboneSource):
    """Names of features that datasets have."""

    def cards(self) -> Iterator[ModelCard]:
        return iter(())

    def check(self, name: ModelName) -> None:
        if not name.rest or "/" in name.rest:
            known = [card.id for card in self.cards()]
            raise UnknownNameError("features of a dataset", f"{name.scheme}:{name.rest}", known)

    def load(self, name: ModelName) -> Backbone:
        self.check(name)
        raise BackboneError(
            f"{name!s} names features that a {name.scheme}: dataset has; there is no model to load. With other images "
            "use a model, such as torchvision:resnet101."
        )

    def revision(self, name: ModelName) -> str:
        self.check(name)
        return "published"


class PublishedSource(GivenSource):
    """Published features of the `xlsa17` datasets."""

    listed = False  # it cannot be run

    def cards(self) -> Iterator[ModelCard]:
        yield _CARD
