"""Extracts a folder in a child process and kills it, again and again, until it ends by itself.

    python killable_extraction.py IMAGES HOME MODEL SECONDS...

One interpreter imports everything, loads the model and forks a child per try.
Prints one JSON line per try: whether it ended by itself, how many images the store covered before, and where the
extraction took up.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from unseen.backbones import Backbone, load_backbone
from unseen.benchmarks import Workbench  # noqa: F401 - imports what a run imports
from unseen.data import Dataset, load_dataset
from unseen.features import Extraction, FeatureStore, NoProgress, extract
from unseen.features.manifest import MANIFEST
from unseen.features.part import find_parts

PART_SIZE = 8


class Told(NoProgress):
    """Writes down where an extraction begins."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, title: str, total: int, done: int) -> None:
        self.path.write_text(str(done))


def run(backbone: Backbone, dataset: Dataset, home: Path) -> None:
    how = Extraction(part_size=PART_SIZE, batch_size=4, graphs=home.parent / "graphs", workers=2)
    store = FeatureStore(home / "features")
    extract(
        backbone,
        dataset,
        "train",
        store,
        layers=("pooled", "logits"),
        how=how,
        progress=Told(home / "begun"),
    )


def covered(home: Path) -> list[int]:
    """Return the number of images in the whole parts of each entry."""
    entries = [find_parts(path.parent) for path in sorted((home / "features").glob(f"*/*/*/*/{MANIFEST}"))]
    return [entry.covered for entry in entries if entry is not None]


def main() -> None:
    images, home, model = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    delays = [float(text) for text in sys.argv[4:]]
    home.mkdir(parents=True, exist_ok=True)
    backbone, dataset = load_backbone(model), load_dataset(f"folder:{images}?test=0")
    for delay in delays:
        before = covered(home)
        (home / "begun").unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            run(backbone, dataset, home)
            os._exit(0)
        ended, deadline = False, time.monotonic() + delay
        while time.monotonic() < deadline and not ended:
            ended = os.waitpid(child, os.WNOHANG)[0] == child
            time.sleep(0.002)
        if not ended:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        begun = (home / "begun").read_text() if (home / "begun").exists() else ""
        print(json.dumps({"ended": ended, "before": before, "begun": int(begun) if begun else None}), flush=True)


if __name__ == "__main__":
    main()
