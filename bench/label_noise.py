"""Precision and recall of `unseen cog noise` on photographs some of whose labels were flipped.

    python bench/label_noise.py "folder:PHOTOS"            # the classes that thresholds were not chosen on
    python bench/label_noise.py "folder:PHOTOS" --chosen   # those that they were chosen on

Every second class, counted from the first, is for choosing; the others are for this. A listed image that was not
flipped counts as wrong, though its label may be wrong in truth.
"""

from __future__ import annotations

import argparse

import numpy as np

from tables import Table
from unseen.benchmarks import Workbench
from unseen.benchmarks.cog.noise import weigh_labels
from unseen.core.files import home
from unseen.data.load import resolve_dataset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--model", default="packaged:efficientnet-lite0")
    parser.add_argument("--share", type=float, default=0.02)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--chosen", action="store_true")
    chosen = parser.parse_args()
    bench = Workbench(home())
    from pathlib import Path

    parts = bench.splits(chosen.model, resolve_dataset(chosen.data, Path.cwd()))
    features = np.concatenate([np.asarray(part.features[:], np.float32) for part in parts.values()])
    labels = np.concatenate([part.labels for part in parts.values()])
    rows = np.flatnonzero(labels % 2 == (0 if chosen.chosen else 1))
    names, truth = np.unique(labels[rows], return_inverse=True)
    found = right = flipped = clean = 0
    for seed in range(100, 100 + chosen.seeds):
        rng = np.random.default_rng(seed)
        flip = rng.choice(len(rows), round(chosen.share * len(rows)), replace=False)
        noisy = truth.copy()
        noisy[flip] = (truth[flip] + rng.integers(1, len(names), len(flip))) % len(names)
        evidence = weigh_labels(features[rows], noisy)
        listed = evidence.listed()
        found, right, flipped = found + len(listed), right + int(np.isin(listed, flip).sum()), flipped + len(flip)
    clean = len(weigh_labels(features[rows], truth).listed())
    table = Table("classes", "images", "flipped", "listed", "precision", "recall", "listed where nothing was flipped")
    which = "that thresholds were chosen on" if chosen.chosen else "others"
    shares = f"{100 * right / max(found, 1):.1f} %", f"{100 * right / flipped:.1f} %"
    table.add(f"{len(names)} {which}", len(rows), flipped, found, *shares, clean)
    table.show()


if __name__ == "__main__":
    main()
