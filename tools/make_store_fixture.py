"""Make `tests/fixtures/store-v1`: a tiny store of schema 1, frozen so that every later version must load it.

    python tools/make_store_fixture.py [FOLDER]

Run once, when the schema is new. A later schema gets a fixture of its own; this one is never made again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from unseen.core.records import FeatureKey, Preprocessing
from unseen.features import FeatureStore, Skipped, StoredFeatures
from unseen.features.part import PartRows

FIXTURE = Path(__file__).parents[1] / "tests" / "fixtures" / "store-v1"


def key(**changes: str) -> FeatureKey:
    values = {
        "model": "packaged:efficientnet-lite0",
        "weights": "0123456789abcdef",
        "layer": "pooled",
        "precision": "fp32",
        "runtime": "onnx",
        "dataset": "packaged:grocery",
        "split": "test",
        "fingerprint": "fedcba9876543210",
    }
    return FeatureKey(preprocessing=Preprocessing(), **{**values, **changes})


def write(store: FeatureStore, of: FeatureKey, dtype: str, bad: set[int], *, upto: int = 7) -> None:
    """Seven images in parts of three; rows that both precisions hold exactly."""
    with store.writer(of, total=7, part_size=3) as writer:
        for first in range(0, upto, 3):
            index = np.array([i for i in range(first, min(first + 3, 7)) if i not in bad], np.int64)
            skipped = [Skipped(i, f"images/{i}.png", "truncated file") for i in sorted(bad) if first <= i < first + 3]
            features = (index[:, None] + np.array([0.0, 0.25, -0.5, 8.0])).astype(dtype)
            writer.write(PartRows(first, features, index % 2, index, skipped))
        if upto == 7:
            writer.finish({"unseen": "0.1.0", "seconds": 0.5})


def expected(stored: StoredFeatures) -> dict[str, Any]:
    return {
        "state": "complete",
        "features": stored.features.to_array().tolist(),
        "labels": stored.labels.tolist(),
        "index": stored.index.tolist(),
        "skipped": [[image.index, image.name, image.reason] for image in stored.skipped],
        "provenance": stored.provenance,
    }


def main(folder: Path) -> None:
    store = FeatureStore(folder / "features")
    complete = [(key(), "float32", {4}), (key(precision="fp16", dataset="folder:/data/Pets?x=1"), "float16", {0, 1, 2})]
    for of, dtype, bad in complete:
        write(store, of, dtype, bad)
    partial = key(layer="logits")
    write(store, partial, "float32", {1}, upto=4)
    contents: dict[str, Any] = {of.digest: expected(store.open(of)) for of, _, _ in complete}
    contents[partial.digest] = {"state": "partial"}
    (folder / "expected.json").write_text(json.dumps(contents, indent=1) + "\n")
    for lock in (folder / "features" / ".locks").iterdir():
        lock.unlink()
    (folder / "features" / ".locks").rmdir()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FIXTURE)
