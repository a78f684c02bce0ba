"""Which default probe: every contender on real features, cell by cell, in one run on one thread.

    OMP_NUM_THREADS=1 python bench/probe_cells.py                      all cells, five seeds: hours on one core
    OMP_NUM_THREADS=1 python bench/probe_cells.py --slow-seeds 1       scikit-learn, `paper` and AdamW on one seed each
    python bench/probe_cells.py --read cells.json --docs docs/probes.md     only write the table

A cell is a task (14 and 5 kinds of groceries, 150 emoji, 95 kinds of photographs), a network (EfficientNet-Lite0, 1, 2,
a random ResNet-18) and a number of images per class. All contenders see the same images. LogisticRegressionCV gets the
same penalties, the same folds and the same unit-length features. Seconds are CPU time. A contender that ran on fewer
seeds is placed by its mean paired difference to `logistic`. Exits with 1 where a target is missed.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegressionCV
from sklearn.preprocessing import normalize

from probe_sets import NETWORKS, TASKS, Features, load
from unseen.probes import SEEDS, Draw, draw_rows, evaluate_probe
from unseen.probes.folds import draw_folds
from unseen.probes.logistic import PENALTIES

SHOTS: tuple[int | str, ...] = (1, 2, 4, 8, 16, "all")
OURS = ("logistic", "ridge", "knn", "ncm")
SLOW = ("LogisticRegressionCV", "LogisticRegressionCV, tol 1e-6", "paper", "AdamW")
Cell = dict[str, Any]


def scikit_learn(data: Features, draw: Draw, tolerance: float = 1e-4, iterations: int = 100) -> float:
    """LogisticRegressionCV over the same penalties and folds."""
    features, labels = normalize(data.train)[draw.final], data.train_labels[draw.final]
    index = np.unique(labels, return_inverse=True)[1]
    folds, fits = draw_folds(index, draw.seed)
    trace = float(((features - features.mean(0)) ** 2).sum(1).mean())
    strengths = [1.0 / (p * trace * len(labels) * (fits - 1) / fits) for p in PENALTIES]
    parts = [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in range(fits)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegressionCV(Cs=strengths, cv=parts, tol=tolerance, max_iter=iterations).fit(features, labels)
    return float((model.predict(normalize(data.test)) == data.test_labels).mean())


def adamw(data: Features, draw: Draw) -> float:
    """The usual script: features as they are, AdamW at 1e-3 with a cosine, batches of 256, 100 epochs."""
    torch.manual_seed(draw.seed)
    names, index = np.unique(data.train_labels[draw.final], return_inverse=True)
    rows, labels = torch.from_numpy(data.train[draw.final]), torch.from_numpy(index)
    model = torch.nn.Linear(rows.shape[1], len(names))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    for epoch in range(100):
        for batch in torch.randperm(len(rows)).split(256):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(rows[batch]), labels[batch]).backward()
            optimizer.step()
        optimizer.param_groups[0]["lr"] = 1e-3 * 0.5 * (1 + math.cos(math.pi * (epoch + 1) / 100))
    with torch.no_grad():
        found = model(torch.from_numpy(data.test)).argmax(1).numpy()
    return float((names[found] == data.test_labels).mean())


def paper(data: Features, draw: Draw) -> float:
    """The published search."""
    return evaluate_probe(*data, solver="paper", shots=draw.shots, seeds=[draw.seed])[0].top1


REFERENCES: dict[str, Callable[[Features, Draw], float]] = {
    "LogisticRegressionCV": scikit_learn,
    "LogisticRegressionCV, tol 1e-6": lambda data, draw: scikit_learn(data, draw, 1e-6, 10_000),
    "paper": paper,
    "AdamW": adamw,
}


def run_cell(data: Features, shots: int | str, seeds: list[int], slow_seeds: int, tight_budget: float) -> Cell:
    """Accuracies in percent by seed, and CPU seconds per seed, of every contender."""
    cell: Cell = {"accuracy": {}, "seconds": {}, "expected": []}
    for name in OURS:
        began = time.process_time()
        records = evaluate_probe(*data, solver=name, shots=shots, seeds=seeds)  # type: ignore[arg-type]
        cell["seconds"][name] = (time.process_time() - began) / len(seeds)
        cell["accuracy"][name] = [100 * record.top1 for record in records]
        if name == "logistic":
            cell["expected"] = [record.expected for record in records]
            cell["chosen"] = [record.best["regularization"] for record in records]
    rooted = evaluate_probe(*data, shots=shots, seeds=seeds, square_root=True)  # type: ignore[arg-type]
    cell["accuracy"]["logistic, square roots"] = [100 * record.top1 for record in rooted]
    for name in SLOW if shots != 1 else ():
        if "tol" in name and cell["seconds"]["LogisticRegressionCV"] > tight_budget:
            continue
        began, found = time.process_time(), []
        for seed in seeds[:slow_seeds]:
            draw = draw_rows(data.train_labels, seed=seed, shots=[shots])[0]  # type: ignore[list-item]
            found.append(100 * REFERENCES[name](data, draw))
        cell["seconds"][name] = (time.process_time() - began) / len(found)
        cell["accuracy"][name] = found
    return cell


def placed(cell: Cell) -> dict[str, float]:
    """Mean accuracy of every contender; those of fewer seeds by their paired difference to `logistic`."""
    ours = cell["accuracy"]["logistic"]
    return {
        name: float(np.mean(ours) + np.mean(np.subtract(found, ours[: len(found)])))
        for name, found in cell["accuracy"].items()
    }


def summarise(cells: dict[str, Cell]) -> tuple[list[str], bool]:
    """The table as lines of Markdown, and whether the targets are met."""
    several = {name: cell for name, cell in cells.items() if cell["shots"] != 1}
    means = {name: placed(cell) for name, cell in several.items()}
    best = {name: max(v for k, v in found.items() if "square" not in k) for name, found in means.items()}
    head = f"| {len(several)} cells of 2 shots to all | cells | mean % | average loss to the cell's best | worst loss "
    head += "| standard deviation over draws at 4 shots, worst | CPU s, median |"
    lines = [
        head,
        "|---|---|---|---|---|---|---|",
    ]
    losses: dict[str, list[float]] = {}
    for contender in (*OURS, "logistic, square roots", *SLOW):
        chosen = [name for name in several if contender in means[name]]
        if not chosen:
            continue
        losses[contender] = [best[name] - means[name][contender] for name in chosen]
        spread = [np.std(several[n]["accuracy"][contender], ddof=1) for n in chosen if several[n]["shots"] == 4]
        wide = len(several[chosen[0]]["accuracy"][contender]) > 1
        seconds = [several[n]["seconds"][contender] for n in chosen if contender in several[n]["seconds"]]
        lines.append(
            f"| {contender} | {len(chosen)} | {np.mean([means[n][contender] for n in chosen]):.1f} "
            f"| {np.mean(losses[contender]):.2f} | {max(losses[contender]):.1f} "
            f"| {f'{max(spread):.1f}' if wide else '-'} | {f'{np.median(seconds):.2f}' if seconds else '-'} |"
        )
    once = [placed(cell) for cell in cells.values() if cell["shots"] == 1]
    if once:
        lines += ["", "| one image per class | " + " | ".join(OURS) + " |", "|---" * (len(OURS) + 1) + "|"]
        figures = " | ".join(f"{np.mean([found[name] for found in once]):.1f}" for name in OURS)
        lines.append(f"| mean % over {len(once)} cells | {figures} |")
    ratios = [c["seconds"]["LogisticRegressionCV"] / c["seconds"]["logistic"] for c in several.values()]
    draws = [np.std(c["accuracy"]["logistic"], ddof=1) for c in several.values() if c["shots"] == 4]
    targets = [
        ("average loss at most 0.6", np.mean(losses["logistic"]), np.mean(losses["logistic"]) <= 0.6),
        ("worst loss at most 2.5", max(losses["logistic"]), max(losses["logistic"]) <= 2.5),
        ("standard deviation at 4 shots at most 6", max(draws), max(draws) <= 6),
        ("LogisticRegressionCV takes at least 8 times as long, median", np.median(ratios), np.median(ratios) >= 8),
        ("at least 5 times in every cell", min(ratios), min(ratios) >= 5),
    ]
    lines += ["", *(f"- {text}: {value:.2f} ({'met' if met else 'MISSED'})" for text, value, met in targets)]
    return lines, all(met for _, _, met in targets)


def write_docs(path: Path, lines: list[str]) -> None:
    """Put the table between its markers."""
    head, rest = path.read_text(encoding="utf-8").split("<!-- probe_cells -->\n")
    tail = rest.split("<!-- /probe_cells -->")[1]
    path.write_text(
        f"{head}<!-- probe_cells -->\n" + "\n".join(lines) + f"\n<!-- /probe_cells -->{tail}", encoding="utf-8"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, default=None, help="where features are kept")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--slow-seeds", type=int, default=len(SEEDS), help="of scikit-learn, `paper` and AdamW")
    parser.add_argument("--tight-budget", type=float, default=math.inf, help="CPU s beyond which tol 1e-6 is not tried")
    parser.add_argument("--save", type=Path, default=Path("probe_cells.json"))
    parser.add_argument("--read", type=Path, default=None, help="figures of an earlier run")
    parser.add_argument("--docs", type=Path, default=None, help="page to write the table into")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", ConvergenceWarning)
    cells: dict[str, Cell] = json.loads(options.read.read_text()) if options.read else {}
    for network in [] if options.read else options.networks:
        for task in options.tasks:
            data = load(task, network, options.home)
            largest = int(np.bincount(data.train_labels).max())
            for shots in SHOTS:
                if isinstance(shots, int) and shots >= largest:
                    continue  # all images, once more
                name = f"{task}, {network}, {shots}"
                found = run_cell(data, shots, list(SEEDS[: options.seeds]), options.slow_seeds, options.tight_budget)
                cells[name] = found | {"shots": shots}
                figures = ", ".join(
                    f"{k} {v:.1f} ({found['seconds'].get(k, math.nan):.2f} s)" for k, v in placed(found).items()
                )
                print(f"{name}: {figures}", flush=True)
                options.save.write_text(json.dumps(cells))
    lines, met = summarise(cells)
    print("\n".join(lines))
    if options.docs:
        write_docs(options.docs, lines)
    raise SystemExit(0 if met else 1)


if __name__ == "__main__":
    main()
