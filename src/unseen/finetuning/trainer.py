"""The state of one fine-tuning: network, head, optimiser, place; one step, all steps, predictions.

`finetuning.py` says what is implemented of which paper; this file does it.
"""

from __future__ import annotations

import copy
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
from unseen.core.errors import DataError, UnknownNameError, UsageError
from unseen.data import Split
from unseen.finetuning.data import Batch, TrainingBatches, evaluation_batches, micro_batches
from unseen.finetuning.early_stop import EarlyStop
from unseen.finetuning.feeding import CACHE_BYTES, Fed
from unseen.finetuning.input_size import at_size, nearest_size
from unseen.finetuning.start import Start, empty_head, hold_statistics, probe_head
from unseen.finetuning.state import load_state, save_state
from unseen.finetuning.views import EvalView, Pixels, TrainView, own_view
from unseen.probes.batch_order import IntArray
from unseen.probes.schedules import StepSchedule, default_warmup

#: Told the step just finished, the number of steps, and its loss.
Progress = Callable[[int, int, float], None]
_HISTORY_POINTS = 100


@dataclass(frozen=True)
class FinetuneOptions:
    """What the lightweight protocol leaves fixed.

    Attributes:
        optimizer: "sgd" (momentum 0.9) or "adam".
        weight_decay: per unit of learning rate, decoupled; [P] has 0 for fine-tuning and 0.01 from scratch.
        train_view, eval_view: what images become; the defaults are the plain resize of [P].
        own_preprocessing: show images as the model was published with instead, in training and evaluation.
        start: of the head: "zero" as in [P], or "probe", a linear probe of the frozen features (start.py).
        warmup: steps; None for `default_warmup`.
        micro_batch: images per forward pass; gradients of a batch accumulate over several. 0: as large as the batch.
        device: "auto", "cpu", "cuda" or "mps".
        checkpoint_every: steps between checkpoints.
        workers: processes that decode and crop images, for evaluation too; -1 for none on the CPU, whose cores the
            network needs, and one per core up to eight elsewhere. They change no number.
        cache_bytes: of decoded training images that are kept between epochs.
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


class Trainer:
    """The state of one training."""

    def __init__(
        self,
        backbone: Backbone,
        train: Split,
        classes: int,
        steps: int,
        learning_rate: float,
        batch_size: int,
        seed: int,
        freeze: Sequence[str],
        options: FinetuneOptions,
        stop: EarlyStop | None = None,
        head: nn.Linear | None = None,
    ) -> None:
        self.backbone, self.options, self.learning_rate, self.steps = backbone, options, learning_rate, steps
        self.stop, self.given_head = stop, head
        self.device = own_device(options.device)
        self.module = copy.deepcopy(backbone.module).to(self.device)
        self.head = empty_head(options.start, backbone.feature_dim, classes).to(self.device)
        self.frozen = _freeze(self.module, freeze)
        warmup = default_warmup(steps) if options.warmup is None else options.warmup
        # Without a step the start is all there is: a sweep that begins at a probe has it among its candidates.
        alone = steps == 0 and options.start == "probe"
        self.schedule = StepSchedule(1 if alone else steps, warmup)
        self.parameters = [p for p in (*self.module.parameters(), *self.head.parameters()) if p.requires_grad]
        self.optimizer = _make_optimizer(options.optimizer, self.parameters, learning_rate)
        self.autocast, scaled = _precision(self.device)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=scaled)
        self.micro_batch = options.micro_batch or batch_size
        own = (lambda image: own_view(image, backbone.preprocessing)) if options.own_preprocessing else None
        size = backbone.preprocessing.size
        self.workers = feeding_workers(self.device) if options.workers < 0 else options.workers
        self.batches = TrainingBatches(
            train,
            options.train_view,
            size=size,
            batch_size=batch_size,
            seed=seed,
            own=own,
            workers=self.workers,
            cache_bytes=options.cache_bytes,
        )
        view = options.eval_view.with_size(nearest_size(self.module, options.eval_view.size or size))
        self.size, self.eval_size = size, size if own else view.size
        self.show: Callable[[Image.Image], Pixels] = own or (lambda image: view.apply(image, size))
        self.show_plainly: Callable[[Image.Image], Pixels] = own or (lambda image: EvalView().apply(image, size))
        self.mean = torch.tensor(backbone.preprocessing.mean, device=self.device).view(1, 3, 1, 1)
        self.std = torch.tensor(backbone.preprocessing.std, device=self.device).view(1, 3, 1, 1)
        self.history: list[tuple[int, float, float]] = []
        self.seconds, self.resumed_at = 0.0, 0

    def run(self, checkpoint: Path | None, identity: str, progress: Progress | None, last: int) -> None:
        """The steps up to `last` that are not done yet."""
        began = time.perf_counter()
        first = self._resume(checkpoint, identity)
        before = self.seconds
        if self.options.start == "probe" and not first:
            self._start_from_probe()
        if self.stop is not None and not first:
            self.stop.look(self, 0)
        every = max(1, self.steps // _HISTORY_POINTS)
        losses: list[float] = self._pending
        self._train_mode()
        for step, batch in enumerate(self.batches.ahead(first, last), start=first):
            rate = self.learning_rate * self.schedule.factor(step)
            losses.append(self.update(batch, rate))
            done = step + 1
            if done % every == 0 or done == self.steps:
                self.history.append((done, rate, float(np.mean(losses))))
                losses.clear()
            if self.stop is not None and self.stop.is_due(done, self.steps):
                self.stop.look(self, done)
                self._train_mode()
            self.seconds = before + time.perf_counter() - began
            if checkpoint is not None and (done % self.options.checkpoint_every == 0 or done == last):
                save_state(checkpoint, identity, self._state(done))
            if progress is not None:
                progress(done, self.steps, losses[-1] if losses else self.history[-1][2])

    def update(self, batch: Batch, rate: float) -> float:
        """One model update; returns the mean loss of the batch."""
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
        """Put the linear probe of the network's frozen features, given or fitted now, in the place of the head."""
        if self.given_head is not None:
            self.head.load_state_dict(self.given_head.state_dict())
            return
        images = self.batches.images
        features = np.empty((len(images), self.backbone.feature_dim), np.float32)
        readable = np.zeros(len(images), bool)
        for fed in self._evaluated(images, self.show_plainly, self.size):
            # In full precision: a probe that is fitted on rounded features is another probe.
            features[fed.positions] = self._features(self.module, fed.pixels).cpu().numpy()
            readable[fed.positions] = True
            self.batches.unreadable |= fed.unreadable
        if not readable.any():
            raise DataError(f"none of the {len(images)} training images can be read.")
        head = probe_head(features[readable], images.labels[readable], self.head.out_features, self.batches.seed)
        self.head.load_state_dict(head.state_dict())

    def predict(self, test: Split) -> tuple[IntArray, dict[int, str]]:
        """Class per image, -1 where it cannot be read, and the reasons."""
        predictions = np.full(len(test), -1, np.int64)
        reasons: dict[int, str] = {}
        self.module.eval()
        network = self.module if self.eval_size == self.size else at_size(self.module, self.eval_size)
        for fed in self._evaluated(test, self.show, self.eval_size):
            reasons |= fed.unreadable
            with self.autocast():
                scores = self.head(self._features(network, fed.pixels))
            predictions[fed.positions] = scores.argmax(dim=1).cpu().numpy()
        return predictions, reasons

    def _evaluated(self, images: Split, show: Callable[[Image.Image], Pixels], side: int) -> Iterator[Fed]:
        """Consecutive images, those that can be read, while nothing is learnt."""
        self.module.eval()
        batch = min(self.micro_batch, 64)
        with torch.inference_mode():
            for fed in evaluation_batches(images, show, side=side, batch_size=batch, workers=self.workers):
                if len(fed.positions):
                    yield fed

    def _train_mode(self) -> None:
        self.module.train()
        if self.options.start == "probe":
            hold_statistics(self.module)
        for module in self.frozen:
            module.eval()

    def _state(self, done: int) -> dict[str, Any]:
        return {
            "step": done,
            "module": self.module.state_dict(),
            "head": self.head.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
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
        self.module.load_state_dict(state["module"])
        self.head.load_state_dict(state["head"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
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


def own_device(wanted: str) -> torch.device:
    """The device to train on; workers on a machine of several GPUs take one each, in turn."""
    name = best_device() if wanted == "auto" else wanted
    number = multiprocessing.current_process()._identity
    if name == "cuda" and number and torch.cuda.device_count() > 1:
        name = f"cuda:{(number[-1] - 1) % torch.cuda.device_count()}"
    return torch.device(name)


def feeding_workers(device: torch.device) -> int:
    """Processes that feed a network: none on the CPU, one per core up to eight elsewhere."""
    return 0 if device.type == "cpu" else min(8, os.cpu_count() or 1)


def _freeze(module: nn.Module, names: Sequence[str]) -> list[nn.Module]:
    """Stop the named modules from learning, and return them."""
    known = dict(module.named_modules())
    frozen = []
    for name in names:
        if name not in known:
            raise UsageError(f"there is no module {name!r} to freeze. Known: {', '.join(list(known)[1:8])}, ...")
        known[name].requires_grad_(False)
        frozen.append(known[name])
    return frozen


def _make_optimizer(name: str, parameters: list[nn.Parameter], rate: float) -> torch.optim.Optimizer:
    if name == "adam":
        return torch.optim.Adam(parameters, lr=rate)
    return torch.optim.SGD(parameters, lr=rate, momentum=0.9)


def _precision(device: torch.device) -> tuple[Callable[[], AbstractContextManager[Any]], bool]:
    """Autocast for the device, and whether its gradients need scaling: half precision on CUDA, none elsewhere."""
    if device.type != "cuda":
        return nullcontext, False
    half = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    return (lambda: torch.autocast("cuda", dtype=half)), half is torch.float16
