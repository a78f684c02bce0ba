"""Fig. 2 of NeuCRaB from real features: Kendall's tau of N-LEEP by the energy of its PCA and its Gaussians per class.

    python bench/rank_ablation.py --home FOLDER --chart docs/images/rank-ablation.svg

Features and accuracies are those of bench/rank_truth.py, which is run first (--converged will do); the truth is the
fine-tuned accuracy where it is known, else that of the converged probe on test images.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

import rank_truth
from unseen.benchmarks.rank.section import ablation_chart
from unseen.benchmarks.workbench import Workbench
from unseen.metrics import kendall_tau
from unseen.ranking import nleep
from unseen.reports.charts import save_chart

ENERGIES = (0.5, 0.8, 0.95)
GAUSSIANS = (1, 2, 5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, default=Path("rank_truth_home"))
    parser.add_argument("--chart", type=Path, default=Path("rank-ablation.svg"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    names, models, found = rank_truth.values()
    whole = "truth" in found and bool(np.isfinite(found["truth"]).all())
    truth = found["truth" if whole else "converged"]
    bench, known = Workbench(options.home), rank_truth.checkpoints(options.home)
    scores = np.full((len(ENERGIES), len(GAUSSIANS), *truth.shape), np.nan)
    for t, task in enumerate(names):
        for m, model in enumerate(models):
            rows = bench.split(known[model], rank_truth.tasks()[task], "train")
            features = np.asarray(rows.features[:])
            for e, energy in enumerate(ENERGIES):
                for g, count in enumerate(GAUSSIANS):
                    how = {"energy": energy, "components_per_class": count, "starts": 1}
                    scores[e, g, t, m] = nleep(features, rows.labels, **how)  # type: ignore[arg-type]
    taus = {
        (round(100 * energy), count): kendall_tau(list(scores[i, j]), list(truth))
        for i, energy in enumerate(ENERGIES)
        for j, count in enumerate(GAUSSIANS)
    }
    print("| energy | " + " | ".join(f"{g}x" for g in GAUSSIANS) + " |")
    print("|---" * (len(GAUSSIANS) + 1) + "|")
    for energy in ENERGIES:
        line = [f"{100 * taus[round(100 * energy), count]:.0f}" for count in GAUSSIANS]
        print(f"| {100 * energy:.0f} % | " + " | ".join(line) + " |")
    save_chart(ablation_chart(taus), options.chart)


if __name__ == "__main__":
    main()
