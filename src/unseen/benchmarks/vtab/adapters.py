"""Ways to adapt a model to a task: a linear layer on stored features, or fine-tuning of the whole network.

An adapter selects on train and val, then retrains on both and predicts the test images. It never sees a test label.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from unseen.benchmarks.vtab.sealed import Selection, select
from unseen.core.files import write_whole
from unseen.data import Split
from unseen.data.dataset import IntArray

if TYPE_CHECKING:
    from unseen.backbones import Backbone
    from unseen.finetuning.train import FinetuneOptions, FinetuneResult

#: Weight decay of training from scratch, per unit of learning rate (Appendix I).
SCRATCH_DECAY = 0.01


class Adapter(Protocol):
    """One model on one task.

    Attributes:
        skipped: what a result's details say of images that could not be read.
    """

    skipped: dict[str, Any]

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
    skipped: dict[str, Any] = field(default_factory=dict)

    def tune(self) -> Selection:
        from unseen.probes.lightweight import LinearSetting, sweep_linear

        settings = [LinearSetting(rate, steps, self.batch_size) for rate, steps in self.settings]
        return select([t.to_dict() for t in sweep_linear(self.train, self.val, self.classes, settings)])

    def predict(self, selection: Selection, seeds: Sequence[int]) -> Iterator[IntArray]:
        from unseen.probes.lightweight import LinearSetting, fit_linear, predict
        from unseen.probes.rows import Joined

        chosen = selection.setting
        setting = LinearSetting(float(chosen["learning_rate"]), int(chosen["steps"]), int(chosen["batch_size"]))
        both = Joined(self.train[0], self.val[0])
        labels = np.concatenate([self.train[1], self.val[1]])
        for model in fit_linear((_Sized(both), labels), self.classes, setting, seeds):
            predictions = np.full(self.count, -1, np.int64)
            predictions[self.rows] = predict(model, self.test)
            yield predictions


class _Sized:
    """Joined rows with a length, as NumPy arrays have."""

    def __init__(self, rows: Any) -> None:
        self.shape, self._rows = rows.shape, rows

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, chosen: Any) -> Any:
        return self._rows[chosen]


@dataclass(eq=False)
class FinetuneAdapter:
    """Fine-tuning, or training from scratch where the backbone's weights are random.

    Attributes:
        test: images with blank labels.
        folder: where runs and checkpoints are kept until their result is stored, so that a kill loses little.
        name: gives the name of a run from its kind, setting and seed; all else that it depends on is in it.
    """

    backbone: Backbone
    train: Split
    val: Split
    test: Split
    classes: int
    settings: Sequence[tuple[float, int]]
    batch_size: int
    folder: Path
    name: Callable[..., str]
    micro_batch: int = 0
    weight_decay: float = 0.0
    own_preprocessing: bool = False
    seed: int = 0
    skipped: dict[str, Any] = field(default_factory=dict)

    def tune(self) -> Selection:
        trials = []
        for rate, steps in self.settings:
            setting = {"learning_rate": rate, "steps": steps, "batch_size": self.batch_size}
            trials.append(self.trial(setting, self.options()))
        return select(trials)

    def options(self, **changes: Any) -> FinetuneOptions:
        from unseen.finetuning.train import FinetuneOptions

        basis = FinetuneOptions(
            weight_decay=self.weight_decay, micro_batch=self.micro_batch, own_preprocessing=self.own_preprocessing
        )
        return replace(basis, **changes)

    def trial(
        self, setting: Mapping[str, Any], options: FinetuneOptions, watch: Callable[[int, float], None] | None = None
    ) -> dict[str, Any]:
        """One setting, trained on train and judged on val; remembered once it is done."""
        path = self._place("trial", setting, self.seed)
        if path.exists():
            remembered: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return remembered
        result = self._run(self.train, self.val, setting, options, self.seed, path.with_suffix(".pt"), watch)
        outcome = {**setting, "accuracy": result.top1, "seconds": result.seconds, "state": "complete"}
        _write(path, outcome)
        path.with_suffix(".pt").unlink(missing_ok=True)
        return outcome

    def predict(self, selection: Selection, seeds: Sequence[int]) -> Iterator[IntArray]:
        both = self.train.join(self.val)
        setting = {k: v for k, v in selection.setting.items() if k not in ("accuracy", "seconds", "state", "index")}
        for seed in seeds:
            path = self._place("final", setting, seed)
            if not path.exists():
                options = self.heavy_options(setting) if "optimizer" in setting else self.options()
                result = self._run(both, self.test, setting, options, seed, path.with_suffix(".pt"), None)
                _write(path, {"predictions": result.predictions.tolist(), "skipped": result.skipped})
                path.with_suffix(".pt").unlink(missing_ok=True)
            finished = json.loads(path.read_text(encoding="utf-8"))
            if finished.get("skipped"):
                self.skipped = {"skipped": {**self.skipped.get("skipped", {}), **finished["skipped"]}}
            yield np.array(finished["predictions"], np.int64)
            path.unlink(missing_ok=True)  # whoever asks for the next one has stored this one's result

    def heavy_options(self, setting: Mapping[str, Any]) -> FinetuneOptions:
        """The options that a setting of the heavyweight search stands for."""
        from unseen.finetuning.views import EvalView, TrainView

        return self.options(
            optimizer=setting["optimizer"],
            weight_decay=float(setting["weight_decay"]),
            train_view=TrainView(setting["crop"], flip=bool(setting["flip"]), colour=bool(setting["colour"])),
            eval_view=EvalView(int(setting["eval_size"]), crop=bool(setting["eval_crop"])),
        )

    def _run(
        self,
        train: Split,
        test: Split,
        setting: Mapping[str, Any],
        options: FinetuneOptions,
        seed: int,
        checkpoint: Path,
        watch: Callable[[int, float], None] | None,
    ) -> FinetuneResult:
        from unseen.finetuning.train import finetune

        return finetune(
            self.backbone,
            train,
            test,
            classes=self.classes,
            steps=int(setting["steps"]),
            learning_rate=float(setting["learning_rate"]),
            batch_size=int(setting["batch_size"]),
            seed=seed,
            checkpoint=checkpoint,
            watch=watch,
            options=options,
        )

    def _place(self, kind: str, setting: Mapping[str, Any], seed: int) -> Path:
        return self.folder / f"{kind}-{self.name(kind, dict(setting), seed)}.json"


def _write(path: Path, value: Mapping[str, Any]) -> None:
    write_whole(path, json.dumps(dict(value)))
