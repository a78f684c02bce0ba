"""Repeat the smallest cells of `probe_cells.py` on forty other samples, to separate effects from chance.

    OMP_NUM_THREADS=1 python bench/probe_draws.py                            forty draws: ten minutes on one core
    python bench/probe_draws.py --kept --docs docs/evidence/probes.md                 write the table of the last run

Five draws of ten or twenty images decide two targets of `probe_cells.py`: the worst loss, and the standard deviation
over draws at four images per class. Here the five coarse kinds of groceries are drawn forty times with other seeds, by
every network. A difference is that of the same samples, with its standard error; a standard deviation has one as well
(of a normal sample, s / sqrt(2 (n - 1))).
"""

from __future__ import annotations

import argparse
import math
import warnings
from pathlib import Path

import numpy as np
import torch

from probe_cells import REFERENCES
from probe_sets import NETWORKS, Figures, keep_options, kept_figures, load, write_docs
from unseen.probes import draw_rows, evaluate_probe

FIRST_SEED = 2000
OURS = ("logistic", "ridge", "ncm")
THEIRS = ("LogisticRegressionCV",)


def measure(options: argparse.Namespace) -> Figures:
    """Accuracies in percent by cell and contender, draw by draw."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    seeds = list(range(FIRST_SEED, FIRST_SEED + options.draws))
    found: Figures = {}
    for network in options.networks:
        data = load("coarse", network, options.home)
        for shots in options.shots:
            cell = found[f"coarse, {network}, {shots}"] = {}
            for solver in OURS:
                records = evaluate_probe(*data, solver=solver, shots=shots, seeds=seeds)
                cell[solver] = [round(100 * record.top1, 3) for record in records]
            draws = [draw_rows(data.train_labels, seed=seed, shots=[shots])[0] for seed in seeds]
            for name in THEIRS:
                cell[name] = [round(100 * REFERENCES[name](data, draw), 3) for draw in draws]
            print(network, shots, {name: round(float(np.mean(v)), 1) for name, v in cell.items()}, flush=True)
    return found


def lines(figures: Figures) -> list[str]:
    """A row per cell: mean, spread over draws, and what each of the others has more than `logistic`."""
    others = [name for name in (*OURS, *THEIRS) if name != "logistic"]
    table = [
        "| cell | draws | logistic % | " + " | ".join(f"{name}, points more" for name in others)
        + " | " + " | ".join(f"s.d., {name}" for name in ("logistic", *others)) + " |",
        "|---" * (3 + 2 * len(others) + 1) + "|",
    ]  # fmt: skip
    for cell, found in figures.items():
        ours = np.array(found["logistic"])
        more = [_mean(np.array(found[name]) - ours) for name in others]
        spread = [_spread(found[name]) for name in ("logistic", *others)]
        table.append(f"| {cell} | {len(ours)} | {ours.mean():.1f} | {' | '.join(more)} | {' | '.join(spread)} |")
    return table


def _mean(values: np.ndarray) -> str:
    return f"{values.mean():+.1f} ± {values.std(ddof=1) / math.sqrt(len(values)):.1f}"


def _spread(values: list[float]) -> str:
    deviation = float(np.std(values, ddof=1))
    return f"{deviation:.1f} ± {deviation / math.sqrt(2 * (len(values) - 1)):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, default=None, help="where features are kept")
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--shots", nargs="+", type=int, default=[2, 4])
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    keep_options(parser, __file__)
    options = parser.parse_args()
    table = lines(kept_figures(options, lambda: measure(options)))
    print("\n".join(table))
    if options.docs:
        write_docs(options.docs, "draws", table)


if __name__ == "__main__":
    main()
