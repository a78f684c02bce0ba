"""Which network of a checkpoint is loaded: by fit, then by recipe, never by the order of the keys."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from unseen.backbones import load_backbone
from unseen.backbones.networks import find_network
from unseen.backbones.sources.timm import create_timm
from unseen.core.errors import CheckpointError

ARCH = "timm:test_resnet"
State = dict[str, Tensor]


def weights(seed: int, *, head: bool = False) -> State:
    torch.manual_seed(seed)
    state: State = create_timm("test_resnet", pretrained=False).state_dict()
    return {name: tensor for name, tensor in state.items() if head or not name.startswith("fc.")}


def prefixed(state: State, prefix: str) -> State:
    return {prefix + name: tensor for name, tensor in state.items()}


GOOD, OTHER = weights(1), weights(2)


def loaded_is(path: Path, expected: State, options: str = "") -> str:
    """Assert that a file is loaded as `expected`, and return the name of the network in the record."""
    backbone = load_backbone(f"file:{path}?arch={ARCH}{options}")
    own = backbone.module.state_dict()
    assert all(torch.equal(own[name], tensor) for name, tensor in expected.items())
    assert backbone.loaded is not None
    return backbone.loaded.network


#: (key of the network that the recipe evaluates, key of the other) inside mappings.
PAIRS = [
    ("teacher", "student"),
    ("online_network_state_dict", "target_network_state_dict"),
    ("online_encoder", "target_encoder"),
    ("target_encoder", "encoder"),
    ("state_dict", "state_dict_ema"),
    ("model", "model_ema"),
    ("model", "ema"),
]
#: The same as prefixes of names inside one mapping.
FLAT = [
    ("module.encoder_q.", "module.encoder_k."),
    ("encoder_q.", "encoder_k."),
    ("module.base_encoder.", "module.momentum_encoder."),
    ("teacher.backbone.", "student.backbone."),
    ("teacher_backbone.", "student_backbone."),
    ("online_network.encoder.", "target_network.encoder."),
    ("backbone.", "momentum_backbone."),
    ("backbone.", "backbone_momentum."),
    ("model.", "ema_model."),
]
INNER = ["", "module.", "backbone.", "module.backbone."]


@pytest.mark.parametrize(("good", "other"), PAIRS)
def test_the_recipe_decides_between_mappings(good: str, other: str) -> None:
    module = create_timm("test_resnet", pretrained=False)
    for first, second, swap in itertools.product(INNER, INNER, (False, True)):
        entries = {good: prefixed(GOOD, first), other: prefixed(OTHER, second)}
        saved: dict[str, Any] = {k: entries[k] for k in sorted(entries, reverse=swap)} | {"epoch": 3}
        choice = find_network(saved, module)
        assert choice.network.container == good, (first, second, swap)
        assert [each.container for each in choice.alternatives] == [other]
        assert not choice.tied
        assert find_network(saved, module, other).network.container == other


@pytest.mark.parametrize(("good", "other"), FLAT)
@pytest.mark.parametrize("container", ["", "state_dict", "model"])  # MoCo and Lightning: state_dict; DINOv2: model
def test_the_recipe_decides_between_prefixes(good: str, other: str, container: str) -> None:
    module = create_timm("test_resnet", pretrained=False)
    parts = [prefixed(GOOD, good), prefixed(OTHER, other)]
    for order in (parts, parts[::-1]):
        flat = {**order[0], **order[1], "queue": torch.zeros(3)}
        choice = find_network({container: flat} if container else flat, module)
        assert choice.network.prefix == good
        assert [each.prefix for each in choice.alternatives] == [other]
        assert not choice.tied


def test_averages_by_request() -> None:
    module = create_timm("test_resnet", pretrained=False)
    for good, other in [("state_dict", "state_dict_ema"), ("model", "model_ema"), ("weights", "swa")]:
        assert find_network({good: GOOD, other: OTHER}, module, ema=True).network.container == other
    # "schema" and "swapped" are not averages.
    assert find_network({"schema": GOOD, "swapped": OTHER}, module).tied


def test_a_dino_file_loads_the_teacher_and_records_the_student(tmp_path: Path) -> None:
    path = tmp_path / "dino.pth"
    torch.save({"student": prefixed(OTHER, "module.backbone."), "teacher": prefixed(GOOD, "backbone.")}, path)
    assert loaded_is(path, GOOD) == "teacher.backbone"
    found = load_backbone(f"file:{path}?arch={ARCH}").loaded
    assert found is not None
    assert (found.file, found.alternatives) == ("dino.pth", ("student.module.backbone",))
    assert (found.architecture, found.inferred, found.layer) == (ARCH, False, "pooled features")
    assert (found.missing, found.unused) == ((), ())  # the class head is not used by the features
    assert found.matched == len(GOOD)
    assert loaded_is(path, OTHER, "&key=student") == "student.module.backbone"
    assert loaded_is(path, OTHER, "&key=student.module") == "student.module.backbone"
    assert loaded_is(path, GOOD, "&key=teacher.backbone") == "teacher.backbone"


def test_part_of_a_path_selects(tmp_path: Path) -> None:
    path = tmp_path / "moco.pth"
    flat = prefixed(OTHER, "module.encoder_q.") | prefixed(GOOD, "module.encoder_k.")
    torch.save({"state_dict": flat}, path)
    for key in ("encoder_k", "module.encoder_k", "state_dict.module.encoder_k"):
        assert loaded_is(path, GOOD, f"&key={key}") == "state_dict.module.encoder_k"
    assert load_backbone(f"file:{path}?arch={ARCH}").loaded.unused == ()  # type: ignore[union-attr]


def test_a_misspelt_key_lists_what_exists(tmp_path: Path) -> None:
    path = tmp_path / "dino.pth"
    torch.save({"student": OTHER, "teacher": GOOD}, path)
    with pytest.raises(CheckpointError, match=r"under 'techer'\. Did you mean 'teacher'.*'student', 'teacher'"):
        load_backbone(f"file:{path}?arch={ARCH}&key=techer")


@pytest.mark.parametrize("order", [("first", "second"), ("second", "first")])
def test_two_networks_without_a_recipe_are_refused(order: tuple[str, str], tmp_path: Path) -> None:
    path, states = tmp_path / "two.pth", {"first": GOOD, "second": OTHER}
    torch.save({key: states[key] for key in order}, path)
    with pytest.raises(CheckpointError, match=r"2 networks that fit equally well: 'first', 'second'.*\?key=first"):
        load_backbone(f"file:{path}?arch={ARCH}")
    assert loaded_is(path, OTHER, "&key=second") == "second"


def test_equal_copies_are_one_network(tmp_path: Path) -> None:
    path = tmp_path / "copies.pth"
    full = weights(1, head=True)
    torch.save({"best": GOOD, "last": {n: t.clone() for n, t in full.items()}}, path)
    backbone = load_backbone(f"file:{path}?arch={ARCH}")
    assert backbone.has_head, "the copy with the class head"
    assert backbone.loaded is not None
    assert (backbone.loaded.network, backbone.loaded.alternatives) == ("", ())


def test_a_larger_teacher_is_another_architecture() -> None:
    """A ResNet-34 has every tensor of a ResNet-18 by name and shape."""
    student = create_timm("resnet18", pretrained=False)
    larger = create_timm("resnet34", pretrained=False).state_dict()
    saved = {"teacher": larger, "student": student.state_dict()}
    assert find_network(saved, student).network.container == "student"
    assert find_network(saved, create_timm("resnet34", pretrained=False)).network.container == "teacher"


def test_a_class_head_does_not_outweigh_the_recipe() -> None:
    module = create_timm("test_resnet", pretrained=False)
    choice = find_network({"student": weights(2, head=True), "teacher": GOOD}, module)
    assert choice.network.container == "teacher"


def test_networks_matched_by_order_follow_the_recipe(tmp_path: Path) -> None:
    path = tmp_path / "renamed.pth"
    named = [{f"layer{i}": t for i, t in enumerate(state.values())} for state in (OTHER, GOOD)]
    torch.save({"student": named[0], "teacher": named[1]}, path)
    loaded_is(path, GOOD, "&rename=true")
    loaded_is(path, OTHER, "&rename=true&key=student")


def test_the_architecture_is_inferred_from_the_network_of_the_key(tmp_path: Path) -> None:
    path = tmp_path / "two.pth"
    torch.manual_seed(0)
    nets = {"big": create_timm("resnet34", pretrained=False), "small": create_timm("resnet18", pretrained=False)}
    torch.save({key: net.state_dict() for key, net in nets.items()}, path)
    loaded = load_backbone(f"file:{path}?key=small&size=64").loaded
    assert loaded is not None
    assert (loaded.architecture, loaded.inferred, loaded.network) == ("timm:resnet18", True, "small")


def test_missing_tensors_of_a_partial_file_are_recorded(tmp_path: Path) -> None:
    path = tmp_path / "half.pth"
    names = list(GOOD)
    torch.save({name: GOOD[name] for name in names[: len(names) // 2]} | {"junk": torch.zeros(2)}, path)
    loaded = load_backbone(f"file:{path}?arch={ARCH}&partial=true").loaded
    assert loaded is not None
    lacking = {n for n in names[len(names) // 2 :] if not n.endswith("num_batches_tracked")}
    assert set(loaded.missing) == lacking
    assert loaded.unused == ("junk",)


def test_no_tensor_fits() -> None:
    choice = find_network(
        {"a": {"x": torch.zeros(2)}, "b": {"y": torch.zeros(2), "z": torch.zeros(1)}}, nn.Linear(3, 4)
    )
    assert (choice.network.container, choice.network.fit) == ("b", 0)
    with pytest.raises(CheckpointError, match="no tensors"):
        find_network({"epoch": 3}, nn.Linear(3, 4))
