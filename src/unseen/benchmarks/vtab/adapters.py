"""Ways to adapt a model to a task: a linear layer on stored features, or fine-tuning of the network.

An adapter selects on train and val (`tune`), then retrains on both, once per seed, and predicts the test images
(`predict`): the class of each, -1 if it could not be read. It never receives a test label.

Every fine-tuning writes its outcome to a small file, atomically. So any process may run any training, in any order,
and a killed process loses at most one training: the selection depends on the files alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unseen.backbones import Backbone
from unseen.benchmarks.vtab.search import PEFT_WARMUP, Selection, Trial, select
from unseen.benchmarks.workbench import SplitRows
from unseen.core.arrays import IntArray
from unseen.core.errors import DataError, DiskFullError, OutOfMemoryError, UnavailableError, UnseenError
from unseen.core.files import write_whole
from unseen.core.run_record import RunRecord, split_record
from unseen.data import Split
from unseen.features.rows import FeatureRows
from unseen.finetuning import train as training
from unseen.finetuning.train import FinetuneOptions as FinetuneOptions
from unseen.finetuning.views import EvalView, TrainView
from unseen.probes.lightweight import LinearSetting, fit_linear, predict, sweep_linear


@dataclass(eq=False)
class LinearAdapter:
    """A linear layer on frozen features, by the lightweight sweep.

    Attributes:
        train, val, test: features, with labels for selection and training.
        settings: the candidates.
    """

    train: SplitRows
    val: SplitRows
    test: SplitRows
    classes: int
    settings: Sequence[Trial]
    record: RunRecord = field(default_factory=RunRecord)
    trainable: int = 0

    def tune(self) -> Selection:
        settings = [LinearSetting(**setting) for setting in self.settings]
        train, val = ((part.features, part.labels) for part in (self.train, self.val))
        return select([trial.to_dict() for trial in sweep_linear(train, val, self.classes, settings)])

    def predict(self, selection: Selection, seeds: Sequence[int]) -> Iterator[IntArray]:
        both = FeatureRows.of(self.train.features).join(self.val.features)
        labels = np.concatenate([self.train.labels, self.val.labels])
        self.trainable = self.classes * (both.shape[1] + 1)
        for model in fit_linear((both, labels), self.classes, LinearSetting(**selection.setting), seeds):
            predictions = np.full(self.test.total, -1, np.int64)
            predictions[self.test.index] = predict(model, self.test.features)
            yield predictions


class Run(NamedTuple):
    """One training: a setting with a seed, and the file of its outcome."""

    setting: Trial
    seed: int
    path: Path

    @property
    def checkpoint(self) -> Path:
        return self.path.with_suffix(".pt")

    def outcome(self) -> Trial:
        """Return the stored outcome; empty if it was not trained."""
        found: Trial = json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else {}
        return found


@dataclass(eq=False)
class FinetuneAdapter:
    """Fine-tuning, or training from scratch if the backbone's weights are random.

    Attributes:
        test: images with blank labels.
        settings: candidates; those of the heavyweight search and of `peft-1k` name an optimizer.
        options: of all trainings; a setting overrides them.
        folder: for the outcomes of trainings and their checkpoints.
        name: returns the name of a training from its kind, setting and seed; it depends on everything else.
        tolerant: whether a candidate that fails is recorded instead of ending the search; out of memory always ends it.
        selection_seeds: number of trainings of each candidate, with seeds from 0; their mean accuracy selects.
        trainable: number of trained parameters, once a training is done.
    """

    backbone: Backbone
    train: Split
    val: Split
    test: Split
    classes: int
    settings: Sequence[Trial]
    options: FinetuneOptions
    folder: Path
    name: Callable[..., str]
    tolerant: bool = False
    selection_seeds: int = 1
    record: RunRecord = field(default_factory=RunRecord)
    trainable: int = 0

    def tune(self) -> Selection:
        for piece in self.todo():
            self.do(piece)
        return self.selection()

    @property
    def runs(self) -> list[Run]:
        """Return the trainings of the search: candidate after candidate, seed after seed."""
        return [self._run("trial", setting, seed) for setting in self.settings for seed in range(self.selection_seeds)]

    def todo(self, seeds: Sequence[int] = ()) -> list[dict[str, int]]:
        """Return the trainings that can be done now: those of the search, and after it a final one per seed."""
        if waiting := [{"trial": number} for number, run in enumerate(self.runs) if not run.path.exists()]:
            return waiting
        chosen = self.selection().setting if seeds else {}
        return [{"final": seed} for seed in seeds if not self._run("final", chosen, seed).path.exists()]

    def do(self, piece: Mapping[str, int]) -> None:
        """Do one training, and store its outcome."""
        if "final" in piece:
            self._finish(self._run("final", self.selection().setting, piece["final"]))
        else:
            self._try(self.runs[piece["trial"]])

    def _try(self, run: Run) -> None:
        """Train a candidate, and evaluate it on val."""
        try:
            result = self._train(run, self.train, self.val)
        except (DiskFullError, UnavailableError, OutOfMemoryError):  # not the fault of the setting
            raise
        except (UnseenError, RuntimeError, ValueError, ArithmeticError) as error:
            if not self.tolerant:
                raise
            outcome: Trial = {"state": "failed", "error": f"{type(error).__name__}: {error}"}
        else:
            outcome = {"state": "complete", "accuracy": result.top1, "seconds": result.seconds}
            if result.diverged_at:
                outcome |= {"state": "diverged", "error": f"the loss diverged at step {result.diverged_at:,}"}
            if result.micro_batch < self._forward_images(run.setting):
                outcome["forward_images"] = result.micro_batch
        self._store(run, {**run.setting, **outcome})

    def selection(self) -> Selection:
        """Return the best of the complete candidates.

        Raises:
            DataError: none is complete. Failures are removed, so that a later search tries them again.
        """
        outcomes = [run.outcome() for run in self.runs]
        try:
            return select([_joined(each) for each in zip(*[iter(outcomes)] * self.selection_seeds, strict=True)])
        except DataError:
            self._forget_failures()
            raise

    def _store(self, run: Run, outcome: Trial) -> None:
        write_whole(run.path, json.dumps(outcome))
        run.checkpoint.unlink(missing_ok=True)

    def _finish(self, run: Run) -> None:
        """Train the chosen setting on train and val, and predict the test images."""
        result = self._train(run, self.train.join(self.val), self.test)
        own = {"train": self.train, "val": self.val, "test": self.test}
        only_val = set(self.val.names) - set(self.train.names)  # train and val are joined under the name "train"
        lost = [
            replace(one, split="val") if one.split == "train" and one.name in only_val else one
            for one in result.dropped
        ]
        record = split_record(own, lost).merge(RunRecord(notes=tuple(self._remarks(result, run))))
        facts = {"predictions": result.predictions.tolist(), "record": record.to_dict(), "trainable": result.trainable}
        self._store(run, facts)

    def predict(self, selection: Selection, seeds: Sequence[int]) -> Iterator[IntArray]:
        for seed in seeds:
            run = self._run("final", selection.setting, seed)
            if not run.path.exists():
                self._finish(run)
            finished = run.outcome()
            self.record = self.record.merge(RunRecord.from_dict(finished.get("record", {})))
            self.trainable = int(finished.get("trainable", 0))
            yield np.array(finished["predictions"], np.int64)
            run.path.unlink(missing_ok=True)  # the caller has stored this result before it takes the next one
        self._forget_failures()

    def _forget_failures(self) -> None:
        """Remove the outcomes of failed candidates, so that a later search tries them again."""
        for run in self.runs:
            if run.outcome().get("state") == "failed":
                run.path.unlink()

    def _remarks(self, result: training.FinetuneResult, run: Run) -> Iterator[str]:
        """Yield what a reader of the number needs to know of a final training."""
        requested = self._forward_images(run.setting)
        if result.micro_batch < requested:
            yield (
                f"Memory ran out: fine-tuning used {result.micro_batch:,} instead of {requested:,} images per forward "
                "pass, with the same batch size."
            )
        if result.diverged_at:
            yield f"The final training with seed {run.seed} ended at step {result.diverged_at:,}: its loss diverged."

    def _train(self, run: Run, train: Split, test: Split) -> training.FinetuneResult:
        setting, steps = run.setting, self._steps(run.setting, train)
        changes: Trial = {}
        if "optimizer" in setting:
            changes |= {"optimizer": setting["optimizer"], "weight_decay": float(setting["weight_decay"])}
        if "crop" in setting:
            changes["train_view"] = TrainView(setting["crop"], flip=setting["flip"], colour=setting["colour"])
            changes["eval_view"] = EvalView(setting["eval_size"], setting["eval_resize"])
        if setting.get("schedule") == "cosine":
            changes |= {"schedule": "cosine", "warmup": round(PEFT_WARMUP * steps)}
        return training.finetune(
            self.backbone,
            train,
            test,
            classes=self.classes,
            steps=steps,
            learning_rate=float(setting["learning_rate"]),
            batch_size=int(setting["batch_size"]),
            seed=run.seed,
            checkpoint=run.checkpoint,
            options=replace(self.options, **changes),
        )

    def _steps(self, setting: Trial, images: Split) -> int:
        """Return the number of steps of a setting; those of `peft-1k` count epochs of the images at hand."""
        if "steps" in setting:
            return int(setting["steps"])
        return ceil(int(setting["epochs"]) * len(images) / int(setting["batch_size"]))

    def _forward_images(self, setting: Trial) -> int:
        return self.options.micro_batch or int(setting["batch_size"])

    def _run(self, kind: str, setting: Trial, seed: int) -> Run:
        return Run(setting, seed, self.folder / f"{kind}-{self.name(kind, setting, seed)}.json")


def _joined(outcomes: Sequence[Trial]) -> Trial:
    """Return the outcome of a candidate over its seeds: the mean accuracy, and the worst state."""
    worst = next((found for found in outcomes if found["state"] != "complete"), outcomes[0])
    if any("accuracy" not in found for found in outcomes):
        return worst
    accuracy = float(np.mean([found["accuracy"] for found in outcomes]))
    return {**worst, "accuracy": accuracy, "seconds": sum(found["seconds"] for found in outcomes)}
