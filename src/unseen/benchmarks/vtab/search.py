"""Hyper-parameter search: the settings of the heavyweight sweep, the selection, and sealed test labels.

Paper:      Zhai et al., 2019 [P], Appendix I
Implements: a hundred random settings of fine-tuning, judged on the validation images: batch size, schedule in epochs
            or steps, flips, colour, five crops, six evaluation views, weight decay, SGD or Adam with their learning
            rates, all sampled independently
Differs:    [P] prints the range of SGD's learning rate as [0.001, 0.0]; here it is [0.001, 1]. Sizes of views scale
            with the input of the model

Code that selects hyper-parameters receives train and val, and returns a `Selection`. Code that predicts receives the
test images with blank labels. `SealedTest.open` returns the labels in exchange for a selection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unseen.core.arrays import IntArray
from unseen.core.errors import DataError
from unseen.core.identity import Values
from unseen.data import Split

#: A setting of hyper-parameters by name, with its outcome once it was tried.
Trial = Values
BLANK = -1
#: Keys of a trial that are not of its setting.
OUTCOME = ("accuracy", "seconds", "state", "error", "log_loss", "note", "forward_images")
TRIALS = 100
#: Options that only one sweep has.
OF_SWEEP = {
    "lightweight": ("learning_rates", "batch_size", "steps"),
    "heavyweight": ("trials", "longest"),
    "peft-1k": ("epochs", "adamw_rates", "weight_decays"),
}
#: Side of the input of the network, and the shortest side that it is cut out of if there is a crop.
_EVALUATION = {224: 256, 320: 352, 384: 448}
#: Recipe of parameter-efficient tuning on VTAB-1k: images per batch, and the share of the steps of the warm-up.
PEFT_BATCH, PEFT_WARMUP = 64, 0.1
#: The choices of Appendix I, in the order in which they are sampled.
_CHOICES: Mapping[str, Sequence[Any]] = {
    "batch_size": (128, 256, 512),
    "epochs": (100, 200, 300, 400, 500),
    "steps": (2500, 5000, 10_000, 20_000, 40_000),
    "schedule": ("steps", "epochs"),
    "flip": (False, True),
    "colour": (False, True),
    "cut": (False, True),
    "crop": ("resize", "resize-crop", "shortest-crop", "inception", "pad-crop"),
    "eval_size": tuple(_EVALUATION),
    "optimizer": ("sgd", "adam"),
}


def sample_settings(count: int, *, images: int, size: int, longest: int = 0, seed: int = 0) -> list[Trial]:
    """Return settings out of the space of Appendix I. Setting `k` depends on `seed` and `k` alone.

    Args:
        images: number of training images, for schedules in epochs.
        size: the model's own input.
        longest: largest number of steps of a schedule; 0 for no limit.
    """
    found = [_sample(np.random.default_rng([seed, k]), images, size) for k in range(count)]
    return [{**setting, "steps": min(setting["steps"], longest or setting["steps"])} for setting in found]


def _sample(rng: np.random.Generator, images: int, size: int) -> Trial:
    found = {name: values[int(rng.integers(len(values)))] for name, values in _CHOICES.items()}
    side, cut, epochs = found["eval_size"], found.pop("cut"), found.pop("epochs")
    if found["schedule"] == "epochs":
        found |= {"epochs": epochs, "steps": math.ceil(epochs * images / found["batch_size"])}
    found["eval_size"] = round(side * size / 224)
    found["eval_resize"] = round(_EVALUATION[side] * size / 224) if cut else 0
    rates = (1e-3, 1.0) if found["optimizer"] == "sgd" else (1e-5, 1e-2)
    for name, (low, high) in (("weight_decay", (1e-5, 1e-1)), ("learning_rate", rates)):
        found[name] = math.exp(rng.uniform(math.log(low), math.log(high)))
    return found


@final
@dataclass(frozen=True)
class Selection:
    """The outcome of a search.

    Attributes:
        trials: every setting tried, with its "accuracy" on the validation images.
        chosen: position of the chosen one.
    """

    trials: tuple[Trial, ...]
    chosen: int

    @property
    def accuracy(self) -> float:
        return float(self.trials[self.chosen]["accuracy"])

    @property
    def setting(self) -> Trial:
        """Return the chosen setting without its outcome."""
        return {key: value for key, value in self.trials[self.chosen].items() if key not in OUTCOME}


def select(trials: Sequence[Trial]) -> Selection:
    """Select the setting with the best validation accuracy; among equals the shortest training, then the first.

    Trainings that diverged are selected only if no other is complete.

    Raises:
        DataError: no trial is complete.
    """
    states = [trial.get("state", "complete") for trial in trials]
    ended = [k for k, state in enumerate(states) if state == ("complete" if "complete" in states else "diverged")]
    if not ended:
        reason = next((f" The first reason: {trial['error']}" for trial in trials if trial.get("error")), "")
        raise DataError(f"no setting of the search came to an end, so that none can be chosen.{reason}")
    best = min(ended, key=lambda k: (-float(trials[k]["accuracy"]), trials[k].get("steps", 0), k))
    return Selection(tuple(trials), best)


class SealedTest:
    """The test split of a task.

    Attributes:
        images: the same images with blank labels, for prediction.
    """

    def __init__(self, split: Split) -> None:
        labels, blank = split.labels, np.full(len(split), BLANK, np.int64)
        self.images = Split(
            names=split.names, labels=blank, open=split.open, fingerprint=split.fingerprint, primary_labels=blank
        )
        self._labels: Callable[[], IntArray] = lambda: labels

    def open(self, selection: Selection) -> IntArray:
        """Return the labels in exchange for a selection."""
        if not isinstance(selection, Selection) or not selection.trials:
            raise DataError("test labels are under seal until hyper-parameters have been chosen on validation images.")
        return self._labels()
