"""The prior over checkpoints: shrinkage, unbalanced tables, calibrated risk, published tables."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

from unseen.core.errors import DataError
from unseen.ranking.prior import fit_prior, read_history, shortlist


def table(effects: list[float], tasks: int, noise: float, seed: int = 0) -> dict[tuple[str, str], float]:
    generator = np.random.default_rng(seed)
    return {
        (f"m{c}", f"t{t}"): 50 + 5 * t + (t + 1) * (effect + noise * float(generator.standard_normal()))
        for t in range(tasks)
        for c, effect in enumerate(effects)
    }


def test_effects_are_shrunk_means_of_standardised_tasks() -> None:
    """Compare a complete table with the textbook formulas of a one-way random-effects model."""
    history = table([0.0, 1.0, 2.0, 4.0], tasks=6, noise=1.0)
    models = [f"m{c}" for c in range(4)]
    values = np.array([[history[model, f"t{t}"] for t in range(6)] for model in models])
    scaled = (values - values.mean(axis=0)) / values.std(axis=0)
    means = scaled.mean(axis=1)
    within = ((scaled - means[:, None]) ** 2).sum() / (4 * 6 - 4 - 6 + 1)
    between = means.var(ddof=1) - within / 6
    prior = fit_prior(history, models)
    assert prior.mean == pytest.approx(means * between / (between + within / 6))
    assert prior.variance == pytest.approx(np.full(4, between * within / 6 / (between + within / 6)))
    assert prior.order() == ["m3", "m2", "m1", "m0"]


def test_tasks_with_other_checkpoints_are_put_on_one_scale() -> None:
    """A weak checkpoint that was only compared with weaker ones stays behind a strong one."""
    history = table([0.0, 1.0, 2.0, 8.0, 9.0, 10.0], tasks=8, noise=0.1)
    for task in range(4):  # only the weak half
        for model in ("m3", "m4", "m5"):
            del history[model, f"t{task}"]
    prior = fit_prior(history, [f"m{c}" for c in range(6)])
    assert prior.order() == ["m5", "m4", "m3", "m2", "m1", "m0"]


def test_a_checkpoint_without_results_is_placed_by_its_size() -> None:
    models = [f"m{c}" for c in range(6)]
    history = table([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], tasks=5, noise=0.3)
    sizes = {model: 10.0 ** (c + 1) for c, model in enumerate(models)} | {"new": 10.0**3.5, "newer": 10.0**9}
    prior = fit_prior(history, [*models, "new", "newer", "unknown"], sizes)
    mean = dict(zip(prior.models, prior.mean, strict=True))
    assert mean["m2"] < mean["new"] < mean["m3"]
    assert mean["newer"] > mean["m5"]
    assert mean["unknown"] == 0
    assert prior.known == 6
    assert prior.variance[prior.models.index("unknown")] > prior.variance[prior.models.index("new")]


def test_the_predicted_risk_is_the_frequency_of_a_miss() -> None:
    """Simulate tables from the model, and count how often the best of a new task was not among the first two."""
    predicted, missed = [], []
    for seed in range(60):
        generator = np.random.default_rng(seed)
        effects = generator.standard_normal(8)
        values = effects[:, None] + 0.7 * generator.standard_normal((8, 13))
        history = {(f"m{c}", f"t{t}"): float(values[c, t]) for c in range(8) for t in range(12)}
        kept, risk = shortlist(fit_prior(history, [f"m{c}" for c in range(8)]), 2)
        predicted.append(risk)
        missed.append(f"m{int(values[:, 12].argmax())}" not in kept)
    assert abs(np.mean(predicted) - np.mean(missed)) < 0.12


def test_a_few_results_are_no_prior() -> None:
    with pytest.raises(DataError, match="a prior needs 3 earlier tasks with 3 checkpoints each; there are 2"):
        fit_prior(table([0.0, 1.0, 2.0], tasks=2, noise=1.0), ["m0"])


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "prior.csv"
    path.write_text("model,task,accuracy,parameters\na,t,80,1e6\na,t,90,\nb,t,x,nan\n", encoding="utf-8")
    assert read_history(path) == ({("a", "t"): 85.0}, {"a": 1e6})
    path.write_text("benchmark,model,dataset,top1\nprobe,a,photos,0.5\nrank,a,photos,\n", encoding="utf-8")
    assert read_history(path) == ({("a", "photos"): 0.5}, {})
    path.write_text("model,accuracy\n", encoding="utf-8")
    with pytest.raises(DataError, match="has no column dataset; it has: model, accuracy"):
        read_history(path)
    path.write_bytes(b"\xff\xfe\0model")
    with pytest.raises(DataError):
        read_history(path)
    with pytest.raises(DataError):
        read_history(tmp_path / "nowhere.csv")


@pytest.mark.skipif("UNSEEN_GOLDEN_DATA" not in os.environ, reason="UNSEEN_GOLDEN_DATA is not set")
def test_published_tables_left_out_task_by_task() -> None:
    """The prior has less regret than a random order, and than the order of ImageNet accuracy."""
    path = Path(__file__).parents[2] / "bench" / "rank_prior.py"
    spec = importlib.util.spec_from_file_location("rank_prior", path)
    assert spec is not None and spec.loader is not None
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    for name, values in bench.read_tables(Path(os.environ["UNSEEN_GOLDEN_DATA"]) / "results").items():
        for k, regret, chance, imagenet, risk, actual in bench.leave_one_out(values):
            assert regret < 0.5 * chance, (name, k)
            assert np.isnan(imagenet) or regret <= imagenet
            assert abs(risk - actual) < 0.25
