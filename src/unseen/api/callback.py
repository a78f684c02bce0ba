"""`unseen.ProbeCallback`: probe a model every few epochs of its training, without changing the training.

The callback evaluates a copy of the model (`unseen.backbones.objects`) and restores every random state: a run with the
callback is bit-identical to a run without it. All evaluations use the same images: `?limit=500` in the name of a
dataset, or fewer images, makes them faster.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar

import numpy as np

from unseen.api.answer import Answer, percent
from unseen.api.evaluation import evaluate
from unseen.api.extraction import extract
from unseen.api.objects import Data, Model
from unseen.backbones.backbone import ImageTransform
from unseen.core.errors import DataError, UsageError
from unseen.core.identity import Values
from unseen.core.records import Preprocessing
from unseen.core.run_record import RunRecord
from unseen.data import Dataset, load_dataset
from unseen.data.adapters import as_dataset
from unseen.data.load import resolve_dataset
from unseen.features import Extraction, NoProgress
from unseen.metrics import alpha_req, effective_rank, rankme, uniformity
from unseen.reports.wording import counted

_LABEL_FREE: tuple[Callable[[Any], float], ...] = (rankme, effective_rank, alpha_req, uniformity)

#: Titles of the metric of an evaluation, which depends on the kind of the labels.
_SCORES = {"top1": "top-1", "r2": "R²", "lrap": "LRAP"}

Log = Callable[[Mapping[str, float], int], None]


@dataclass(eq=False, repr=False)
class ProbeCallback(Answer):
    """Probe a model during its training. Call it after each epoch: `callback(model, epoch)`.

    Args:
        data: labelled images, as for `unseen.evaluate`.
        test: other labelled images.
        every: epochs between evaluations; the first is after epoch `every` - 1, counted from 0.
        transform, preprocessing: from images to the input of the model.
        log: called with (metrics, epoch), such as `wandb.log` or `mlflow.log_metrics`.
        options: of the probe benchmark, such as {"solver": "ridge"}.

    Attributes:
        history: one row per evaluation: epoch, top1 with its bounds, images, seconds, and RankMe, α-ReQ, effective rank
            and uniformity of the features of the test images, which need no labels.
    """

    data: Data
    test: Data | None = None
    every: int = 1
    transform: ImageTransform | None = None
    preprocessing: Preprocessing | None = None
    log: Log | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    history: list[Values] = field(default_factory=list, init=False)

    percent: ClassVar[tuple[str, ...]] = ("top1", "top1_low", "top1_high")

    def __post_init__(self) -> None:
        if self.every < 1:
            raise UsageError("every is a number of epochs from 1 on.")
        with _unchanged():
            self._dataset = self._load()
        self._record = RunRecord()

    def __call__(self, model: Model, epoch: int) -> Values | None:
        """Evaluate the model if the epoch is due; return the new row of the history, or None."""
        if (epoch + 1) % self.every:
            return None
        with _unchanged():
            row = {"epoch": epoch, **self._evaluate(model)}
            self.history.append(row)
            if self.log is not None:
                self.log({f"probe/{name}": value for name, value in row.items() if isinstance(value, float)}, epoch)
        return row

    def headline(self) -> str:
        known = [(name, row) for row in self.history for name in _SCORES if name in row]
        if not known:
            return f"no evaluation yet, one every {self.every} epochs"
        name, row = known[-1]
        shown = f"{row[name]:.3f}" if name == "r2" else percent(row[name])
        return f"{_SCORES[name]} {shown} after epoch {row['epoch']}, {counted(len(known), 'evaluation')}"

    @property
    def record(self) -> RunRecord:
        """What the latest evaluation received, used and dropped."""
        return self._record

    def rows(self) -> list[Values]:
        return list(self.history)

    def for_lightning(self) -> object:
        """Return this callback for Lightning's `Trainer`."""
        lightning = _imported("lightning.pytorch", "pytorch_lightning")

        def end(_self: object, trainer: Any, module: Model) -> None:
            row = self(module, int(trainer.current_epoch))
            if row and trainer.logger is not None:
                trainer.logger.log_metrics({f"probe/{k}": v for k, v in row.items() if isinstance(v, float)})

        return type("LightningProbe", (lightning.Callback,), {"on_train_epoch_end": end})()

    def for_trainer(self) -> object:
        """Return this callback for the Hugging Face `Trainer`."""
        transformers = _imported("transformers")

        def end(_self: object, args: object, state: Any, control: object, model: Any = None, **_: object) -> None:
            self(model, round(state.epoch) - 1)

        return type("TrainerProbe", (transformers.TrainerCallback,), {"on_epoch_end": end})()

    def _load(self) -> Dataset:
        if isinstance(self.data, Dataset) and self.test is None:
            return self.data
        if isinstance(self.data, str | Path) and self.test is None:
            return load_dataset(resolve_dataset(str(self.data), Path()))
        return as_dataset(self.data, self.test)

    def _evaluate(self, model: Model) -> Values:
        began, data = perf_counter(), self._dataset
        # The weights change before the next evaluation: features are not stored, and no graph is exported.
        how: Values = {"how": Extraction(runtime="torch"), "progress": NoProgress()}
        how |= {"transform": self.transform, "preprocessing": self.preprocessing}
        with tempfile.TemporaryDirectory(prefix="unseen-probe-") as home:
            found = evaluate(model, data, home=home, **how, **self.options)
            self._record = found.record
            name, score = found.compared, found.score  # top1, unless images have numbers or several labels
            row: Values = {name: score.value, f"{name}_low": score.low, f"{name}_high": score.high}
            features = extract(model, data, split="test", home=home, **how).features
        for metric in _LABEL_FREE:
            with suppress(DataError):  # too few images or directions for this one
                row[metric.__name__] = metric(features)
        images = sum(len(split) for split in data.splits.values())
        return {**row, "images": images, "seconds": perf_counter() - began}


def _imported(*names: str) -> Any:
    for name in names:
        with suppress(ImportError):
            return import_module(name)
    raise UsageError(f"{names[0]} is not installed: call the callback itself, callback(model, epoch).")


@contextmanager
def _unchanged() -> Iterator[None]:
    """Restore every random state and setting of torch at the end of the block."""
    import torch

    threads, grad = torch.get_num_threads(), torch.is_grad_enabled()
    legacy: Any = np.random  # the generator that training scripts seed
    states = random.getstate(), legacy.get_state()
    cuda: Any = torch.cuda
    devices = range(cuda.device_count()) if cuda.is_initialized() else ()
    try:
        with torch.random.fork_rng(devices=devices), torch.enable_grad():
            yield
    finally:
        torch.set_num_threads(threads)
        torch.set_grad_enabled(grad)
        random.setstate(states[0])
        legacy.set_state(states[1])
