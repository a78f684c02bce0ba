"""What successive halving saves: images that 20 checkpoints must show of 2,000, and whether the winner is the same.

    python bench/rank_halving.py --sets 10

Data sets are drawn as in rank_calibration.py, with 20 candidates from good to poor. Extraction of features is what
takes the time of `unseen rank`, so that images are counted: every round extracts its sample anew.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

from rank_calibration import World
from unseen.benchmarks.rank.arrays import rank_features
from unseen.benchmarks.rank.halving import drop, first_size, next_size

CANDIDATES, IMAGES, CLASSES = 20, 2000, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=10)
    options = parser.parse_args()
    torch.set_num_threads(1)
    saved, same = [], []
    for seed in range(options.sets):
        noises = tuple(np.linspace(0.7, 2.6, CANDIDATES))
        features, labels = World(CLASSES, 0.8, noises, IMAGES).draw(seed)
        pool = {f"noise {noise:.2f}": each for noise, each in zip(noises, features, strict=True)}
        used, size, alive = 0, first_size(IMAGES, CLASSES), list(pool)
        order = np.random.default_rng([seed, 4]).permutation(IMAGES)
        risk = 0.0
        while True:
            rows = order[:size]
            used += size * len(alive)
            found = rank_features({n: pool[n][rows] for n in alive}, labels[rows], scores=(), resamples=0, seed=seed)
            if size == IMAGES:
                break
            losers = drop(found)
            risk += losers.chance
            alive = [name for name in alive if name not in {c.model for c in losers.candidates}]
            size = next_size(size, IMAGES)
        whole = rank_features({n: pool[n] for n in list(pool)[:6]}, labels, scores=(), resamples=0, seed=seed)
        assert found.best is not None and whole.best is not None
        saved.append(CANDIDATES * IMAGES / used)
        same.append(found.best.model == whole.best.model)
        line = f"set {seed}: {saved[-1]:.1f} times fewer images, {len(alive)} of {CANDIDATES} to the end, "
        line += f"chance of a loss said {100 * risk:.1f} %, winner {found.best.model}"
        print(f"{line} (of all images: {whole.best.model})", flush=True)
    print(f"mean {np.mean(saved):.1f} times, least {np.min(saved):.1f}; the same winner in {sum(same)} of {len(same)}")
    raise SystemExit(0 if np.mean(saved) >= 3 and all(same) else 1)


if __name__ == "__main__":
    main()
