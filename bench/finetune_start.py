"""Fine-tuning from a linear probe beside fine-tuning from zero, on photographs (docs/evidence/finetuning.md).

The frozen probe is the start with no step after it. Each row is one training on half of the photographs of some
classes, judged on the other half; learning rates are shown, not chosen.

    UNSEEN_GOLDEN_DATA=... python bench/finetune_start.py [--size 96] [--classes 20] [--per-class 10] [--steps 30]
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import torch

from unseen.backbones import load_backbone
from unseen.data import load_dataset
from unseen.finetuning.train import FinetuneOptions, finetune
from unseen.finetuning.trainer import Start

MODEL = "packaged:efficientnet-lite0"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--classes", type=int, default=20)
    parser.add_argument("--per-class", type=int, default=10)
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()
    photos = Path(os.environ.get("UNSEEN_GOLDEN_DATA", "")) / "photos" / "caltech101" / "images"
    if not photos.is_dir():
        print("UNSEEN_GOLDEN_DATA is not set to a folder with photos/caltech101: nothing was measured")
        return 0
    torch.set_num_threads(1)
    backbone = load_backbone(f"{MODEL}?size={options.size}")
    data = load_dataset(f"folder:{photos}?test=0.5&classes={options.classes}&per_class={options.per_class}")
    train, test = data.split("train"), data.split("test")
    print(f"{MODEL} at {options.size} pixels, {len(train)} photographs to train on, {len(test)} to test on, one seed\n")
    print("| start | steps of 32 | learning rate | top-1 (%) | loss, first and last |")
    print("|---|---|---|---|---|")
    runs: list[tuple[Start, int, float]] = [("probe", 0, 0.01)]
    runs += [("probe", options.steps, rate) for rate in (0.01, 0.001)]
    runs += [("zero", options.steps, rate) for rate in (0.1, 0.03)]
    reached: dict[tuple[Start, bool], float] = {}
    for start, steps, rate in runs:
        found = finetune(
            backbone,
            train,
            test,
            classes=len(data.class_names),
            steps=steps,
            learning_rate=rate,
            batch_size=32,
            seed=0,
            options=FinetuneOptions(start=start, device="cpu"),
        )
        losses = f"{found.history[0][2]:.3f}, {found.history[-1][2]:.3f}" if steps else "–"
        print(f"| {start} | {steps} | {rate if steps else '–'} | {100 * found.top1:.1f} | {losses} |", flush=True)
        key = (start, steps > 0)
        reached[key] = max(reached.get(key, 0.0), found.top1)
    held = reached["probe", True] >= reached["probe", False]
    print(f"\nfine-tuned from the probe reaches at least the frozen probe: {'held' if held else 'NOT held'}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
