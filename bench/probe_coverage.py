"""How often the estimate of `logistic` holds: random splits of the same images, so that nothing shifts.

    OMP_NUM_THREADS=1 python bench/probe_coverage.py                 200 splits per set and number of shots: an hour
    OMP_NUM_THREADS=1 python bench/probe_coverage.py --cpu 600       ten minutes of it; the next run goes on
    python bench/probe_coverage.py --cpu 0 --docs docs/probes.md     only write the table

Each split puts 40 % of a set's images (its own splits pooled) aside at random. The probe is fitted on N per class of
the rest, and the accuracy on the images put aside is compared with `expected_interval`. The one constant of that
interval, how much few-shot draws scatter beyond their standard error, is read off the sets of `FITTED`; it is tested on
the others, whose splits had no part in it. Exits with 1 where a number of shots covers less than 90 % or more than 97 %
of those.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from probe_sets import load, write_docs
from unseen.probes import evaluate_probe
from unseen.probes.folds import SCATTER_OF_DRAWS, accuracy_interval

FITTED = [("grocery", "lite0"), ("grocery", "resnet18")]
TESTED = [("coarse", "lite0"), ("coarse", "resnet18"), ("photos", "lite0")]
SHOTS: tuple[int | str, ...] = (4, 8, 16, "all")
ASIDE = 0.4
LOWEST, HIGHEST = 0.90, 0.97
Row = dict[str, Any]


def run_split(features: Any, labels: Any, number: int) -> list[Row]:
    """Expected and found accuracies of one split, by number of shots."""
    order = np.random.default_rng([number, 7]).permutation(len(labels))
    aside, rest = np.split(order, [int(ASIDE * len(labels))])
    fewest = np.bincount(labels[rest]).min()
    counts = [n for n in SHOTS if n == "all" or (isinstance(n, int) and n <= fewest)]
    sets = features[rest], labels[rest], features[aside], labels[aside]
    return [
        {"shots": r.shots, "split": number, "expected": r.expected, "se": r.expected_se, "found": r.top1}
        | {"images": len(aside)}
        for r in evaluate_probe(*sets, shots=counts, seeds=[number])  # type: ignore[arg-type]
    ]


def covers(row: Row) -> bool:
    interval = accuracy_interval(row["expected"], row["se"], row["images"])
    return bool(interval.low <= row["found"] <= interval.high)


def scatter(rows: list[Row], drawn: bool) -> float:
    """How many times the variance of the estimate the gap has, the scatter of the test images taken away."""
    factor = SCATTER_OF_DRAWS if drawn else 1.0
    gaps = np.array([row["found"] - row["expected"] for row in rows])
    tests = np.array([row["expected"] * (1 - row["expected"]) / row["images"] for row in rows])
    own = np.array([row["se"] ** 2 / factor for row in rows])
    return float((np.mean(gaps**2) - tests.mean()) / own.mean())


def line(title: str, rows: list[Row], shots: int | str) -> str:
    expected, error, found = (100 * np.array([row[key] for row in rows]) for key in ("expected", "se", "found"))
    covered = float(np.mean([covers(row) for row in rows]))
    noise = 1.96 * math.sqrt(covered * (1 - covered) / len(rows))
    return (
        f"| {title} | {shots} | {len(rows)} | {expected.mean():.1f} | {found.mean():.1f} "
        f"| {np.std(found - expected):.1f} | {error.mean():.1f} | {scatter(rows, shots != 'all'):.2f} "
        f"| {100 * covered:.0f} +- {100 * noise:.0f} |"
    )


def summarise(rows: dict[str, list[Row]]) -> tuple[list[str], bool]:
    """The table as lines of Markdown, and whether the sets that were put aside are covered as asked for."""
    lines = ["| set | shots | splits | expected % | found % | spread of the gap | s.e. said | scatter | covered % |"]
    lines.append("|---" * 9 + "|")
    met = []
    for title, sets in (("fitted", FITTED), ("tested", TESTED)):
        pooled: list[Row] = []
        for task, network in sets:
            own = rows.get(f"{task}, {network}", [])
            pooled += own
            lines += [
                line(f"{title}: {task}, {network}", chosen, n)
                for n in SHOTS
                if (chosen := [row for row in own if row["shots"] == n])
            ]
        for shots in SHOTS:
            chosen = [row for row in pooled if row["shots"] == shots]
            if chosen:
                lines.append(line(f"**all {title}**", chosen, shots))
                if title == "tested":
                    met.append(LOWEST <= float(np.mean([covers(row) for row in chosen])) <= HIGHEST)
    return lines, all(met)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--home", type=Path, default=None, help="where features are kept")
    parser.add_argument("--save", type=Path, default=Path("probe_coverage.json"), help="figures, old and new")
    parser.add_argument("--cpu", type=float, default=math.inf, help="CPU s of this run")
    parser.add_argument("--docs", type=Path, default=None, help="page to write the table into")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows: dict[str, list[Row]] = json.loads(options.save.read_text()) if options.save.exists() else {}
    began = time.process_time()
    for number in range(options.splits if options.cpu else 0):
        for task, network in (*FITTED, *TESTED):
            own = rows.setdefault(f"{task}, {network}", [])
            if any(row["split"] == number for row in own) or time.process_time() - began > options.cpu:
                continue
            data = load(task, network, options.home)
            features = np.concatenate([data.train, data.test])
            own += run_split(features, np.concatenate([data.train_labels, data.test_labels]), number)
            options.save.write_text(json.dumps(rows))
    lines, met = summarise(rows)
    print("\n".join(lines))
    if options.docs:
        write_docs(options.docs, "coverage", lines)
    raise SystemExit(0 if met else 1)


if __name__ == "__main__":
    main()
