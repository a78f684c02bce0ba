"""NeuCRaB's Group II in small: two architectures, two training sources, three stages each; four tasks.

    python bench/rank_stages.py --home FOLDER    train the checkpoints, score and fine-tune all of them; resumes
    python bench/rank_stages.py --table          the table of docs/evidence/rank.md from the stored rows

The architectures are `test_resnet` and `test_vit` of timm (inputs of 64 pixels); the sources are 150 concepts of emoji
and the orientation of sprites, whose images are not flipped. Each task has about 160 training images. Fine-tuning
follows `bench/rank_truth.py`. The scores are those of the paper's tables, and the defaults of `unseen rank`. Rows go to
bench/rank_stages.json; below each stands the paper's row of Group II (Table 2: 12 checkpoints of larger networks, four
tasks).
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

from rank_truth import OPTIONS, tasks
from tables import Table

ROWS = Path(__file__).with_name("rank_stages.json")
ARCHITECTURES = ("test_resnet", "test_vit")
SOURCES = {
    "emoji": ("packaged:emoji?classes=150&seed=7", 150, True),
    "sprites": ("procedural:sprites-orientation?train=1500&val=50&test=50&seed=9", 16, False),
}
STAGES = (30, 100, 300)
TASKS = ("coarse", "emoji", "photos", "count")
SCORES = ("linear-1", "linear-5", "linear", "finetune-1", "finetune-5", "mi-0.01", "mi-0.50", "mi-pca-0.01",
          "mi-pca-0.50", "leep", "nleep", "logme", "parc", "knn")  # fmt: skip


def checkpoints(home: Path) -> list[str]:
    """Return the names of the checkpoints; train those that do not exist."""
    from unseen.data import load_dataset
    from unseen.finetuning.stages import train_stages
    from unseen.finetuning.views import TrainView

    names = []
    for network in ARCHITECTURES:
        for source, (data, classes, flip) in SOURCES.items():
            folder = home / "stages" / source
            files = [folder / f"{network}-{steps}.safetensors" for steps in STAGES]
            if not all(file.is_file() for file in files):
                view = TrainView("resize-crop", flip=flip)
                train, sizes = load_dataset(data).split("train"), {"size": 64, "batch_size": 32}
                train_stages(network, train, folder, classes=classes, stages=STAGES, view=view, **sizes)
            names += [f"file:{file}?arch=timm:{network}&size=64" for file in files]
    return names


def run(home: Path) -> None:
    from unseen.benchmarks.rank.table import ranking_rows
    from unseen.study import Study, run_study

    began = time.process_time()
    models, named = checkpoints(home), tasks()
    options = OPTIONS | {"scores": list(SCORES), "truth": True}
    study = Study("stages", tuple(models), tuple(named[task] for task in TASKS), {"rank": options})
    results = run_study(study, home).results
    for result in results:
        if not result.ok:
            print(result.cell.model, result.cell.dataset, result.error, flush=True)
    rows = [{"score": row.cell.model, **row.metrics} for row in ranking_rows(results)]
    cpu = time.process_time() - began
    ROWS.write_text(json.dumps({"cpu_seconds": cpu, "checkpoints": len(models), "rows": rows}, indent=1) + "\n")
    print(f"{len(models)} checkpoints, {len(TASKS)} tasks: {cpu:.0f} CPU seconds in this run")


def table() -> Table:
    """Return our Group II, and below each score the row of the paper's Table 2, which has the same columns."""
    from unseen.benchmarks.rank.table import published_results
    from unseen.ranking.cards import find_score

    columns = ("recall_at_1", "relative_at_1", "recall_at_3", "relative_at_3", "pearson", "kendall")
    paper = {r.cell.model: r.metrics for r in published_results() if "Group II," in r.cell.dataset}
    shown = Table("score", "Recall@1", "Rel@1", "Recall@3", "Rel@3", "Pearson", "Kendall", "GFLOPs as the paper counts")
    for row in json.loads(ROWS.read_text())["rows"]:
        for source, metrics in (("", row), (", in the paper", paper.get(row["score"]))):
            if metrics:
                cost = metrics["paper_gflops"]
                numbers = (f"{100 * metrics[name]:.2f}" for name in columns)
                title = f"{find_score(row['score']).name}{source}"
                shown.add(title, *numbers, "" if math.isnan(cost) else f"{cost:.3g}")
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, default=Path("rank_stages_home"))
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if not options.table:
        run(options.home)
    table().show()


if __name__ == "__main__":
    main()
