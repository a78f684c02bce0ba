"""Sealed test labels: code that predicts cannot read them before hyper-parameters are chosen.

Code that selects hyper-parameters receives train and val, and returns a `Selection`. Code that predicts receives the
test images with blank labels. `SealedTest.open` returns the labels, and takes a selection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unseen.core.errors import DataError
from unseen.data import Split
from unseen.data.dataset import IntArray

BLANK = -1
#: Keys of a trial that are not of its setting.
OUTCOME = ("accuracy", "seconds", "state", "error", "rungs", "log_loss", "note")


@final
@dataclass(frozen=True)
class Selection:
    """The outcome of a search.

    Attributes:
        trials: every setting tried, with its "accuracy" on the validation images.
        chosen: position of the chosen one.
    """

    trials: tuple[Mapping[str, Any], ...]
    chosen: int

    @property
    def setting(self) -> Mapping[str, Any]:
        return self.trials[self.chosen]

    @property
    def accuracy(self) -> float:
        return float(self.setting["accuracy"])


def select(trials: Sequence[Mapping[str, Any]]) -> Selection:
    """Select the setting with the best validation accuracy; among equals the shortest training, then the first.

    Raises:
        DataError: no trial is complete.
    """
    ended = [k for k, trial in enumerate(trials) if trial.get("state", "complete") == "complete"]
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
        labels = split.labels
        self.images = Split(
            names=split.names,
            labels=np.full(len(split), BLANK, np.int64),
            open=split.open,
            fingerprint=split.fingerprint,
            primary_labels=np.full(len(split), BLANK, np.int64),
        )
        self._give: Callable[[], IntArray] = lambda: labels

    def open(self, selection: Selection) -> IntArray:
        """Return the labels in exchange for a selection."""
        if not isinstance(selection, Selection) or not selection.trials:
            raise DataError("test labels are under seal until hyper-parameters have been chosen on validation images.")
        return self._give()
