"""A sample that fits a budget of time: how fast each checkpoint goes is measured on a few images."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import numpy as np

from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import UnseenError
from unseen.features.speed import measure_speed

#: The share of a budget that scoring may take, and the most that is spent on measuring one checkpoint, in seconds.
_SCORING_SHARE = 0.3
_LONGEST = 1.0


def sample_within(
    budget: float, bench: Workbench, dataset: str, split: str, models: Sequence[str], *, began: float
) -> tuple[int, str]:
    """How many images to score, and a note of it; (0, "") where all of them fit.

    Args:
        budget: seconds for the whole, from `began` (of `perf_counter`) on.
    """
    images = bench.dataset(dataset).split(split)
    per_image = 0.0
    for model in models:
        try:
            seconds = min(_LONGEST, 0.05 * budget / len(models))
            speed = measure_speed(
                bench.backbone(model), images, seconds=seconds, device=bench.how.device, graphs=bench.how.graphs
            )
            per_image += 1 / speed
        except UnseenError:
            continue  # it will fail again, and be reported, when it is ranked
    left = (budget - (perf_counter() - began)) * (1 - _SCORING_SHARE)
    fits = int(left / per_image) if per_image > 0 else len(images)
    if fits >= len(images):
        return 0, ""
    # Fewer than two images per class say nothing: better late than meaningless.
    least = min(len(images), 2 * len(np.unique(images.labels)) + 1)
    note = f"{max(fits, least)} of {len(images)} images, by class, to fit {budget:.0f} s"
    return max(fits, least), note + (" (more time is needed for two images of every class)" if fits < least else "")
