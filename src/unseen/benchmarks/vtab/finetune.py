"""Adaptation by fine-tuning: a search over trainings that do not know of one another, then a final one per seed.

Every training leaves what came of it as a small file, whole or not at all. So any process may do any of them, in any
order, and one that was killed has lost the training in hand at most: what is chosen depends on the files alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.benchmarks.vtab.heavy import heavy_options
from unseen.benchmarks.vtab.sealed import OUTCOME, Selection, select
from unseen.core.errors import DataError, DiskFullError, OutOfMemoryError, UnavailableError, UnseenError
from unseen.core.files import write_whole
from unseen.core.run_record import RunRecord, split_record
from unseen.data import Split
from unseen.data.dataset import IntArray

if TYPE_CHECKING:
    from unseen.backbones import Backbone
    from unseen.finetuning.train import FinetuneOptions, FinetuneResult


@dataclass(eq=False)
class FinetuneAdapter:
    """Fine-tuning, or training from scratch where the backbone's weights are random.

    Attributes:
        test: images with blank labels.
        settings: candidates; those of the heavyweight search name an optimizer.
        options: of all trainings; a setting overrides them.
        folder: where trainings and their checkpoints are kept.
        name: gives the name of a training from its kind, setting and seed; all else that it depends on is in it.
        rungs: shares of the training time after which the worse half of the candidates is given up.
        tolerant: whether a candidate that fails is recorded instead of ending the search; out of memory always ends it.
    """

    backbone: Backbone
    train: Split
    val: Split
    test: Split
    classes: int
    settings: Sequence[Mapping[str, Any]]
    options: FinetuneOptions
    folder: Path
    name: Callable[..., str]
    rungs: Sequence[float] = ()
    tolerant: bool = False
    seed: int = 0
    record: RunRecord = field(default_factory=RunRecord)

    def tune(self) -> Selection:
        while waiting := self.waiting():
            for trial, share in waiting:
                self.advance(trial, share)
        return self.selection()

    def waiting(self) -> list[tuple[int, float]]:
        """Candidates to be trained now, and up to which share of their steps; none once all is decided.

        Who goes on after a rung is decided when all have reached it, so that it does not matter who came first.
        """
        alive = list(range(len(self.settings)))
        for place, share in enumerate((*self.rungs, 1.0)):
            found = {trial: self._record(trial) for trial in alive}
            missing = [trial for trial in alive if not _settled(found[trial], place, share)]
            if missing:
                return [(trial, share) for trial in missing]
            if share < 1:
                reached = [trial for trial in alive if found[trial]["state"] != "failed"]
                reached.sort(key=lambda trial: (-found[trial]["rungs"][place], trial))
                alive = sorted(reached[: ceil(len(reached) / 2)])
        return []

    def advance(self, trial: int, share: float) -> None:
        """Train one candidate up to a share of its steps, judge it on val, and remember that."""
        setting = self.settings[trial]
        path, before = self._place("trial", setting, self.seed), self._record(trial)
        until, outcome = ceil(share * int(setting["steps"])), dict[str, Any]()
        try:
            result = self._run(self.train, self.val, setting, self.seed, path.with_suffix(".pt"), until)
        except (DiskFullError, UnavailableError, OutOfMemoryError):  # they say nothing about the setting
            raise
        except (UnseenError, RuntimeError, ValueError, ArithmeticError) as error:
            if not self.tolerant:
                raise
            outcome = {"state": "failed", "error": f"{type(error).__name__}: {error}"}
        else:
            rungs = [*before.get("rungs", ()), result.top1]
            outcome = {"state": "training", "rungs": rungs}
            if share == 1:
                outcome = {"state": "complete", "accuracy": result.top1, "seconds": result.seconds, "rungs": rungs}
        _write(path, {**setting, **outcome})
        if outcome["state"] != "training":
            path.with_suffix(".pt").unlink(missing_ok=True)

    def selection(self) -> Selection:
        """The best of the candidates that came to their end; states of those that did not are of no more use.

        Raises:
            DataError: none did. What failed is forgotten, for the cause may be mended.
        """
        trials = []
        for trial, setting in enumerate(self.settings):
            found = self._record(trial)
            if found["state"] == "training":
                found["state"] = "pruned"
                self._place("trial", setting, self.seed).with_suffix(".pt").unlink(missing_ok=True)
            trials.append({key: value for key, value in found.items() if key != "rungs"})
        try:
            return select(trials)
        except DataError:
            self.forget_failures()
            raise

    def forget_failures(self) -> None:
        """A later search may try again what failed."""
        for trial, setting in enumerate(self.settings):
            if self._record(trial).get("state") == "failed":
                self._place("trial", setting, self.seed).unlink()

    def unpredicted(self, selection: Selection, seeds: Sequence[int]) -> list[int]:
        """The seeds whose final training is not done."""
        return [seed for seed in seeds if not self._place("final", _plain(selection), seed).exists()]

    def finish(self, selection: Selection, seed: int) -> None:
        """Train the chosen setting on train and val, and store its predictions for the test images."""
        setting = _plain(selection)
        path = self._place("final", setting, seed)
        result = self._run(self.train.join(self.val), self.test, setting, seed, path.with_suffix(".pt"), None)
        own = {"train": self.train, "val": self.val, "test": self.test}
        only_val = set(self.val.names) - set(self.train.names)  # train and val are joined under the name "train"
        lost = [
            replace(one, split="val") if one.split == "train" and one.name in only_val else one
            for one in result.dropped
        ]
        facts = {"predictions": result.predictions.tolist(), "record": split_record(own, lost).to_dict()}
        _write(path, facts)
        path.with_suffix(".pt").unlink(missing_ok=True)

    def predict(self, selection: Selection, seeds: Sequence[int]) -> Iterator[IntArray]:
        for seed in seeds:
            if self.unpredicted(selection, [seed]):
                self.finish(selection, seed)
            path = self._place("final", _plain(selection), seed)
            finished = json.loads(path.read_text(encoding="utf-8"))
            self.record = self.record.merge(RunRecord.from_dict(finished.get("record", {})))
            yield np.array(finished["predictions"], np.int64)
            path.unlink(missing_ok=True)  # the caller has stored this result before it takes the next one
        self.forget_failures()

    def _run(
        self,
        train: Split,
        test: Split,
        setting: Mapping[str, Any],
        seed: int,
        checkpoint: Path,
        until: int | None,
    ) -> FinetuneResult:
        from unseen.finetuning.train import advised_on_memory, finetune

        batch_size = int(setting["batch_size"])
        with advised_on_memory(batch_size, self.options.micro_batch):
            return finetune(
                self.backbone,
                train,
                test,
                classes=self.classes,
                steps=int(setting["steps"]),
                learning_rate=float(setting["learning_rate"]),
                batch_size=batch_size,
                seed=seed,
                checkpoint=checkpoint,
                until=until,
                options=heavy_options(setting, self.options) if "optimizer" in setting else self.options,
            )

    def _record(self, trial: int) -> dict[str, Any]:
        """What is known of a candidate; without a state where nothing is."""
        path = self._place("trial", self.settings[trial], self.seed)
        if not path.exists():
            return {}
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found

    def _place(self, kind: str, setting: Mapping[str, Any], seed: int) -> Path:
        return self.folder / f"{kind}-{self.name(kind, dict(setting), seed)}.json"


def _settled(found: Mapping[str, Any], place: int, share: float) -> bool:
    """Whether a candidate needs no training for a rung: it is there, or has failed."""
    if share == 1:
        return found.get("state") in ("complete", "failed")
    return found.get("state") == "failed" or len(found.get("rungs", ())) > place


def _plain(selection: Selection) -> dict[str, Any]:
    """The chosen setting without what came of it."""
    return {key: value for key, value in selection.setting.items() if key not in OUTCOME}


def _write(path: Path, value: Mapping[str, Any]) -> None:
    write_whole(path, json.dumps(dict(value)))
