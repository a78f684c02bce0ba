"""The published training protocol as numbers.

Paper:      Sariyildiz et al., ICCV 2021 [P], Section 3.4.3 and supplement B.2, and the authors' released source
Implements: 30 trials, lr log-uniform in [1e-1, 1e2], wd log-uniform in [1e-12, 1e-4], SGD with momentum 0.9, batches of
            1024, 100 epochs, a cosine schedule whose factor comes from the epoch just finished
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SEEDS = (22, 37, 45, 77, 93)
SHOTS = (1, 2, 4, 8, 16, 32, 64, 128, "all")


@dataclass(frozen=True, slots=True)
class Protocol:
    """Hyper-parameters of the published probe."""

    trials: int = 30
    epochs: int = 100
    batch_size: int = 1024
    momentum: float = 0.9
    lowest_lr: float = 1e-1
    highest_lr: float = 1e2
    lowest_wd: float = 1e-12
    highest_wd: float = 1e-4

    def factor(self, epoch: int) -> float:
        """What the learning rate of an epoch is multiplied by: epochs 0 and 1 both run at the full rate."""
        return 0.5 * (1.0 + math.cos(math.pi * max(epoch - 1, 0) / self.epochs))
