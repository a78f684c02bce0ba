"""Learning rate schedules of fine-tuning: linear warm-up, then steps down.

Paper:      Zhai et al., "A Large-scale Study of Representation Learning with the Visual Task Adaptation Benchmark",
            2019 [P], Appendix I
Implements: x 0.1 after 1/3 and 2/3 of the training time, "and one more time shortly before the end": at 9/10, where
            the authors' released script has its last step; the warm-up, which the text leaves open, is that of the
            script (task_adaptation, run_all_tasks.sh): 80 of 1,000 steps, from a rate of 0
Differs:    nothing
"""

from __future__ import annotations

from dataclasses import dataclass

from unseen.core.errors import UsageError

DECAYS = (1 / 3, 2 / 3, 9 / 10)


@dataclass(frozen=True, slots=True)
class StepSchedule:
    """Factor of the learning rate at each step.

    Attributes:
        steps: model updates in all.
        warmup: steps over which the factor grows linearly from 0; the step after them is the first with all of it.
        decays: shares of the training time after which the factor is multiplied by `rate`.
        rate: of each decay.
    """

    steps: int
    warmup: int = 0
    decays: tuple[float, ...] = DECAYS
    rate: float = 0.1

    def __post_init__(self) -> None:
        if self.steps < 1 or not 0 <= self.warmup <= self.steps:
            raise UsageError(
                f"a schedule of {self.steps} steps with {self.warmup} of warm-up: at least one step is needed, and the "
                "warm-up must fit into them."
            )
        if list(self.decays) != sorted(self.decays) or any(not 0 < share < 1 for share in self.decays):
            raise UsageError(f"decays {self.decays}: shares between 0 and 1 are needed, in ascending order.")

    def factor(self, step: int) -> float:
        """What the learning rate of step `step`, counted from 0, is multiplied by."""
        grown = min(1.0, step / self.warmup) if self.warmup else 1.0
        passed = sum(step >= share * self.steps for share in self.decays)
        return float(grown * self.rate**passed)


def default_warmup(steps: int) -> int:
    """That of the authors' script: 80 steps of 1,000, 200 of 2,500."""
    return round(0.08 * steps)
