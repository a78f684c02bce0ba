"""Ways to adapt a model to a task: a linear layer on stored features, or fine-tuning of the network.

An adapter selects on train and val (`tune`), then retrains on both, once per seed, and predicts the test images
(`predict`): the class of each, -1 if it could not be read. It never receives a test label.

Every fine-tuning writes its outcome to a small file, atomically. So any process may run any training, in any order,
and a killed process loses at most one training: the selection depends on the files alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path

import numpy as np

from unseen.backbones import Backbone
from unseen.benchmarks.vtab.search import PEFT_WARMUP, Selection, Trial, select
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
        train, val: features and labels.
        test: features; `rows` are their places among all `count` test images.
        settings: the candidates.
    """

    train: tuple[FeatureRows, IntArray]
    val: tuple[FeatureRows, IntArray]
    test: FeatureRows
    rows: IntArray
    count: int
    classes: int
    settings: Sequence[Trial]
    record: RunRecord = field(default_factory=RunRecord)
    trainable: int = 0

    def tune(self) -> Selection:
        settings = [LinearSetting(**setting) for setting in self.settings]
        return select([trial.to_dict() for trial in sweep_linear(self.train, self.val, self.classes, settings)])

    def predict(self, selection: Selection, seeds: Sequence[int]) -> Iterator[IntArray]:
        both = FeatureRows.of(self.train[0]).join(self.val[0])
        labels = np.concatenate([self.train[1], self.val[1]])
        self.trainable = self.classes * (both.shape[1] + 1)
        for model in fit_linear((both, labels), self.classes, LinearSetting(**selection.setting), seeds):
            predictions = np.full(self.count, -1, np.int64)
            predictions[self.rows] = predict(model, self.test)
            yield predictions


@dataclass(eq=False)
class FinetuneAdapter:
    """Fine-tuning, or training from scratch if the backbone's weights are random.

    Attributes:
        test: images with blank labels.
        settings: candidates; those of the heavyweight search and of `peft-1k` name an optimizer.
        options: of all trainings; a setting overrides them.
        folder: for the outcomes of trainings and their checkpoints.
        name: returns the name of a training from its kind, setting and seed; it depends on everything else.
        rungs: shares of the training time after which the worse half of the candidates is stopped.
        tolerant: whether a candidate that fails is recorded instead of ending the search; out of memory always ends it.
        selection_seeds: number of trainings of each candidate, with seeds from 0; their mean accuracy selects.
        trainable: number of trained parameters, once a training is done.

    A run is one training of a candidate: number `k` has the setting `k // selection_seeds`.
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
    rungs: Sequence[float] = ()
    tolerant: bool = False
    selection_seeds: int = 1
    record: RunRecord = field(default_factory=RunRecord)
    trainable: int = 0

    def tune(self) -> Selection:
        while waiting := self.waiting():
            for run, share in waiting:
                self.advance(run, share)
        return self.selection()

    def waiting(self) -> list[tuple[int, float]]:
        """Return the runs to train now, and up to which share of their steps; none once all is decided.

        A rung is decided when all candidates have reached it, so that their order does not matter.
        """
        alive = list(range(len(self.settings)))
        for place, share in enumerate((*self.rungs, 1.0)):
            ends = ("failed", "diverged") if share < 1 else ("failed", "diverged", "complete")
            runs = [run for trial in alive for run in self._runs(trial)]
            found = {run: self._outcome(run) for run in runs}
            left = [run for run in runs if found[run].get("state") not in ends]
            if missing := [run for run in left if share == 1 or len(found[run].get("rungs", ())) <= place]:
                return [(run, share) for run in missing]
            if share < 1:
                scores = {t: [found[run]["rungs"][place] for run in self._runs(t) if run in left] for t in alive}
                ranked = sorted((t for t in alive if scores[t]), key=lambda t: (-float(np.mean(scores[t])), t))
                alive = sorted(ranked[: ceil(len(ranked) / 2)])
        return []

    def advance(self, run: int, share: float) -> None:
        """Train one candidate with one seed up to a share of its steps, evaluate it on val, and store the outcome."""
        setting, seed = self._run_of(run)
        path, before = self._place("trial", setting, seed), self._outcome(run)
        until = ceil(share * self._steps(setting, self.train))
        outcome: Trial
        try:
            result = self._train((self.train, self.val), setting, seed, path, until)
        except (DiskFullError, UnavailableError, OutOfMemoryError):  # not the fault of the setting
            raise
        except (UnseenError, RuntimeError, ValueError, ArithmeticError) as error:
            if not self.tolerant:
                raise
            outcome = {"state": "failed", "error": f"{type(error).__name__}: {error}"}
        else:
            rungs = [*before.get("rungs", ()), result.top1]
            complete = {"state": "complete", "accuracy": result.top1, "seconds": result.seconds}
            if result.diverged_at:
                complete |= {"state": "diverged", "error": f"the loss diverged at step {result.diverged_at:,}"}
            outcome = {**(complete if share == 1 or result.diverged_at else {"state": "training"}), "rungs": rungs}
            if result.micro_batch < self._forward_images(setting):
                outcome["forward_images"] = result.micro_batch
        write_whole(path, json.dumps({**setting, **outcome}))
        if outcome["state"] != "training":
            path.with_suffix(".pt").unlink(missing_ok=True)

    def selection(self) -> Selection:
        """Return the best of the complete candidates, and remove the checkpoints of the others.

        Raises:
            DataError: none is complete. Failures are removed, so that a later search tries them again.
        """
        trials = []
        for trial in range(len(self.settings)):
            outcomes = []
            for run in self._runs(trial):
                found = self._outcome(run)
                if found["state"] == "training":
                    found["state"] = "pruned"
                    self._place("trial", *self._run_of(run)).with_suffix(".pt").unlink(missing_ok=True)
                found.pop("rungs", None)
                outcomes.append(found)
            trials.append(_joined(outcomes))
        try:
            return select(trials)
        except DataError:
            self._forget_failures()
            raise

    def unpredicted(self, selection: Selection, seeds: Sequence[int]) -> list[int]:
        """Return the seeds whose final training is not done."""
        return [seed for seed in seeds if not self._place("final", selection.setting, seed).exists()]

    def finish(self, selection: Selection, seed: int) -> None:
        """Train the chosen setting on train and val, and store its predictions for the test images."""
        path = self._place("final", selection.setting, seed)
        result = self._train((self.train.join(self.val), self.test), selection.setting, seed, path)
        own = {"train": self.train, "val": self.val, "test": self.test}
        only_val = set(self.val.names) - set(self.train.names)  # train and val are joined under the name "train"
        lost = [
            replace(one, split="val") if one.split == "train" and one.name in only_val else one
            for one in result.dropped
        ]
        record = split_record(own, lost).merge(RunRecord(notes=tuple(self._remarks(result, selection.setting, seed))))
        facts = {"predictions": result.predictions.tolist(), "record": record.to_dict(), "trainable": result.trainable}
        write_whole(path, json.dumps(facts))
        path.with_suffix(".pt").unlink(missing_ok=True)

    def predict(self, selection: Selection, seeds: Sequence[int]) -> Iterator[IntArray]:
        for seed in seeds:
            if self.unpredicted(selection, [seed]):
                self.finish(selection, seed)
            path = self._place("final", selection.setting, seed)
            finished = json.loads(path.read_text(encoding="utf-8"))
            self.record = self.record.merge(RunRecord.from_dict(finished.get("record", {})))
            self.trainable = int(finished.get("trainable", 0))
            yield np.array(finished["predictions"], np.int64)
            path.unlink(missing_ok=True)  # the caller has stored this result before it takes the next one
        self._forget_failures()

    def _forget_failures(self) -> None:
        """Remove the outcomes of failed candidates, so that a later search tries them again."""
        for run in range(len(self.settings) * self.selection_seeds):
            if self._outcome(run).get("state") == "failed":
                self._place("trial", *self._run_of(run)).unlink()

    def _remarks(self, result: training.FinetuneResult, setting: Trial, seed: int) -> Iterator[str]:
        """Yield what a reader of the number needs to know of a final training."""
        requested = self._forward_images(setting)
        if result.micro_batch < requested:
            yield (
                f"Memory ran out: fine-tuning used {result.micro_batch:,} instead of {requested:,} images per forward "
                "pass, with the same batch size."
            )
        if result.diverged_at:
            yield f"The final training with seed {seed} ended at step {result.diverged_at:,}: its loss diverged."

    def _train(
        self, images: tuple[Split, Split], setting: Trial, seed: int, path: Path, until: int | None = None
    ) -> training.FinetuneResult:
        """Train on the first images and evaluate on the second; up to `until` steps."""
        options, steps = self.options, self._steps(setting, images[0])
        if "optimizer" in setting:
            options = replace(options, optimizer=setting["optimizer"], weight_decay=float(setting["weight_decay"]))
        if "crop" in setting:
            options = replace(
                options,
                train_view=TrainView(setting["crop"], flip=bool(setting["flip"]), colour=bool(setting["colour"])),
                eval_view=EvalView(int(setting["eval_size"]), int(setting["eval_resize"])),
            )
        if setting.get("schedule") == "cosine":
            options = replace(options, schedule="cosine", warmup=round(PEFT_WARMUP * steps))
        return training.finetune(
            self.backbone,
            *images,
            classes=self.classes,
            steps=steps,
            learning_rate=float(setting["learning_rate"]),
            batch_size=int(setting["batch_size"]),
            seed=seed,
            checkpoint=path.with_suffix(".pt"),
            until=until,
            options=options,
        )

    def _steps(self, setting: Trial, images: Split) -> int:
        """Return the number of steps of a setting; those of `peft-1k` count epochs of the images at hand."""
        if "steps" in setting:
            return int(setting["steps"])
        return ceil(int(setting["epochs"]) * len(images) / int(setting["batch_size"]))

    def _forward_images(self, setting: Trial) -> int:
        return self.options.micro_batch or int(setting["batch_size"])

    def _runs(self, trial: int) -> range:
        return range(trial * self.selection_seeds, (trial + 1) * self.selection_seeds)

    def _run_of(self, run: int) -> tuple[Trial, int]:
        """Return the setting and the seed of a run."""
        return self.settings[run // self.selection_seeds], run % self.selection_seeds

    def _outcome(self, run: int) -> Trial:
        """Return the stored outcome of a run; empty if it was not trained."""
        path = self._place("trial", *self._run_of(run))
        if not path.exists():
            return {}
        found: Trial = json.loads(path.read_text(encoding="utf-8"))
        return found

    def _place(self, kind: str, setting: Trial, seed: int) -> Path:
        return self.folder / f"{kind}-{self.name(kind, setting, seed)}.json"


def _joined(outcomes: Sequence[Trial]) -> Trial:
    """Return the outcome of a candidate over its seeds: the mean accuracy, and the worst state."""
    worst = next((found for found in outcomes if found["state"] != "complete"), outcomes[0])
    if len(outcomes) == 1:
        return worst
    accuracies = [found["accuracy"] for found in outcomes if "accuracy" in found]
    mean = {"accuracy": float(np.mean(accuracies))} if len(accuracies) == len(outcomes) else {}
    return {**worst, **mean, "seconds": sum(found.get("seconds", 0.0) for found in outcomes)}
