"""A small extraction that tests run in their own process, and as a process that can be killed.

    python store_process.py ROOT TOTAL PART_SIZE [--hold] [--limit BYTES] [--pause SECONDS]

Says one word per line on standard output: "waiting" where another process holds the lock, "holding" once it has the
lock (with `--hold` it then waits for a line on standard input), "wrote N" at the end, or "full" on a full disk.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from unseen.core.errors import DiskFullError
from unseen.core.records import FeatureKey, Preprocessing
from unseen.features import FeatureStore, Skipped
from unseen.features.part import PartRows


def make_key(**changes: str) -> FeatureKey:
    values = {
        "model": "packaged:efficientnet-lite0",
        "weights": "w" * 16,
        "layer": "pooled",
        "precision": "fp32",
        "runtime": "onnx",
        "dataset": "folder:/data/My Pets?labels=breed&x=1",
        "split": "train",
        "fingerprint": "f" * 16,
    }
    return FeatureKey(preprocessing=Preprocessing(), **{**values, **changes})


@dataclass
class Sample:
    """Images that are known by number: what their features are, and which of them are bad."""

    total: int = 10
    part_size: int = 4
    dim: int = 3
    dtype: str = "float32"
    bad: frozenset[int] = frozenset()
    key: FeatureKey = field(default_factory=make_key)

    def rows(self, first: int, last: int):
        images = np.arange(first, last, dtype=np.int64)
        index = images[~np.isin(images, list(self.bad))]
        features = ((index[:, None] * 37 + np.arange(self.dim) * 11) % 509 / 7 - 30).astype(self.dtype)
        skipped = [Skipped(int(i), f"{i}.png", "cannot identify image") for i in images if int(i) in self.bad]
        return features, index % 5, index, skipped

    def write(
        self, store: FeatureStore, *, parts: int | None = None, pause: float = 0.0, entered=None, **options
    ) -> int:
        """Extract what is missing, at most `parts` parts of it, and return how many were written."""
        wrote = 0
        with store.writer(self.key, total=self.total, part_size=self.part_size, **options) as writer:
            if entered:
                entered(writer)
            while not writer.complete:
                first = writer.next_index
                if first == self.total:
                    writer.finish({"seconds": time.time()})
                elif wrote == parts:
                    break
                else:
                    writer.write(
                        PartRows(writer.next_index, *self.rows(first, min(first + writer.part_size, self.total)))
                    )
                    wrote += 1
                    time.sleep(pause)
        return wrote


def snapshot(store: FeatureStore, key: FeatureKey) -> dict[str, bytes]:
    """All that must be bit-identical: every file of the entry but the provenance."""
    folders = [entry.path for entry in store.entries() if entry.digest == key.digest]
    return {
        path.name: path.read_bytes()
        for folder in folders
        for path in folder.iterdir()
        if path.name != "provenance.json"
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("total", type=int)
    parser.add_argument("part_size", type=int)
    parser.add_argument("--hold", action="store_true")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--pause", type=float, default=0.0)
    options = parser.parse_args()
    if options.limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (options.limit, options.limit))

    def say(word: str) -> None:
        print(word, flush=True)

    def entered(_writer: object) -> None:
        say("holding")
        if options.hold:
            sys.stdin.readline()

    sample = Sample(options.total, options.part_size, bad=frozenset({1, 5}))
    try:
        wrote = sample.write(
            FeatureStore(options.root), pause=options.pause, entered=entered, on_wait=lambda: say("waiting")
        )
    except DiskFullError as error:
        say("full")
        say(str(error))
        return
    say(f"wrote {wrote}")


if __name__ == "__main__":
    main()
