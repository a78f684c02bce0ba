"""Fine-tuning: the whole network learns the new task, from a zero-initialised head on its pooled features.

Paper:      Zhai et al., "A Large-scale Study of Representation Learning with the Visual Task Adaptation Benchmark",
            2019 [P], section 3.1 and Appendix I
Implements: SGD with momentum 0.9, no weight decay, plain resize, step schedule with warm-up (schedules.py); Adam and
            weight decay for the heavyweight search; gradient accumulation; mixed precision on CUDA
Differs:    weight decay is decoupled (Loshchilov & Hutter) for both optimisers; with accumulation, batch norm sees
            micro-batches; the input has the model's own size unless the view says otherwise
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from unseen.backbones.backbone import Backbone
from unseen.core.errors import DataError, UsageError
from unseen.core.identity import digest
from unseen.data import Split
from unseen.finetuning.early_stop import EarlyStop
from unseen.finetuning.trainer import FinetuneOptions, Progress, Trainer
from unseen.probes.batch_order import IntArray

__all__ = ["FinetuneOptions", "FinetuneResult", "finetune"]


@dataclass(frozen=True, eq=False)
class FinetuneResult:
    """What came of a fine-tuning.

    Attributes:
        top1: share of readable test images that are right.
        predictions: class index per test image; -1 where the image could not be read.
        history: (step, learning rate, mean training loss since the point before).
        seconds: of training and evaluation, over all of its processes where it was resumed.
        skipped: reasons by "train:POSITION" and "test:POSITION" of images that could not be read.
        held_out, stopped_at: accuracy on the images of an early stop, and the step whose network is this one; NaN and
            the last step without one.
        resumed_at: the step at which a checkpoint was taken up, or 0.
        module, head: the trained network.
    """

    top1: float
    predictions: IntArray
    history: tuple[tuple[int, float, float], ...]
    seconds: float
    skipped: dict[str, str]
    held_out: float
    stopped_at: int
    resumed_at: int
    module: nn.Module
    head: nn.Linear


def finetune(
    backbone: Backbone,
    train: Split,
    test: Split,
    *,
    classes: int,
    steps: int,
    learning_rate: float,
    batch_size: int,
    seed: int,
    freeze: Sequence[str] | None = None,
    checkpoint: Path | None = None,
    progress: Progress | None = None,
    until: int | None = None,
    held_out: Split | None = None,
    checks: int = 4,
    head: nn.Linear | None = None,
    options: FinetuneOptions | None = None,
) -> FinetuneResult:
    """Fine-tune a copy of the backbone on `train` and evaluate it on `test`.

    The same arguments give the same numbers on the same machine and number of threads, whether or not the run was
    killed on the way and went on from its checkpoint.

    Args:
        steps: model updates; 0 only where the start is a probe, which is then all there is.
        freeze: names of modules whose parameters and statistics stay as they are; "" is the whole backbone.
        checkpoint: file that keeps the training's state; where it is there, the training goes on from it.
        progress: told of every step.
        until: stop after so many of the steps and evaluate what is there; with a checkpoint a later call goes on. A
            search that gives up the worse half of its trials asks so, on images that may be looked at.
        held_out: images by which the best of `checks` + 1 moments is kept (early_stop.py); None keeps the last one.
        head: the probe to start from, where the same network and images gave one before (`FinetuneResult.head`).
    """
    options = options or FinetuneOptions()
    if not learning_rate > 0 or batch_size < 1 or classes < 2:
        raise UsageError(
            f"fine-tuning needs a positive learning rate and batch size and two classes; found {learning_rate}, "
            f"{batch_size} and {classes}."
        )
    if train.labels.max(initial=0) >= classes:
        raise DataError(f"a training label is {train.labels.max()}, but there are {classes} classes, counted from 0.")
    settings = [classes, steps, learning_rate, batch_size, seed, list(freeze or ()), _numbers_of(options)]
    settings += [held_out.fingerprint, checks] if held_out is not None else []
    settings += [digest(head.weight.detach().cpu().numpy().tobytes().hex())] if head is not None else []
    stop = EarlyStop(held_out, checks) if held_out is not None else None
    identity = digest([backbone.weights, train.fingerprint, backbone.preprocessing.to_dict(), settings])
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        trainer = Trainer(
            backbone, train, classes, steps, learning_rate, batch_size, seed, freeze or (), options, stop, head
        )
        trainer.run(checkpoint, identity, progress, steps if until is None else min(until, steps))
    if stop is not None:
        stop.restore(trainer)
    began = time.perf_counter()
    predictions, unreadable = trainer.predict(test)
    readable = predictions >= 0
    if not readable.any():
        raise DataError(f"none of the {len(test)} test images can be read.")
    skipped = {f"train:{i}": reason for i, reason in sorted(trainer.batches.unreadable.items())}
    return FinetuneResult(
        top1=float(np.mean(predictions[readable] == test.labels[readable])),
        predictions=predictions,
        history=tuple(trainer.history),
        seconds=trainer.seconds + time.perf_counter() - began,
        skipped=skipped | {f"test:{i}": reason for i, reason in unreadable.items()},
        held_out=stop.accuracy if stop is not None else math.nan,
        stopped_at=stop.step if stop is not None else steps,
        resumed_at=trainer.resumed_at,
        module=trainer.module.cpu(),
        head=trainer.head.cpu(),
    )


def _numbers_of(options: FinetuneOptions) -> dict[str, Any]:
    """The options that change a training: not how images are fed, how often a checkpoint is written, nor how test
    images are shown."""
    neutral = ("checkpoint_every", "eval_view", "workers", "cache_bytes")
    return {name: value for name, value in dataclasses.asdict(options).items() if name not in neutral}
