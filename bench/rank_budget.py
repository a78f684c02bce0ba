"""Measure whether `unseen rank --budget` meets its time limit: three checkpoints, photographs, empty store.

    python bench/rank_budget.py --home FOLDER --seconds 20 40

The grocery photographs are unpacked into folders first. A run starts with an empty store; loading Python and torch,
which comes before, is not in the budget. Exits with 1 where a run takes more than 1.2 times its budget.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path

from unseen.api.ranking import rank_checkpoints
from unseen.data import load_dataset

MODELS = ["packaged:efficientnet-lite0", "packaged:efficientnet-lite1", "random:tf_efficientnet_lite0"]


def unpacked(folder: Path) -> Path:
    """The training photographs in a folder per class."""
    if not folder.is_dir():
        data = load_dataset("packaged:grocery")
        for split in data.splits.values():
            for i, label in enumerate(split.labels):
                place = folder / data.class_names[label].replace("/", " ")
                place.mkdir(parents=True, exist_ok=True)
                split.open(i).convert("RGB").save(place / f"{Path(split.names[i]).stem}-{i}.jpg", quality=95)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--seconds", type=float, nargs="+", default=[20.0, 40.0])
    options = parser.parse_args()
    photos, kept = unpacked(options.home / "photos"), True
    for seconds in options.seconds:
        home = options.home / f"budget-{seconds:g}"
        shutil.rmtree(home, ignore_errors=True)
        began = time.perf_counter()
        found = rank_checkpoints(f"folder:{photos}", MODELS, home=home, budget=seconds)
        spent = time.perf_counter() - began
        kept &= spent <= 1.2 * seconds
        print(
            f"budget {seconds:g} s: {spent:.1f} s ({100 * spent / seconds:.0f} %), "
            f"{found.images} of {found.total} images",
            flush=True,
        )
    raise SystemExit(0 if kept else 1)


if __name__ == "__main__":
    main()
