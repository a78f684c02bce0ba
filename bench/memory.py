"""Memory and speed of `logistic` over a store that is larger than the memory it may take.

    python bench/memory.py                   1,000,000 x 1,024 float16 on disk (2 GB), 1,000 classes
    python bench/memory.py --rows 100000     the same, smaller
    python bench/memory.py --kept --docs docs/evidence/probes.md    write the figures of the last run

The rows are written to a feature store in a temporary folder and removed afterwards, unless `--keep` names one. Three
passes of the search are timed (CPU time, beside the best matrix product of this machine at the same moment); how many
passes a whole fit takes is counted on a smaller set, which is fitted and predicted by `LinearProbe` from the disk. The
peak is the kernel's own figure for this process (VmHWM): mapped pages count. Exits with 1 above 2 GB or below 60 % of
the machine's peak.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from probe_sets import Figures, keep_options, kept_figures, write_docs
from unseen import FeatureKey, FeatureStore, LinearProbe, Preprocessing, StoredFeatures
from unseen.features.part import PartRows
from unseen.probes import logistic
from unseen.probes.rows import FeatureSet, LabelledRows, Workers
from unseen.probes.sampling import draw_folds
from unseen.probes.softmax import TableMaker

LIMIT = 2_000_000_000
PART = 10_000


def write_store(root: Path, rows: int, dimensions: int, classes: int) -> StoredFeatures:
    """Overlapping classes as float16, part by part, as an extraction writes them."""
    generator = np.random.default_rng(0)
    scale = ((1.0 + np.arange(dimensions)) ** -0.5).astype(np.float32)
    means = generator.standard_normal((classes, dimensions), dtype=np.float32) * scale
    store = FeatureStore(root)
    key = FeatureKey("drawn", "0", "pooled", Preprocessing(), "fp16", "torch", "drawn", "train", f"{rows}x{dimensions}")
    if found := store.find(key, check="size"):
        return found
    with store.writer(key, total=rows, part_size=PART) as writer:
        for start in range(0, rows, PART):
            places = np.arange(start, min(start + PART, rows))
            labels = generator.integers(0, classes, len(places))
            noise = generator.standard_normal((len(places), dimensions), dtype=np.float32)
            features = (0.1 * means[labels] + scale * noise).astype(np.float16)
            writer.write(PartRows(writer.next_index, features, labels, places))
        writer.finish()
    return store.open(key)


def peak_bytes() -> int:
    """Peak resident memory of this process so far."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this system does not report VmHWM")


def peak_gflops() -> float:
    """The best of several large float32 products, per second of CPU time."""
    left, right = torch.randn(2048, 2048), torch.randn(2048, 2048)
    best = math.inf
    for _ in range(8):
        began = time.process_time()
        left @ right
        best = min(best, time.process_time() - began)
    return 2 * 2048**3 / best / 1e9


def time_passes(stored: StoredFeatures, classes: int, passes: int, limit: int) -> tuple[float, float]:
    """GFLOP per second of CPU time over so many gradients, and over the pass that finds the coordinates."""
    features = FeatureSet(stored.features, "features", memory_limit=limit)
    assert features.tensor is None, "the rows fit into memory: nothing to measure"
    rows = np.arange(features.count)
    with Workers() as workers:
        began = time.process_time()
        labels = torch.from_numpy(stored.labels)
        table = TableMaker(LabelledRows(features, labels, classes), limit, features.count, workers).make(rows)
        first = 2 * features.count * features.dimension**2 / (time.process_time() - began) / 1e9
        folds, fits = draw_folds(stored.labels, seed=22)
        assert fits == 1, "so many rows have one fold"
        loss = table.loss(folds != 0, workers.ordered)
        weights = torch.randn(classes, len(table.frame.spectrum))
        began = time.process_time()
        for _ in range(passes):
            workers.run(loss, weights)
        seconds = time.process_time() - began
    return 4 * passes * features.count * features.dimension * classes / seconds / 1e9, first


def fit_smaller(stored: StoredFeatures) -> Figures:
    """A whole fit from the disk: how many passes it takes, and what it reaches."""
    counted: list[int] = []
    walk = logistic.follow_path

    def counting(*args: Any, **options: Any) -> Any:
        found = walk(*args, **options)
        counted.append(found.gradients)
        return found

    logistic.follow_path = counting
    try:
        probe = LinearProbe(memory_limit=0).fit(stored.features, stored.labels)
    finally:
        logistic.follow_path = walk
    accuracy = float((probe.predict(stored.features) == stored.labels).mean())
    chosen = probe.best_params_["regularization"]
    return {"rows": len(stored.labels), "passes": counted, "penalty": chosen, "accuracy": accuracy}


def measure(options: argparse.Namespace) -> Figures:
    """Everything that the table shows."""
    with nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory(dir=options.folder) as folder:
        stored = write_store(Path(folder, "whole"), options.rows, options.dimensions, options.classes)
        shape, before = stored.features.shape, peak_bytes()
        speed, first = time_passes(stored, options.classes, options.passes, options.limit)
        figures = {
            "shape": shape,
            "dtype": str(stored.features.dtype),
            "bytes": stored.nbytes,
            "classes": options.classes,
            "passes": options.passes,
            "gflops": speed,
            "coordinates_gflops": first,
            "before": before,
            "peak": peak_bytes(),
            "machine_gflops": peak_gflops(),
        }
        small = write_store(Path(folder, "small"), options.smaller, options.dimensions // 4, options.classes // 10)
        return figures | {"smaller": fit_smaller(small)}


def render(found: Figures) -> tuple[list[str], bool]:
    """The figures in words, and whether the targets are met."""
    shape, speed, best, small = found["shape"], found["gflops"], found["machine_gflops"], found["smaller"]
    met = found["peak"] < LIMIT and speed >= 0.6 * best
    lines = [
        (
            f"- {shape[0]:,} x {shape[1]:,} {found['dtype']} ({found['bytes'] / 1e9:.2f} GB), {found['classes']} "
            f"classes: passes: {found['passes']}, at {speed:.0f} GFLOP/s per thread, {100 * speed / best:.0f} % of the "
            f"machine's {best:.0f} in the same minute; coordinates at {found['coordinates_gflops']:.0f}."
        ),
        f"- Peak {found['peak'] / 1e9:.2f} GB, {found['before'] / 1e9:.2f} of it before the first pass.",
        (
            f"- {small['rows']:,} rows, a whole fit: {small['passes'][0]} passes for the path of penalties, "
            f"{small['passes'][1]} for the final fit, 3 for coordinates and left-out rows; chosen penalty "
            f"{small['penalty']:.1e}, training accuracy {100 * small['accuracy']:.1f} %."
        ),
        f"- {'Met' if met else 'MISSED'}: under {LIMIT / 1e9:.0f} GB and at least 60 % of the machine's peak.",
    ]
    return lines, met


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dimensions", type=int, default=1024)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--smaller", type=int, default=20_000, help="rows of the whole fit")
    parser.add_argument("--limit", type=int, default=1_000_000_000, help="bytes of working copies")
    parser.add_argument("--folder", type=Path, default=None, help="where to write; a temporary folder by default")
    parser.add_argument("--keep", type=Path, default=None, help="folder whose rows are used again and not removed")
    keep_options(parser, __file__)
    options = parser.parse_args()
    lines, met = render(kept_figures(options, lambda: measure(options)))
    print("\n".join(lines))
    if options.docs:
        write_docs(options.docs, "memory", lines)
    raise SystemExit(0 if met else 1)


if __name__ == "__main__":
    main()
