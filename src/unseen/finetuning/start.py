"""Where the head of a fine-tuning starts: at zero, or at a linear probe of the frozen features.

Paper:      Kumar et al., "Fine-Tuning can Distort Pretrained Features and Underperform Out-of-Distribution", ICLR 2022
            [P], section 3.4 (LP-FT); Zhai et al., 2019, start from zero
Implements: the head is the converged logistic regression that `unseen probe` fits by default, on features of unit
            length; before the first step the network is that frozen probe, prediction for prediction
Differs:    [P] does not normalise features. Statistics of batch norm stay those of the pretraining, since the probe was
            fitted under them; its scales and shifts learn
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from unseen.probes.batch_order import IntArray

Start = Literal["zero", "probe"]
#: How much less likely than the least likely other class one begins that has no training image.
_ABSENT = 10.0


class UnitLinear(nn.Linear):
    """A linear layer on rows that are scaled to unit length first, as probes read them."""

    def forward(self, features: Tensor) -> Tensor:
        return super().forward(functional.normalize(features, dim=1))


def empty_head(start: Start, dimension: int, classes: int) -> nn.Linear:
    """A head that gives every class the same probability, of the kind that a start asks for."""
    head = UnitLinear(dimension, classes) if start == "probe" else nn.Linear(dimension, classes)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head


def probe_head(features: npt.NDArray[np.float32], labels: IntArray, classes: int, seed: int) -> nn.Linear:
    """The linear probe of some features, as a head to go on from.

    Args:
        features: (n, d) of the training images, before the scaling to unit length.
        seed: of the folds by which the probe's penalty is chosen.
    """
    from unseen.probes.estimators import LinearProbe

    head, present = empty_head("probe", features.shape[1], classes), np.unique(labels)
    if len(present) > 1:
        probe = LinearProbe(seed=seed, power=1.0).fit(features, labels)
        with torch.no_grad():
            head.bias.fill_(float(probe.intercept_.min()) - _ABSENT)
            head.weight[present] = torch.from_numpy(probe.coef_)
            head.bias[present] = torch.from_numpy(probe.intercept_)
    return head


def hold_statistics(module: nn.Module) -> None:
    """Let batch norm use the running statistics that it came with, and leave them as they are."""
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.eval()
