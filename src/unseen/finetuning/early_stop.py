"""Early stopping: keep the network with the best accuracy on held-out images.

Paper:      Prechelt, "Early stopping - but when?", 1998
Implements: accuracy on held-out images before the first step and at equal distances up to the last; the earliest
            best is kept
Differs:    training continues to its end: its schedule lowers the rate late, and accuracy may recover.
            A later network replaces the start only if it beats it on the held-out images by more than one standard
            error of the difference: the best of many evaluations on few images exceeds the start by chance alone
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

#: Attributes that a checkpoint contains.
_STATE = ("accuracy", "step", "best", "start", "unreadable")


class EarlyStop:
    """The best network so far.

    Attributes:
        images: held out, with labels; transformed like test images.
        checks: number of evaluations after the one before the first step.
        accuracy, step: of the best evaluation.
        best: the weights of the best network.
        start: which images were right before the first step.
        unreadable: held-out images that could not be read, with the reason, by position.
    """

    def __init__(self, images: Split, checks: int) -> None:
        if checks < 1 or not len(images):
            raise UsageError(
                f"early stopping needs at least one evaluation on one image; found {checks} on {len(images)}."
            )
        self.images, self.checks = images, checks
        self.accuracy, self.step = -1.0, 0
        self.unreadable: dict[int, str] = {}
        self.best: dict[str, Any] = {}
        self.start: list[bool] = []

    def is_due(self, done: int, steps: int) -> bool:
        """Return whether the network is evaluated after `done` of the steps."""
        return done in {round(steps * k / self.checks) for k in range(self.checks + 1)}

    def evaluate(self, trainer: Trainer, done: int) -> None:
        """Evaluate the network, and keep a copy if no earlier one was as good."""
        predictions, self.unreadable = trainer.predict(self.images)
        right = predictions == self.images.labels  # an unreadable image counts as wrong
        accuracy, start = float(right.mean()), np.asarray(self.start or right)
        self.start = start.tolist()
        won, lost = int((right & ~start).sum()), int((start & ~right).sum())
        if not done or (accuracy > self.accuracy and won - lost > math.sqrt(won + lost)):
            self.accuracy, self.step = accuracy, done
            self.best = copy.deepcopy({"module": trainer.module.state_dict(), "head": trainer.head.state_dict()})

    def restore(self, trainer: Trainer) -> None:
        """Replace the last network by the best one."""
        trainer.module.load_state_dict(self.best["module"])
        trainer.head.load_state_dict(self.best["head"])

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {name: getattr(self, name) for name in _STATE}

    def resume(self, state: dict[str, object]) -> None:
        """Restore the state of a checkpoint."""
        for name in _STATE:
            setattr(self, name, state.get(name, getattr(self, name)))
