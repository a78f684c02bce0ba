"""How often intervals over unseen classes cover the mean over all unseen classes, and the memory of prompts.

    python bench/zsl_classes.py                  coverage on AWA1 and on CUB-like data, in percent
    python bench/zsl_classes.py --others         the same on SUN-, AWA2- and aPY-like data
    python bench/zsl_classes.py --memory         peak memory of 100,000 images among 21,000 classes (--images 1000000)
    python bench/zsl_classes.py --imagenet       peak memory of `unseen zsl run` on ImageNet splits of 21,841 classes

The data are those of the paper in UNSEEN_GOLDEN_DATA/gbu: photographs of AWA1 (256 dimensions), and features that are
simulated for the attributes and classes of CUB (`tests/zeroshot/test_nuisance.py`). Training classes and candidates
are fixed: 25 and 25 classes of AWA1, 150 and 50 of CUB. Ten unseen classes are sampled with replacement, 200 times; the
true value is the mean over all unseen classes, or the difference of two methods of it. The coverage of intervals over
test images is shown beside it: they make no claim about other classes. The prior of the intervals over classes was
chosen on AWA1 and CUB-like data; `--others` are data that it was not chosen on.

Exits with 1 if an interval over classes covers less than 90 % or more than 97 %, or if the memory exceeds 2 GB.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
from tests.zeroshot.test_nuisance import made

from unseen import stats
from unseen.benchmarks.clip.protocol import classify
from unseen.concepts import imagenet_21k
from unseen.data import load_dataset
from unseen.zeroshot.catalogue import load_method
from unseen.zeroshot.problem import unit_rows

METHODS = {"ESZSL": {"gamma": 0, "lam": 0}, "SAE": {"lam": 1}, "GFZSL": {}}
SAMPLED, SAMPLES, LEAST, MOST = 10, 200, 90.0, 97.0
Data = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def awa1(folder: Path) -> Data:
    """Training images, their classes, test images, their classes, and class embeddings of 25 and 25 classes."""
    data = load_dataset(f"xlsa17:AWA1?features=lampert2009_256d.npz&root={folder}")
    X = unit_rows(data.given_features["lampert2009_256d"]())  # type: ignore[attr-defined]
    y = np.empty(len(X), np.int64)
    for split in data.splits.values():
        y[split.feature_rows] = split.labels
    order = np.random.default_rng(0).permutation(50)
    kept = np.concatenate([np.flatnonzero(y == c)[:100] for c in range(50)])
    train, test = (kept[np.isin(y[kept], order[part])] for part in (slice(25), slice(25, 50)))
    return X[train], y[train], X[test], y[test], data.attributes  # type: ignore[attr-defined]


def simulated(folder: Path, name: str) -> Data:
    problem = made(folder, name)
    return problem.train.X, problem.train.y, problem.test_unseen.X, problem.test_unseen.y, problem.S


def correct(data: Data) -> dict[str, np.ndarray]:
    """Whether each test image is classified correctly among the unseen classes, by method."""
    X, y, X_test, y_test, S = data
    unseen, found = np.unique(y_test), {}
    for name, params in METHODS.items():
        fitted = load_method(name)(**params).fit(X, y, S)
        found[name] = unseen[fitted.predict(X_test, S[unseen])] == y_test
    return found


def rows(name: str, data: Data) -> Iterator[tuple[str, list[float]]]:
    """Yield what is estimated, the true value in percent, and the coverage over classes and over images."""
    y, outcomes, rng = data[3], correct(data), np.random.default_rng(1)
    members = [np.flatnonzero(y == c) for c in np.unique(y)]
    chosen = rng.integers(0, len(members), (SAMPLES, SAMPLED))
    per_class = {method: np.array([right[own].mean() for own in members]) for method, right in outcomes.items()}
    for method, right in outcomes.items():
        truth = per_class[method].mean()
        classes = [truth in stats.class_interval(per_class[method][some]) for some in chosen]
        images = []
        for some in chosen:
            taken = np.concatenate([members[c] for c in some])
            labels = np.repeat(np.arange(SAMPLED), [len(members[c]) for c in some])
            images.append(truth in stats.per_class_interval(right[taken], labels))
        yield f"{name}, {method}", [100 * truth, 100 * float(np.mean(classes)), 100 * float(np.mean(images))]
    for one, other in combinations(outcomes, 2):
        truth = per_class[one].mean() - per_class[other].mean()
        found = [
            truth
            in stats.decide(
                {name: stats.Candidate(per_class[name][some], over_classes=True) for name in (one, other)}
            ).pairs[one, other]
            for some in chosen
        ]
        yield f"{name}, {one} minus {other}", [100 * truth, 100 * float(np.mean(found)), np.nan]


def coverage(folder: Path, others: bool) -> bool:
    """Print the table, and return whether every coverage lies within the limits."""
    print("| data, what is estimated | true value | interval over classes covers | interval over images covers |")
    print("|---|---|---|---|")
    fine = True
    data_by_name = {
        f"{name}-like": simulated(folder, name) for name in (("SUN", "AWA2", "APY") if others else ("CUB",))
    }
    for name, data in (data_by_name if others else {"AWA1": awa1(folder), **data_by_name}).items():
        for title, (truth, classes, images) in rows(name, data):
            shown = "-" if np.isnan(images) else f"{images:.1f} %"
            print(f"| {title} | {truth:.1f} | {classes:.1f} % | {shown} |", flush=True)
            fine &= LEAST <= classes <= MOST
    return fine


def memory(images: int, classes: int = 21_000, dimensions: int = 512) -> bool:
    """Print peak memory and CPU time of `classify` on features in a file, and return whether 2 GB suffice."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "features.npy"
        with path.open("wb") as stream:  # not as a memory map, whose pages would count as memory of this process
            header = {"descr": "<f4", "fortran_order": False, "shape": (images, dimensions)}
            np.lib.format.write_array_header_1_0(stream, header)
            for start in range(0, images, 10_000):
                stream.write(rng.standard_normal((min(10_000, images - start), dimensions), np.float32).tobytes())
        S, y = rng.normal(size=(classes, dimensions)), rng.integers(0, classes, images)
        began = time.process_time()
        classify(np.load(path, mmap_mode="r"), y, S)
        seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print("| images | classes | dimensions | peak memory | CPU time |\n|---|---|---|---|---|")
    print(f"| {images:,} | {classes:,} | {dimensions} | {peak:.2f} GB | {seconds:.0f} s |")
    return peak < 2


IMAGENET = """
import json, resource, sys, time
from pathlib import Path
from unseen.cli import main
from unseen.results import FILE_NAME, ResultsDatabase

data, home, split = sys.argv[1:]
began = time.process_time()
code = main(["zsl", "run", data, "--methods", "ESZSL", "--split", split, "--grid", "quick", "--home", home])
seconds, peak = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
with ResultsDatabase(Path(home) / FILE_NAME, read_only=True) as database:
    (result,) = [r for r in database.latest(benchmark="zsl") if r.cell.parameters["split"] == split]
found = result.details
print("|", split, "|", f"{found['unseen_classes']:,}", "|", f"{found['test_images']:,}", "|",
      f"{peak:.2f} GB |", f"{seconds:.0f} s |")
sys.exit(code or peak > 2)
"""


def imagenet(images: int = 4, dimensions: int = 512) -> bool:
    """Run splits of features with the WordNet ids of ImageNet-21K, each in its own process; features are random."""
    rng, wnids = np.random.default_rng(0), np.asarray(imagenet_21k())
    attributes = rng.normal(size=(len(wnids), 100)).astype(np.float32)
    labels = np.repeat(np.arange(len(wnids)), images)
    features = attributes[labels] @ rng.normal(size=(100, dimensions)).astype(np.float32)
    features += 3 * rng.standard_normal(features.shape, np.float32)
    right = True
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "imagenet.npz"
        np.savez(path, features=features, labels=labels, attributes=attributes, wnids=wnids, class_names=wnids)
        print("| split | unseen classes | their images | peak memory | CPU time |\n|---|---|---|---|---|", flush=True)
        for split in ("2-hops", "3-hops", "most-500", "least-5k", "all"):
            command = [sys.executable, "-c", IMAGENET, f"features:{path}?test=0.25", folder, split]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            print(
                done.stdout.splitlines()[-1] if done.returncode in (0, 1) and done.stdout else done.stderr, flush=True
            )
            right &= done.returncode == 0
    return right


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory", action="store_true", help="measure the memory of prompts instead")
    parser.add_argument("--others", action="store_true", help="use data that the prior was not chosen on")
    parser.add_argument("--imagenet", action="store_true", help="measure the memory of ImageNet splits instead")
    parser.add_argument("--images", type=int, default=100_000, help="number of images for --memory")
    options, data = parser.parse_args(), Path(os.environ.get("UNSEEN_GOLDEN_DATA", "")) / "gbu"
    if options.memory or options.imagenet:
        return 0 if (memory(options.images) if options.memory else imagenet()) else 1
    return 0 if coverage(data, options.others) else 1


if __name__ == "__main__":
    sys.exit(main())
