"""Made-up results of all four questions, as their benchmarks file them, for pages that a browser looks at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unseen.core.records import Cell, ModelCard, Result
from unseen.metrics import wilson_interval
from unseen.results.grid import pack_correct

FEW = ("packaged:efficientnet-lite0", "packaged:efficientnet-lite2", "random:tf_efficientnet_lite0")
ENVIRONMENT = {"python": "3.11.7", "unseen": "0.1.0", "cpu": "Some CPU"}
METHODS = ("ALE", "DEVISE", "ESZSL", "SAE")
TASKS = ("packaged:grocery", "packaged:grocery?labels=coarse", "procedural:shapes-count", "procedural:sprites-location")
_EXTRACTION = {"dtype": "float32", "precision": "fp32", "runtime": "auto", "truncated": "refuse"}


def everything(models: Sequence[str] = FEW, *, shots: Sequence[int | str] = (1, "all")) -> list[Result]:
    """A CoG, zero-shot learning, tasks, a ranking; the last model of the list is the weakest."""
    return [*cog(models, shots=shots), *zero_shot(models), *tasks(models), *ranking(models)]


def cards(models: Sequence[str] = FEW) -> dict[str, ModelCard]:
    """What is known of the models."""
    return {
        model: ModelCard(model, parameters=3_000_000 + 900_000 * place, flops=700_000_000 + 300_000_000 * place)
        for place, model in enumerate(models)
    }


def strength(model: str, models: Sequence[str]) -> float:
    """From 0 for the last model to 1 for the first."""
    return 0.1 if model.startswith("random:") else 1 - list(models).index(model) / (2 * len(models))


def cog(models: Sequence[str], *, shots: Sequence[int | str], seeds: int = 2, classes: int = 14) -> list[Result]:
    found = []
    for model in models:
        for place, level in enumerate(("seen", "L1", "L2", "L3")):
            for count in shots:
                for seed in range(seeds):
                    share = strength(model, models) * (0.9 - 0.13 * place) * (1.0 if count == "all" else 0.7)
                    found.append(_level(model, level, place, count, seed, share, classes))
    return found


def _level(
    model: str, level: str, place: int, shots: int | str, seed: int, share: float, classes: int, per_class: int = 20
) -> Result:
    rng = np.random.default_rng([place, seed, len(model), sum(map(ord, model))])
    hard = np.random.default_rng(place).normal(0, 0.06, classes)
    right = rng.uniform(size=(classes, per_class)) < (share + hard)[:, None]
    concepts = [
        {
            "id": f"n{place}{i:03d}",
            "name": f"{level} concept {i}",
            "similarity": 1 - place / 4 - i / 99,
            "nearest": "cat",
        }
        for i in range(classes)
    ]
    details = {
        "classes": classes,
        "train_images": 300,
        "test_images": classes * per_class,
        "chance": 1 / classes,
        "similarity": 1 - place / 4,
        "concepts": concepts,
        "train_per_class": list(range(30, 30 + classes)),
        "test_per_class": [per_class] * classes,
        "per_class": {str(i): float(row.mean()) for i, row in enumerate(right)},
        "confusions": [{"true": "0", "predicted": "1", "images": 4}],
        "correct": pack_correct(right.ravel()),
        "best": {"c": 1.0},
        "domains": {"seen": "ImageNet-1K", "measure": "lin"},
    }
    parameters = {"level": level, "shots": shots, "seed": seed, "solver": "logistic", "levels": 3}
    sweep = ({"c": 0.01, "val_accuracy": 0.5}, {"c": 1.0, "val_accuracy": 0.7})
    return _result("cog", model, "packaged:emoji", parameters, {"top1": float(right.mean())}, details, sweep)


def zero_shot(models: Sequence[str]) -> list[Result]:
    found = []
    for model in models:
        for place, method in enumerate(METHODS):
            value = strength(model, models) * (0.5 - 0.04 * place)
            metrics = _bounded("zsl", value, 60) | _bounded("ts", value / 3, 60) | _bounded("tr", value, 200)
            metrics |= {"H": value / 2, "AUSUC": value / 3}
            details = {
                "chance": 1 / 30,
                "seen_classes": 120,
                "unseen_classes": 30,
                "embedding": "glove",
                "embedding_dimensions": 50,
                "audit": "no class leaks.",
                "best": {"gamma": 1.0},
                "transductive": False,
            }
            parameters = {"method": method, "fold": "all", "split": "PS", "embedding": "auto", "calibration": 0.0}
            found.append(_result("zsl", model, "packaged:emoji", parameters, metrics, details))
    return found


def tasks(models: Sequence[str]) -> list[Result]:
    found = []
    for model in models:
        for place, task in enumerate(TASKS):
            for seed in range(3):
                value = strength(model, models) * (0.9 - 0.1 * place) - 0.002 * seed
                metrics = _bounded("top1", value, 300) | {"mean_per_class": value - 0.01, "kappa": value - 0.1}
                parameters = {"adaptation": "linear", "sweep": "lightweight", "seed": seed}
                found.append(_result("vtab", model, task, parameters, metrics, {"task": {"title": task}}))
    return found


def ranking(models: Sequence[str]) -> list[Result]:
    """As `unseen rank` files it: which images a linear head gets right, and two scores with their half-samples."""
    from unseen.benchmarks.rank.scoring import EXPECTED, packed

    found = []
    for model in models:
        share = strength(model, models) * 0.9
        right = np.random.default_rng(sum(map(ord, model))).uniform(size=400) < share
        about: dict[str, Any] = {"images": 400, "total": 400, "classes": 14, "extraction_seconds": 2.0, "notes": []}
        about |= {
            "parameters": int(4e6 * (1 + share)),
            "flops": int(1e9 * (1 + share)),
            "images_per_second": 80 / share,
        }
        for score in (EXPECTED, "nleep", "logme"):
            parameters = {"score": score, "layer": "pooled", "split": "train", "sample": 0, "seed": 0}
            details = dict(about)
            if score == EXPECTED:
                details["outcomes"] = packed(right.astype(float), np.arange(400), 400)
            found.append(_result("rank", model, "packaged:grocery", parameters, {"score": share}, details))
    return found


def _bounded(name: str, value: float, images: int) -> dict[str, float]:
    interval = wilson_interval(min(max(value, 0.0), 1.0), images)
    return {name: value, f"{name}_low": interval.low, f"{name}_high": interval.high}


def _result(
    benchmark: str,
    model: str,
    dataset: str,
    parameters: dict[str, Any],
    metrics: dict[str, float],
    details: dict[str, Any],
    sweep: tuple[dict[str, Any], ...] = (),
) -> Result:
    cell = Cell(benchmark, model, dataset, {**parameters, "extraction": _EXTRACTION}, f"{model[-4:]}+data", "1")
    return Result(
        cell,
        metrics,
        seconds=1.5,
        sweep=sweep,
        details=details,
        environment=ENVIRONMENT,
        recorded="2026-11-17T12:00:00.000000+00:00",
    )
