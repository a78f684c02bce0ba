"""What successive halving saves: 20 checkpoints, 2,000 images, from nothing to an answer, with and without.

    python bench/rank_halving.py --home FOLDER             sprites (16 classes): processor time of both, and the winners
    python bench/rank_halving.py --home FOLDER --data photos   the 1,900 photographs of UNSEEN_GOLDEN_DATA (95 classes)

The checkpoints: a trained network at three sizes of input, stages of training of three small ones (bench/rank_truth.py
makes them), and eleven networks without training; inputs are of 64 to 128 pixels. How much is saved hangs on how many
are near the best, which all go on to the end: `--trained lite0 lite1 lite2` has more of them. Either run starts with an
empty store, after a first one that imports what is needed. Exits with 1 where halving is not three times sooner, or
another checkpoint wins.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from pathlib import Path

import torch

import rank_truth
from unseen.api.ranking import rank_checkpoints
from unseen.benchmarks.rank.candidates import CheckpointRanking

UNTRAINED = (
    "resnet18",
    "resnet26",
    "resnet34",
    "resnet10t",
    "mobilenetv3_large_100",
    "mobilenetv3_small_100",
    "mobilenetv2_100",
    "regnety_004",
    "vit_tiny_patch16_224",
    "tf_efficientnet_lite0",
    "tf_efficientnet_lite1",
)


def data(kind: str, limit: int = 2000) -> str:
    """Photographs, or drawings of sixteen classes."""
    if kind == "photos":
        photos = Path(os.environ["UNSEEN_GOLDEN_DATA"]) / "photos/caltech101/images"
        return f"folder:{photos}?test=0&limit={limit}"
    return f"procedural:sprites-location?train={limit}&val=10&test=10"


def pool(home: Path, networks: list[str]) -> list[str]:
    """Twenty checkpoints, where one trained network is asked for."""
    trained = [f"packaged:efficientnet-{name}?size={size}" for name in networks for size in (64, 96, 128)]
    stages = [name for name in rank_truth.checkpoints(home).values() if name.startswith("file:")]
    return [*trained, *stages, *(f"random:{name}?size=128" for name in UNTRAINED)]


def timed(home: Path, name: str, models: list[str], *, halving: bool) -> tuple[float, CheckpointRanking]:
    """Processor seconds of a ranking from nothing."""
    shutil.rmtree(home, ignore_errors=True)
    began = time.process_time()
    found = rank_checkpoints(name, models, home=home, halving=halving, report=False)
    return time.process_time() - began, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--data", choices=("sprites", "photos"), default="photos")
    parser.add_argument("--trained", nargs="+", default=["lite0"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    models = pool(options.home, options.trained)
    timed(options.home / "imports", data(options.data, limit=200), models[3:5], halving=False)
    seconds, winners = [], []
    for halving in (True, False):
        spent, found = timed(options.home / f"halving-{halving}", data(options.data), models, halving=halving)
        winner = found.candidates[0]
        assert found.choice is not None and not winner.error
        seconds.append(spent)
        winners.append(winner.model)
        dropped = [c for c in found.candidates if c.dropped_after]
        print(
            f"halving {'on' if halving else 'off':3} {spent:6.1f} s of a core, {len(found.candidates)} checkpoints, "
            f"{len(dropped)} dropped early, winner {winner.label} ({100 * winner.expected:.1f} %)",
            flush=True,
        )
        for note in found.notes if halving else ():
            print(f"  {note}")
    print(f"{seconds[1] / seconds[0]:.1f} times sooner; winner {'the same' if len(set(winners)) == 1 else 'another'}")
    raise SystemExit(0 if seconds[1] >= 3 * seconds[0] and len(set(winners)) == 1 else 1)


if __name__ == "__main__":
    main()
