"""Choose the default of `unseen rank --prefer` by held-out regret: real tasks, ten candidates, cost in operations.

    python bench/rank_features.py --folder FOLDER --models   features of ten candidates on six tasks, once
    python bench/rank_policy.py --folder FOLDER              rankings, and their summary in bench/rank_policy.json
    python bench/rank_policy.py --table                      the table of docs/evidence/rank.md

A data set is a sample of the images of a task: 3, 8 or 20 images of each of at most 20 classes, if five classes
or more have two more. Each task has 30 sets. The ranking sees the sample; the true accuracy of a candidate is
that of the probe that was fitted on all of the sample, on other images of its classes. The regret of a policy is the
true accuracy of the best candidate minus that of the recommended one, and its saving is how many times cheaper the
recommended one is than the first by expected accuracy (geometric mean).

A default requires that a candidate is twice as cheap. The largest loss that it may allow is chosen on all tasks but
one, so that it costs at most 0.3 points more than the first by expected accuracy, and is tested on that one.
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
#: Points that the recommendation may lose in comparison with the first by expected accuracy, and how many times
#: cheaper it must be for that.
ALLOWED, CHEAPER = 0.3, 2.0
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
    policies |= {named(p, c): ("", p, c) for p, c in DEFAULTS}
    found = {name: np.array([outcome(row, policy) for row in rows]) for name, policy in policies.items()}
    of = np.array([row["task"] for row in rows])
    means = {name: values.mean(axis=0).tolist() for name, values in found.items()}
    by_task = {name: [float(values[of == t, 0].mean()) for t in TASKS] for name, values in found.items()}
    SUMMARY.write_text(json.dumps({"sets": len(rows), "means": means, "by_task": by_task}, indent=1) + "\n")


def named(points: float, cheaper: float) -> str:
    return f"default: {points:g} points, {cheaper:g} times cheaper"


def best(by_task: dict[str, list[float]], tasks: list[int]) -> str:
    """Return the default of the largest loss that costs at most ALLOWED points more than the first, on some tasks."""
    price = {name: np.subtract(found, by_task["accuracy"])[tasks].mean() for name, found in by_task.items()}
    able = [points for points, cheaper in DEFAULTS if cheaper == CHEAPER and price[named(points, cheaper)] <= ALLOWED]
    return named(max(able), CHEAPER)


def table() -> Table:
    """Return the table of docs/evidence/rank.md."""
    stored = json.loads(SUMMARY.read_text())
    means, by_task, places = stored["means"], stored["by_task"], range(len(TASKS))
    chosen, held = best(by_task, list(places)), [best(by_task, [o for o in places if o != t]) for t in places]
    # A default that allows a larger loss never saves less: what several of them save together lies between them.
    rows = {name: (by_task[name], [values[1:]]) for name, values in means.items()}
    without = [by_task[held[t]][t] for t in places]
    rows["default that is chosen without the task"] = without, sorted({tuple(means[name][1:]) for name in held})
    shown = Table("policy", "regret (points)", *TASKS, "more than accuracy", "times cheaper", "not the first")
    for name, (own, savings) in rows.items():
        mark = " (chosen)" if name == chosen else ""
        more = np.mean(own) - np.mean(by_task["accuracy"])
        saved = (
            " to ".join(texts) for texts in zip(*((f"{math.exp(s):.2f}", f"{o:.0%}") for s, o in savings), strict=True)
        )
        shown.add(f"{name}{mark}", f"{np.mean(own):.2f}", *(f"{value:.2f}" for value in own), f"{more:+.2f}", *saved)
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
