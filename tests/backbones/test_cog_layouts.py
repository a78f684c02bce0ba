"""Every card of ImageNet-CoG loads a file in its published layout.

Here: the ResNets, in the containers of their authors and in the pickle of BYOL. A reference network of plain functions
asks a store for its tensors by their published names, so that one run gives both the contents of the file and the
features that must come out of it.
"""

from __future__ import annotations

import argparse
import collections
import pickle
import sys
import types
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from unseen.backbones.sources.cog import cog_models

Arrays = dict[str, dict[str, np.ndarray]]
Check = Callable[..., None]


def haiku_resnet(references: SimpleNamespace, parameters: Arrays, state: Arrays) -> Tensor:
    """ResNet under Haiku's paths, padded at the end throughout, channels last."""
    store, pad_at_end = references.Store(), references.pad_at_end
    words = {"stem": ("initial_conv", "initial_batchnorm"), "shortcut": ("shortcut_conv", "shortcut_batchnorm")}

    def unit(maps: Tensor, stage: int, block: int, part: str | int, width: int, kernel: int, stride: int) -> Tensor:
        where = "res_net50/~/" + ("" if part == "stem" else f"block_group_{stage - 1}/~/block_{block}/~/")
        conv, norm = (f"conv_{part - 1}", f"batchnorm_{part - 1}") if isinstance(part, int) else words[part]
        weight = store.weight(f"{where}{conv}|w", width, maps.shape[1], kernel, kernel)
        padded = pad_at_end(maps, kernel, stride) if kernel > 1 else maps
        return store.norm(functional.conv2d(padded, weight, stride=stride), where + norm, ("|scale", "|offset"))

    def pool(maps: Tensor) -> Tensor:
        return functional.max_pool2d(pad_at_end(maps, 3, 2, -torch.inf), 3, 2)

    features: Tensor = references.resnet(references.images, unit, pool, (3, 4, 6, 3))
    store.weight("classifier|w", 1000, 2048)
    store.vector("classifier|b", 1000)
    for name, value in store.items():
        if ".running_" in name:
            path, _, kind = name.partition(".running_")
            average = value.reshape(1, 1, 1, -1).numpy()
            state[f"{path}/~/{kind}_ema"] = {"average": average, "hidden": average, "counter": np.array(3, dtype="i4")}
            continue
        path, leaf = name.split("|")
        array = value.permute(2, 3, 1, 0) if value.ndim == 4 else value.T if value.ndim == 2 else value
        array = array.reshape(1, 1, 1, -1) if leaf in ("scale", "offset") else array
        parameters.setdefault(path, {})[leaf] = array.contiguous().numpy()
    parameters["projector/linear"] = {"w": np.zeros((2048, 4), "f4")}
    parameters["predictor/linear"] = {"w": np.zeros((4, 4), "f4")}
    return features


# Published containers -------------------------------------------------------------------------------------------------


def prefixed(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {prefix + name: value for name, value in tensors.items()}


def without_head(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value for name, value in tensors.items() if not name.startswith("fc.")}


class Trap:
    """Creates a file where anything unpickles it: the file must never be there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return open, (str(self.path), "w")


def momentum(weights: dict[str, Tensor]) -> dict[str, object]:
    body = without_head(weights)
    state = {"module.queue": torch.zeros(128, 4), "module.queue_ptr": torch.zeros(1, dtype=torch.long)}
    state |= prefixed(body, "module.encoder_q.") | {"module.encoder_q.fc.0.weight": torch.zeros(8, 2048)}
    state |= prefixed({"conv1.weight": body["conv1.weight"]}, "module.encoder_k.")
    return {
        "epoch": 800,
        "arch": "resnet50",
        "state_dict": state,
        "optimizer": {"state": {}, "param_groups": [{"lr": 0.1}]},
    }


def mopro(weights: dict[str, Tensor]) -> dict[str, object]:
    state = prefixed(without_head(weights), "module.encoder_q.")
    state |= {f"module.encoder_q.classifier.{leaf}": weights[f"fc.{leaf}"] for leaf in ("weight", "bias")}
    state |= {"module.encoder_q.fc.0.weight": torch.zeros(8, 2048), "module.prototypes": torch.zeros(1000, 4)}
    return {"epoch": 90, "state_dict": state}


RESNETS: dict[str, Callable[[dict[str, Tensor]], object]] = {
    "resnet50": lambda w: collections.OrderedDict(w),
    "d-semi-sup": lambda w: dict(w),
    "d-semi-weakly-sup": lambda w: dict(w),
    "s-dino": without_head,
    "s-barlowtwins": without_head,
    "s-moco-v2": momentum,
    "s-mochi": momentum,
    "s-swav": lambda w: prefixed(
        without_head(w) | {"projection_head.0.weight": torch.zeros(4, 2048), "prototypes.weight": torch.zeros(9, 4)},
        "module.",
    ),
    "s-infomin": lambda w: {
        "opt": argparse.Namespace(epochs=800),
        "model": prefixed(without_head(w), "module.encoder.") | {"module.head.0.weight": torch.zeros(4, 2048)},
    },
    "s-obow": lambda w: {"network": without_head(w) | {"fc.weight": torch.zeros(4, 9), "fc.bias": torch.zeros(4)}},
    "s-compress": lambda w: {
        "opt": argparse.Namespace(epochs=130),
        "model": prefixed(without_head(w) | {"fc.0.weight": torch.zeros(8, 2048)}, "module."),
        "epoch": 130,
    },
    "r-mixup": lambda w: {"epoch": 299, "arch": "resnet", "state_dict": prefixed(w, "module.")},
    "r-manifold-mixup": lambda w: {"state_dict": prefixed(w, "module.")},
    "r-cutmix": lambda w: {"state_dict": prefixed(w, "module.")},
    "r-relabel": lambda w: prefixed(w, "module."),
    "r-meal-v2": lambda w: prefixed(w, "module."),
    "r-adv-robust": lambda w: {
        "model": prefixed(w, "module.model.")
        | prefixed({"conv1.weight": w["conv1.weight"]}, "module.attacker.model.")
        | {"module.normalizer.new_mean": torch.zeros(3, 1, 1)},
        "epoch": 89,
    },
    "d-mopro": mopro,
}
OTHERS = {
    "a-t2t-vit-t-14", "a-deit-s", "a-deit-s-distilled", "a-inception-v3", "a-nat-m4", "a-efficientnet-b1",
    "a-efficientnet-b4", "a-deit-b-distilled", "a-resnet152", "a-vgg19", "s-simclr-v2", "s-byol", "d-clip",
}  # fmt: skip


def test_there_is_a_layout_for_each_of_the_31() -> None:
    assert len(cog_models()) == 31
    assert set(RESNETS) | OTHERS == set(cog_models())


@pytest.mark.parametrize("name", RESNETS)
def test_resnet50_layouts(
    name: str,
    resnet50: tuple[dict[str, Tensor], Tensor],
    folder: Path,
    check_published: Check,
    references: SimpleNamespace,
) -> None:
    weights, expected = resnet50
    published = RESNETS[name](weights)
    path = folder / cog_models()[name].file
    if name == "s-obow":
        inner = folder / "tochvision_resnet50_student_K8192_epoch200.pth.tar"
        torch.save(published, inner)
        with zipfile.ZipFile(path, "w") as archive:
            archive.write(inner, f"ImageNetFull_ResNet50_OBoW_full_feature_extractor/{inner.name}")
    elif name == "r-adv-robust":
        trap = folder / "trap"
        published |= {"schedule": Trap(trap), "optimizer": {"state": {0: {"momentum_buffer": torch.zeros(3)}}}}
        torch.save(published, path)
    else:
        torch.save(published, path)
    check_published(name, path, expected, references.images)
    assert not (folder / "trap").exists()


def test_resnet152(folder: Path, check_published: Check, references: SimpleNamespace, torchvision_resnet: Any) -> None:
    weights, expected = torchvision_resnet((3, 8, 36, 3))
    torch.save(weights, folder / "w.pth")
    check_published("a-resnet152", folder / "w.pth", expected, references.images)


@pytest.mark.parametrize("by_dill", [False, True], ids=["numpy", "dill"])
def test_byol(
    by_dill: bool,
    folder: Path,
    check_published: Check,
    references: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Out of a pickle by dill and Haiku, neither of which is imported."""
    parameters: Arrays = {}
    state: Arrays = {}
    with torch.inference_mode():
        expected = haiku_resnet(references, parameters, state)

    class FlatMapping(dict):
        def __reduce__(self) -> tuple[object, ...]:
            return FlatMapping, (dict(self),)

    class DillArray:
        """An array as newer versions of dill write it: the parts of NumPy's pickle, handed to a function of dill."""

        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __reduce__(self) -> tuple[object, ...]:
            make, arguments, contents = self.array.__reduce__()
            return _create_array, (make, arguments, contents, None)

    def _create_array(*_: object) -> None:
        raise AssertionError("nothing of the pickle may be called")

    fields = ["online_params", "target_params", "online_state", "target_state", "opt_state"]
    experiment = collections.namedtuple("_ByolExperimentState", fields)
    homes = {"haiku_fake": FlatMapping, "byol_fake": experiment, "dill._dill": _create_array}
    if by_dill:
        parameters = {path: {k: DillArray(v) for k, v in leaves.items()} for path, leaves in parameters.items()}
    online = FlatMapping({path: FlatMapping(leaves) for path, leaves in parameters.items()})
    published = experiment(online, FlatMapping(), FlatMapping(state), FlatMapping(), Trap(folder / "trap"))
    with monkeypatch.context() as patched, (folder / "pretrain_res50x1.pkl").open("wb") as file:
        patched.setitem(sys.modules, "dill", types.ModuleType("dill"))
        for module, kind in homes.items():
            kind.__module__, kind.__qualname__ = module, kind.__name__
            patched.setitem(sys.modules, module, types.ModuleType(module))
            setattr(sys.modules[module], kind.__name__, kind)
        pickle.dump({"experiment_state": published, "step": 300000, "rng": np.zeros(2, "u4")}, file, protocol=2)
    assert "haiku_fake" not in sys.modules
    check_published("s-byol", folder / "pretrain_res50x1.pkl", expected, references.images)
    assert not (folder / "trap").exists()
