"""Loggers that are active hear of every look: Weights & Biases offline, MLflow on files; skipped where absent."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

import unseen

SMALL = unseen.Preprocessing(size=32, resize=32)
pytestmark = pytest.mark.filterwarnings("ignore")


def imported(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(name)
        except ImportError:
            pytest.skip(f"{name} is not installed")


def looks() -> list[float]:
    """Two looks at a small network: what they found."""
    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(3), 6)
    pixels = rng.integers(0, 150, (18, 32, 32, 3), dtype=np.uint8)
    pixels[np.arange(18), :, :, labels] += 60
    callback = unseen.ProbeCallback((pixels, labels), preprocessing=SMALL, options={"solver": "ncm"})
    net = nn.Sequential(nn.Conv2d(3, 6, 3, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    for epoch in range(2):
        callback(net, epoch)
    return [row["top1"] for row in callback.history]


def test_weights_and_biases(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = imported("wandb")
    for name, value in (("MODE", "offline"), ("SILENT", "true"), ("DIR", str(tmp_path))):
        monkeypatch.setenv(f"WANDB_{name}", value)
    run = wandb.init(project="looks", dir=str(tmp_path))
    try:
        found = looks()
        told = dict(run.summary)
    finally:
        run.finish()
    assert told["probe/top1"] == found[-1] and told["epoch"] == 1 and "probe/rankme" in told
    assert list(tmp_path.rglob("*.wandb")), "what is synchronised later"


def test_mlflow(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = imported("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    with mlflow.start_run() as run:
        found = looks()
    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "probe/top1")
    assert [(one.step, one.value) for one in history] == list(enumerate(found))


def test_without_a_run_nothing_is_logged(home: Path) -> None:
    assert len(looks()) == 2
