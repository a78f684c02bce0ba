"""The coverage benchmark in small: intervals cover what they promise, equal candidates are rarely called different."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
REPETITIONS = 400


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = spec_from_file_location("bench_coverage", ROOT / "bench" / "coverage.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules["bench_coverage"] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seeds", [1, 5])
@pytest.mark.parametrize(("images", "accuracy"), [(10, 0.95), (30, 0.8), (100, 0.5), (100, 0.95), (1000, 0.99)])
def test_accuracy(bench: ModuleType, images: int, accuracy: float, seeds: int) -> None:
    found = bench.coverage(bench.draw_accuracy(images, accuracy, seeds), REPETITIONS, 1)
    assert not found.problem(bench.FEW_ERRORS if images * (1 - accuracy) < 10 else ""), found


@pytest.mark.parametrize("seeds", [1, 5])
@pytest.mark.parametrize(("images", "size", "accuracy"), [(10, 2, 0.8), (30, 3, 0.5), (100, 5, 0.8), (100, 20, 0.5)])
def test_per_class_accuracy(bench: ModuleType, images: int, size: int, accuracy: float, seeds: int) -> None:
    draw = bench.draw_per_class(bench.balanced(images, size), accuracy, seeds)
    assert not bench.coverage(draw, REPETITIONS, 2).problem(bench.FEW_PER_CLASS)
    tail = bench.draw_per_class(bench.long_tailed(images), accuracy, seeds, True)
    assert not bench.coverage(tail, REPETITIONS, 3).problem(bench.RARE)


def test_other_statistics(bench: ModuleType) -> None:
    labels = bench.balanced(100, 5)
    draws = {
        "harmonic mean": (bench.draw_harmonic(labels, 0.8, 1), ""),
        "AUSUC": (bench.draw_area(labels, 0.8), bench.FEW_PER_CLASS),
        "mean over tasks": (bench.draw_tasks(30, 0.8, 3), "median of seeds"),
        "difference": (bench.draw_difference(100, 0.8, 5), ""),
        "R2": (bench.draw_r_squared(30, 0.5, False), ""),
        "Kendall": (bench.draw_correlation(30, 0.5, "kendall"), bench.TIES),
        "slope of 12": (bench.draw_slope(12, False), ""),
        "slope of 39": (bench.draw_slope(39, True), ""),
    }
    found = {name: (bench.coverage(draw, REPETITIONS, 4), why) for name, (draw, why) in draws.items()}
    assert not {name: covered.text for name, (covered, why) in found.items() if covered.problem(why)}


def test_a_bootstrap_percentile_interval_would_fail(bench: ModuleType) -> None:
    """The check can fail: the interval that was used before covers far less than 93 %."""
    from unseen.metrics import bootstrap_interval

    def draw(rng: np.random.Generator) -> tuple[Any, float]:
        return bootstrap_interval(rng.random(48) < 0.98, resamples=200), 0.98

    found = bench.coverage(draw, 200, 5)
    assert found.problem("") and found.covered < 0.8


@pytest.mark.parametrize("seeds", [1, 5])
def test_false_positives_and_power(bench: ModuleType, seeds: int) -> None:
    false, single, first = bench.significant(200, seeds, (0.8, 0.8), REPETITIONS, 6)
    assert false <= 0.06 + 2.5 * np.sqrt(0.05 * 0.95 / REPETITIONS) and first <= single == false
    *_, power = bench.significant(1000, seeds, (0.85, 0.8), 50, 7)
    assert power > 0.9
