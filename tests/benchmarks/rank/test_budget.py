"""Costs of a ranking: budgets are kept within 20 %, by a clock that only work moves; weights come in the background."""

from __future__ import annotations

from pathlib import Path
from time import sleep

import numpy as np
import pytest

from unseen.benchmarks.rank import budget as budgets
from unseen.benchmarks.rank.budget import Weights, downloads, find_weights, fit_sample


@pytest.mark.parametrize("seed", range(40))
def test_the_time_of_all_rounds_is_the_budget_at_most(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(seed)
    now = [0.0]
    images, classes, models = (int(draw.integers(*limits)) for limits in ((500, 20_000), (2, 40), (2, 12)))
    per_image = float(np.exp(draw.uniform(-7, -3, models)).sum())
    scoring, loading = float(models * np.exp(draw.uniform(-8, -5))), float(models * draw.uniform(0.1, 1.0))
    whole = 3 * loading + images * (per_image + scoring)
    budget = float(draw.uniform(0.1, 0.8)) * whole
    done: set[int] = set()

    def work(size: int) -> None:
        if size not in done:  # else its cells are stored
            done.add(size)
            now[0] += size * (per_image + scoring) + loading

    monkeypatch.setattr(budgets, "perf_counter", lambda: now[0])
    sample, said = fit_sample(budget, images, classes, work)
    assert bool(said) == (sample > 0)
    work(sample or images)
    assert now[0] <= 1.2 * budget
    # Nor is it left unused: but the last round but one may leave too little for half as many images again.
    assert not sample or now[0] >= 0.35 * budget


def test_weights_are_downloaded_ahead_and_removed_when_they_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most two wait; a failed download is left to the loading; cached weights are neither fetched nor removed."""
    cached = tmp_path / "cached"
    cached.write_bytes(b"12345")
    monkeypatch.setattr(budgets, "hub_repository", lambda model: "" if model == "packaged" else f"org/{model}")
    monkeypatch.setattr(budgets, "cached_file", lambda repository, _file: cached if repository == "org/kept" else None)
    monkeypatch.setattr(budgets, "reachable", lambda: False)
    fetched: list[str] = []

    def download(repository: str, file: str) -> str:
        if repository == "org/broken" or file == "model.safetensors":
            raise OSError("404")
        path = tmp_path / repository.partition("/")[2]
        path.write_bytes(b"weights")
        fetched.append(repository)
        return str(path)

    def arrived(count: int) -> list[str]:
        for _ in range(200):
            if len(fetched) >= count:
                break
            sleep(0.01)
        sleep(0.05)
        return fetched

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    assert find_weights("kept") == Weights("org/kept", cached, 5)
    assert find_weights("a") == Weights("org/a") and find_weights("packaged") == Weights()
    monkeypatch.setattr(budgets, "reachable", lambda: True)
    monkeypatch.setattr(budgets, "_published_size", lambda _repository: 7)
    with downloads(["kept", "packaged", "a", "b", "c", "broken"], delete=True) as finished:
        finished("kept")
        assert arrived(2) == ["org/a", "org/b"], "the third waits"
        finished("a")
        assert arrived(3) == ["org/a", "org/b", "org/c"]
        assert not (tmp_path / "a").exists() and (tmp_path / "b").exists()
    assert cached.exists()
