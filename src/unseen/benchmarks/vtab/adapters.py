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
from unseen.benchmarks.vtab.search import Selection, Trial, select
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

#: Seed of the trials of a search.
_SEED = 0


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

    def tune(self) -> Selection:
        settings = [LinearSetting(**setting) for setting in self.settings]
        return select([trial.to_dict() for trial in sweep_linear(self.train, self.val, self.classes, settings)])

    def predict(self, selection: Selection, seeds: Sequence[int]) -> Iterator[IntArray]:
        both = FeatureRows.of(self.train[0]).join(self.val[0])
        labels = np.concatenate([self.train[1], self.val[1]])
        for model in fit_linear((both, labels), self.classes, LinearSetting(**selection.setting), seeds):
            predictions = np.full(self.count, -1, np.int64)
            predictions[self.rows] = predict(model, self.test)
            yield predictions


@dataclass(eq=False)
class FinetuneAdapter:
    """Fine-tuning, or training from scratch if the backbone's weights are random.

    Attributes:
        test: images with blank labels.
        settings: candidates; those of the heavyweight search name an optimizer.
        options: of all trainings; a setting overrides them.
        folder: for the outcomes of trainings and their checkpoints.
        name: returns the name of a training from its kind, setting and seed; it depends on everything else.
        rungs: shares of the training time after which the worse half of the candidates is stopped.
        tolerant: whether a candidate that fails is recorded instead of ending the search; out of memory always ends it.
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
    record: RunRecord = field(default_factory=RunRecord)

    def tune(self) -> Selection:
        while waiting := self.waiting():
            for trial, share in waiting:
                self.advance(trial, share)
        return self.selection()

    def waiting(self) -> list[tuple[int, float]]:
        """Return the candidates to train now, and up to which share of their steps; none once all is decided.

        A rung is decided when all candidates have reached it, so that their order does not matter.
        """
        alive = list(range(len(self.settings)))
        for place, share in enumerate((*self.rungs, 1.0)):
            found = {trial: self._outcome(trial) for trial in alive}
            ends = ("failed",) if share < 1 else ("failed", "complete")
            left = [trial for trial in alive if found[trial].get("state") not in ends]
            if missing := [t for t in left if share == 1 or len(found[t].get("rungs", ())) <= place]:
                return [(trial, share) for trial in missing]
            if share < 1:
                left.sort(key=lambda trial: (-found[trial]["rungs"][place], trial))
                alive = sorted(left[: ceil(len(left) / 2)])
        return []

    def advance(self, trial: int, share: float) -> None:
        """Train one candidate up to a share of its steps, evaluate it on val, and store the outcome."""
        setting = self.settings[trial]
        path, before = self._place("trial", setting), self._outcome(trial)
        until = ceil(share * int(setting["steps"]))
        outcome: Trial
        try:
            result = self._run((self.train, self.val), setting, _SEED, path, until)
        except (DiskFullError, UnavailableError, OutOfMemoryError):  # not the fault of the setting
            raise
        except (UnseenError, RuntimeError, ValueError, ArithmeticError) as error:
            if not self.tolerant:
                raise
            outcome = {"state": "failed", "error": f"{type(error).__name__}: {error}"}
        else:
            rungs = [*before.get("rungs", ()), result.top1]
            complete = {"state": "complete", "accuracy": result.top1, "seconds": result.seconds}
            outcome = {**(complete if share == 1 else {"state": "training"}), "rungs": rungs}
        write_whole(path, json.dumps({**setting, **outcome}))
        if outcome["state"] != "training":
            path.with_suffix(".pt").unlink(missing_ok=True)

    def selection(self) -> Selection:
        """Return the best of the complete candidates, and remove the checkpoints of the others.

        Raises:
            DataError: none is complete. Failures are removed, so that a later search tries them again.
        """
        trials = []
        for trial, setting in enumerate(self.settings):
            found = self._outcome(trial)
            if found["state"] == "training":
                found["state"] = "pruned"
                self._place("trial", setting).with_suffix(".pt").unlink(missing_ok=True)
            found.pop("rungs", None)
            trials.append(found)
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
        result = self._run((self.train.join(self.val), self.test), selection.setting, seed, path)
        own = {"train": self.train, "val": self.val, "test": self.test}
        only_val = set(self.val.names) - set(self.train.names)  # train and val are joined under the name "train"
        lost = [
            replace(one, split="val") if one.split == "train" and one.name in only_val else one
            for one in result.dropped
        ]
        facts = {"predictions": result.predictions.tolist(), "record": split_record(own, lost).to_dict()}
        write_whole(path, json.dumps(facts))
        path.with_suffix(".pt").unlink(missing_ok=True)

    def predict(self, selection: Selection, seeds: Sequence[int]) -> Iterator[IntArray]:
        for seed in seeds:
            if self.unpredicted(selection, [seed]):
                self.finish(selection, seed)
            path = self._place("final", selection.setting, seed)
            finished = json.loads(path.read_text(encoding="utf-8"))
            self.record = self.record.merge(RunRecord.from_dict(finished.get("record", {})))
            yield np.array(finished["predictions"], np.int64)
            path.unlink(missing_ok=True)  # the caller has stored this result before it takes the next one
        self._forget_failures()

    def _forget_failures(self) -> None:
        """Remove the outcomes of failed candidates, so that a later search tries them again."""
        for trial, setting in enumerate(self.settings):
            if self._outcome(trial).get("state") == "failed":
                self._place("trial", setting).unlink()

    def _run(
        self, images: tuple[Split, Split], setting: Trial, seed: int, path: Path, until: int | None = None
    ) -> training.FinetuneResult:
        """Train on the first images and evaluate on the second; up to `until` steps."""
        options = self.options
        if "optimizer" in setting:
            options = replace(
                options,
                optimizer=setting["optimizer"],
                weight_decay=float(setting["weight_decay"]),
                train_view=TrainView(setting["crop"], flip=bool(setting["flip"]), colour=bool(setting["colour"])),
                eval_view=EvalView(int(setting["eval_size"]), int(setting["eval_resize"])),
            )
        return training.finetune(
            self.backbone,
            *images,
            classes=self.classes,
            steps=int(setting["steps"]),
            learning_rate=float(setting["learning_rate"]),
            batch_size=int(setting["batch_size"]),
            seed=seed,
            checkpoint=path.with_suffix(".pt"),
            until=until,
            options=options,
        )

    def _outcome(self, trial: int) -> Trial:
        """Return the stored outcome of a candidate; empty if it was not trained."""
        path = self._place("trial", self.settings[trial])
        if not path.exists():
            return {}
        found: Trial = json.loads(path.read_text(encoding="utf-8"))
        return found

    def _place(self, kind: str, setting: Trial, seed: int = _SEED) -> Path:
        return self.folder / f"{kind}-{self.name(kind, setting, seed)}.json"
