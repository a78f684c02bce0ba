"""Images per second that reach the trainer, decoding and augmentation included, beside a torch DataLoader, in one run.

Both show the same JPEGs by the same view (a random area, flips), none of them kept, in batches of unsigned bytes that
the training loop turns into a tensor; they differ in how the batches come about. Ways take turns, and the best of
several turns counts. Two rates are printed: by the clock, which other work on the machine slows, and by processor time
of the busiest process, which is what the clock would show with a core for every process.

    UNSEEN_GOLDEN_DATA=... python bench/finetune.py [--images 400] [--batch 32] [--repeat 3]
    UNSEEN_GOLDEN_DATA=... python bench/finetune.py --loop [--images 96] [--batch 16]

`--loop` compares whole trainings (EfficientNet-Lite0 at 96 pixels, three epochs, SGD): `finetune`, a plain PyTorch loop
over a DataLoader, and the same loop prepared by `accelerate`. CPU seconds of this process, taken in turns.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from tables import Table
from unseen.backbones import load_backbone
from unseen.data import Split, load_dataset
from unseen.finetuning.data import TrainingBatches
from unseen.finetuning.train import FinetuneOptions, finetune
from unseen.finetuning.views import TrainView
from unseen.probes.sgd import BatchOrder

VIEW = TrainView("inception", flip=True)
MODEL, CLASSES = "packaged:efficientnet-lite0?size=96", 101
SIDE = 224
TICKS = os.sysconf("SC_CLK_TCK")


class Peer(torch.utils.data.Dataset):
    """The same images by the same view, as a dataset of torch."""

    def __init__(self, images: Split, epochs: int) -> None:
        self.images, self.epochs = images, epochs

    def __len__(self) -> int:
        return len(self.images) * self.epochs

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        position = index % len(self.images)
        base = VIEW.base(self.images.open(position), SIDE)
        pixels = VIEW.finish(base, SIDE, np.random.default_rng([0, 1, index]))
        return torch.from_numpy(np.array(pixels)), int(self.images.labels[position])


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


def ours(images: Split, batch: int, workers: int, steps: int) -> Iterator[torch.Tensor]:
    batches = TrainingBatches(images, VIEW, size=SIDE, batch_size=batch, seed=0, workers=workers, cache_bytes=0)
    for found in batches.ahead(0, steps):
        yield torch.from_numpy(found.pixels)


def loader(images: Split, batch: int, workers: int, steps: int) -> Iterator[torch.Tensor]:
    dataset = Peer(images, -(-steps * batch // len(images)))
    made = torch.utils.data.DataLoader(dataset, batch, shuffle=True, num_workers=workers, drop_last=True)
    for number, (pixels, _labels) in enumerate(made):
        yield pixels
        if number + 1 == steps:
            return


def processor_seconds(pid: int) -> float:
    """Of a process so far, from the kernel."""
    parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / TICKS


def measure(
    way: Callable[..., Iterator[torch.Tensor]], images: Split, batch: int, workers: int, steps: int
) -> tuple[float, float]:
    """Images per second: by the clock, and by the processor time of the busiest process."""
    began, own = time.perf_counter(), processor_seconds(os.getpid())
    total, busiest = 0, 0.0
    for number, pixels in enumerate(way(images, batch, workers, steps)):
        total += int(pixels.shape[0])
        assert pixels.shape[1:] == (SIDE, SIDE, 3)
        if number + 1 == steps:  # workers are still there to be asked
            children = [child.pid for child in multiprocessing.active_children() if child.pid]
            busiest = max(map(processor_seconds, children), default=0.0)
            clock = time.perf_counter() - began
    busiest = max(busiest, processor_seconds(os.getpid()) - own)
    return total / clock, total / busiest


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
    table = Table("", "CPU seconds", "of the plain loop")
    for name, seconds in best.items():
        table.add(
            f"`{name}`" if name == "finetune" else name, f"{seconds:.1f}", f"{seconds / best['plain PyTorch loop']:.2f}"
        )
    table.show()
    held = best["finetune"] <= 0.7 * best["plain PyTorch loop"]
    print(f"fine-tuning takes at most 0.7 of the CPU time of a plain loop: {'held' if held else 'NOT held'}")
    return 0 if held else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--loop", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.loop:
        return compare_loops(photographs(min(options.images, 96)), 16, min(options.repeat, 2))
    images = photographs(options.images)
    steps = max(1, len(images) // options.batch)
    found: dict[tuple[str, int], tuple[float, float]] = {}
    for _ in range(options.repeat):
        for workers in (1, 2):
            for name, way in (("DataLoader", loader), ("ours", ours)):
                rates = measure(way, images, options.batch, workers, steps)
                before = found.get((name, workers), (0.0, 0.0))
                found[name, workers] = (max(before[0], rates[0]), max(before[1], rates[1]))
    print(f"{steps * options.batch} images, batches of {options.batch}, best of {options.repeat}")
    print(f"{'':<12}{'workers':>8}{'by clock':>12}{'by processor':>14}   images per second")
    for (name, workers), (clock, processor) in found.items():
        print(f"{name:<12}{workers:>8}{clock:>12.0f}{processor:>14.0f}")
    table = Table("", "1 worker", "2 workers")
    for index, clock in enumerate(("by the clock", "by the busiest processor")):
        for name, shown in (("DataLoader", "`DataLoader`"), ("ours", "ours")):
            table.add(f"{shown}, {clock}", *(f"{found[name, workers][index]:,.0f}" for workers in (1, 2)))
    table.show()
    passed = True
    for kind, index in (("clock", 0), ("processor", 1)):
        beside = [found["ours", w][index] / found["DataLoader", w][index] for w in (1, 2)]
        gain = found["ours", 2][index] / found["ours", 1][index]
        held = min(beside) >= 1.0 and gain >= 1.6
        passed = passed and (held or kind == "clock")  # the clock depends on what else runs here
        print(
            f"by {kind}: ours / DataLoader {beside[0]:.2f}x with one worker, {beside[1]:.2f}x with two (at least 1.0); "
            f"two workers {gain:.2f}x one (at least 1.6): {'held' if held else 'NOT held'}"
        )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
