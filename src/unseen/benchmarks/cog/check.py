"""Check an ImageNet-CoG before a run: missing and short concepts, unreadable samples, and the cost in operations.

The check lists folders and tar indexes and decodes a few sample images, so it takes seconds. It collects all problems
instead of raising the first one. A tar file without an index is read once.

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

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path

from unseen.backbones import Backbone
from unseen.backbones.sources.cog import cog_models
from unseen.benchmarks.cog.details import ALL, Shots
from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import DataError, UnknownNameError
from unseen.core.identity import Values
from unseen.core.names import Name
from unseen.core.records import ModelCard
from unseen.data import Split, decode_rgb
from unseen.data.sources.imagenet.cog import Caps, Lists, pick_image_lists, read_split_file
from unseen.data.sources.imagenet.source import find_in1k, read_in1k
from unseen.data.sources.imagenet.tree import find_tree, some
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


@dataclass(frozen=True)
class SetCheck(ImageSet):
    """Images found on disk for one set; `classes`, `train` and `test` are those that a run would use.

    Attributes:
        counts: images on disk of each concept that was found.
        missing: concepts that were not found.
        short: concepts with fewer images than are needed.
        damaged: concepts whose folder or tar file cannot be read, with the reason.
        absent: number of listed images that were not found, if image lists are used.
        problems: all problems in words, with a few examples of each.
        notes: findings that do not stop a run.
    """

    counts: Mapping[str, int]
    missing: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    damaged: Mapping[str, str] | None = None
    absent: int = 0
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImageNetCheck:
    """Findings of a check.

    Attributes:
        layout: "folders", "tars", "folders and tars", "one tar", or "" if the root cannot be read.
        concepts: number of concepts in the root, in a level or not.
        sets: ImageNet-1K, if it was checked, then the levels.
        samples: number of images that were decoded.
        unreadable: name and reason of those that could not be decoded; a run skips and counts such images.
        problems: all problems in words.
    """

    root: str
    layout: str
    concepts: int
    sets: tuple[SetCheck, ...]
    samples: int
    unreadable: Mapping[str, str]
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether a run can start."""
        return not self.problems

    def to_dict(self) -> Values:
        """Return the findings as JSON values."""
        return {"ok": self.ok, **asdict(self)}

    def lines(self) -> list[str]:
        """Return the findings as lines of text."""
        return [
            f"{self.root}: {self.layout or 'not readable'}, {self.concepts:,} concepts",
            *(f"{s.name:6} {s.classes:5,} concepts  {s.train:9,} train  {s.test:7,} test" for s in self.sets),
            f"{self.samples} sample images decoded, {len(self.unreadable)} unreadable",
            *(f"unreadable: {name}: {reason}" for name, reason in self.unreadable.items()),
            *(f"note: {note}" for each in self.sets for note in each.notes),
            *(f"problem: {problem}" for problem in self.problems),
        ]


def check_imagenet(
    root: Path,
    levels: Mapping[str, Sequence[str]],
    *,
    in1k: Path | None = None,
    split: Path | None = None,
    caps: Caps | None = None,
    samples: int = 20,
) -> ImageNetCheck:
    """Check an ImageNet-21K root, and an ImageNet-1K root if it is given.

    Args:
        levels: concepts by level, as `read_levels` returns them.
        split: file of image lists; without it, images are sampled.
        caps: images per concept; by default those of the paper.
        samples: number of images to decode, spread over the concepts.
    """
    problems: list[str] = []
    lists = _read_lists(split, levels, problems) if split is not None else {}
    layout, concepts = "", 0
    found: dict[str, Split | DataError] = {}
    try:
        tree = find_tree(root)
        layout, concepts = tree.layout, len(tree.concepts)
        found = tree.survey(sorted({c for level in levels.values() for c in level if c in tree}))
    except DataError as error:
        problems.append(str(error))
    checks = [_check_level(name, level, found, lists, caps or Caps()) for name, level in levels.items()]
    seen = [_check_in1k(in1k)] if in1k is not None else []
    unreadable, decoded = _decode_samples([e for e in found.values() if isinstance(e, Split) and len(e)], samples)
    return ImageNetCheck(
        root=str(root),
        layout=layout,
        concepts=concepts,
        sets=(*seen, *checks),
        samples=decoded,
        unreadable=unreadable,
        problems=(*problems, *(problem for check in (*checks, *seen) for problem in check.problems)),
    )


def count_concepts(root: Path) -> dict[str, int]:
    """Return the number of images of every concept below a root, in folders or tar files.

    Raises:
        DataError: the root, or a folder or tar file in it, cannot be read.
    """
    tree = find_tree(root)
    return dict(zip(tree.concepts, map(len, tree.every(tree.concepts)), strict=True))


def _read_lists(split: Path, levels: Mapping[str, Sequence[str]], problems: list[str]) -> Lists:
    """Return the image lists of all levels; append what cannot be read to `problems`."""
    lists: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
    try:
        content = read_split_file(split)
    except DataError as error:
        problems.append(str(error))
        return lists
    for name, concepts in levels.items():
        try:
            lists |= pick_image_lists(split, content, concepts)
        except DataError as error:
            problems.append(f"{name}: {error}")
    return lists


def _check_level(
    name: str, concepts: Sequence[str], found: Mapping[str, Split | DataError], lists: Lists, caps: Caps
) -> SetCheck:
    damaged = {c: str(each) for c in concepts if isinstance(each := found.get(c), DataError)}
    images = {c: each for c in sorted(concepts) if isinstance(each := found.get(c), Split)}
    counts = {c: len(each) for c, each in images.items()}
    short: list[str] = []
    train = test = absent = 0
    for concept, each in images.items():
        used = list(caps.used(len(each)))
        if concept in lists:
            used = [len(set(each.names).intersection(names)) for names in lists[concept]]
            absent += sum(map(len, lists[concept])) - sum(used)
        elif not used[0]:
            short.append(concept)
        train, test = train + used[0], test + used[1]
    missing = sorted(set(concepts) - set(found))
    problems = [f"{len(missing):,} concepts were not found: {some(missing)}"] if missing else []
    if short:
        examples = some([f"{concept} ({counts[concept]})" for concept in short])
        problems.append(f"{len(short):,} concepts have fewer than {caps.least + caps.test} images: {examples}")
    problems += [f"{concept} cannot be read: {reason}" for concept, reason in damaged.items()]
    problems += [f"{absent:,} listed images were not found"] if absent else []
    return SetCheck(
        name=name,
        classes=len(counts) - len(short),
        train=train,
        test=test,
        counts=counts,
        missing=tuple(missing),
        short=tuple(short),
        damaged=damaged,
        absent=absent,
        problems=tuple(f"{name}: {problem}" for problem in problems),
    )


def _check_in1k(root: Path) -> SetCheck:
    try:
        classes, splits, notes = read_in1k(find_in1k(root))
    except DataError as error:
        return SetCheck("in1k", 0, 0, 0, {}, problems=(f"in1k: {error}",))
    train, test = (len(splits[name]) for name in ("train", "test"))
    return SetCheck("in1k", len(classes), train, test, {}, notes=(f"in1k: {notes}",) if notes else ())


def _decode_samples(every: Sequence[Split], count: int) -> tuple[dict[str, str], int]:
    """Decode a few images, spread over the concepts; return name and reason of unreadable ones, and the number."""
    unreadable: dict[str, str] = {}
    count = min(count, len(every))
    for i in range(count):
        images = every[i * len(every) // count]
        row = len(images) // 2
        try:
            decode_rgb(images.open(row), truncated="accept")
        except (DataError, OSError) as error:
            unreadable[images.names[row]] = str(error)
    return unreadable, count


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
