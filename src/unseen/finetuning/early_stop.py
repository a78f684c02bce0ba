"""Early stop of a fine-tuning: the network as it was when held-out images liked it best.

Paper:      Prechelt, "Early stopping - but when?", 1998
Implements: accuracy on held-out images before the first step and at equal distances up to the last; the earliest
            best is kept
Differs:    training goes on to its end: its schedule lowers the rate late, and what looks lost half-way may come back.
            The start is left only for a network that beats it on the held-out images by more than one standard error
            of the difference: the best of many looks at few images is above the start by chance alone
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.core.errors import UsageError
from unseen.data import Split

if TYPE_CHECKING:
    from unseen.finetuning.trainer import Trainer


class EarlyStop:
    """The best network so far.

    Attributes:
        images: held out, with labels; they are shown as test images are.
        checks: looks after the one before the first step.
        accuracy, step: of the best look.
    """

    def __init__(self, images: Split, checks: int) -> None:
        if checks < 1 or not len(images):
            raise UsageError(f"an early stop needs at least one look at one image; found {checks} at {len(images)}.")
        self.images, self.checks = images, checks
        self.accuracy, self.step = -1.0, 0
        self._best: dict[str, Any] = {}
        self._start: list[bool] = []

    def is_due(self, done: int, steps: int) -> bool:
        """Whether there is a look after `done` of the steps."""
        return done in {round(steps * k / self.checks) for k in range(self.checks + 1)}

    def look(self, trainer: Trainer, done: int) -> None:
        """Keep the network as it is now, where no earlier look was as good."""
        right = trainer.predict(self.images)[0] == self.images.labels  # what cannot be read is right for nobody
        found, start = float(right.mean()), np.asarray(self._start or right)
        self._start = start.tolist()
        won, lost = int((right & ~start).sum()), int((start & ~right).sum())
        if not done or (found > self.accuracy and won - lost > math.sqrt(won + lost)):
            self.accuracy, self.step = found, done
            parts = {"module": trainer.module.state_dict(), "head": trainer.head.state_dict()}
            self._best = copy.deepcopy(parts)

    def restore(self, trainer: Trainer) -> None:
        """Put the best network in the place of the last one."""
        trainer.module.load_state_dict(self._best["module"])
        trainer.head.load_state_dict(self._best["head"])

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps of it."""
        return {"accuracy": self.accuracy, "step": self.step, "best": self._best, "start": self._start}

    def resume(self, state: dict[str, Any]) -> None:
        """What a checkpoint has kept."""
        self.accuracy, self.step = float(state["accuracy"]), int(state["step"])
        self._best, self._start = state["best"], list(state["start"])
