"""Seven adaptations of one small vision transformer, on five tasks (docs/evidence/vtab.md).

    python bench/adaptations.py --home FOLDER     pre-train, adapt, and store rows in bench/adaptations.json; resumable
    python bench/adaptations.py --table           print the table from the stored rows

Pre-training: timm's test_vit (6 blocks of width 64, 0.30 million parameters without its head, inputs of 64 pixels) from
random weights on 22,000 rendered images with 22 classes: the location of sprites (16) and the distance of the closest
solid in a scene (6), 4,000 steps of 64 images, AdamW: 3 CPU minutes. Images are neither flipped nor cropped, which
would change the location. Two of the five tasks have these labels, on a sample of another seed; the other three are
new to it.

Adaptation: `unseen vtab run --sweep peft-1k --epochs 40 --adamw-rates 0.01,0.001,0.0001 --weight-decays 0.0001`, and
the lightweight sweep with 2,500 steps for linear; three seeds; 200 training, 50 validation and 1,000 test images of
each rendered task, and photographs of 20 classes of Caltech-101 in UNSEEN_GOLDEN_DATA.

A cell of the table has the median over seeds and their range. The mean over tasks has the 95 % confidence interval over
test images of `unseen.stats.decide`, which also decides which ranks each method may have (all pairs, Holm).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from tables import Table
from unseen.backbones import load_backbone
from unseen.benchmarks import Workbench, make_benchmark
from unseen.data import load_dataset
from unseen.finetuning.stages import train_stages
from unseen.finetuning.views import TrainView
from unseen.results.grid import unpack_correct
from unseen.stats import Candidate, Decision, decide, median_outcomes

ROWS = Path(__file__).with_name("adaptations.json")
NETWORK, SIZE, STEPS = "test_vit", 64, 4000
PRETRAINING = {"procedural:sprites-location?train=16000&val=8&test=8&seed=11": 0,
               "procedural:shapes-distance?train=6000&val=8&test=8&seed=11": 16}  # fmt: skip
CLASSES, RATE = 22, 1e-3
ADAPTATIONS = ("linear", "finetune", "lora", "adapter", "vpt", "bitfit", "partial")
RECIPE = {"sweep": "peft-1k", "epochs": 40, "adamw_rates": (0.01, 0.001, 0.0001), "weight_decays": (0.0001,)}
LINEAR = {"learning_rates": (0.1, 0.01), "steps": (2500,)}


TITLES = {
    "Sprites-Location": "sprites-location",
    "Sprites-Orientation": "sprites-orientation",
    "Caltech": "",
    "Shapes-Count": "shapes-count",
    "Shapes-Distance": "shapes-distance",
}


def task_data(title: str, home: Path) -> str:
    """Return the dataset of a task; rendered images are written as files once, which is faster than rendering again."""
    if not (name := TITLES[title]):
        photos = Path(os.environ.get("UNSEEN_GOLDEN_DATA", "")) / "photos/caltech101/images"
        return f"folder:{photos}?val=0.12&test=0.4&classes=20"
    folder = home / "tasks" / name
    if not folder.exists():
        for split, images in load_dataset(f"procedural:{name}?train=200&val=50&test=1000").splits.items():
            for i, label in enumerate(images.labels.tolist()):
                path = folder / split / f"{label:02d}" / f"{i:04d}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                images.open(i).save(path)
    return f"folder:{folder}"


def pretrain(home: Path) -> str:
    """Return the name of the pre-trained network, trained first if necessary."""
    path = home / "pretrained" / f"{NETWORK}-{STEPS}.safetensors"
    if not path.exists():
        began = time.process_time()
        parts = [(load_dataset(name).split("train"), offset) for name, offset in PRETRAINING.items()]
        shifted = [split.take(np.arange(len(split)), split.labels + offset) for split, offset in parts]
        train_stages(
            NETWORK, shifted[0].join(shifted[1]), path.parent, classes=CLASSES, stages=[STEPS], size=SIZE,
            learning_rate=RATE, view=TrainView(),
            progress=lambda done, steps, loss: print(f"{done} {loss:.3f}", flush=True) if done % 100 == 0 else None,
        )  # fmt: skip
        print(f"pre-training: {time.process_time() - began:.0f} CPU seconds", flush=True)
    return f"file:{path}?arch=timm:{NETWORK}&size={SIZE}"


def adapt(home: Path) -> None:
    """Evaluate every adaptation on every task that has no row yet."""
    model, bench = pretrain(home), Workbench(home)
    load_backbone(model)
    rows: list[dict[str, Any]] = json.loads(ROWS.read_text()) if ROWS.exists() else []
    for task in TITLES:
        data = task_data(task, home)
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
                    "chosen": results[0].details["chosen"],
                    "trainable": results[0].details["trainable"],
                    "classes": results[0].details["classes"],
                    "seconds": round(time.process_time() - began, 1),
                    "correct": [result.details["correct"] for result in results],
                }
            )
            print({name: value for name, value in rows[-1].items() if name != "correct"}, flush=True)
            ROWS.write_text(json.dumps(rows, indent=1) + "\n")


def decision(rows: list[dict[str, Any]], columns: list[str]) -> Decision:
    """Decide on the mean over tasks of the median over seeds, method by method, on the same test images."""
    found: dict[str, Candidate] = {}
    for adaptation in ADAPTATIONS:
        own = {row["task"]: row for row in rows if row["adaptation"] == adaptation}
        parts = [median_outcomes(np.stack([unpack_correct(text) for text in own[t]["correct"]])) for t in columns]
        labels = np.repeat(np.arange(len(columns)), [len(part) for part in parts])
        found[adaptation] = Candidate(outcomes=np.concatenate(parts), labels=labels, units="tasks")
    return decide(found)


def table() -> None:
    """Print the stored rows: medians over seeds with the range, the trained parameters, and the decision."""
    rows = json.loads(ROWS.read_text())
    columns = [task for task in TITLES if {r["adaptation"] for r in rows if r["task"] == task} == {*ADAPTATIONS}]
    width = load_backbone(f"random:{NETWORK}?size={SIZE}").feature_dim
    shown = Table("", "trained parameters", *columns, "mean of tasks [95 % CI]", "rank")
    first = {task: next(row for row in rows if row["task"] == task) for task in columns}
    found = decision(rows, columns)
    for adaptation in ADAPTATIONS:
        own = {row["task"]: row for row in rows if row["adaptation"] == adaptation}
        trained = {own[task]["trainable"] - own[task]["classes"] * (width + 1) for task in columns}
        cells = [f"{median(v):.1f} ({min(v):.1f} to {max(v):.1f})" for v in (own[task]["top1"] for task in columns)]
        low, mean, high = (100 * getattr(found.intervals[adaptation], name) for name in ("low", "value", "high"))
        places = "–".join(str(place) for place in sorted({*found.places[adaptation]}))
        shown.add(f"`{adaptation}`", f"{max(trained):,} + head", *cells, f"{mean:.1f} [{low:.1f}, {high:.1f}]", places)
    shown.add("chance", "", *(f"{100 / first[task]['classes']:.1f}" for task in columns), "", "")
    shown.show()
    pairs = [f"{a} > {b}" for i, a in enumerate(found.order) for b in found.order[i + 1 :]
             if found.pairs[a, b].significant]  # fmt: skip
    print(f"significant after Holm, {len(pairs)} of {len(found.pairs) // 2} pairs: {', '.join(pairs) or 'none'}")
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
