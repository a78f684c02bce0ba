"""What ImageNet-CoG costs by stage: 6 domains x 5 seeds x 9 numbers of shots x 31 models.

    OMP_NUM_THREADS=1 python bench/cog_cost.py                        a minute: it measures its constants first
    python bench/cog_cost.py --gpu-gflops 19500 --cores 64            another GPU, another machine
    python bench/cog_cost.py --kept --docs docs/evidence/probes.md    write the table from the constants of the last run

Measured here, per thread and second of CPU time: GFLOP of a ResNet-50 forward pass, GFLOP of one pass of `logistic`
over rows on the disk, GFLOP of the training steps of `paper`; and the number of passes that a whole fit takes, on a
drawn set. Everything else is counting: a gradient of k fits on n rows of d dimensions and c classes is 4 k n d c
operations. A GPU is given the share of its stated peak that this CPU reaches of its own.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from memory import peak_gflops, time_passes, write_store
from probe_sets import keep_options, kept_figures, write_docs
from unseen.backbones import load_backbone
from unseen.benchmarks.cog.check import FULL_COG
from unseen.probes import Protocol, evaluate_probe, logistic
from unseen.probes.logistic import PENALTIES
from unseen.probes.rows import FeatureSet, LabelledRows
from unseen.probes.sampling import FOLDS, HOLD_OUT_ROWS
from unseen.probes.sgd import Setting, TrainingRows, train

MODELS, SEEDS, DIMENSIONS = 31, 5, 2048
SHOTS: tuple[int | str, ...] = (1, 2, 4, 8, 16, 32, 64, 128, "all")
FORWARD = 8.2  # GFLOP of a ResNet-50 on 224 x 224 pixels, a multiplication and an addition being two


class Constants(NamedTuple):
    """What was measured: GFLOP/s by stage and at best, and passes of a whole fit."""

    extraction: float
    passes: float
    training: float
    peak: float
    path: int
    final: int


def measure() -> Constants:
    """Time each stage on sets that are small but of the real shape."""
    network = load_backbone("random:torchvision:resnet50").module
    images = torch.randn(4, 3, 224, 224)
    with torch.inference_mode():
        network(images)
        began = time.process_time()
        network(images)
        extraction = 4 * FORWARD / (time.process_time() - began)
    with tempfile.TemporaryDirectory() as folder:
        stored = write_store(Path(folder), 8192, 1024, 1000)
        passes, _ = time_passes(stored, 1000, 1, 1000)
        data = LabelledRows(FeatureSet(stored.features, "rows"), torch.from_numpy(stored.labels), 1000)
        rows = TrainingRows(data, np.arange(4096))
        began = time.process_time()
        train(rows, Setting(1.0, 0.0), Protocol(epochs=2), torch.Generator().manual_seed(0))
        training = 2 * 4 * 4096 * 1024 * 1000 / (time.process_time() - began) / 1e9
        counted = count_passes(Path(folder, "small"))
    return Constants(extraction, passes, training, peak_gflops(), *counted)


def count_passes(folder: Path) -> tuple[int, int]:
    """Gradients of the path and of the final fit, on 6,000 rows of 100 overlapping classes."""
    stored = write_store(folder, 6000, 256, 100)
    counted, walk = [], logistic.follow_path

    def counting(*args: Any, **options: Any) -> Any:
        found = walk(*args, **options)
        counted.append(found.gradients)
        return found

    logistic.follow_path = counting
    try:
        evaluate_probe(stored.features, stored.labels, stored.features[:100], stored.labels[:100], seeds=1)
    finally:
        logistic.follow_path = walk
    return counted[0], counted[1]


def logistic_gflop(rows: int, shots: int | str, classes: int, known: Constants) -> float:
    """Of one model, seed and number of shots: the path on all folds, the left-out rows, the final fit."""
    fits = 0 if shots == 1 else 1 if rows >= HOLD_OUT_ROWS else min(FOLDS, int(shots) if shots != "all" else FOLDS)
    unit = 4 * rows * min(rows, DIMENSIONS) * classes / 1e9
    held = len(PENALTIES) * 0.5 * unit * (0.2 if rows >= HOLD_OUT_ROWS else 1.0)
    return known.path * fits * unit + (held if fits else 0.0) + known.final * unit


def paper_gflop(rows: int, classes: int) -> float:
    """Thirty trainings on 80 % and one on all rows, a hundred epochs each."""
    return 100 * (30 * 0.8 + 1) * 4 * rows * DIMENSIONS * classes / 1e9


def in_words(hours: float) -> str:
    """Return a duration in seconds, minutes, hours or days."""
    if hours < 1 / 60:
        return f"{hours * 3600:.1f} seconds"
    if hours < 1:
        return f"{hours * 60:.1f} minutes"
    return f"{hours:.1f} hours" if hours < 48 else f"{hours:,.0f} hours ({hours / 24:,.1f} days)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", type=int, default=2, help="of the CPU")
    parser.add_argument("--gpu-gflops", type=float, default=19_500, help="stated float32 peak of one GPU (an A100's)")
    keep_options(parser, __file__)
    options = parser.parse_args()
    torch.set_num_threads(1)
    known = Constants(**kept_figures(options, lambda: measure()._asdict()))
    lines = [
        (
            f"In GFLOP/s per thread: extraction {known.extraction:.0f}, passes of `logistic` {known.passes:.0f},"
            f" trainings of `paper` {known.training:.0f}, the best of large products {known.peak:.0f}. Gradients: "
            f"{known.path} for the path, {known.final} for the final fit."
        ),
        "",
    ]
    images = sum(one.train + one.test for one in FULL_COG)
    work = {
        "extraction": MODELS * images * FORWARD,
        "coordinates": MODELS * sum(2 * one.train * DIMENSIONS**2 for one in FULL_COG) / 1e9,
        "logistic": 0.0,
        "paper": 0.0,
    }
    for one in FULL_COG:
        for shots in SHOTS:
            rows = one.train if shots == "all" else min(int(shots) * one.classes, one.train)
            work["logistic"] += MODELS * SEEDS * logistic_gflop(rows, shots, one.classes, known)
            work["paper"] += MODELS * SEEDS * paper_gflop(rows, one.classes)
    speeds = {
        "extraction": known.extraction,
        "coordinates": known.passes,
        "logistic": known.passes,
        "paper": known.training,
    }
    lines.append(
        f"| stage | TFLOP | this CPU, {options.cores} cores | one GPU of {options.gpu_gflops:,.0f} GFLOP/s | eight |"
    )
    lines.append("|---|---|---|---|---|")
    for stage, gflop in work.items():
        cpu = gflop / speeds[stage] / options.cores / 3600
        gpu = gflop / (options.gpu_gflops * min(speeds[stage] / known.peak, 1.0)) / 3600
        lines.append(f"| {stage} | {gflop / 1e3:,.0f} | {in_words(cpu)} | {in_words(gpu)} | {in_words(gpu / 8)} |")
    print("\n".join(lines))
    if options.docs:
        write_docs(options.docs, "cog", lines)


if __name__ == "__main__":
    main()
