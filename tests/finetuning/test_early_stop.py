"""The early stop of fine-tuning: what is kept, when the start stays, and that a resumed run keeps the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from unseen.backbones import load_backbone
from unseen.core.errors import UsageError
from unseen.data import load_dataset
from unseen.finetuning.train import EarlyStop, FinetuneOptions, finetune


class _Images:
    def __init__(self, labels: list[int]) -> None:
        self.labels = np.asarray(labels)

    def __len__(self) -> int:
        return len(self.labels)


class _Trainer:
    """A network of one number, and predictions that are right so many times."""

    def __init__(self) -> None:
        self.module, self.head = nn.Linear(1, 1), nn.Linear(1, 1)
        self.right = 0

    def predict(self, images: Any) -> tuple[np.ndarray, dict[int, str]]:
        found = np.zeros(len(images), int)
        found[: self.right] = 1
        return found, {}


def kept_after(rights: list[int]) -> tuple[int, float]:
    stop, trainer = EarlyStop(_Images([1] * 20), 4), _Trainer()  # type: ignore[arg-type]
    for step, right in enumerate(rights):
        trainer.right = right
        with torch.no_grad():
            trainer.module.weight.fill_(float(step))
        stop.evaluate(trainer, step)  # type: ignore[arg-type]
    stop.restore(trainer)  # type: ignore[arg-type]
    assert trainer.module.weight.item() == stop.step
    return stop.step, stop.accuracy


def test_the_best_evaluation_is_kept_if_it_beats_the_start_by_more_than_chance() -> None:
    assert kept_after([10, 12, 15, 15, 14]) == (2, 0.75)
    assert kept_after([10, 9, 8]) == (0, 0.5)
    assert kept_after([10, 11]) == (0, 0.5)  # one image more is within one standard error of it
    assert kept_after([10, 12]) == (1, 0.6)


def test_evaluations_are_at_equal_distances() -> None:
    stop = EarlyStop(_Images([1]), 4)  # type: ignore[arg-type]
    assert [step for step in range(41) if stop.is_due(step, 40)] == [0, 10, 20, 30, 40]
    with pytest.raises(UsageError, match="at least one evaluation"):
        EarlyStop(_Images([1]), 0)  # type: ignore[arg-type]


def test_a_resumed_run_keeps_the_same_network_and_never_less_than_its_start(images: Path, tmp_path: Path) -> None:
    data = load_dataset(f"folder:{images}?test=0.4")
    backbone = load_backbone("random:test_efficientnet?size=32")
    options = FinetuneOptions(start="probe", optimizer="adam", checkpoint_seconds=0)
    how: dict[str, Any] = {"classes": 3, "steps": 6, "learning_rate": 0.01, "batch_size": 4, "seed": 0, "checks": 3}
    how |= {"held_out": data.split("test"), "options": options}
    start = finetune(backbone, data.split("train"), data.split("test"), **(how | {"steps": 0}))
    whole = finetune(backbone, data.split("train"), data.split("test"), **how)
    assert whole.held_out >= start.held_out
    assert whole.held_out == whole.top1  # the same images here
    again = {**how, "checkpoint": tmp_path / "state.pt"}

    def stop(done: int, _steps: int, _loss: float) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        finetune(backbone, data.split("train"), data.split("test"), progress=stop, **again)
    resumed = finetune(backbone, data.split("train"), data.split("test"), **again)
    assert resumed.resumed_at == 4
    assert (resumed.stopped_at, resumed.held_out) == (whole.stopped_at, whole.held_out)
    assert np.array_equal(resumed.predictions, whole.predictions)
    given = finetune(backbone, data.split("train"), data.split("test"), head=start.head, **how)
    assert np.array_equal(given.predictions, whole.predictions)
