"""The state of one fine-tuning: network, head, optimiser and step; one update, all updates, predictions, checkpoints.

`train.py` lists the papers that this implements. A head starts at zero, or at a linear probe of the frozen features:

Paper:      Kumar et al., "Fine-Tuning can Distort Pretrained Features and Underperform Out-of-Distribution", ICLR 2022
            [P], section 3.4 (LP-FT); Zhai et al., 2019, start from zero
Implements: the head is the converged logistic regression that `unseen probe` fits by default, on features of unit
            length; before the first step the network is that frozen probe, prediction for prediction
Differs:    [P] does not normalise features. Statistics of batch norm stay those of the pretraining, since the probe was
            fitted under them; its scales and shifts learn

            The network's learning rate is a tenth of the head's and gradients are clipped to norm 1: with the
            head's rate, the large weights of a converged probe destroy the features in the first steps

A checkpoint has torch's own format, read back with `weights_only`, so that it cannot run code. It contains the digest
of everything that the training depends on: a checkpoint of another training is refused.

If memory runs out in a forward or backward pass, the step is repeated with half the micro-batch. Losses stay on the
device until they are stored in the history, so that a step does not wait for the device.
"""

from __future__ import annotations

import copy
import io
import math
import multiprocessing
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

from unseen.backbones.backbone import Backbone
from unseen.backbones.runtimes import best_device
from unseen.core.arrays import AnyArray, Float32Array, IntArray, Pixels
from unseen.core.errors import CheckpointError, DataError, DiskFullError, StoreError, UnknownNameError, UsageError
from unseen.core.extras import cores, visible_device
from unseen.core.files import write_whole
from unseen.core.guard import guarded
from unseen.data import Split
from unseen.features.batches import to_pixels
from unseen.finetuning.adaptations import count_trainable, prepare
from unseen.finetuning.data import CACHE_BYTES, Batch, TrainingBatches, evaluation_batches, micro_batches
from unseen.finetuning.views import EvalView, TrainView, at_size, nearest_size
from unseen.probes.estimators import LinearProbe
from unseen.probes.solvers import StepSchedule, default_warmup

if TYPE_CHECKING:
    from unseen.finetuning.train import EarlyStop

Start = Literal["zero", "probe"]
Optimizer = Literal["sgd", "adam", "adamw"]
Precision = Literal["auto", "fp32", "bf16", "fp16"]
Decay = Literal["step", "cosine"]
#: Callback with the finished step, the number of steps, and the loss.
Progress = Callable[[int, int, float], None]
_CHECKPOINT_VERSION = 2
_HISTORY_POINTS = 100
#: Attributes of a trainer whose state a checkpoint contains.
_STATEFUL = ("module", "head", "optimizer", "scaler")
#: Attributes that it contains as they are.
_PLAIN = ("history", "seconds", "micro_batch", "diverged_at")
#: Margin by which a class without training image starts below the least likely other class.
_ABSENT = 10.0
#: Images per forward pass of an evaluation, on the CPU and on other devices.
_EVALUATED, _EVALUATED_BY_GPU = 64, 256
#: Number of history points whose mean loss decides whether a training diverges.
_RECENT = 5
#: Increase of the loss above its start, in units of the loss of guessing, that ends a training from a probe.
_DIVERGED = 0.5
#: Parts of the messages of allocators that have no exception class (CPU, MPS, cuBLAS).
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "status_alloc_failed")


@dataclass(frozen=True)
class CosineSchedule:
    """Factor of the learning rate: linear warm-up, then half a cosine to 0."""

    steps: int
    warmup: int = 0

    def factor(self, step: int) -> float:
        """Return the factor of the learning rate at step `step`, counted from 0."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        return 0.5 * (1 + math.cos(math.pi * (step - self.warmup) / max(1, self.steps - self.warmup)))


@dataclass(frozen=True)
class FinetuneOptions:
    """Options that the lightweight protocol does not vary.

    Attributes:
        optimizer: "sgd" (momentum 0.9), "adam", or "adamw" of torch.
        weight_decay: per unit of learning rate, decoupled; VTAB has 0 for fine-tuning and 0.01 from scratch.
        schedule: "step" as in VTAB, or "cosine".
        train_view, eval_view: transformations of images; the defaults are the plain resize of VTAB.
        own_preprocessing: use the preprocessing that the model was published with instead.
        start: of the head: "zero" as in VTAB, or "probe", a linear probe of the frozen features.
        adaptation, adaptation_size: which parameters are trained (`unseen.finetuning.ADAPTATIONS`), and the rank, width
            or number of the adaptation; 0 for its default.
        clip: largest norm of the gradient; 0 for no limit, None for 1 from a probe and no limit from zero.
        backbone_rate: learning rate of the network relative to the head's; None for 0.1 from a probe, 1 from zero.
        warmup: steps; None for `default_warmup`.
        micro_batch: images per forward pass; gradients of a batch accumulate over several. 0: as large as the batch. If
            memory runs out it is halved, and `FinetuneResult.micro_batch` has the result.
        precision: of forward passes; "auto" is fp32 on the CPU and bf16 on a GPU, or fp16 if the GPU has no bf16.
        device: "auto", "cpu", "cuda", "cuda:N" or "mps".
        checkpoint_seconds: time between checkpoints.
        workers: processes that decode and crop images, for evaluation too; -1 for none on the CPU, whose cores the
            network needs, and one per core of this process up to eight elsewhere. They change no number.
        cache_bytes: size of the cache of decoded training images.
    """

    optimizer: Optimizer = "sgd"
    weight_decay: float = 0.0
    train_view: TrainView = field(default_factory=TrainView)
    eval_view: EvalView = field(default_factory=EvalView)
    own_preprocessing: bool = False
    start: Start = "zero"
    warmup: int | None = None
    micro_batch: int = 0
    device: str = "auto"
    checkpoint_seconds: float = 60.0
    workers: int = -1
    cache_bytes: int = CACHE_BYTES
    schedule: Decay = "step"
    adaptation: str = "finetune"
    adaptation_size: int = 0
    clip: float | None = None
    backbone_rate: float | None = None
    precision: Precision = "auto"

    def __post_init__(self) -> None:
        for name, kind in (("optimizer", Optimizer), ("start", Start), ("precision", Precision), ("schedule", Decay)):
            if getattr(self, name) not in get_args(kind):
                raise UnknownNameError(f"{name} of a fine-tuning", getattr(self, name), get_args(kind))
        least = (self.weight_decay, self.micro_batch, self.adaptation_size, self.clip or 0.0, self.checkpoint_seconds)
        if min(least) < 0 or not (self.backbone_rate is None or self.backbone_rate > 0):
            raise UsageError(
                "weight_decay, micro_batch, adaptation_size, clip and checkpoint_seconds must not be negative, and "
                "backbone_rate must be positive."
            )

    @property
    def largest_norm(self) -> float:
        """Return the norm that gradients are clipped to; 0 for no limit."""
        return float(self.start == "probe") if self.clip is None else self.clip

    @property
    def relative_rate(self) -> float:
        """Return the learning rate of the network relative to the head's."""
        return (0.1 if self.start == "probe" else 1.0) if self.backbone_rate is None else self.backbone_rate


@dataclass(frozen=True)
class Schedule:
    """The settings that a search varies."""

    classes: int
    steps: int
    learning_rate: float
    batch_size: int
    seed: int


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
        self.module = copy.deepcopy(backbone.module)
        prepare(backbone, self.module, options.adaptation, options.adaptation_size)
        self.module = self.module.to(self.device)
        if self.device.type == "cuda":
            for parameter in self.module.parameters():
                if parameter.ndim == 4:
                    parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
        self.head = empty_head(options.start, backbone.feature_dim, schedule.classes).to(self.device)
        self.trainable = count_trainable(backbone, self.module, self.head)
        warmup = default_warmup(self.steps) if options.warmup is None else options.warmup
        # A sweep that starts from a probe has the probe without any step among its candidates.
        steps = 1 if self.steps == 0 and options.start == "probe" else self.steps
        self.rates = StepSchedule(steps, warmup) if options.schedule == "step" else CosineSchedule(steps, warmup)
        trained, all_of_head = [p for p in self.module.parameters() if p.requires_grad], list(self.head.parameters())
        self.parameters = [*trained, *all_of_head]
        groups = [{"params": trained, "scale": options.relative_rate}, {"params": all_of_head, "scale": 1.0}]
        optimizers: dict[str, Callable[..., torch.optim.Optimizer]] = {
            "sgd": partial(torch.optim.SGD, momentum=0.9),
            "adam": torch.optim.Adam,
            "adamw": partial(torch.optim.AdamW, weight_decay=options.weight_decay),
        }
        self.optimizer = optimizers[options.optimizer](groups, lr=self.learning_rate)
        self.autocast, scaled = _precision(self.device, options.precision)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=scaled)
        self.micro_batch = options.micro_batch or schedule.batch_size
        self.evaluated = min(self.micro_batch, _EVALUATED if self.device.type == "cpu" else _EVALUATED_BY_GPU)
        own = (lambda image: to_pixels(image, backbone.preprocessing)) if options.own_preprocessing else None
        size = backbone.preprocessing.size
        self.workers = feeders(self.device) if options.workers < 0 else options.workers
        self.batches = TrainingBatches(
            train,
            options.train_view,
            size=size,
            batch_size=schedule.batch_size,
            seed=schedule.seed,
            own=own,
            workers=self.workers,
        )
        self.batches.cache_bytes = options.cache_bytes
        view = options.eval_view.with_size(nearest_size(self.module, options.eval_view.size or size))
        self.size, self.eval_size = size, size if own else view.size
        self.view: Callable[[Image.Image], Pixels] = own or (lambda image: view.apply(image, size))
        both = (backbone.preprocessing.mean, backbone.preprocessing.std)
        self.mean, self.std = (torch.tensor(each, device=self.device).view(1, 3, 1, 1) for each in both)
        self.history: list[tuple[int, float, float]] = []
        self.seconds, self.resumed_at, self.diverged_at = 0.0, 0, 0

    def run(self, checkpoint: Path | None, identity: str, progress: Progress | None) -> None:
        """Perform the remaining steps."""
        began = time.perf_counter()
        first = self._resume(checkpoint, identity)
        before = self.seconds
        if self.options.start == "probe" and not first:
            self._start_from_probe()
        if self.stop is not None and not first:
            self.stop.evaluate(self, 0)
        every = max(1, self.steps // _HISTORY_POINTS)
        losses: list[Tensor] = self._pending
        self._train_mode()
        saved, latest = time.monotonic(), math.nan
        last = first if self.diverged_at else self.steps
        for step, batch in enumerate(self.batches.ahead(first, last), start=first):
            rate = self.learning_rate * self.rates.factor(step)
            losses.append(self.update(batch, rate))
            done = step + 1
            if done % every == 0 or done == self.steps:
                latest = float(torch.stack(losses).mean())
                self.history.append((done, rate, latest))
                losses.clear()
                self.diverged_at = done if self._diverges() else 0
            if self.stop is not None and self.stop.is_due(done, self.steps):
                self.stop.evaluate(self, done)
                self._train_mode()
            self.seconds = before + time.perf_counter() - began
            ended = done == self.steps or self.diverged_at > 0
            if checkpoint is not None and (ended or time.monotonic() - saved >= self.options.checkpoint_seconds):
                save_state(checkpoint, identity, self._state(done))
                saved = time.monotonic()
            if progress is not None:
                progress(done, self.steps, latest)
            if ended:
                break

    def _diverges(self) -> bool:
        """Return whether the loss is not finite or, from a probe, has grown towards that of guessing."""
        losses = [loss for _, _, loss in self.history]
        if not math.isfinite(losses[-1]):
            return True
        if self.options.start != "probe" or len(losses) <= _RECENT:
            return False
        return float(np.mean(losses[-_RECENT:])) > losses[0] + _DIVERGED * math.log(self.head.out_features)

    def update(self, batch: Batch, rate: float) -> Tensor:
        """Update the model once, and return the mean loss of the batch."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["scale"]
        loss = self._halving("micro_batch", lambda: self._accumulate(batch))
        if self.options.largest_norm:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.parameters, self.options.largest_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if self.options.weight_decay and self.options.optimizer != "adamw":
            with torch.no_grad():
                for group in self.optimizer.param_groups:
                    for parameter in group["params"]:
                        parameter.mul_(1 - group["lr"] * self.options.weight_decay)
        return loss

    def _accumulate(self, batch: Batch) -> Tensor:
        """Compute the gradient of a batch, micro-batch by micro-batch, and return the mean loss."""
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=self.device)
        for part in micro_batches(len(batch.labels), self.micro_batch):
            labels = self._move(batch.labels[part])
            with self.autocast():
                scores = self.head(self._features(self.module, batch.pixels[part]))
                loss = functional.cross_entropy(scores.float(), labels, reduction="sum") / len(batch.labels)
            self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        return total

    def _halving(self, name: str, call: Callable[[], Tensor]) -> Tensor:
        """Return `call()`; if memory runs out, repeat it with half of the attribute `name`, from the same random state.

        Raises:
            MemoryError, RuntimeError: memory does not suffice for a single image.
        """
        while True:
            random = self._random()
            try:
                return call()
            except (MemoryError, RuntimeError) as error:
                if getattr(self, name) < 2 or not is_out_of_memory(error):
                    raise
            # Outside of the handler, whose traceback keeps the tensors of the failed attempt.
            setattr(self, name, getattr(self, name) // 2)
            self._restore_random(random)
            self.optimizer.zero_grad(set_to_none=True)
            if self.device.type == "cuda":
                torch.cuda.empty_cache()

    def _random(self) -> tuple[Tensor, list[Tensor]]:
        own = [torch.cuda.get_rng_state(self.device)] if self.device.type == "cuda" else []
        return torch.get_rng_state(), own

    def _restore_random(self, state: tuple[Tensor, Sequence[Tensor]]) -> None:
        """Restore the generators of the CPU and of this device; a checkpoint may come from a host with other GPUs."""
        torch.set_rng_state(state[0])
        if state[1] and self.device.type == "cuda":
            torch.cuda.set_rng_state(state[1][0], self.device)

    def _move(self, values: AnyArray) -> Tensor:
        """Copy an array to the device without waiting for the copy."""
        tensor = torch.from_numpy(np.ascontiguousarray(values))
        if self.device.type == "cuda":
            tensor = tensor.pin_memory()
        return tensor.to(self.device, non_blocking=True)

    def _features(self, network: nn.Module, pixels: Pixels) -> Tensor:
        images = self._move(pixels).permute(0, 3, 1, 2)
        features, _ = self.backbone.forward(network, (images.float() / 255 - self.mean) / self.std)
        return features

    def _outputs(
        self, images: Split, view: Callable[[Image.Image], Pixels], side: int, forward: Callable[[Pixels], Tensor]
    ) -> tuple[IntArray, Float32Array, dict[int, str]]:
        """Return the positions of readable images, `forward` of them in evaluation mode, and reasons for the others.

        As many images are passed at once as memory allows.
        """
        self.module.eval()
        positions: list[IntArray] = []
        found: list[AnyArray] = []
        reasons: dict[int, str] = {}

        def outputs(pixels: Pixels) -> Tensor:
            return torch.cat([forward(pixels[part]) for part in micro_batches(len(pixels), self.evaluated)])

        with torch.inference_mode():
            for batch in evaluation_batches(images, view, side=side, batch_size=self.evaluated, workers=self.workers):
                reasons |= batch.unreadable
                if len(batch.positions):
                    rows = self._halving("evaluated", partial(outputs, batch.pixels))
                    positions.append(batch.positions)
                    found.append(rows.float().cpu().numpy())
        if not found:
            raise DataError(
                f"none of {len(images)} images can be read; the first reason: {next(iter(reasons.values()))}"
            )
        return np.concatenate(positions), np.concatenate(found), reasons

    def _start_from_probe(self) -> None:
        """Replace the head by the linear probe of the network's frozen features, fitting it if necessary."""
        if (head := self.probe) is None:
            images = self.batches.images
            plain = self.view if self.options.own_preprocessing else (lambda image: EvalView().apply(image, self.size))
            # In full precision: a probe that is fitted on rounded features is another probe.
            found = self._outputs(images, plain, self.size, partial(self._features, self.module))
            positions, features, self.batches.unreadable = found
            head = probe_head(features, images.labels[positions], self.head.out_features, self.batches.seed)
        self.head.load_state_dict(head.state_dict())

    def predict(self, test: Split) -> tuple[IntArray, dict[int, str]]:
        """Return the class of each image, -1 if it cannot be read, and the reasons."""
        network = self.module if self.eval_size == self.size else at_size(self.module.eval(), self.eval_size)
        with self.autocast():
            positions, scores, reasons = self._outputs(
                test, self.view, self.eval_size, lambda pixels: self.head(self._features(network, pixels))
            )
        predictions = np.full(len(test), -1, np.int64)
        predictions[positions] = scores.argmax(axis=1)
        return predictions, reasons

    def _train_mode(self) -> None:
        """Set training mode, except for frozen modules and batch norms whose statistics have to stay."""
        self.module.train()
        # The probe was fitted under the running statistics of batch norm.
        probe = self.options.start == "probe"
        for part in self.module.modules():
            trained = [parameter.requires_grad for parameter in part.parameters()]
            norm = isinstance(part, nn.modules.batchnorm._BatchNorm) and (probe or not all(trained))
            if norm or (trained and not any(trained)):
                part.eval()

    def _state(self, done: int) -> dict[str, object]:
        random, random_cuda = self._random()
        return {
            "step": done,
            **{name: getattr(self, name).state_dict() for name in _STATEFUL},
            "random": random,
            "random_cuda": random_cuda,
            **{name: getattr(self, name) for name in _PLAIN},
            "pending": self._pending,
            "unreadable": self.batches.unreadable,
            "stop": {name: getattr(self.stop, name) for name in self.stop.saved} if self.stop is not None else {},
        }

    def _resume(self, checkpoint: Path | None, identity: str) -> int:
        self._pending: list[Tensor] = []
        state = load_state(checkpoint, identity) if checkpoint is not None else None
        if state is None:
            return 0
        for name in _STATEFUL:
            getattr(self, name).load_state_dict(state[name])
        self._restore_random((state["random"], state["random_cuda"]))
        for name in _PLAIN:
            setattr(self, name, state.get(name, getattr(self, name)))
        self._pending = [loss.to(self.device) for loss in state["pending"]]
        self.batches.unreadable = dict(state["unreadable"])
        if self.stop is not None:
            vars(self.stop).update(state["stop"])
        self.resumed_at = int(state["step"])
        return self.resumed_at


def feeders(device: torch.device) -> int:
    """Return the number of processes that decode images: none on the CPU, whose cores the network needs.

    Elsewhere one per core up to eight. The threads of a process are its share of the cores if several share a machine.
    """
    return 0 if device.type == "cpu" else min(8, cores(), torch.get_num_threads())


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error of Python or PyTorch states that memory ran out."""
    known = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return known or any(words in str(error).lower() for words in _OUT_OF_MEMORY)


def own_device(requested: str) -> torch.device:
    """Return the device to train on; workers on a machine with several GPUs take one each, in turn."""
    name = best_device() if requested == "auto" else visible_device(requested)
    number = multiprocessing.current_process()._identity
    if name == "cuda" and number and torch.cuda.device_count() > 1:
        name = f"cuda:{(number[-1] - 1) % torch.cuda.device_count()}"
    return torch.device(name)


def _precision(device: torch.device, name: Precision) -> tuple[Callable[[], AbstractContextManager[object]], bool]:
    """Return autocast for the device and whether its gradients need scaling."""
    if name == "auto" and device.type == "cuda":
        with torch.cuda.device(device):  # emulated bf16 is slower than fp16
            name = "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
    if name in ("auto", "fp32"):
        return nullcontext, False
    half = torch.bfloat16 if name == "bf16" else torch.float16
    return (lambda: torch.autocast(device.type, dtype=half)), half is torch.float16


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
