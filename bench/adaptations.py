"""Seven adaptations of one small vision transformer, on five tasks (docs/evidence/vtab.md).

    python bench/adaptations.py --home FOLDER     pre-train, adapt, and store rows in bench/adaptations.json; resumable
    python bench/adaptations.py --table           print the table from the stored rows

Pre-training: timm's test_vit (6 blocks of width 64, 0.30 million parameters without its head, inputs of 64 pixels) from
random weights on 6,000 rendered images with 24 classes: the orientation of sprites (16) and the number of solids in a
scene (8), 800 steps of 64. Evaluation images have another seed.

Adaptation: `unseen vtab run --sweep peft-1k --epochs 8 --adamw-rates 0.01,0.001 --weight-decays 0.0001`, and the
lightweight sweep with 500 steps for linear; three seeds; 400 training, 100 validation and 400 test images of each
rendered task, and photographs of 30 classes of Caltech-101 in UNSEEN_GOLDEN_DATA (300, 60 and 240).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch

from tables import Table
from unseen.backbones import load_backbone
from unseen.benchmarks import Workbench, make_benchmark
from unseen.data import load_dataset
from unseen.finetuning.stages import train_stages

ROWS = Path(__file__).with_name("adaptations.json")
NETWORK, SIZE, STEPS = "test_vit", 64, 800
PRETRAINING = {"procedural:sprites-orientation?train=3000&val=8&test=8&seed=11": 0,
               "procedural:shapes-count?train=3000&val=8&test=8&seed=11": 16}  # fmt: skip
CLASSES = 24
ADAPTATIONS = ("linear", "finetune", "lora", "adapter", "vpt", "bitfit", "partial")
RECIPE = {"sweep": "peft-1k", "epochs": 8, "adamw_rates": (0.01, 0.001), "weight_decays": (0.0001,)}
LINEAR = {"learning_rates": (0.1, 0.01), "steps": (500,)}


def tasks() -> dict[str, str]:
    """The tasks by the title of their column."""
    made = "?train=400&val=100&test=400"
    photos = Path(os.environ.get("UNSEEN_GOLDEN_DATA", "")) / "photos/caltech101/images"
    return {
        "Sprites-Location": f"procedural:sprites-location{made}",
        "Sprites-Orientation": f"procedural:sprites-orientation{made}",
        "Shapes-Count": f"procedural:shapes-count{made}",
        "Shapes-Distance": f"procedural:shapes-distance{made}",
        "Caltech": f"folder:{photos}?val=0.12&test=0.4&classes=30",
    }


def pretrain(home: Path) -> str:
    """Return the name of the pre-trained network, trained first if necessary."""
    path = home / "pretrained" / f"{NETWORK}-{STEPS}.safetensors"
    if not path.exists():
        parts = [(load_dataset(name).split("train"), offset) for name, offset in PRETRAINING.items()]
        shifted = [split.take(np.arange(len(split)), split.labels + offset) for split, offset in parts]
        train_stages(
            NETWORK, shifted[0].join(shifted[1]), path.parent, classes=CLASSES, stages=[STEPS], size=SIZE,
            progress=lambda done, steps, loss: print(f"{done} {loss:.3f}", flush=True) if done % 100 == 0 else None,
        )  # fmt: skip
    return f"file:{path}?arch=timm:{NETWORK}&size={SIZE}"


def adapt(home: Path) -> None:
    """Evaluate every adaptation on every task that has no row yet."""
    model, bench = pretrain(home), Workbench(home)
    load_backbone(model)
    rows: list[dict[str, object]] = json.loads(ROWS.read_text()) if ROWS.exists() else []
    for task, data in tasks().items():
        for adaptation in ADAPTATIONS:
            if any((row["task"], row["adaptation"]) == (task, adaptation) for row in rows):
                continue
            began = time.process_time()
            benchmark = make_benchmark(
                "vtab", {"adaptation": adaptation, **(LINEAR if adaptation == "linear" else RECIPE)}
            )
            results = list(benchmark.evaluate(benchmark.plan(model, data), bench))
            rows.append(
                {
                    "task": task,
                    "adaptation": adaptation,
                    "top1": [round(100 * result.metrics["top1"], 2) for result in results],
                    "trainable": results[0].details["trainable"],
                    "classes": results[0].details["classes"],
                    "test_images": results[0].details["test_images"],
                    "seconds": round(time.process_time() - began, 1),
                }
            )
            print(rows[-1], flush=True)
            ROWS.write_text(json.dumps(rows, indent=1) + "\n")


def table() -> None:
    """Print the stored rows: medians over seeds with the range, and the trained parameters."""
    rows = json.loads(ROWS.read_text())
    columns = [task for task in tasks() if {r["adaptation"] for r in rows if r["task"] == task} == {*ADAPTATIONS}]
    width = load_backbone(f"random:{NETWORK}?size={SIZE}").feature_dim
    shown = Table("", "trained parameters", *columns, "mean")
    first = {task: next(row for row in rows if row["task"] == task) for task in columns}
    for adaptation in ADAPTATIONS:
        own = {row["task"]: row for row in rows if row["adaptation"] == adaptation}
        trained = {own[task]["trainable"] - own[task]["classes"] * (width + 1) for task in columns}
        medians = [median(own[task]["top1"]) for task in columns]
        cells = [f"{median(v):.1f} ({min(v):.1f} to {max(v):.1f})" for v in (own[task]["top1"] for task in columns)]
        shown.add(f"`{adaptation}`", f"{max(trained):,} + head", *cells, f"{np.mean(medians):.1f}")
    shown.add("chance", "", *(f"{100 / first[task]['classes']:.1f}" for task in columns), "")
    shown.show()
    print(f"{sum(row['seconds'] for row in rows) / 60:.0f} CPU minutes without pre-training")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.home is not None:
        adapt(options.home)
    if options.table:
        table()
    return 0


if __name__ == "__main__":
    sys.exit(main())
