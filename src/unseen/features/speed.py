"""How fast a model goes on this machine, decoding included: what plans and budgets are made from."""

from __future__ import annotations

import time
from pathlib import Path

from unseen.backbones.backbone import Backbone
from unseen.backbones.runtimes import make_runtime
from unseen.core.errors import DataError
from unseen.data import Split
from unseen.features.batches import batch_spans, run_batches, runs_in_workers


def measure_speed(
    backbone: Backbone,
    images: Split,
    *,
    seconds: float = 4.0,
    device: str = "auto",
    precision: str = "fp32",
    graphs: Path | None = None,
) -> float:
    """Images per second over a few of `images`, after a warm-up; nothing is stored.

    Args:
        seconds: about how long to measure.
        graphs: folder of exported graphs.

    Raises:
        DataError: there are no images to measure with.
    """
    if not len(images):
        raise DataError("there is no image to measure the speed with.")
    runtime = make_runtime(backbone, device=device, precision=precision, threads=1, cache=graphs)
    size = 8 if runs_in_workers(runtime) else 128
    done, began = 0, 0.0
    # The first batches warm caches up; then count until time is up, going over the images again where they are few.
    for warm in (True, False):
        done, began = 0, time.perf_counter()
        limit = min(0.5, seconds) if warm else seconds
        while time.perf_counter() - began < limit:
            spans = batch_spans(0, len(images), part_size=len(images), batch_size=size)
            for batch in run_batches(images, backbone, runtime, spans, workers=0, truncated="accept"):
                done += batch.count
                if time.perf_counter() - began >= limit:
                    break
    return done / (time.perf_counter() - began)
