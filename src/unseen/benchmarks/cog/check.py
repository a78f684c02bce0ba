"""The cost of an ImageNet-CoG before a run: disk, memory, operations and hours.

Cost:       images      the train and test images of every set, each through every model once
            disk        images x (dimensions x bytes per number + 16 for label and index), and about 1 KiB per part
            memory      working copies x 4 bytes x dimensions x training images of the largest set
            extraction  images x operations of a forward pass
            probes      4 x rows x dimensions x classes per pass over the rows, for every set, seed and number of shots
            hours       operations / (peak x `EFFICIENCY`), the share of a V100's peak that the hours of the authors
                        imply for ResNet-50: 60 minutes per extraction of a set, 75 per classifier with all images
Expected:   all of ImageNet-CoG: 6,810,655 training images (1,281,167 seen, 5,529,488 unseen) and 300,000 test images;
            2,048 float32 numbers of each take 58 GB
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from unseen.backbones import Backbone
from unseen.backbones.sources.cog import cog_models
from unseen.benchmarks.cog.details import ALL, Shots
from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import UnknownNameError
from unseen.core.names import Name
from unseen.core.records import ModelCard
from unseen.data.sources.imagenet.tree import find_tree
from unseen.reports.wording import counted

#: Section 3.4 of the paper: all images, and 1, 2, 4 ... 128 of each concept; five seeds.
PAPER_SHOTS: tuple[Shots, ...] = (ALL, 1, 2, 4, 8, 16, 32, 64, 128)
PAPER_SEEDS = 5
#: Passes over the rows of one probe. `logistic`: gradients along the path of penalties and of the final fit, counted by
#: bench/cog_cost.py. `paper`: 100 epochs of 30 trials on 80 % of the rows, and of the final fit on all.
PASSES = {"logistic": 45, "paper": 2_500}

#: Share of the peak speed at which a pass through ResNet-50 and the training of a classifier ran for the authors.
EFFICIENCY = {"extraction": 0.171, "probes": 0.329}
#: Peak float32 GFLOP/s of a V100.
V100 = 15_700.0

_ROW = 16  # int64 label and int64 index beside each row of features
_PART = 1024  # images per part file, and bytes of its header


@dataclass(frozen=True)
class ImageSet:
    """Size of one set of images: the seen concepts, or a level."""

    name: str
    classes: int
    train: int
    test: int


#: ILSVRC-2012, and our levels with the images per synset of the Fall 2011 release (at most 1,300 + 50 of each).
_FULL_TRAIN = {
    "in1k": 1_281_167, "l1": 1_119_170, "l2": 1_116_139, "l3": 1_095_909, "l4": 1_106_608, "l5": 1_091_662
}  # fmt: skip
FULL_COG = tuple(ImageSet(name, 1000, train, 50_000) for name, train in _FULL_TRAIN.items())


def count_concepts(root: Path) -> dict[str, int]:
    """Return the number of images of every concept below a root, in folders or tar files.

    Raises:
        DataError: the root, or a folder or tar file in it, cannot be read.
    """
    tree = find_tree(root)
    return dict(zip(tree.concepts, map(len, tree.every(tree.concepts)), strict=True))


@dataclass(frozen=True)
class ModelCost:
    """Cost of one model over all sets.

    Attributes:
        disk_gb: size of its features.
        memory_gb: memory of the largest probe, if its rows are in memory.
        extraction_tflop, probe_tflop: operations; a multiply-add counts as two.
    """

    model: str
    disk_gb: float
    memory_gb: float
    extraction_tflop: float
    probe_tflop: float


def planned_card(bench: Workbench, model: str) -> ModelCard:
    """Return the card of a model with its operations; a published model of CoG needs no weights for it."""
    from unseen.backbones.cog.architectures import build_network  # imports torch

    published = cog_models().get(Name.parse(model).rest) if model.startswith("cog:") else None
    if published is None or published.card.preprocessing is None:
        return bench.card(model)
    module, forward = build_network(published)
    backbone = Backbone(published.card, module.eval(), forward, published.card.preprocessing)
    return backbone.with_measured_card().card


def plan_cost(sets: Sequence[ImageSet], models: Sequence[ModelCard], *, solver: str = "logistic") -> list[ModelCost]:
    """Return the cost of models on some sets, with the seeds and numbers of shots of the paper.

    Args:
        models: cards with the measured operations and feature dimension.
        solver: of the probes, a key of `PASSES`.
    """
    from unseen.probes.rows import WORKING_COPIES  # imports torch

    if solver not in PASSES:
        raise UnknownNameError("solver with a known cost", solver, PASSES)
    images = sum(each.train + each.test for each in sets)
    parts = sum(ceil(count / _PART) for each in sets for count in (each.train, each.test))
    rows_by_classes = sum(
        each.classes * (each.train if shots == ALL else min(int(shots) * each.classes, each.train))
        for each in sets
        for shots in PAPER_SHOTS
    )
    costs = []
    for card in models:
        dim, flops = card.feature_dim or 0, card.flops or 0
        disk = images * (4 * dim + _ROW) + parts * _PART
        memory = WORKING_COPIES * 4 * dim * max(each.train for each in sets)
        probes = PAPER_SEEDS * PASSES[solver] * 4 * dim * rows_by_classes
        costs.append(
            ModelCost(
                model=card.id,
                disk_gb=disk / 1e9,
                memory_gb=memory / 1e9,
                extraction_tflop=images * flops / 1e12,
                probe_tflop=probes / 1e12,
            )
        )
    return costs


def hours(tflop: float, stage: str, gflops: float = V100) -> float:
    """Return the hours of a stage ("extraction" or "probes") on a GPU of that peak speed."""
    return tflop * 1e3 / (gflops * EFFICIENCY[stage]) / 3600


def cost_lines(sets: Sequence[ImageSet], costs: Sequence[ModelCost], gflops: float = V100) -> list[str]:
    """Return the cost of all models as lines of text.

    Args:
        gflops: peak float32 speed of a GPU.
    """
    train, test = sum(each.train for each in sets), sum(each.test for each in sets)
    count = f"{len(sets) * len(PAPER_SHOTS) * PAPER_SEEDS * len(costs):,} probes ({PAPER_SEEDS} seeds x 9 shots)"

    def work(tflop: float, stage: str) -> str:
        time = hours(tflop, stage, gflops)
        return f"{tflop:,.0f} TFLOP; about {time:,.1f} h on one GPU, {time / 8:,.1f} h on eight"

    return [
        f"images      {train + test:,} per model ({train:,} train, {test:,} test, {len(sets)} sets)",
        f"disk        {sum(each.disk_gb for each in costs):,.1f} GB of features for {counted(len(costs), 'model')}",
        f"memory      {max(each.memory_gb for each in costs):,.1f} GB for the largest probe; less with --memory-limit",
        f"extraction  {work(sum(each.extraction_tflop for each in costs), 'extraction')}",
        f"probes      {work(sum(each.probe_tflop for each in costs), 'probes')}; {count}",
    ]
