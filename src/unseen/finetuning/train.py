"""Fine-tuning: train the whole network on the new task, from a zero-initialised head on its pooled features.

Paper:      Zhai et al., "A Large-scale Study of Representation Learning with the Visual Task Adaptation Benchmark",
            2019 [P], section 3.1 and Appendix I
Implements: SGD with momentum 0.9, no weight decay, plain resize, step schedule with warm-up (`StepSchedule`); Adam and
            weight decay for the heavyweight search; gradient accumulation; mixed precision on CUDA
Differs:    weight decay is decoupled (Loshchilov & Hutter) for all optimisers; with accumulation, batch norm sees
            micro-batches; the input has the model's own size unless the view says otherwise

Early stopping: keep the network with the best accuracy on held-out images.

Paper:      Prechelt, "Early stopping - but when?", 1998
Implements: accuracy on held-out images before the first step and at equal distances up to the last; the earliest
            best is kept
Differs:    training continues to its end: its schedule lowers the rate late, and accuracy may recover.
            A later network replaces the start only if it beats it on the held-out images by more than one standard
            error of the difference: the best of many evaluations on few images exceeds the start by chance alone
"""

from __future__ import annotations

import copy
import dataclasses
import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from unseen.backbones.backbone import Backbone
from unseen.core.arrays import IntArray
from unseen.core.errors import DataError, OutOfMemoryError, UsageError, first_line
from unseen.core.identity import digest
from unseen.core.run_record import Dropped
from unseen.data import Split
from unseen.finetuning.trainer import FinetuneOptions, Progress, Schedule, Trainer, is_out_of_memory

__all__ = ["FinetuneOptions", "FinetuneResult", "finetune"]


class EarlyStop:
    """The best network so far.

    Attributes:
        images: held out, with labels; transformed like test images.
        checks: number of evaluations after the one before the first step.
        accuracy, step: of the best evaluation.
        best: the weights of the best network.
        start: which images were right before the first step.
        unreadable: held-out images that could not be read, with the reason, by position.
        saved: attributes that a checkpoint contains.
    """

    saved = ("accuracy", "step", "best", "start", "unreadable")

    def __init__(self, images: Split, checks: int) -> None:
        if checks < 1 or not len(images):
            raise UsageError(
                f"early stopping needs at least one evaluation on one image; found {checks} on {len(images)}."
            )
        self.images, self.checks = images, checks
        self.accuracy, self.step = -1.0, 0
        self.unreadable: dict[int, str] = {}
        self.best: dict[str, dict[str, torch.Tensor]] = {}
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


@dataclass(frozen=True, eq=False)
class FinetuneResult:
    """Result of a fine-tuning.

    Attributes:
        top1: share of readable test images that are right.
        predictions: class index per test image; -1 if the image could not be read.
        history: (step, learning rate, mean training loss since the previous point).
        seconds: of training and evaluation, summed over all processes if it was resumed.
        dropped: images that could not be read, with the reason and the split "train", "test", or "val" for `held_out`.
        held_out, stopped_at: accuracy on the images of early stopping, and the step of the returned network; NaN and
            the last step without it.
        resumed_at: the step at which the training was resumed, or 0.
        trainable: number of trained parameters that the scores depend on, the head included.
        micro_batch: images per forward pass, smaller than requested if memory ran out.
        diverged_at: the step at which the training was ended because its loss diverged, or 0.
        module, head: the trained network.
    """

    top1: float
    predictions: IntArray
    history: tuple[tuple[int, float, float], ...]
    seconds: float
    dropped: tuple[Dropped, ...]
    held_out: float
    stopped_at: int
    resumed_at: int
    trainable: int
    micro_batch: int
    diverged_at: int
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
    checkpoint: Path | None = None,
    progress: Progress | None = None,
    held_out: Split | None = None,
    checks: int = 4,
    head: nn.Linear | None = None,
    options: FinetuneOptions | None = None,
) -> FinetuneResult:
    """Fine-tune a copy of the backbone on `train` and evaluate it on `test`.

    The same arguments give the same numbers on the same machine and number of threads, also if the run was killed and
    resumed from its checkpoint.

    Args:
        steps: model updates; 0 evaluates the start, which must be a probe.
        checkpoint: file for the training's state; if it exists, the training resumes from it.
        progress: called after every step.
        held_out: images for early stopping with `checks` + 1 evaluations (early_stop.py); None keeps the last network.
        head: a probe of the same network and images to start from (`FinetuneResult.head`).

    Raises:
        OutOfMemoryError: the memory of the device is too small for a forward and backward pass.
    """
    options = options or FinetuneOptions()
    if not learning_rate > 0 or batch_size < 1 or classes < 2:
        raise UsageError(
            f"fine-tuning needs a positive learning rate and batch size and two classes; found {learning_rate}, "
            f"{batch_size} and {classes}."
        )
    if train.labels.max(initial=0) >= classes:
        raise DataError(f"a training label is {train.labels.max()}, but there are {classes} classes, counted from 0.")
    settings = [classes, steps, learning_rate, batch_size, seed, [], _numbers_of(options)]
    settings += [held_out.fingerprint, checks] if held_out is not None else []
    settings += [digest(head.weight.detach().cpu().numpy().tobytes().hex())] if head is not None else []
    stop = EarlyStop(held_out, checks) if held_out is not None else None
    identity = digest([backbone.weights, train.fingerprint, backbone.preprocessing.to_dict(), settings])
    try:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            torch.manual_seed(seed)
            schedule = Schedule(classes, steps, learning_rate, batch_size, seed)
            trainer = Trainer(backbone, train, schedule, options, stop, head)
            trainer.run(checkpoint, identity, progress)
            if stop is not None:
                stop.restore(trainer)
            began = time.perf_counter()
            predictions, unreadable = trainer.predict(test)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemoryError(
            f"out of memory in fine-tuning, also with one image per forward pass (batch size {batch_size}): "
            f"{first_line(error)} Use a smaller model or image size."
        ) from error
    readable = predictions >= 0
    lost = [("train", train, trainer.batches.unreadable), ("test", test, unreadable)]
    lost += [("val", stop.images, stop.unreadable)] if stop is not None else []
    return FinetuneResult(
        top1=float(np.mean(predictions[readable] == test.labels[readable])),
        predictions=predictions,
        history=tuple(trainer.history),
        seconds=trainer.seconds + time.perf_counter() - began,
        dropped=tuple(
            Dropped("image", images.names[i], reason, split)
            for split, images, reasons in lost
            for i, reason in sorted(reasons.items())
        ),
        held_out=stop.accuracy if stop is not None else math.nan,
        stopped_at=stop.step if stop is not None else steps,
        resumed_at=trainer.resumed_at,
        trainable=trainer.trainable,
        micro_batch=trainer.micro_batch,
        diverged_at=trainer.diverged_at,
        module=trainer.module.cpu(),
        head=trainer.head.cpu(),
    )


#: Options that change no training, and values of options under which a training is the same as without them.
_NEUTRAL = ("checkpoint_seconds", "eval_view", "workers", "cache_bytes")
_IDLE = {
    "schedule": "step", "adaptation": "finetune", "adaptation_size": 0, "clip": 0.0, "backbone_rate": 1.0,
    "precision": "auto",
}  # fmt: skip


def _numbers_of(options: FinetuneOptions) -> dict[str, object]:
    """Return the options that change a training, without decoding, checkpoints and the view of test images."""
    known = dataclasses.asdict(options) | {"clip": options.largest_norm, "backbone_rate": options.relative_rate}
    return {name: value for name, value in known.items() if name not in _NEUTRAL and value != _IDLE.get(name, ...)}
