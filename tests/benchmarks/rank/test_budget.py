"""A budget is held within 20 %: by a clock that only work moves, over networks, data and machines drawn at random."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import unseen.api.ranking as module
from unseen.benchmarks.rank import halving
from unseen.benchmarks.rank.protocol import RankBenchmark


class Images:
    def __init__(self, count: int, classes: int) -> None:
        self.labels = np.arange(count) % classes

    def __len__(self) -> int:
        return len(self.labels)


@pytest.mark.parametrize("seed", range(40))
def test_the_time_of_all_rounds_is_the_budget_at_most(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(seed)
    now = [0.0]
    images = Images(int(draw.integers(500, 20_000)), int(draw.integers(2, 40)))
    models = [f"m{i}" for i in range(int(draw.integers(2, 12)))]
    per_image = dict(zip(models, np.exp(draw.uniform(-7, -3, len(models))), strict=True))
    scoring, loading = float(np.exp(draw.uniform(-8, -5))), float(draw.uniform(0.1, 1.0))
    whole = 3 * len(models) * loading + sum(len(images) * (each + scoring) for each in per_image.values())
    budget = float(draw.uniform(0.1, 0.8)) * whole
    done: set[tuple[str, int]] = set()

    def clock() -> float:
        return now[0]

    def work(chosen: tuple[str, ...], size: int) -> None:
        for model in chosen:
            if (model, size) in done:
                continue  # its cells are filed
            done.add((model, size))
            now[0] += size * (per_image[model] + scoring) + loading

    def speed(model: str, _images: Any, *, seconds: float, **_how: Any) -> float:
        now[0] += 1.1 * seconds + min(0.5, seconds) + loading  # a warm-up, and the last batch begun
        return 1 / per_image[model]

    def ranked(self: Any, chosen: tuple[str, ...], size: int, *, whole: bool) -> Any:
        assert whole  # a round that leaves scores out would not tell what the last one takes
        work(chosen, size)
        return SimpleNamespace(candidates=(), images=size)

    monkeypatch.setattr(module, "perf_counter", clock)
    monkeypatch.setattr(halving, "perf_counter", clock)
    monkeypatch.setattr(halving, "measure_speed", speed)
    monkeypatch.setattr(module._Rounds, "_ranked", ranked)
    data = SimpleNamespace(target="class", split=lambda _name: images)
    how = SimpleNamespace(device="cpu", graphs=None, precision="fp32")
    bench: Any = SimpleNamespace(dataset=lambda _name: data, backbone=lambda model: model, how=how)
    study: Any = SimpleNamespace(datasets=("d",), extraction=how)
    rounds = module._Rounds(study, RankBenchmark(), bench, None)
    left, sample, said = rounds.narrowed(tuple(models), budget, False, 0.0)
    assert left == tuple(models) and bool(said) == (sample > 0)
    work(left, sample or len(images))
    assert now[0] <= 1.2 * budget
    # Nor is it left unused: but a first round of a third of it may leave too little for half as many images again.
    assert not sample or now[0] >= 0.35 * budget
