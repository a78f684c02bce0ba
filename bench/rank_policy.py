"""Choose the default of `unseen rank --prefer` by held-out regret: real tasks, ten candidates, cost in operations.

    python bench/rank_features.py --folder FOLDER --models   features of ten candidates on six tasks, once
    python bench/rank_policy.py --folder FOLDER              rankings, and their summary in bench/rank_policy.json
    python bench/rank_policy.py --table                      the table of docs/evidence/rank.md

A data set is a sample of the images of a task: 3, 8 or 20 images of each of at most 20 classes, if five classes
or more have two more. Each task has 30 sets. The ranking sees the sample; the true accuracy of a candidate is
that of the probe that was fitted on all of the sample, on other images of its classes. The regret of a policy is the
true accuracy of the best candidate minus that of the recommended one, and its saving is how many times cheaper the
recommended one is than the first by expected accuracy (geometric mean).

A default that costs at most 0.3 points more than the first by expected accuracy, and saves most, is chosen on all tasks
but one, and tested on that one.
"""

from __future__ import annotations

import argparse
import json
import math
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rank_calibration import Sample, tested
from rank_features import MODELS, load
from tables import Table

SUMMARY = Path(__file__).with_name("rank_policy.json")
TASKS = ("photos", "emoji", "grocery", "coarse", "location", "count")
SIZES, CLASSES, SETS = (3, 8, 20), 20, 30
#: Fewest classes of a data set, and fewest images of each that are not in the sample.
FEWEST_CLASSES, LEFT = 5, 2
#: Points that the recommendation may lose in comparison with the first by expected accuracy.
ALLOWED = 0.3
#: Defaults that are tried: the largest loss of expected accuracy in points, and how many times cheaper.
DEFAULTS = [(points, cheaper) for points in (0.5, 1.0, 2.0, 3.0) for cheaper in (1.5, 2.0, 4.0)]


def one(folder: Path, task: str, size: int, seed: int, flops: dict[str, int]) -> dict[str, Any]:
    """Return the stored details and the true accuracy of every candidate on one data set."""
    from unseen.benchmarks.rank import expected
    from unseen.benchmarks.rank.details import RankDetails
    from unseen.probes import solvers

    labels = load(folder, task, MODELS[0])["labels"]
    rng = np.random.default_rng([seed, size, 11])
    names, counts = np.unique(labels, return_counts=True)
    names = rng.permutation(names[counts >= size + LEFT])[:CLASSES]
    taken = np.concatenate([rng.permutation(np.flatnonzero(labels == c))[:size] for c in names])
    rest = np.setdiff1d(np.flatnonzero(np.isin(labels, names)), taken)
    shares = {int(c): 1 / len(names) for c in names}
    row: dict[str, Any] = {"task": task, "details": {}, "truth": {}}
    original = solvers.solve
    for model in MODELS:
        features, kept = load(folder, task, model)["features"].astype(np.float32), []

        def solve(*arguments: Any, kept: list[Any] = kept) -> Any:
            kept.append(original(*arguments))
            return kept[-1]

        solvers.solve = solve  # the fit on all images, beside the folds, is the probe that is tested
        try:
            found = expected.cross_validated(features[taken], labels[taken], "class", seed=seed)
        finally:
            solvers.solve = original
        sample = Sample(features[taken], labels[taken], features[rest], labels[rest], shares)
        row["truth"][model], _ = tested(kept[0][0].model, sample)
        value, images = expected.expect(found)
        written = expected.packed(found.outcomes, np.arange(len(taken)), len(taken))
        units = len(np.unique(found.groups))
        row["details"][model] = RankDetails(
            outcomes=written, expected=value, size=images, units=units, images=len(taken), flops=flops[model]
        )
    return row


def run(folder: Path) -> list[dict[str, Any]]:
    import torch

    from unseen.benchmarks.workbench import Workbench

    torch.set_num_threads(1)
    bench = Workbench(folder / "home")
    flops = {model: int(bench.card(model).flops or 0) for model in MODELS}
    rows = []
    for task in TASKS:
        counts = np.unique(load(folder, task, MODELS[0])["labels"], return_counts=True)[1]
        sizes = [size for size in SIZES if (counts >= size + LEFT).sum() >= FEWEST_CLASSES]
        rows += [one(folder, task, size, seed, flops) for size in sizes for seed in range(SETS // len(sizes))]
        print(task, len(rows), flush=True)
    (folder / "policy.pickle").write_bytes(pickle.dumps(rows))
    return rows


def outcome(row: dict[str, Any], policy: tuple[str, float, float]) -> tuple[float, float, float]:
    """Return the regret in points of a policy on a data set, its saving (log), and whether it is not the first."""
    from unseen.benchmarks.rank import candidates
    from unseen.benchmarks.rank.answer import answer
    from unseen.core.records import Cell, Result

    results = [
        Result(Cell("rank", model, row["task"], {"score": "probe", "layer": "pooled"}), details=details.to_dict())
        for model, details in row["details"].items()
    ]
    if "ranking" not in row:  # the same for all policies
        row["ranking"] = answer(results)
    prefer, points, cheaper = policy
    before = candidates._POLICIES
    candidates._POLICIES = before | {"": (points / 100, cheaper)}
    try:
        choice = replace(row["ranking"], prefer=prefer).choice
    finally:
        candidates._POLICIES = before
    first, best = row["ranking"].candidates[0], max(row["truth"].values())
    return 100 * (best - row["truth"][choice.model]), math.log(first.flops / choice.flops), choice is not first


def summarise(rows: list[dict[str, Any]]) -> None:
    """Store the means of every policy, and of the default that is chosen without each task."""
    policies = {"accuracy": ("accuracy", 0.0, 1.0), "cheap": ("cheap", 0.0, 1.0)}
    policies |= {f"default: {p:g} points, {c:g} times cheaper": ("", p, c) for p, c in DEFAULTS}
    found = {name: np.array([outcome(row, policy) for row in rows]) for name, policy in policies.items()}
    of = np.array([row["task"] for row in rows])

    def best(chosen: np.ndarray) -> str:
        loss = {n: found[n][chosen, 0].mean() - found["accuracy"][chosen, 0].mean() for n in policies if "default" in n}
        able = [n for n in loss if loss[n] <= ALLOWED] or [min(loss, key=lambda n: loss[n])]
        return max(able, key=lambda n: found[n][chosen, 1].mean())

    held = {task: best(of != task) for task in TASKS}
    found["default that is chosen without the task"] = np.array([found[held[t]][i] for i, t in enumerate(of)])
    means = {name: values.mean(axis=0).tolist() for name, values in found.items()}
    by_task = {name: [float(values[of == t, 0].mean()) for t in held] for name, values in found.items()}
    summary = {"sets": len(rows), "held": held, "chosen": best(of != ""), "means": means}
    SUMMARY.write_text(json.dumps(summary | {"by_task": by_task}, indent=1) + "\n")
    print("chosen on all tasks:", summary["chosen"], "without each task:", held)


def table() -> Table:
    """Return the table of docs/evidence/rank.md."""
    stored = json.loads(SUMMARY.read_text())
    shown = Table("policy", "regret (points)", *TASKS, "more than accuracy", "times cheaper", "not the first")
    first = stored["means"]["accuracy"][0]
    for name, (regret, saving, other) in stored["means"].items():
        by_task = (f"{value:.2f}" for value in stored["by_task"][name])
        mark = " (chosen)" if name == stored["chosen"] else ""
        saved = f"{math.exp(saving):.2f}"
        shown.add(f"{name}{mark}", f"{regret:.2f}", *by_task, f"{regret - first:+.2f}", saved, f"{other:.0%}")
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="of bench/rank_features.py")
    parser.add_argument("--table", action="store_true", help="from the stored summary")
    options = parser.parse_args()
    if not options.table:
        stored = options.folder / "policy.pickle"
        summarise(pickle.loads(stored.read_bytes()) if stored.is_file() else run(options.folder))
    table().show()


if __name__ == "__main__":
    main()
