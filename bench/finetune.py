"""Whole trainings beside a plain PyTorch loop and the same loop prepared by `accelerate`, in CPU seconds.

EfficientNet-Lite0 at 96 pixels, three epochs, SGD; `--batch 512` is the batch of VTAB's sweeps. The plain loop decodes
images in every epoch by a `DataLoader`. The loops are run in turns; the best of several turns counts.

    UNSEEN_GOLDEN_DATA=... python bench/finetune.py [--images 96] [--batch 16] [--repeat 2]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from tables import Table
from unseen.backbones import load_backbone
from unseen.data import Split, load_dataset
from unseen.finetuning.train import FinetuneOptions, finetune
from unseen.finetuning.views import TrainView
from unseen.probes.sgd import BatchOrder

MODEL, CLASSES = "packaged:efficientnet-lite0?size=96", 101


def photographs(count: int) -> Split:
    """Photographs of the golden data; without them, pictures drawn and written as JPEGs."""
    folder = os.environ.get("UNSEEN_GOLDEN_DATA", "")
    photos = Path(folder) / "photos" / "caltech101" / "images"
    if not folder or not photos.is_dir():
        photos = Path(tempfile.mkdtemp()) / "drawn"
        shapes = load_dataset(f"procedural:shapes-count?train={count}&val=8&test=8").split("train")
        for i in range(count):
            place = photos / f"class{i % 2}" / f"{i}.jpg"
            place.parent.mkdir(parents=True, exist_ok=True)
            shapes.open(i).convert("RGB").resize((300, 225)).save(place, quality=90)
    split = load_dataset(f"folder:{photos}?test=0.05").split("train")
    return split.take(np.linspace(0, len(split) - 1, min(count, len(split))).astype(int))


def plain_loop(images: Split, batch: int, steps: int, *, prepared: bool) -> float:
    """Train by a plain loop, optionally prepared by accelerate, and return the last loss."""
    backbone, torch_data = load_backbone(MODEL), PlainImages(images)
    order = [int(p) for step in range(steps) for p in BatchOrder(len(images), batch, 0).positions(step)]
    loader = torch.utils.data.DataLoader(torch_data, batch, sampler=order)
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (backbone.preprocessing.mean, backbone.preprocessing.std))
    network, head = backbone.module.train(), torch.nn.Linear(backbone.feature_dim, CLASSES)
    for values in head.parameters():
        torch.nn.init.zeros_(values)
    optimizer = torch.optim.SGD([*network.parameters(), *head.parameters()], lr=0.01, momentum=0.9)
    accelerator = None
    if prepared:
        from accelerate import Accelerator

        accelerator = Accelerator(cpu=True)
        network, head, optimizer, loader = accelerator.prepare(network, head, optimizer, loader)
    for pixels, labels in loader:
        scores = head(backbone.forward(network, (pixels - mean) / std)[0])
        loss = torch.nn.functional.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward() if accelerator is None else accelerator.backward(loss)
        optimizer.step()
    return loss.item()


def own_loop(images: Split, batch: int, steps: int) -> float:
    """Train by `finetune` and return the last loss."""
    options = FinetuneOptions(device="cpu", warmup=0, cache_bytes=1 << 28)
    one = images.take(np.arange(1))
    run = {"classes": CLASSES, "steps": steps, "learning_rate": 0.01, "batch_size": batch, "seed": 0}
    return finetune(load_backbone(MODEL), images, one, options=options, **run).history[-1][2]


class PlainImages(torch.utils.data.Dataset):
    """Images resized to the input of the network, decoded again in every epoch, (3, h, w) as ToTensor returns them."""

    def __init__(self, images: Split) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        pixels = torch.from_numpy(np.array(TrainView().base(self.images.open(index), 96)))
        return pixels.permute(2, 0, 1).contiguous().float() / 255, int(self.images.labels[index])


def compare_loops(images: Split, batch: int, repeat: int) -> int:
    """Print the CPU seconds of each loop, and return whether ours takes at most 0.7 of the plain one."""
    steps = 3 * len(images) // batch
    ways: dict[str, Callable[[], float]] = {
        "plain PyTorch loop": lambda: plain_loop(images, batch, steps, prepared=False),
        "the same by accelerate": lambda: plain_loop(images, batch, steps, prepared=True),
        "finetune": lambda: own_loop(images, batch, steps),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    plain_loop(images, batch, 1, prepared=True)  # imports and first allocations belong to none of them
    own_loop(images, batch, 1)
    for _ in range(repeat):
        for name, way in ways.items():
            began = time.process_time()
            loss = way()
            found[name].append(time.process_time() - began)
            print(f"{name}: {found[name][-1]:.1f} CPU s, last loss {loss:.4f}", flush=True)
    best = {name: min(seconds) for name, seconds in found.items()}
    table = Table("", "images per step", "CPU seconds", "images per CPU second", "of the plain loop")
    for name, seconds in best.items():
        shown = f"`{name}`" if name == "finetune" else name
        share = f"{seconds / best['plain PyTorch loop']:.2f}"
        table.add(shown, f"{batch}", f"{seconds:.1f}", f"{steps * batch / seconds:.0f}", share)
    table.show()
    held = best["finetune"] <= 0.7 * best["plain PyTorch loop"]
    print(f"fine-tuning takes at most 0.7 of the CPU time of a plain loop: {'held' if held else 'NOT held'}")
    return 0 if held else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=96)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--repeat", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    return compare_loops(photographs(options.images), options.batch, options.repeat)


if __name__ == "__main__":
    sys.exit(main())
