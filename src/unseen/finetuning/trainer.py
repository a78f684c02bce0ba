"""The state of one fine-tuning: network, head, optimiser and step; one update, all updates, predictions, checkpoints.

`train.py` lists the papers that this implements. A head starts at zero, or at a linear probe of the frozen features:

Paper:      Kumar et al., "Fine-Tuning can Distort Pretrained Features and Underperform Out-of-Distribution", ICLR 2022
            [P], section 3.4 (LP-FT); Zhai et al., 2019, start from zero
Implements: the head is the converged logistic regression that `unseen probe` fits by default, on features of unit
            length; before the first step the network is that frozen probe, prediction for prediction
Differs:    [P] does not normalise features. Statistics of batch norm stay those of the pretraining, since the probe was
            fitted under them; its scales and shifts learn

A checkpoint has torch's own format, read back with `weights_only`, so that it cannot run code. It contains the digest
of everything that the training depends on: a checkpoint of another training is refused.
"""

from __future__ import annotations

import copy
import io
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

from unseen.backbones.backbone import Backbone
from unseen.backbones.runtimes import best_device
from unseen.core.arrays import Float32Array, IntArray, Pixels
from unseen.core.errors import CheckpointError, DataError, DiskFullError, StoreError, UnknownNameError, UsageError
from unseen.core.files import write_whole
from unseen.core.guard import guarded
from unseen.data import Split
from unseen.features.batches import to_pixels
from unseen.finetuning.data import CACHE_BYTES, Batch, TrainingBatches, evaluation_batches, micro_batches
from unseen.finetuning.early_stop import EarlyStop
from unseen.finetuning.views import EvalView, TrainView, at_size, nearest_size
from unseen.probes.estimators import LinearProbe
from unseen.probes.solvers import StepSchedule, default_warmup

Start = Literal["zero", "probe"]
#: Callback with the finished step, the number of steps, and the loss.
Progress = Callable[[int, int, float], None]
_CHECKPOINT_VERSION = 1
_HISTORY_POINTS = 100
#: Attributes of a trainer whose state a checkpoint contains.
_STATEFUL = ("module", "head", "optimizer", "scaler")
#: Margin by which a class without training image starts below the least likely other class.
_ABSENT = 10.0


@dataclass(frozen=True)
class FinetuneOptions:
    """Options that the lightweight protocol does not vary.

    Attributes:
        optimizer: "sgd" (momentum 0.9) or "adam".
        weight_decay: per unit of learning rate, decoupled; VTAB has 0 for fine-tuning and 0.01 from scratch.
        train_view, eval_view: transformations of images; the defaults are the plain resize of VTAB.
        own_preprocessing: use the preprocessing that the model was published with instead.
        start: of the head: "zero" as in VTAB, or "probe", a linear probe of the frozen features.
        warmup: steps; None for `default_warmup`.
        micro_batch: images per forward pass; gradients of a batch accumulate over several. 0: as large as the batch.
        device: "auto", "cpu", "cuda" or "mps".
        checkpoint_every: steps between checkpoints.
        workers: processes that decode and crop images, for evaluation too; -1 for none on the CPU, whose cores the
            network needs, and one per core up to eight elsewhere. They change no number.
        cache_bytes: size of the cache of decoded training images.
    """

    optimizer: Literal["sgd", "adam"] = "sgd"
    weight_decay: float = 0.0
    train_view: TrainView = field(default_factory=TrainView)
    eval_view: EvalView = field(default_factory=EvalView)
    own_preprocessing: bool = False
    start: Start = "zero"
    warmup: int | None = None
    micro_batch: int = 0
    device: str = "auto"
    checkpoint_every: int = 200
    workers: int = -1
    cache_bytes: int = CACHE_BYTES

    def __post_init__(self) -> None:
        if self.optimizer not in ("sgd", "adam"):
            raise UsageError(f"optimizer {self.optimizer!r} is neither 'sgd' nor 'adam'.")
        if self.weight_decay < 0 or self.micro_batch < 0 or self.checkpoint_every < 1:
            raise UsageError("weight_decay and micro_batch must not be negative, checkpoint_every must be positive.")
        if self.start not in get_args(Start):
            raise UnknownNameError("start of a fine-tuning", self.start, get_args(Start))


@dataclass(frozen=True)
class Schedule:
    """The settings that a search varies, and what stays trainable."""

    classes: int
    steps: int
    learning_rate: float
    batch_size: int
    seed: int
    freeze: Sequence[str] = ()


class Trainer:
    """The state of one training.

    Args:
        stop: early stopping, if any.
        head: the probe to start from; fitted if None.
    """

    def __init__(
        self,
        backbone: Backbone,
        train: Split,
        schedule: Schedule,
        options: FinetuneOptions,
        stop: EarlyStop | None = None,
        head: nn.Linear | None = None,
    ) -> None:
        self.backbone, self.options, self.stop, self.probe = backbone, options, stop, head
        self.steps, self.learning_rate = schedule.steps, schedule.learning_rate
        self.device = own_device(options.device)
        self.module = copy.deepcopy(backbone.module).to(self.device)
        self.head = empty_head(options.start, backbone.feature_dim, schedule.classes).to(self.device)
        self.frozen = _freeze(self.module, schedule.freeze)
        warmup = default_warmup(self.steps) if options.warmup is None else options.warmup
        # A sweep that starts from a probe has the probe without any step among its candidates.
        alone = self.steps == 0 and options.start == "probe"
        self.rates = StepSchedule(1 if alone else self.steps, warmup)
        self.parameters = [p for p in (*self.module.parameters(), *self.head.parameters()) if p.requires_grad]
        self.optimizer: torch.optim.Optimizer = torch.optim.SGD(self.parameters, lr=self.learning_rate, momentum=0.9)
        if options.optimizer == "adam":
            self.optimizer = torch.optim.Adam(self.parameters, lr=self.learning_rate)
        self.autocast, scaled = _precision(self.device)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=scaled)
        self.micro_batch = options.micro_batch or schedule.batch_size
        own = (lambda image: to_pixels(image, backbone.preprocessing)) if options.own_preprocessing else None
        size = backbone.preprocessing.size
        default = 0 if self.device.type == "cpu" else min(8, os.cpu_count() or 1)
        self.workers = default if options.workers < 0 else options.workers
        self.batches = TrainingBatches(
            train,
            options.train_view,
            size=size,
            batch_size=schedule.batch_size,
            seed=schedule.seed,
            own=own,
            workers=self.workers,
            cache_bytes=options.cache_bytes,
        )
        view = options.eval_view.with_size(nearest_size(self.module, options.eval_view.size or size))
        self.size, self.eval_size = size, size if own else view.size
        self.view: Callable[[Image.Image], Pixels] = own or (lambda image: view.apply(image, size))
        both = (backbone.preprocessing.mean, backbone.preprocessing.std)
        self.mean, self.std = (torch.tensor(each, device=self.device).view(1, 3, 1, 1) for each in both)
        self.history: list[tuple[int, float, float]] = []
        self.seconds, self.resumed_at = 0.0, 0

    def run(self, checkpoint: Path | None, identity: str, progress: Progress | None, last: int) -> None:
        """Perform the remaining steps up to `last`."""
        began = time.perf_counter()
        first = self._resume(checkpoint, identity)
        before = self.seconds
        if self.options.start == "probe" and not first:
            self._start_from_probe()
        if self.stop is not None and not first:
            self.stop.evaluate(self, 0)
        every = max(1, self.steps // _HISTORY_POINTS)
        losses: list[float] = self._pending
        self._train_mode()
        for step, batch in enumerate(self.batches.ahead(first, last), start=first):
            rate = self.learning_rate * self.rates.factor(step)
            losses.append(self.update(batch, rate))
            done = step + 1
            if done % every == 0 or done == self.steps:
                self.history.append((done, rate, float(np.mean(losses))))
                losses.clear()
            if self.stop is not None and self.stop.is_due(done, self.steps):
                self.stop.evaluate(self, done)
                self._train_mode()
            self.seconds = before + time.perf_counter() - began
            if checkpoint is not None and (done % self.options.checkpoint_every == 0 or done == last):
                save_state(checkpoint, identity, self._state(done))
            if progress is not None:
                progress(done, self.steps, losses[-1] if losses else self.history[-1][2])

    def update(self, batch: Batch, rate: float) -> float:
        """Update the model once, and return the mean loss of the batch."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for part in micro_batches(len(batch.labels), self.micro_batch):
            labels = torch.from_numpy(batch.labels[part]).to(self.device)
            with self.autocast():
                scores = self.head(self._features(self.module, batch.pixels[part]))
                loss = functional.cross_entropy(scores.float(), labels, reduction="sum") / len(batch.labels)
            self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if self.options.weight_decay:
            with torch.no_grad():
                for parameter in self.parameters:
                    parameter.mul_(1 - rate * self.options.weight_decay)
        return total

    def _features(self, network: nn.Module, pixels: Pixels) -> Tensor:
        images = torch.from_numpy(np.ascontiguousarray(pixels)).to(self.device).permute(0, 3, 1, 2)
        features, _ = self.backbone.forward(network, (images.float() / 255 - self.mean) / self.std)
        return features

    def _start_from_probe(self) -> None:
        """Replace the head by the linear probe of the network's frozen features, fitting it if necessary."""
        if self.probe is not None:
            self.head.load_state_dict(self.probe.state_dict())
            return
        images = self.batches.images
        features = np.empty((len(images), self.backbone.feature_dim), np.float32)
        readable = np.zeros(len(images), bool)
        plain = self.view if self.options.own_preprocessing else (lambda image: EvalView().apply(image, self.size))
        for batch in self._evaluation_batches(images, plain, self.size):
            # In full precision: a probe that is fitted on rounded features is another probe.
            features[batch.positions] = self._features(self.module, batch.pixels).cpu().numpy()
            readable[batch.positions] = True
            self.batches.unreadable |= batch.unreadable
        if not readable.any():
            raise DataError(f"none of the {len(images)} training images can be read.")
        head = probe_head(features[readable], images.labels[readable], self.head.out_features, self.batches.seed)
        self.head.load_state_dict(head.state_dict())

    def predict(self, test: Split) -> tuple[IntArray, dict[int, str]]:
        """Return the class of each image, -1 if it cannot be read, and the reasons."""
        predictions = np.full(len(test), -1, np.int64)
        reasons: dict[int, str] = {}
        self.module.eval()
        network = self.module if self.eval_size == self.size else at_size(self.module, self.eval_size)
        for batch in self._evaluation_batches(test, self.view, self.eval_size):
            reasons |= batch.unreadable
            with self.autocast():
                scores = self.head(self._features(network, batch.pixels))
            predictions[batch.positions] = scores.argmax(dim=1).cpu().numpy()
        return predictions, reasons

    def _evaluation_batches(self, images: Split, view: Callable[[Image.Image], Pixels], side: int) -> Iterator[Batch]:
        """Yield batches of consecutive readable images in evaluation mode."""
        self.module.eval()
        size = min(self.micro_batch, 64)
        with torch.inference_mode():
            for batch in evaluation_batches(images, view, side=side, batch_size=size, workers=self.workers):
                if len(batch.positions):
                    yield batch

    def _train_mode(self) -> None:
        self.module.train()
        if self.options.start == "probe":
            # The probe was fitted under the running statistics of batch norm, which stay unchanged.
            for part in self.module.modules():
                if isinstance(part, nn.modules.batchnorm._BatchNorm):
                    part.eval()
        for module in self.frozen:
            module.eval()

    def _state(self, done: int) -> dict[str, object]:
        return {
            "step": done,
            **{name: getattr(self, name).state_dict() for name in _STATEFUL},
            "random": torch.get_rng_state(),
            "random_cuda": torch.cuda.get_rng_state_all() if self.device.type == "cuda" else [],
            "history": self.history,
            "pending": self._pending,
            "unreadable": self.batches.unreadable,
            "seconds": self.seconds,
            **({"stop": self.stop.state()} if self.stop is not None else {}),
        }

    def _resume(self, checkpoint: Path | None, identity: str) -> int:
        self._pending: list[float] = []
        state = load_state(checkpoint, identity) if checkpoint is not None else None
        if state is None:
            return 0
        for name in _STATEFUL:
            getattr(self, name).load_state_dict(state[name])
        torch.set_rng_state(state["random"])
        if state["random_cuda"] and self.device.type == "cuda":
            torch.cuda.set_rng_state_all(state["random_cuda"])
        self.history = [tuple(point) for point in state["history"]]
        self._pending = list(state["pending"])
        self.batches.unreadable = dict(state["unreadable"])
        if self.stop is not None:
            self.stop.resume(state["stop"])
        self.seconds, self.resumed_at = float(state["seconds"]), int(state["step"])
        return self.resumed_at


def own_device(requested: str) -> torch.device:
    """Return the device to train on; workers on a machine with several GPUs take one each, in turn."""
    name = best_device() if requested == "auto" else requested
    number = multiprocessing.current_process()._identity
    if name == "cuda" and number and torch.cuda.device_count() > 1:
        name = f"cuda:{(number[-1] - 1) % torch.cuda.device_count()}"
    return torch.device(name)


def _freeze(module: nn.Module, names: Sequence[str]) -> list[nn.Module]:
    """Freeze the named modules, and return them."""
    known = dict(module.named_modules())
    frozen = []
    for name in names:
        if name not in known:
            raise UsageError(f"there is no module {name!r} to freeze. Known: {', '.join(list(known)[1:8])}, ...")
        known[name].requires_grad_(False)
        frozen.append(known[name])
    return frozen


def _precision(device: torch.device) -> tuple[Callable[[], AbstractContextManager[object]], bool]:
    """Return autocast for the device and whether its gradients need scaling: half precision on CUDA only."""
    if device.type != "cuda":
        return nullcontext, False
    half = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    return (lambda: torch.autocast("cuda", dtype=half)), half is torch.float16


class UnitLinear(nn.Linear):
    """A linear layer on rows of unit length, as probes have it."""

    def forward(self, features: Tensor) -> Tensor:
        return super().forward(functional.normalize(features, dim=1))


def empty_head(start: Start, dimension: int, classes: int) -> nn.Linear:
    """Return a head that gives every class the same probability, of the type that a start requires."""
    head = UnitLinear(dimension, classes) if start == "probe" else nn.Linear(dimension, classes)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head


def probe_head(features: Float32Array, labels: IntArray, classes: int, seed: int) -> nn.Linear:
    """Return the linear probe of some features as a head.

    Args:
        features: (n, d) of the training images, before the scaling to unit length.
        seed: of the folds of the cross-validation that chooses the penalty.
    """
    head, present = empty_head("probe", features.shape[1], classes), np.unique(labels)
    if len(present) > 1:
        probe = LinearProbe(seed=seed, power=1.0).fit(features, labels)
        with torch.no_grad():
            head.bias.fill_(float(probe.intercept_.min()) - _ABSENT)
            head.weight[present] = torch.from_numpy(probe.coef_)
            head.bias[present] = torch.from_numpy(probe.intercept_)
    return head


def save_state(path: Path, identity: str, state: dict[str, object]) -> None:
    """Write a checkpoint atomically.

    Raises:
        DiskFullError: it cannot be written; the previous checkpoint is unchanged.
    """
    buffer = io.BytesIO()
    torch.save({"version": _CHECKPOINT_VERSION, "identity": identity, **state}, buffer)
    try:
        write_whole(path, buffer.getvalue())
    except StoreError as error:
        raise DiskFullError(
            f"the checkpoint could not be written: {error} The previous one is intact: free disk space, or choose "
            "another folder with --home or UNSEEN_HOME, and run the same command to resume."
        ) from error


def load_state(path: Path, identity: str) -> dict[str, Any] | None:
    """Return what `save_state` wrote, or None if there is no file.

    Raises:
        CheckpointError: the file belongs to another training or version, or is not a checkpoint.
    """
    if not path.exists():
        return None
    with guarded(path, "a checkpoint of a fine-tuning", error=CheckpointError, advice="Remove it to start again."):
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        found, version = state["identity"], state["version"]
    if version != _CHECKPOINT_VERSION:
        raise CheckpointError(
            f"{path} has version {version}; this release reads {_CHECKPOINT_VERSION}. Remove it to start again."
        )
    if found != identity:
        raise CheckpointError(
            f"{path} belongs to another training ({found}, not {identity}): its model, data or settings differ. Remove "
            "it to start again, or use another path for this training."
        )
    return state
