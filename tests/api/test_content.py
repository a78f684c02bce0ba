"""An object is what it computes now: whatever changes its features changes its name. And studies take objects."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import unseen
from unseen.backbones import objects
from unseen.backbones.objects import as_backbone
from unseen.core.errors import BackboneError, UnseenError

SMALL = unseen.Preprocessing(size=32, resize=32)


class Net(nn.Module):
    """State of every kind: parameters, tied ones, buffers that are saved and that are not, plain values."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6)
        self.again = self.conv
        self.register_buffer("kept", torch.ones(6))
        self.register_buffer("lost", torch.ones(6), persistent=False)
        self.plain, self.factors, self.sizes = torch.ones(6), [1.0, 2.0], {"a": 1}
        self.bend = lambda x: x * 1.0

    def helper(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean((2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.conv(x)).relu() * self.factors[0] * self.sizes["a"]
        return self.bend(self.helper(x)) * self.kept * self.lost * self.plain


def name_of(model: Any, **how: Any) -> str:
    return as_backbone(model, **{"preprocessing": SMALL, **how}).id


def step(net: Net) -> None:
    net.train()(torch.randn(4, 3, 8, 8)).sum().backward()
    torch.optim.SGD(net.parameters(), lr=0.1).step()


CHANGES: dict[str, Callable[[Net], Any]] = {
    "a training step": step,
    "statistics of a forward pass": lambda net: net.train()(torch.randn(4, 3, 8, 8)),
    "a tied weight": lambda net: net.again.weight.data.mul_(2),
    "a buffer": lambda net: net.kept.mul_(2),
    "a buffer that is not saved": lambda net: net.lost.mul_(2),
    "a tensor that is not a buffer": lambda net: net.plain.mul_(2),
    "a number in a list": lambda net: net.factors.__setitem__(0, 3.0),
    "a number in a dict": lambda net: net.sizes.__setitem__("a", 2),
    "a function": lambda net: setattr(net, "bend", lambda x: x * 2.0),
    "a method": lambda net: setattr(net, "__class__", type("Net", (Net,), {"helper": lambda s, x: x.amax((2, 3))})),
    "a module": lambda net: setattr(net, "norm", nn.Identity()),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_changes_features_changes_the_name(what: str) -> None:
    torch.manual_seed(0)
    net = Net().eval()
    before = name_of(net)
    assert name_of(net) == before, "nothing has changed"
    assert name_of(net.train()) == before, "the mode is not content"
    CHANGES[what](net)
    assert name_of(net) != before


def test_a_backbone_is_what_its_module_is_now(tmp_path: Path) -> None:
    made = unseen.load_backbone("random:test_resnet?size=64")
    pictures = [Image.fromarray(np.full((64, 64, 3), 25 * i, np.uint8)) for i in range(8)]
    before = unseen.extract(made, pictures, home=tmp_path)
    with torch.no_grad():
        next(p for p in made.module.parameters() if p.ndim == 4).add_(0.5)
    after = unseen.extract(made, pictures, home=tmp_path)
    assert before.model != after.model and not np.allclose(before.features, after.features)
    held = as_backbone(Net().eval(), preprocessing=SMALL)
    held.weights  # noqa: B018 - read, so kept
    held.module.kept.mul_(2)  # type: ignore[union-attr,operator]
    assert as_backbone(held).id != held.id


def test_a_function_and_a_transform_too() -> None:
    scale = np.ones(1, np.float32)
    function = lambda batch: batch.mean((1, 2)).astype(np.float32) * scale  # noqa: E731
    held = as_backbone(function)
    scale *= 2
    assert as_backbone(function).id != held.id and as_backbone(held).id != held.id

    class Shrink:
        side = 16

        def __call__(self, image: Image.Image) -> torch.Tensor:
            pixels = np.asarray(
                image.convert("RGB").resize((32, 32)).crop((0, 0, self.side, self.side)).resize((32, 32))
            )
            return torch.from_numpy(pixels.copy()).permute(2, 0, 1).float()

    transform, net = Shrink(), Net().eval()
    before = name_of(net, transform=transform, preprocessing=None)
    transform.side = 24
    assert name_of(net, transform=transform, preprocessing=None) != before


class Noisy(torch.utils.data.Dataset[Any]):
    """Augmentation that cannot be set aside."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, i: int) -> Any:
        noise = np.random.default_rng().integers(0, 50, (32, 32, 3))
        return Image.fromarray((noise + 60 * (i % 3)).astype(np.uint8)), i % 3


def test_a_dataset_that_gives_other_images_each_time_is_said() -> None:
    from unseen.data.adapters import as_dataset

    with pytest.warns(UserWarning, match="another image each time"):
        made = as_dataset(Noisy())
    assert "another image each time" in made.card.notes


def test_studies_take_objects(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = [i % 3 for i in range(24)]
    pictures = [Image.fromarray((rng.integers(0, 50, (32, 32, 3)) + 60 * k).astype(np.uint8)) for k in labels]
    net, small = Net().eval(), "random:test_resnet?size=64"
    study = unseen.Study("held", (net, small, lambda batch: batch[:, ::64, ::64, 0].reshape(len(batch), -1)),
                         ((pictures, labels),), {"probe": {"seeds": 1, "solver": "ncm"}})  # fmt: skip
    outcome = unseen.run_study(study, tmp_path)
    assert [result.ok for result in outcome.results] == [True] * 3
    assert study.models[0].startswith("object:Net@") and study.models[1] == small
    again = unseen.Study("held", (net,), ((pictures, labels),), {"probe": {"seeds": 1, "solver": "ncm"}})
    assert unseen.run_study(again, tmp_path).evaluated == 0
    del again
    copied = replace(study, title="another")
    name = study.models[0]
    del study, outcome
    gc.collect()
    assert name in objects.OBJECTS.objects, "the copy holds it"
    del copied
    gc.collect()
    assert name not in objects.OBJECTS.objects


def test_a_view_is_never_left_out_in_silence() -> None:
    from unseen.benchmarks.vtab.protocol import VtabBenchmark

    def own(image: Image.Image) -> torch.Tensor:
        return torch.from_numpy(np.asarray(image.convert("RGB").resize((32, 32))).copy()).permute(2, 0, 1).float()

    held = as_backbone(Net().eval(), transform=own)
    for preprocessing in ("tf", "plain"):
        with pytest.raises(BackboneError, match="has its own transform"):
            VtabBenchmark(preprocessing=preprocessing)._view(held)
    assert VtabBenchmark(preprocessing="own")._view(held).transform is held.transform
    with pytest.raises(UnseenError):
        as_backbone(held, preprocessing=SMALL)


# ---- ids of objects do not depend on where code stands or how it is documented ---------------------------------------

_SOURCE = '''
class Net(nn.Module):
    """{class_doc}"""

    def forward(self, x):
        """{doc}"""
        keep = [c for c in "abc" if c in {{"a", "b", "c", "d"}}]
        return x.mean((2, 3)) * {factor} * len([y for y in keep if y != "{letter}"])
'''


def _net(lines: int = 0, **words: Any) -> nn.Module:
    chosen = {"class_doc": "A network.", "doc": "Return the mean.", "factor": 1.0, "letter": "z", **words}
    space: dict[str, Any] = {"nn": nn, "__name__": "users_module"}
    exec(compile("\n" * lines + _SOURCE.format(**chosen), "users_module.py", "exec"), space)
    made: nn.Module = space["Net"]()
    return made.eval()


def test_documentation_and_line_numbers_do_not_change_the_name() -> None:
    before = name_of(_net())
    assert name_of(_net(lines=3)) == before
    assert name_of(_net(class_doc="Other words.", doc="Other words, too.")) == before
    numbered = _net()
    type(numbered).__firstlineno__ = 7  # type: ignore[attr-defined] # as Python 3.13 sets it
    assert name_of(numbered) == before
    assert name_of(_net(factor=2.0)) != before
    assert name_of(_net(letter="a")) != before, "code of a comprehension counts, too"


def test_the_name_is_the_same_in_every_process() -> None:
    """The order of a set of texts differs between processes."""
    script = (
        "import sys; sys.path.insert(0, '.')\nfrom tests.api.test_content import _net, name_of\nprint(name_of(_net()))"
    )
    root = Path(__file__).parents[2]
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=root, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert found == {f"{name_of(_net())}\n"}


def test_moving_or_documenting_our_classes_does_not_change_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    called = objects._FunctionModule
    before = name_of(Constant())
    monkeypatch.setattr(called, "__module__", "unseen.elsewhere")
    monkeypatch.setattr(called, "__doc__", "Other words.")
    monkeypatch.setattr(called, "helper", lambda self: 1, raising=False)
    assert name_of(Constant()) == before
    monkeypatch.setattr(called, "object_kind", "function.2")
    assert name_of(Constant()) != before


class Constant:
    def __call__(self, images: Any) -> Any:
        return np.ones((len(images), 4), np.float32)
