"""Peak resident memory of a probe over a store that is larger than it.

    python bench/memory.py                   1,000,000 x 1,024 float16 on disk (2 GB), 100 classes: minutes on two cores
    python bench/memory.py --rows 100000     the same, smaller

The rows are written to a feature store in a temporary folder, trained on and predicted from it by `LinearProbe`,
and removed. The peak is the kernel's own figure for this process (VmHWM): mapped pages count.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from unseen import FeatureKey, FeatureStore, LinearProbe, Preprocessing, StoredFeatures

LIMIT = 2_000_000_000
PART = 10_000


def write_store(root: Path, rows: int, dimensions: int, classes: int) -> StoredFeatures:
    """Overlapping classes as float16, part by part, as an extraction writes them."""
    generator = np.random.default_rng(0)
    scale = ((1.0 + np.arange(dimensions)) ** -0.5).astype(np.float32)
    means = generator.standard_normal((classes, dimensions), dtype=np.float32) * scale
    store = FeatureStore(root)
    key = FeatureKey("drawn", "0", "pooled", Preprocessing(), "fp16", "torch", "drawn", "train", f"{rows}x{dimensions}")
    with store.writer(key, total=rows, part_size=PART) as writer:
        for start in range(0, rows, PART):
            places = np.arange(start, min(start + PART, rows))
            labels = generator.integers(0, classes, len(places))
            noise = generator.standard_normal((len(places), dimensions), dtype=np.float32)
            features = (0.1 * means[labels] + scale * noise).astype(np.float16)
            writer.write_part(features, labels, places)
        writer.finish()
    return store.open(key)


def peak_bytes() -> int:
    """Peak resident memory of this process so far."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this system does not report VmHWM")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dimensions", type=int, default=1024)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--folder", type=Path, default=None, help="where to write; a temporary folder by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        stored = write_store(Path(folder), options.rows, options.dimensions, options.classes)
        features, labels = stored.features, stored.labels
        shape, size = features.shape, stored.nbytes / 1e9
        print(f"{shape[0]:,} x {shape[1]:,} {features.dtype} on disk: {size:.2f} GB, {options.classes} classes")
        print(f"before: peak {peak_bytes() / 1e9:.2f} GB, {torch.get_num_threads()} threads", flush=True)
        began = time.perf_counter()
        probe = LinearProbe().fit(features, labels)
        fitted = time.perf_counter() - began
        print(f"fit: {fitted:.0f} s, peak {peak_bytes() / 1e9:.2f} GB, chosen {probe.best_params_}", flush=True)
        began = time.perf_counter()
        accuracy = float((probe.predict(features) == labels).mean())
        peak = peak_bytes()
        print(f"predict: {time.perf_counter() - began:.0f} s, training accuracy {100 * accuracy:.1f} %")
        print(f"peak {peak / 1e9:.2f} GB: {'under' if peak < LIMIT else 'OVER'} the limit of {LIMIT / 1e9:.0f} GB")
    raise SystemExit(0 if peak < LIMIT else 1)


if __name__ == "__main__":
    main()
