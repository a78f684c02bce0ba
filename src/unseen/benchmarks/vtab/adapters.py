"""Ways to adapt a model to a task: a linear layer on stored features, or fine-tuning (finetune.py).

An adapter selects on train and val, then retrains on both and predicts the test images. It never sees a test label.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from unseen.benchmarks.vtab.sealed import Selection, select
from unseen.core.run_record import RunRecord
from unseen.data.dataset import IntArray
from unseen.features.rows import FeatureRows


class Adapter(Protocol):
    """One model on one task.

    Attributes:
        record: what it dropped while it trained.
    """

    record: RunRecord

    def tune(self) -> Selection:
        """Try the settings on train, judge them on val, choose one."""

    def predict(self, selection: Selection, seeds: Sequence[int]) -> Iterator[IntArray]:
        """Retrain on train and val, once per seed; classes of the test images, -1 where one could not be read."""


@dataclass(eq=False)
class LinearAdapter:
    """A linear layer on frozen features, by the lightweight sweep.

    Attributes:
        train, val: features and labels.
        test: features; `rows` are their places among all `count` test images.
        settings: (learning rate, steps) to choose from.
    """

    train: tuple[Any, IntArray]
    val: tuple[Any, IntArray]
    test: Any
    rows: IntArray
    count: int
    classes: int
    settings: Sequence[tuple[float, int]]
    batch_size: int
    record: RunRecord = field(default_factory=RunRecord)

    def tune(self) -> Selection:
        from unseen.probes.lightweight import LinearSetting, sweep_linear

        settings = [LinearSetting(rate, steps, self.batch_size) for rate, steps in self.settings]
        return select([t.to_dict() for t in sweep_linear(self.train, self.val, self.classes, settings)])

    def predict(self, selection: Selection, seeds: Sequence[int]) -> Iterator[IntArray]:
        from unseen.probes.lightweight import LinearSetting, fit_linear, predict

        chosen = selection.setting
        setting = LinearSetting(float(chosen["learning_rate"]), int(chosen["steps"]), int(chosen["batch_size"]))
        both = FeatureRows.of(self.train[0]).join(self.val[0])
        labels = np.concatenate([self.train[1], self.val[1]])
        for model in fit_linear((both, labels), self.classes, setting, seeds):
            predictions = np.full(self.count, -1, np.int64)
            predictions[self.rows] = predict(model, self.test)
            yield predictions
