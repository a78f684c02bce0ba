"""Extract a folder in a child process and kill it, again and again, until it ends by itself."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import torch

from unseen.backbones import Backbone, load_backbone
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


def tries(images: Path, home: Path, model: str, delays: list[float]) -> list[dict[str, object]]:
    """Extract once per delay, and kill the child that has not ended after so many seconds.

    Returns:
        For each try, whether it ended by itself, how many images the store covered before, and where it took up.
    """
    torch.set_num_threads(1)  # threads do not survive a fork
    home.mkdir(parents=True, exist_ok=True)
    backbone, dataset = load_backbone(model), load_dataset(f"folder:{images}?test=0")
    found: list[dict[str, object]] = []
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
        found.append({"ended": ended, "before": before, "begun": int(begun) if begun else None})
    return found
