"""Fine-tuning from a linear probe at the rates of VTAB's sweep, on photographs (docs/evidence/finetuning.md).

The frozen probe is the start with no step after it. "One rate for all" trains the network at the head's rate without a
limit on the gradient; the default trains it at a tenth of that rate and clips gradients to norm 1.

    UNSEEN_GOLDEN_DATA=... python bench/finetune_start.py [--rates 0.1 0.03 0.01] [--seeds 3] [--only default]
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import torch

from tables import Table
from unseen.backbones import load_backbone
from unseen.data import load_dataset
from unseen.data.subset import select
from unseen.finetuning.train import FinetuneOptions, finetune

MODEL = "packaged:efficientnet-lite0?size=96"
WAYS: dict[str, dict[str, float]] = {"one rate for all": {"clip": 0.0, "backbone_rate": 1.0}, "default": {}}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=float, nargs="+", default=[0.1, 0.03, 0.01])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", choices=list(WAYS), default=None)
    options = parser.parse_args()
    photos = Path(os.environ.get("UNSEEN_GOLDEN_DATA", "")) / "photos" / "caltech101" / "images"
    if not photos.is_dir():
        print("UNSEEN_GOLDEN_DATA is not set to a folder with photos/caltech101: nothing was measured")
        return 0
    torch.set_num_threads(1)
    backbone, data = load_backbone(MODEL), load_dataset(f"folder:{photos}?test=0.5")
    train = select(data, classes=10, per_class=8).split("train")
    test = select(data, classes=10, per_class=15).split("test")
    print(f"{MODEL}, {len(train)} photographs of 10 classes to train on, {len(test)} to test on, 30 steps of 16\n")

    def accuracy(rate: float, seed: int, steps: int, changes: dict[str, float]) -> float:
        made = FinetuneOptions(start="probe", device="cpu", **changes)  # type: ignore[arg-type]
        run = {"classes": 10, "steps": steps, "learning_rate": rate, "batch_size": 16, "seed": seed}
        return 100 * finetune(backbone, train, test, options=made, **run).top1  # type: ignore[arg-type]

    frozen = accuracy(0.01, 0, 0, {})
    ways = {name: changes for name, changes in WAYS.items() if options.only in (None, name)}
    table = Table("learning rate", "one rate for all, top-1 (%) by seed", "default, top-1 (%) by seed")
    held = True
    for rate in options.rates:
        found = {way: [accuracy(rate, s, 30, changes) for s in range(options.seeds)] for way, changes in ways.items()}
        held = held and min(found.get("default", [frozen])) >= frozen
        shown = [" / ".join(f"{value:.1f}" for value in found.get(way, ())) or "–" for way in WAYS]
        table.add(f"{rate:g}", *shown)
    table.show()
    print(f"frozen probe {frozen:.1f}; the default reaches it at every rate and seed: {'held' if held else 'NOT held'}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
