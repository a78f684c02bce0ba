"""What successive halving saves: 20 real checkpoints, 2,000 images, from nothing to an answer, with and without.

    python bench/rank_halving.py --home FOLDER            processor time of both, and whether the winner is the same

The checkpoints are EfficientNet-Lite0 and stages of training of three small networks (bench/rank_truth.py makes them),
at inputs of 32 and 64 pixels. Either run starts with an empty store. Exits with 1 where halving
is not three times sooner, or another checkpoint wins.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path

import torch

import rank_truth
from unseen.api.checkpoints import rank_checkpoints
from unseen.benchmarks.rank.candidates import CheckpointRanking

DATA = "procedural:shapes-count?train=2000&val=10&test=10"


def pool(home: Path) -> list[str]:
    """Twenty of them."""
    lite = [f"packaged:efficientnet-lite0?size={size}" for size in (32, 64)]
    stages = [name for name in rank_truth.checkpoints(home).values() if "test_" in name]
    smaller = [name.replace("size=64", "size=32") for name in stages if "vit" not in name]
    return [*lite, *stages, *smaller]


def timed(home: Path, models: list[str], *, halving: bool) -> tuple[float, CheckpointRanking]:
    """Processor seconds of a ranking from nothing."""
    shutil.rmtree(home, ignore_errors=True)
    began = time.process_time()
    found = rank_checkpoints(DATA, models, home=home, halving=halving, report=False)
    return time.process_time() - began, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    models = pool(options.home)
    seconds, winners = [], []
    for halving in (True, False):
        spent, found = timed(options.home / f"halving-{halving}", models, halving=halving)
        assert found.best is not None and found.choice is not None
        seconds.append(spent)
        winners.append(found.best.model)
        dropped = [c for c in found.candidates if c.dropped_after]
        print(
            f"halving {'on' if halving else 'off':3} {spent:6.1f} s of a core, {len(found.candidates)} checkpoints, "
            f"{len(dropped)} dropped early, winner {found.best.label} ({100 * found.best.expected:.1f} %)",
            flush=True,
        )
        for note in found.notes if halving else ():
            print(f"  {note}")
    print(f"{seconds[1] / seconds[0]:.1f} times sooner; winner {'the same' if len(set(winners)) == 1 else 'another'}")
    raise SystemExit(0 if seconds[1] >= 3 * seconds[0] and len(set(winners)) == 1 else 1)


if __name__ == "__main__":
    main()
