"""Everything that is registered keeps to the contracts that plug-ins are held to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from unseen.backbones import BACKBONES, load_backbone
from unseen.benchmarks import BENCHMARKS
from unseen.data import load_dataset
from unseen.data.load import SOURCES
from unseen.engines import ENGINES, make_engine
from unseen.probes import KnnProbe, LinearProbe, NearestMeanProbe, RidgeProbe
from unseen.ranking import SCORES
from unseen.testing import (
    check_backbone_source,
    check_benchmark,
    check_dataset_source,
    check_score,
    check_zeroshot_method,
)
from unseen.zeroshot import METHODS

SMALL = "random:test_efficientnet?size=64"

#: Sources of models that need another's library or file.
HUBS = ("hf", "transformers", "open_clip", "torchhub", "onnx", "object")

#: What to load and build of each source of models; pretrained weights of timm and torchvision need the network, those
#: of CoG are tested in tests/backbones with files of the published layout.
MODELS: dict[str, dict[str, list[str]]] = {
    "packaged": {"load": ["packaged:efficientnet-lite0"]},
    "timm": {"build": ["timm:test_resnet", "timm:test_vit"]},
    "random": {"load": ["random:test_efficientnet", "random:torchvision:mobilenet_v3_small"]},
    "torchvision": {"build": ["torchvision:mobilenet_v3_small", "torchvision:resnet18"]},
    # Of files, hubs and wheels: tests/backbones has them with what they need.
    **{scheme: {} for scheme in ("file", "cog", "xlsa17", "features", *HUBS)},
}

#: Small datasets of each source; those of ImageNet, VTAB and xlsa17 need data that is not shipped.
DATA: dict[str, list[str]] = {
    "folder": [],
    "imagenet": [],
    "packaged": ["packaged:grocery", "packaged:emoji"],
    "procedural": ["procedural:sprites-location?test=4&train=6&val=0", "procedural:shapes-count?test=4&train=4&val=2"],
    # Those of files and of others' libraries are in tests/data/sources/test_doors.py.
    **{scheme: [] for scheme in ("vtab", "xlsa17", "csv", "parquet", "zip", "wds", "hf", "object")},
    "features": [],
}


def test_every_source_engine_and_benchmark_is_looked_at() -> None:
    # Other tests of the same process may have registered some of their own.
    built_in = [{n for n, t in r._targets.items() if "unseen." in str(t)} for r in (BACKBONES, SOURCES, BENCHMARKS)]
    assert [set(MODELS), set(DATA), set(QUICK)] == built_in


# Objects have no names that could be listed: tests/api holds them.
@pytest.mark.parametrize("scheme", [scheme for scheme in MODELS if scheme != "object"])
def test_sources_of_models(scheme: str, tmp_path: Path) -> None:
    names = dict(MODELS[scheme])
    if scheme == "file":
        torch.save(load_backbone("random:test_resnet").module.state_dict(), tmp_path / "own.pth")
        names = {"load": [f"file:{tmp_path}/own.pth?arch=timm:test_resnet"]}
    check_backbone_source(BACKBONES.get(scheme), scheme=scheme, **names)  # type: ignore[arg-type]


@pytest.mark.parametrize("scheme", [scheme for scheme in DATA if scheme != "object"])
def test_sources_of_datasets(scheme: str, tmp_path: Path, make_folder: Callable[..., Path]) -> None:
    names = [f"folder:{make_folder(tmp_path / 'images')}"] if scheme == "folder" else DATA[scheme]
    check_dataset_source(SOURCES.get(scheme), scheme=scheme, load=names)


@pytest.mark.parametrize("name", [pytest.param("local"), pytest.param("dask", marks=pytest.mark.slow)])
def test_engines(name: str, check_engine: Callable[[Any], None]) -> None:
    assert set(ENGINES) == {"local", "dask"}
    check_engine(lambda: make_engine(name, workers=2 if name == "dask" else 1))


@pytest.mark.parametrize("name", list(SCORES))
def test_scores(name: str) -> None:
    check_score(SCORES[name])


#: Parameters under which a method learns the small problem; its own defaults are for thousands of images.
TUNED: dict[str, dict[str, Any]] = {"ESZSL": {"gamma": -2, "lam": 0}}


# Prompts learn nothing and want images and classes in one space: tests/zeroshot/test_prompt.py.
@pytest.mark.parametrize("name", [name for name in METHODS if name != "prompt"])
def test_zeroshot_methods(name: str) -> None:
    check_zeroshot_method(METHODS.get(name)(**TUNED.get(name, {})))


@pytest.mark.parametrize("probe", [LinearProbe, RidgeProbe, KnnProbe, NearestMeanProbe])
def test_probes(probe: type, check_probe: Callable[[Any], None]) -> None:
    check_probe(probe())


#: Options under which a benchmark is quick, and other values where types suggest none; FILE stands for some file.
QUICK: dict[str, dict[str, Any]] = {
    "probe": {"options": {"seeds": [1, 2]}, "changes": {"layer": "blocks.1", "shots": [1, "all"]}},
    "regression": {"options": {}, "changes": {"layer": "blocks.1"}, "dataset": "NUMBERS"},
    "multilabel": {"options": {"seeds": [1, 2]}, "changes": {"layer": "blocks.1"}, "dataset": "SEVERAL"},
    "cog": {
        "options": {"seeds": [1, 2], "levels": 2, "size": 10, "solver": "ridge"},
        "changes": {"layer": "logits", "measure": "wu-palmer", "rerank": "path", "seen": "FILE", "ontology": "FILE"}
        | {"shots": [1, "all"], "vectors": "FILE"},
        "dataset": "packaged:emoji?per_class=2",
    },
    "cog-finetune": {
        "options": {"seeds": [1, 2]},
        "changes": {"measure": "wu-palmer", "rerank": "path", "seen": "FILE", "ontology": "FILE", "vectors": "FILE"},
        "dataset": "packaged:emoji?per_class=2",
        "evaluate": False,
    },
    "zsl": {
        "options": {"methods": ["ESZSL", "SAE"], "grid": "quick"},
        "changes": {"layer": "logits", "split": "SS", "embedding": "glove", "test_on": "folder:.", "calibration": 0.3}
        | {"templates": {"templates": "plain", "embedding": "prompts"}}
        | {"class_names": {"class_names": "open_clip", "embedding": "prompts"}}
        | {"descriptions": {"descriptions": "none", "embedding": "prompts"}}
        | {"split_file": {"split_file": "FILE", "split": "2-hops"}}
        | {"combine": {"combine": "max", "embedding": "prompts", "methods": ["prompt"]}}
        | {"text_model": {"text_model": SMALL, "embedding": "prompts"}},
        "evaluate": False,
    },
    "vtab": {
        "options": {"seeds": [0, 1], "steps": [2, 3], "batch_size": 4, "budgets": [800, 1000]},
        "changes": {
            "adaptation": "bitfit",
            "selection_seeds": {"selection_seeds": 2, "adaptation": "finetune"},
            "epochs": {"epochs": 7, "budgets": [], "sweep": "peft-1k", "adaptation": "finetune"},
            "adamw_rates": {"adamw_rates": [0.1], "budgets": [], "sweep": "peft-1k", "adaptation": "finetune"},
            "weight_decays": {"weight_decays": [0.1], "budgets": [], "sweep": "peft-1k", "adaptation": "finetune"},
            "sweep": {"sweep": "heavyweight", "adaptation": "finetune"},
            "trials": {"trials": 3, "sweep": "heavyweight", "adaptation": "finetune"},
            "longest": {"longest": 7, "sweep": "heavyweight", "adaptation": "finetune"},
            "micro_batch": {"micro_batch": 2, "adaptation": "finetune"},
            "start": {"start": "probe", "adaptation": "finetune"},
            "reduced_strides": {"reduced_strides": True, "patches": True},
        },
        "evaluate": False,
    },
    "clip": {
        "changes": {"templates": "plain", "text_model": SMALL, "split": "train"}
        | {"class_names": "open_clip", "descriptions": "none"},
        "evaluate": False,
    },
    "rank": {
        "options": {"scores": ["logme", "gbc"]},
        "changes": {"layers": ["pooled", "logits"], "split": "test"},
    },
}


def write_targets(folder: Path) -> Path:
    """Images with a number and several tags each, in a table."""
    folder.mkdir()
    rng, rows = np.random.default_rng(0), ["image,value,tags"]
    for i in range(40):
        light, red = rng.random(), rng.random() < 0.5
        pixels = np.full((24, 24, 3), int(200 * light), np.uint8)
        pixels[:12, :, 0] = 250 * red
        Image.fromarray(pixels).save(folder / f"{i}.png")
        rows.append(f"{i}.png,{10 * light:.3f},{'|'.join(['red'] * red + ['light'] * (light > 0.5))}")
    (folder / "table.csv").write_text("\n".join(rows) + "\n")
    return folder / "table.csv"


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "cog")) for n in QUICK])
def test_benchmarks(name: str, tmp_path: Path, make_folder: Callable[..., Path]) -> None:
    given = dict(QUICK[name])
    (tmp_path / "some.txt").write_text("n02123045\n")
    files = {key: str(tmp_path / "some.txt") for key, value in given["changes"].items() if value == "FILE"}
    dataset = given.pop("dataset", None) or f"folder:{make_folder(tmp_path / 'images')}"
    given["changes"] = {**given["changes"], **files}
    if dataset in ("NUMBERS", "SEVERAL"):
        column = {"NUMBERS": "value", "SEVERAL": "tags"}[dataset]
        dataset = f"csv:{write_targets(tmp_path / 'table')}?label={column}"
    assert load_dataset(dataset).splits
    check_benchmark(name, model=SMALL, dataset=dataset, home=tmp_path / "home", **given)
