"""Train a small network from random weights and save a checkpoint after each of several stages (NeuCRaB Group II).

Paper:      Li et al., "Ranking neural checkpoints" (NeuCRaB), section 2.2, CVPR 2021 [P]
Implements: supervised training from random weights; a checkpoint after each stage, as [P] has one at each decrease of
            the learning rate
Differs:    small networks, small images, few steps: the members of the pool differ only in how long they trained. AdamW
            with a cosine schedule instead of SGD needs fewer steps for that.

A stage is a plain safetensors file with the network's own names in it: `file:PATH?arch=timm:NAME` loads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from unseen.backbones.load import load_backbone
from unseen.backbones.sources.timm import create_timm
from unseen.core.errors import UsageError
from unseen.core.files import write_whole
from unseen.data import Split
from unseen.finetuning.data import TrainingBatches
from unseen.finetuning.trainer import CosineSchedule, Progress
from unseen.finetuning.views import TrainView

WEIGHT_DECAY = 0.05
_WARMUP = 0.05
_VIEW = TrainView("resize-crop", flip=True)


def train_stages(
    architecture: str,
    train: Split,
    folder: Path,
    *,
    classes: int,
    stages: Sequence[int],
    size: int = 64,
    batch_size: int = 64,
    learning_rate: float = 2e-3,
    seed: int = 0,
    view: TrainView = _VIEW,
    progress: Progress | None = None,
) -> list[Path]:
    """Train a timm network from random weights, and write one checkpoint per stage.

    Args:
        architecture: a timm name, such as "resnet18".
        train: images and labels.
        folder: of the checkpoints; created if necessary.
        classes: number of classes.
        stages: numbers of steps after which to save a checkpoint, ascending; 0 saves the random start.
        size: side of the input in pixels.
        learning_rate: the maximum of the schedule.
        view: transformation of training images; a flip or a crop must not change their labels.
        progress: called after every step.

    Returns:
        One path per stage, `<folder>/<architecture>-<steps>.safetensors`.
    """
    if not stages or list(stages) != sorted(set(stages)) or stages[0] < 0 or train.labels.max(initial=0) >= classes:
        raise UsageError(
            f"stages {list(stages)} must be numbers of steps, ascending, none twice, and labels (up to "
            f"{train.labels.max(initial=0)}) below the number of classes, {classes}."
        )
    preprocessing = load_backbone(f"random:{architecture}?size={size}&seed={seed}").preprocessing
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (preprocessing.mean, preprocessing.std))
    batches = TrainingBatches(train, view, size=size, batch_size=batch_size, seed=seed)
    last = stages[-1]
    schedule = CosineSchedule(last, max(1, round(_WARMUP * last)))
    paths: list[Path] = []
    folder.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = create_timm(architecture, pretrained=False, num_classes=classes).train()
        optimiser = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=WEIGHT_DECAY)
        if stages[0] == 0:
            paths.append(_write(model, folder / f"{architecture}-0.safetensors"))
        for step, batch in enumerate(batches.ahead(0, last)):
            for group in optimiser.param_groups:
                group["lr"] = learning_rate * schedule.factor(step)
            pixels = torch.from_numpy(np.ascontiguousarray(batch.pixels)).permute(0, 3, 1, 2)
            scores = model((pixels.float() / 255 - mean) / std)
            loss = functional.cross_entropy(scores, torch.from_numpy(batch.labels), label_smoothing=0.1)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            if step + 1 in stages:
                paths.append(_write(model, folder / f"{architecture}-{step + 1}.safetensors"))
            if progress is not None:
                progress(step + 1, last, float(loss.detach()))
    return paths


def _write(model: torch.nn.Module, path: Path) -> Path:
    """Write a checkpoint atomically."""
    from safetensors.torch import save

    write_whole(path, save({name: value.detach().contiguous().clone() for name, value in model.state_dict().items()}))
    return path
