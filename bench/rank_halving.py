"""What successive halving saves: 20 checkpoints, 1,900 photographs, from nothing to an answer, with and without.

    python bench/rank_halving.py --home FOLDER                 processor time of both, and whether the winner is one
    python bench/rank_halving.py --home FOLDER --pool alike    a pool of near equals, of which few can be dropped

The photographs are those of UNSEEN_GOLDEN_DATA (95 classes). The pool is what a folder of checkpoints holds: three
trained networks at two sizes of input, stages of training of three small ones (bench/rank_truth.py makes them), and
networks without training. Inputs are of 64 to 128 pixels. Either run starts with an empty store. Exits with 1 where
halving is not three times sooner, or another checkpoint wins.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from pathlib import Path

import torch

import rank_truth
from unseen.api.checkpoints import rank_checkpoints
from unseen.benchmarks.rank.candidates import CheckpointRanking

LITE = ("lite0", "lite1", "lite2")
UNTRAINED = (
    "resnet18",
    "resnet26",
    "resnet34",
    "mobilenetv3_small_100",
    "mobilenetv2_100",
    "regnety_004",
    "vit_tiny_patch16_224",
)


def mixed(home: Path) -> tuple[str, list[str]]:
    """Photographs, and twenty checkpoints as people have them."""
    photos = Path(os.environ["UNSEEN_GOLDEN_DATA"]) / "photos/caltech101/images"
    trained = [f"packaged:efficientnet-{name}?size={size}" for name in LITE for size in (96, 128)]
    stages = [name for name in rank_truth.checkpoints(home).values() if name.startswith("file:")]
    untrained = [f"random:{name}?size=128" for name in UNTRAINED]
    return f"folder:{photos}", [*trained, *stages, *untrained, "random:tf_efficientnet_lite1?size=128"]


def alike(home: Path) -> tuple[str, list[str]]:
    """A task that none of them was made for, and eighteen checkpoints that differ little."""
    lite = [f"packaged:efficientnet-lite0?size={size}" for size in (32, 64)]
    stages = [name for name in rank_truth.checkpoints(home).values() if "test_" in name]
    smaller = [name.replace("size=64", "size=32") for name in stages if "vit" not in name]
    return "procedural:shapes-count?train=2000&val=10&test=10", [*lite, *stages, *smaller]


POOLS = {"mixed": mixed, "alike": alike}


def timed(home: Path, data: str, models: list[str], *, halving: bool) -> tuple[float, CheckpointRanking]:
    """Processor seconds of a ranking from nothing."""
    shutil.rmtree(home, ignore_errors=True)
    began = time.process_time()
    found = rank_checkpoints(data, models, home=home, halving=halving, report=False)
    return time.process_time() - began, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--pool", choices=list(POOLS), default="mixed")
    options = parser.parse_args()
    torch.set_num_threads(1)
    data, models = POOLS[options.pool](options.home)
    seconds, winners = [], []
    for halving in (True, False):
        spent, found = timed(options.home / f"halving-{halving}", data, models, halving=halving)
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
