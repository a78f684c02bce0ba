"""Memory and speed of a CoG over stored features: the seen concepts and five levels, as views of one store.

    python bench/cog.py                              200,000 x 1,024 float16 on disk, 1,000 classes in 6 domains
    python bench/cog.py --rows 20000 --classes 120   the same, smaller

Features are drawn, written to a feature store in a temporary folder and removed afterwards; what runs is the study that
`unseen cog run` runs, from the domains to the page, in a process of its own. Its peak is the kernel's figure (VmHWM).
Exits with 1 above 3 GB.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unseen import FeatureKey, FeatureStore, Preprocessing
from unseen.benchmarks.workbench import SplitRows, Workbench
from unseen.concepts import filters_for, imagenet_1k, imagenet_21k, load_wordnet, run_funnel
from unseen.core.records import DatasetCard
from unseen.data import Dataset, Split
from unseen.data.load import register_dataset
from unseen.features import Extraction
from unseen.features.part import PartRows
from unseen.study import Study, run_study

LIMIT = 3_000_000_000
PART = 4096
MODEL = "random:test_efficientnet?size=64"  # a name with a card; its features are drawn
TEST_SHARE = 10


class StoredBench(Workbench):
    """A workbench whose features lie in a store already."""

    def layers(
        self, model: str, dataset: str | Dataset, split: str, layers: Sequence[str], **_: Any
    ) -> dict[str, SplitRows]:
        data = self.dataset(dataset) if isinstance(dataset, str) else dataset
        stored = self.store.open(key(split))
        return {
            layer: SplitRows(stored.features, stored.labels, stored.index, len(data.split(split))) for layer in layers
        }


def key(split: str) -> FeatureKey:
    return FeatureKey("drawn", "0", "pooled", Preprocessing(), "fp32", "torch", "drawn", split, split)


def write_store(root: Path, rows: int, dimensions: int, classes: int) -> None:
    """Overlapping classes as float16, part by part, as an extraction writes them."""
    generator = np.random.default_rng(0)
    scale = ((1.0 + np.arange(dimensions)) ** -0.5).astype(np.float32)
    means = generator.standard_normal((classes, dimensions), dtype=np.float32) * scale
    for split, count in (("train", rows - rows // TEST_SHARE), ("test", rows // TEST_SHARE)):
        with FeatureStore(root).writer(key(split), total=count, part_size=PART) as writer:
            for start in range(0, count, PART):
                places = np.arange(start, min(start + PART, count))
                labels = labels_of(count, classes)[places]
                noise = generator.standard_normal((len(places), dimensions), dtype=np.float32)
                rows = (0.1 * means[labels] + scale * noise).astype(np.float16)
                writer.write(PartRows(writer.next_index, rows, labels, places))
            writer.finish()


def labels_of(count: int, classes: int) -> Any:
    """Class by class, as a tree of images is listed."""
    return np.sort(np.arange(count) % classes)


def drawn(rows: int, classes: int, domains: int) -> Dataset:
    """A dataset of real concepts whose images are not opened."""
    in21k, in1k = imagenet_21k(), imagenet_1k()
    wordnet = load_wordnet()
    unseen = run_funnel(wordnet, in21k, filters_for(wordnet, in21k, in1k)).concepts
    seen = classes // domains
    wnids = [*in1k[:seen], *unseen[: classes - seen]]
    if len(wnids) < classes:
        raise SystemExit(f"there are {len(wnids)} concepts to choose from; {classes} classes are too many.")

    def split(name: str, count: int) -> Split:
        numbers = [f"{name}{i}" for i in range(count)]
        return Split(numbers, labels_of(count, classes), open=lambda _: None, fingerprint=f"{name}{count}")  # type: ignore[arg-type, return-value]

    splits = {"train": split("train", rows - rows // TEST_SHARE), "test": split("test", rows // TEST_SHARE)}
    return Dataset(DatasetCard(id="drawn", name="drawn", group="bench"), wnids, splits, wnids)


def run(home: Path, options: argparse.Namespace, pipe: Any) -> None:
    """The study, in a process of its own; what it took goes through the pipe."""
    dataset = drawn(options.rows, options.classes, options.domains)
    register_dataset("drawn")(lambda: dataset)
    asked = {
        "levels": options.domains - 1,
        "seeds": [22],
        "solver": options.solver,
        "memory_limit": options.memory_limit,
    }
    study = Study("bench", (MODEL,), ("drawn",), {"cog": asked})
    bench = StoredBench(home, how=Extraction())
    before, began, wall = peak_bytes(), time.process_time(), time.perf_counter()
    outcome = run_study(study, bench=bench)
    seconds = time.process_time() - began
    rows = {r.cell.parameters["level"]: (r.details["train_images"], r.details["classes"]) for r in outcome.results}
    scores = {r.cell.parameters["level"]: r.metrics["top1"] for r in outcome.results}
    failed = [result.error for result in outcome.failed]
    pipe.send((before, peak_bytes(), seconds, time.perf_counter() - wall, rows, scores, failed))


def peak_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this system does not report VmHWM")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dimensions", type=int, default=1024)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--domains", type=int, default=6)
    parser.add_argument("--solver", default="logistic")
    parser.add_argument("--memory-limit", type=int, default=0, help="MB of working copies; 0 as the command has it")
    parser.add_argument("--folder", type=Path, default=None, help="where to write; a temporary folder by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        write_store(Path(folder, "features"), options.rows, options.dimensions, options.classes)
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(target=run, args=(Path(folder), options, theirs))
        process.start()
        theirs.close()
        before, peak, seconds, wall, rows, scores, failed = ours.recv()
        process.join()
    if failed:
        raise SystemExit(f"{len(failed)} cells failed: {failed[0]}")
    train = sum(count for count, _ in rows.values())
    work = sum(count * options.dimensions * classes for count, classes in rows.values()) / 1e9
    print(f"{options.rows:,} x {options.dimensions:,} float16, {options.classes:,} classes; domains: {rows}")
    print("top-1 (%): " + ", ".join(f"{level} {100 * value:.1f}" for level, value in scores.items()))
    print(
        f"{len(rows)} probes, one seed each: {seconds:.0f} s of CPU time, {wall:.0f} s on the clock; "
        f"{train / seconds:,.0f} training rows and {work / seconds:.2f} billion row x dimension x class per CPU second"
    )
    print(f"peak {peak / 1e9:.2f} GB, of which {before / 1e9:.2f} GB before the run")
    print(f"{'met' if peak < LIMIT else 'MISSED'}: under {LIMIT / 1e9:.0f} GB")
    raise SystemExit(0 if peak < LIMIT else 1)


if __name__ == "__main__":
    main()
