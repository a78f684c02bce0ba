"""What a prior over checkpoints saves: regret after k candidates on a task that it has not seen, leave one task out.

    python bench/rank_prior.py --data FOLDER

FOLDER contains `tll_model_selection.json` (fine-tuned accuracy of 10 checkpoints on 8 tasks, Transfer-Learning-Library)
and `vtab_results.csv` (16 methods on 19 tasks with 1,000 and with all examples, VTAB).
"""

from __future__ import annotations

import argparse
import csv
import json
import os
from math import comb
from pathlib import Path

import numpy as np

from unseen.ranking.prior import fit_prior, shortlist

#: Top-1 accuracy on ImageNet-1K and millions of parameters without the classifier, from torchvision's documentation.
TORCHVISION = {
    "GoogleNet": (69.8, 5.6), "Inception V3": (77.3, 25.1), "ResNet50": (76.1, 23.5), "ResNet101": (77.4, 42.5),
    "ResNet152": (78.3, 58.1), "DenseNet121": (74.4, 7.0), "DenseNet169": (75.6, 12.5), "Densenet201": (76.9, 18.1),
    "MobileNet V2": (71.9, 2.2), "MNasNet": (73.5, 3.1),
}  # fmt: skip
KEPT = (1, 2, 3, 5)


def read_tables(folder: Path) -> dict[str, dict[tuple[str, str], float]]:
    """Return accuracies by (checkpoint, task) of each published table."""
    tll = json.loads((folder / "tll_model_selection.json").read_text())
    found = {
        "fine-tuning, 10 checkpoints x 8 tasks": {
            (model, task): row["Finetuned Acc"]
            for task, values in tll.items()
            for model, row in values["scores"].items()
        }
    }
    with (folder / "vtab_results.csv").open(newline="") as file:
        kinds, tasks, _, *rows = csv.reader(file)
    for kind in ("1000", "full"):
        columns = [i for i, text in enumerate(kinds) if text == kind]
        table = {(row[0], tasks[i]): float(row[i]) for row in rows for i in columns}
        found[f"VTAB, {kind} examples, {len(rows)} methods x {len(columns)} tasks"] = table
    return found


def random_regret(values: np.ndarray, k: int) -> float:
    """Return the expected regret of the best of k random candidates."""
    ordered = np.sort(values)[::-1]
    n = len(ordered)
    return sum(float(ordered[0] - ordered[i]) * comb(n - 1 - i, k - 1) / comb(n, k) for i in range(n - k + 1))


def leave_one_out(table: dict[tuple[str, str], float]) -> list[list[float]]:
    """Return for each k: regret by the prior, by random order, by ImageNet accuracy, predicted and actual risk."""
    models = list(dict.fromkeys(model for model, _ in table))
    tasks = list(dict.fromkeys(task for _, task in table))
    sizes = {model: TORCHVISION[model][1] for model in models if model in TORCHVISION}
    known = all(model in TORCHVISION for model in models)
    rows = []
    for k in KEPT:
        found = []
        for task in tasks:
            values = np.array([table[model, task] for model in models])
            prior = fit_prior({key: value for key, value in table.items() if key[1] != task}, models, sizes)
            kept, risk = shortlist(prior, k)
            order = sorted(models, key=lambda model: -TORCHVISION[model][0])[:k] if known else []
            best = values.max()
            found.append((
                best - max(table[model, task] for model in kept),
                random_regret(values, k),
                best - max(table[model, task] for model in order) if order else np.nan,
                risk,
                float(models[int(values.argmax())] not in kept),
            ))  # fmt: skip
        rows.append([k, *np.mean(found, axis=0).tolist()])
    return rows


def size_share(table: dict[tuple[str, str], float]) -> float:
    """Return the share of variance of checkpoint effects that their size predicts, leave one checkpoint out."""
    models = list(dict.fromkeys(model for model, _ in table))
    sizes = {model: TORCHVISION[model][1] for model in models}
    effects = fit_prior(table, models).mean
    guesses = [
        fit_prior({key: value for key, value in table.items() if key[0] != model}, [model], sizes).mean[0]
        for model in models
    ]
    return 1 - float(((effects - guesses) ** 2).sum() / ((effects - effects.mean()) ** 2).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("UNSEEN_GOLDEN_DATA", ".")) / "results")
    arguments = parser.parse_args()
    print("| table | candidates evaluated | regret: prior | random order | ImageNet order | risk: predicted | actual |")
    print("|---|---|---|---|---|---|---|")
    for name, table in read_tables(arguments.data).items():
        for k, prior, chance, imagenet, risk, actual in leave_one_out(table):
            order = "–" if np.isnan(imagenet) else f"{imagenet:.2f}"
            print(f"| {name} | {k:.0f} | {prior:.2f} | {chance:.2f} | {order} | {risk:.0%} | {actual:.0%} |")
        if any(model in TORCHVISION for model, _ in table):
            share = size_share(table)
    print(
        f"\nThe number of parameters predicts the effect of a checkpoint without results: R² {share:.2f} "
        "(10 checkpoints)."
    )


if __name__ == "__main__":
    main()
