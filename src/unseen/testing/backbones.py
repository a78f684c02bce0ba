"""Contract suite of sources of models."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from unseen.backbones.backbone import Backbone
from unseen.backbones.load import BackboneSource, ModelName
from unseen.core.records import ModelCard
from unseen.testing.claims import check_cards, claim, refuses, refuses_variants


def check_backbone_source(
    source: BackboneSource | type[BackboneSource],
    *,
    scheme: str,
    load: Sequence[str] = (),
    build: Sequence[str] = (),
) -> None:
    """Check a source of models.

    Args:
        source: or its class.
        scheme: under which it is registered.
        load: names of models to load, without options, such as "hf:facebook/dinov2-small". None if a test has no
            weights.
        build: names of architectures to build without weights; tiny ones suffice.
    """
    made = source() if isinstance(source, type) else source
    check_cards(made, BackboneSource, ModelCard, scheme)
    for name in load:
        _check_loading(made, ModelName.parse(name))
    claim(not build or made.builds, f"{scheme} has no build(), but architectures to build were given")
    for name in build:
        _check_building(made, ModelName.parse(name))


def _check_loading(source: BackboneSource, name: ModelName) -> None:
    source.check(name)
    first = _seeded(lambda: source.load(name))
    _check_backbone(first, name)
    other = ModelName(name.scheme, name.rest, {**name.options, "interpolation": "nearest"})
    again = _seeded(lambda: source.load(other))
    claim(again.weights == first.weights, f"{name}: two loads have other weights")
    claim(again.id == str(other), f"{other}: its card has the id {again.id!r}")
    claim(again.preprocessing.interpolation == "nearest", f"{other}: the option does not reach the preprocessing")
    revision = source.revision(name)
    claim(bool(revision) and isinstance(revision, str), f"{name}: revision() gives {revision!r}, not a word")
    claim(source.revision(name) == revision, f"{name}: revision() gives two words for the same weights")
    refuses_variants(name, source.load)


def _seeded(make: Callable[[], Backbone]) -> Backbone:
    """Return a model with fixed random weights, as `load_backbone` does."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make()


def _check_building(source: BackboneSource, name: ModelName) -> None:
    source.check(name)
    first, again = (_seeded(lambda: source.build(name)) for _ in range(2))
    claim(again.weights == first.weights, f"{name}: build() does not follow torch's seed")
    _check_backbone(first, name)
    three, headless = source.build(name, 3), source.build(name, 0)
    with torch.inference_mode():
        logits = three.forward(three.module, three.blank_input())[1]
    claim(logits is not None and logits.shape == (1, 3), f"{name}: build(classes=3) has no head of three classes")
    claim(not headless.has_head, f"{name}: build(classes=0) has a class head")
    claim(headless.feature_dim == first.feature_dim, f"{name}: without its head it has features of another width")
    unknown = ModelName(name.scheme, f"{name.rest}-no-such-model", name.options)
    refuses(f"{unknown}", lambda: source.build(unknown))


def _check_backbone(backbone: Backbone, name: ModelName) -> None:
    claim(isinstance(backbone, Backbone), f"{name}: {type(backbone).__name__} was given, not a Backbone")
    claim(backbone.id == str(name), f"{name}: its card has the id {backbone.id!r}")
    claim(not any(module.training for module in backbone.module.modules()), f"{name} is not in evaluation mode")
    places = {str(tensor.device) for tensor in backbone.module.state_dict().values()}
    claim(places <= {"cpu"}, f"{name} is not on the CPU but on {sorted(places)}")
    size = backbone.preprocessing.size
    images = torch.rand(2, 3, size, size, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        features, logits = backbone.forward(backbone.module, images)
        alone, _ = backbone.forward(backbone.module, images[:1])
    claim(features.ndim == 2 and len(features) == 2, f"{name}: features of two images have the shape {features.shape}")
    claim(bool(torch.isfinite(features).all()), f"{name}: features are not finite")
    claim(logits is None or logits.shape[0] == 2, f"{name}: logits of two images have another length")
    near = torch.allclose(alone[0], features[0], rtol=1e-3, atol=1e-4 * float(features.abs().max() + 1e-12))
    claim(near, f"{name}: an image has other features beside other images than alone")
