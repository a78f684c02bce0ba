"""Write `tests/golden/ids.toml`: the ids of cells, features, models and datasets that stored results depend on.

    python -m tools.golden_ids

Stored features and results are found by these ids. A change of an id makes every stored number of that kind useless,
so `tests/test_golden_ids.py` compares them with the file. Run this command only if an id changes on purpose: raise
the version of the benchmark, solver or method first, and list the change in CHANGELOG.md under "Numbers changed".
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.benchmarks.test_identity import OTHER
from torch import nn

from unseen.backbones.backbone import Backbone
from unseen.backbones.forwards import output_forward
from unseen.backbones.load import backbone_revision, load_backbone
from unseen.backbones.objects import as_backbone
from unseen.benchmarks import BENCHMARKS, make_benchmark
from unseen.core.errors import MissingExtraError
from unseen.core.identity import canonical_json, digest, parameters_of
from unseen.core.records import Cell, FeatureKey, ModelCard, Preprocessing
from unseen.data import load_dataset
from unseen.data.adapters import as_dataset
from unseen.features import Extraction, FeatureStore, extract
from unseen.finetuning.train import FinetuneOptions, _numbers_of

GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "ids.toml"

Ids = dict[str, dict[str, str]]

#: Sections whose values also depend on the releases of these packages.
DEPENDS_ON = {"random_models": ("torch", "timm"), "text_models": ("torch", "timm")}


def collect(folder: Path) -> Ids:
    """Return all ids by section and name; a packaged model or dataset that is not installed is left out.

    Args:
        folder: an empty folder for the files that ids are computed from.
    """
    (folder / "file.txt").write_text("n02123045\n", encoding="utf-8")
    return {
        "cells": dict(cells(folder / "file.txt", text_models=False)),
        "extraction": _extraction(),
        "feature_keys": dict(_feature_keys(folder)),
        "datasets": dict(_datasets(folder)),
        "files": dict(_files(folder)),
        "packaged": dict(_packaged()),
        "objects": dict(_objects()),
        "names": dict(_names()),
        "random_models": dict(_random_models()),
        "text_models": dict(cells(folder / "file.txt", text_models=True)),
    }


def releases() -> Ids:
    """Return the installed releases that ids of `DEPENDS_ON` depend on, by section."""
    return {
        f"{section}_releases": {name: version(name).partition("+")[0] for name in names}
        for section, names in DEPENDS_ON.items()
    }


def cells(file: Path, *, text_models: bool) -> Iterator[tuple[str, str]]:
    """Cells of one model on one dataset: with default options, and with each option changed."""
    for name in sorted(set(BENCHMARKS) & set(OTHER)):
        if not text_models:
            yield name, _planned(name, {})
        for field in sorted(each.name for each in dataclasses.fields(BENCHMARKS.get(name))):
            value, context = OTHER[name][field]
            if field != "only" and (field == "text_model") == text_models:
                yield f"{name} {field}", _planned(name, {**context, field: str(file) if value == "FILE" else value})


def _planned(benchmark: str, options: dict[str, Any]) -> str:
    ids = [cell.id for cell in make_benchmark(benchmark, options).plan("m", "d")]
    return f"{len(ids)} cells, the first is {ids[0]}, digest of all: {digest(ids)}"


def _extraction() -> dict[str, str]:
    changes: list[dict[str, Any]] = [{}, {"runtime": "torch"}, {"precision": "bf16"}, {"dtype": "float16"}]
    changes.append({"truncated": "accept"})
    return {_named("default", change): canonical_json(parameters_of(Extraction(**change))) for change in changes}


def _named(name: str, change: dict[str, Any]) -> str:
    return " ".join([name, *(f"{key}={value}" for key, value in change.items())])


class _Net(nn.Module):
    """A network whose weights are the same on every machine."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        for number, values in enumerate(self.state_dict().values()):
            values.copy_(torch.arange(values.numel()).reshape(values.shape) / 64 + number)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.conv(images).mean((2, 3))
        return features


def _backbone(**preprocessing: Any) -> Backbone:
    shown = Preprocessing(**{"size": 32, "resize": 32, **preprocessing})
    return Backbone(ModelCard(id="golden:net"), _Net().eval(), output_forward, shown)


def _feature_keys(folder: Path) -> Iterator[tuple[str, str]]:
    """Digests of keys, alone and as an extraction writes them."""
    plain: dict[str, Any] = {
        "model": "timm:resnet50", "weights": "0123456789abcdef", "layer": "pooled", "preprocessing": Preprocessing(),
        "precision": "fp32", "runtime": "onnx", "dataset": "packaged:grocery", "split": "test",
        "fingerprint": "fedcba9876543210",
    }  # fmt: skip
    changes: list[dict[str, Any]] = [{}, {"model": "packaged:efficientnet-lite0"}, {"model": "file:/models/a.pth"}]
    changes += [{"layer": "logits"}, {"layer": "layer4.2"}, {"runtime": "torch"}, {"precision": "bf16"}]
    for change in changes:
        yield _named("key", change), FeatureKey(**{**plain, **change}).digest
    views = {"size": 288, "resize": 256, "mode": "squash", "interpolation": "tf-bilinear", "mean": (0.5, 0.5, 0.5)}
    for name, value in {**views, "std": (0.5, 0.5, 0.5)}.items():
        changed = dataclasses.replace(Preprocessing(), **{name: value})  # type: ignore[arg-type]
        yield _named("preprocessing", {name: value}), FeatureKey(**{**plain, "preprocessing": changed}).digest
    data, store = load_dataset("procedural:sprites-location?train=4&val=2&test=2"), FeatureStore(folder / "features")
    settings: list[dict[str, Any]] = [{}, {"dtype": "float16"}, {"truncated": "accept"}]
    settings.append({"dtype": "float16", "truncated": "accept"})
    for setting in settings:
        how = Extraction(runtime="torch", device="cpu", workers=1, **setting)
        found = extract(_backbone(), data, "test", store, layers=("pooled", "conv"), how=how)
        yield from ((_named(f"extracted {layer}", setting), each.key.digest) for layer, each in found.items())
    for option in ({"preprocessing": "plain"}, {"preprocessing": "tf"}, {"patches": True}):
        viewed = make_benchmark("vtab", option)._view(_backbone(size=96, resize=112))  # type: ignore[attr-defined]
        yield _named("vtab view", option), digest([viewed.id, viewed.weights, viewed.preprocessing.to_dict()])


def _datasets(folder: Path) -> Iterator[tuple[str, str]]:
    """Revisions of datasets that are generated, or made of files with fixed bytes; with fingerprints of splits."""
    small = "train=8&val=4&test=4"
    names = [f"procedural:{kind}?{small}" for kind in ("sprites-location", "sprites-orientation", "shapes-count")]
    names += [f"procedural:shapes-distance?{small}", f"procedural:shapes-count?{small}&seed=1"]
    made = {name: name for name in names} | _written(folder)
    for name, dataset in made.items():
        loaded = load_dataset(dataset)
        prints = [loaded.split(split).fingerprint[:16] for split in sorted(loaded.splits)]
        yield name, " ".join([loaded.revision, *prints])
    images = [np.full((4, 4, 3), 10 * i, np.uint8) for i in range(8)]
    held = as_dataset((images, [i % 2 for i in range(8)]), (images[:4], [0, 1, 0, 1]))
    yield "object of arrays", f"{held.id} {held.revision}"


def _written(folder: Path) -> dict[str, str]:
    """Names of datasets of files: forty small pictures of two classes, byte for byte the same everywhere."""
    root = folder / "images"
    rows = ["image,label,target"]
    for i in range(40):
        path = root / ("ant", "bee")[i % 2] / f"{i}.ppm"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"P6\n8 8\n255\n" + bytes((i * 5 + k) % 256 for k in range(192)))
        rows.append(f"{path.relative_to(root)},{path.parent.name},{i / 8}")
    (root / "table.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    with zipfile.ZipFile(folder / "images.zip", "w") as archive:
        for path in sorted(root.glob("*/*.ppm")):
            archive.write(path, str(path.relative_to(root)))
    options = {"": "", " drawn": "?test=0.4", " seed": "?test=0.4&seed=1", " few": "?per_class=3"}
    found = {f"folder{name}": f"folder:{root}{text}" for name, text in options.items()}
    return found | {
        "csv": f"csv:{root / 'table.csv'}?label=label",
        "csv of numbers": f"csv:{root / 'table.csv'}?label=target&target=number",
        "csv in bins": f"csv:{root / 'table.csv'}?label=target&bins=2",
        "zip": f"zip:{folder / 'images.zip'}",
    }


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    """Revisions of models that are files, and how a file behind an option counts."""
    (folder / "net.pth").write_bytes(b"not read for a revision")
    (folder / "net.onnx").write_bytes(b"\x08\x08\x3a\x00")  # a model with format version 8 and an empty graph
    yield "file", backbone_revision(f"file:{folder / 'net.pth'}?arch=timm:test_resnet")
    yield "onnx", backbone_revision(f"onnx:{folder / 'net.onnx'}")
    yield "timm", backbone_revision("timm:test_resnet").replace(version("timm"), "RELEASE")
    yield "torchvision", backbone_revision("torchvision:resnet18").replace(version("torchvision"), "RELEASE")
    yield "xlsa17", backbone_revision("xlsa17:res101")
    yield "weights", _backbone().weights


def _packaged() -> Iterator[tuple[str, str]]:
    models = ["efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2", "imgsim-resnet50"]
    for name in (f"packaged:{model}" for model in [*models, "deepsort-mobilenetv2"]):
        with suppress(MissingExtraError):
            yield f"model {name}", backbone_revision(name)
    for name in ("packaged:emoji", "packaged:grocery", "packaged:grocery?labels=coarse"):
        with suppress(MissingExtraError):
            loaded = load_dataset(name)
            yield f"dataset {name}", f"{loaded.revision} {loaded.features_id}"


class _Constant:
    """A function without compiled code of its own, whose output is the same on every machine."""

    def __call__(self, images: Any) -> Any:
        return np.ones((len(images), 4), np.float32)


def _objects() -> Iterator[tuple[str, str]]:
    """Ids of a callable. Those of classes and functions hold compiled code, which differs between Python versions."""
    yield "callable", as_backbone(_Constant(), name="constant").id
    shown = Preprocessing(size=64, resize=72)
    yield "callable, other preprocessing", as_backbone(_Constant(), name="constant", preprocessing=shown).id


def _names() -> Iterator[tuple[str, str]]:
    """Names of searches and training states, and the options in them."""
    parameters = {"seed": 1, "preprocessing": "plain", "steps": [100]}
    cell = Cell("vtab", "m", "d", parameters, "0123456789ab+ba9876543210", "1 linear.2")
    yield "cell", cell.id
    yield "trial", cell.name_of("trial", {"learning_rate": 0.1}, 0, without=("seed", "steps"))
    yield "final", cell.name_of("final", {"learning_rate": 0.1}, 0, without=("seed", "steps"))
    yield "finetuning", cell.name_of("finetuning", "select", 0.1, 100)
    yield "finetune options", canonical_json(_numbers_of(FinetuneOptions()))
    changed = FinetuneOptions(optimizer="adam", weight_decay=0.1, start="probe", warmup=5, own_preprocessing=True)
    yield "finetune options, changed", digest(_numbers_of(changed))


def _random_models() -> Iterator[tuple[str, str]]:
    for name in ("random:test_resnet", "random:test_resnet?seed=1", "random:test_efficientnet?size=64"):
        yield name, f"{backbone_revision(name)}, weights {load_backbone(name).weights}"


def write(path: Path) -> None:
    """Write the file."""
    lines = ["# Ids that stored features and results depend on. Written by: python -m tools.golden_ids", ""]
    with tempfile.TemporaryDirectory() as folder:
        sections = collect(Path(folder)) | releases()
    for section, entries in sections.items():
        lines += [f"[{section}]", *(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in entries.items()), ""]
    path.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    write(GOLDEN)
