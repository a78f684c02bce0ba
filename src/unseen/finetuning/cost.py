"""What fine-tuning will take, from a few steps that are really made: seconds, memory, disk.

Model:      seconds  images through the network and back / images per second, measured with decoding on this device;
                     images that are only looked at count a third
            memory   weights, gradients and the optimiser's state, what the network keeps of a micro-batch for the way
                     back (measured), batches on their way, kept images
            disk     one checkpoint for each training under way: weights and the optimiser's state
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unseen.backbones.backbone import Backbone
from unseen.core.identity import digest
from unseen.data import Split
from unseen.finetuning.feeding import BATCHES_KEPT
from unseen.finetuning.trainer import FinetuneOptions, Trainer

#: Images per step while it is measured: more would take minutes on a CPU.
_BATCH = 16
_LOOK = 1 / 3


@dataclass(frozen=True)
class TrainingRate:
    """What a few steps have shown.

    Attributes:
        per_second: images through the network and back.
        kept: bytes that the network keeps of one image for the way back.
        weights: bytes of parameters and buffers.
    """

    per_second: float
    kept: int
    weights: int

    def seconds(self, trained: float, looked_at: float = 0.0) -> float:
        """Of so many images to train on, and to evaluate on."""
        return (trained + _LOOK * looked_at) / self.per_second

    def memory(self, batch: int, options: FinetuneOptions, *, side: int, images: int) -> int:
        """Bytes at most, of device and host together."""
        shown = side * side * 3
        network = self.weights * (3 + _moments(options.optimizer))  # the caller's, the copy that learns, its gradients
        waiting = BATCHES_KEPT * batch * shown + min(options.cache_bytes, images * shown)
        return int(network + self.kept * min(batch, options.micro_batch or batch) + waiting)

    def checkpoint(self, optimizer: str = "sgd") -> int:
        """Bytes of the state of one training."""
        return self.weights * (1 + _moments(optimizer))


_MEASURED: dict[str, TrainingRate] = {}


def training_rate(backbone: Backbone, train: Split, *, classes: int, options: FinetuneOptions) -> TrainingRate:
    """`measure_training`, once in a process for each network: other data of its size goes as fast."""
    shown = [backbone.preprocessing.to_dict(), options.device, options.micro_batch, options.workers]
    key = digest([backbone.weights, *shown])
    if key not in _MEASURED:
        _MEASURED[key] = measure_training(backbone, train, classes=classes, options=options)
    return _MEASURED[key]


def measure_training(
    backbone: Backbone, train: Split, *, classes: int, options: FinetuneOptions, seconds: float = 2.0
) -> TrainingRate:
    """Make some steps on a copy of the network, and say how fast they went.

    Args:
        seconds: about how long to measure, after a first step that is not counted; at least one step is.
    """
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        trainer = Trainer(backbone, train, classes, 10**6, 1e-9, min(_BATCH, len(train)), 0, (), options)
        kept: dict[int, int] = {}
        own = {p.untyped_storage().data_ptr() for p in trainer.module.parameters()}

        def keep(tensor: Tensor) -> Tensor:
            place = tensor.untyped_storage().data_ptr()
            if place not in own:
                kept[place] = tensor.untyped_storage().nbytes()
            return tensor

        done, began, per_image = 0, 0.0, 0
        for number, batch in enumerate(trainer.batches.ahead(0, 10**6)):
            if number == 0:
                with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
                    trainer.update(batch, 0.0)
                per_image = sum(kept.values()) // len(batch.labels)
                began = time.perf_counter()
                continue
            trainer.update(batch, 0.0)
            done += len(batch.labels)
            if time.perf_counter() - began >= seconds:
                break
    state: dict[str, Any] = trainer.module.state_dict()
    weights = sum(value.numel() * value.element_size() for value in state.values())
    return TrainingRate(done / (time.perf_counter() - began), per_image, weights)


def _moments(optimizer: str) -> int:
    """Copies of the parameters that an optimiser keeps."""
    return 2 if optimizer == "adam" else 1
