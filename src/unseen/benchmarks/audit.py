"""Audits before you trust a number: copies among images, and sanity checks whose outcome is known.

Copies are searched within a dataset, between its splits, and against another dataset
(`unseen.data.duplicates`). The sanity checks of a dataset and its models pass if data, weights and code are right; each
states what was found and what a failure means. `unseen check` prints them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Literal

import numpy as np

from unseen.backbones.load import LOGITS, check_backbone
from unseen.benchmarks.workbench import SplitRows, Workbench
from unseen.concepts import Answers, Relation, audit_classes, imagenet_1k
from unseen.concepts.mapping import SEEN_SETS as SEEN_SETS
from unseen.core.arrays import BoolArray, IntArray
from unseen.core.errors import UnseenError, UsageError
from unseen.core.names import Name
from unseen.data import Dataset
from unseen.data.dataset import CLASS, join_splits
from unseen.data.duplicates import DuplicateReport, ImageSet, find_duplicates
from unseen.data.load import resolve_dataset
from unseen.data.subset import rank_in_class
from unseen.features import FeatureRows
from unseen.metrics import softmax
from unseen.reports.wording import counted
from unseen.stats import accuracy_interval, decide, mean_interval

MODEL = "packaged:efficientnet-lite0"
LAYER = "pooled"
#: Images of each class that a classifier sees.
IMAGES_PER_CLASS = 6

Status = Literal["pass", "warning", "fail", "skipped"]

#: Number of label permutations of the shuffled-label control.
SHUFFLES = 10
#: Confidence level of the shuffled-label control: a correct pipeline fails it in 1 of 2,000 runs.
SHUFFLE_LEVEL = 0.999
#: Probes train on at most this many images.
MOST_TRAINING_IMAGES = 2_000
#: With fewer test images, a difference that is not significant is a warning, not a failure.
FEW_TEST_IMAGES = 50
_TOO_FEW = f"Fewer than {FEW_TEST_IMAGES} test images may not show a difference."
#: Largest class over smallest class from which on the balance is reported.
IMBALANCE = 10
#: Architecture of the random baseline if the model's own is unknown.
RANDOM_BASELINE = "resnet18"

# ---- what a classifier answers for images ----------------------------------------------------------------------------


def classify_images(bench: Workbench, data: str) -> Answers:
    """Return what `MODEL`, which knows ImageNet-1K, answers for some images of each class of a dataset."""
    sample = str(Name.parse(data, {"per_class": IMAGES_PER_CLASS, "as": "test"}))
    rows, answers = bench.split(MODEL, sample, "test", LOGITS), imagenet_1k()
    counts = np.bincount(rows.labels, minlength=len(bench.dataset(sample).class_names))
    shares = np.zeros((len(counts), len(answers)))
    np.add.at(shares, rows.labels, softmax(np.asarray(rows.features[:], np.float64)))
    shares[counts == 0] = 1 / len(answers)
    return Answers(shares / np.maximum(counts, 1)[:, None], answers)


# ---- copies among images ---------------------------------------------------------------------------------------------


def audit_images(
    bench: Workbench, data: str, against: str | None = None, *, model: str = MODEL, **search: Any
) -> DuplicateReport:
    """Find the copies among the images of a dataset, or between it and another one.

    Args:
        bench: provides stored features, and extracts missing ones.
        data, against: names of datasets.
        model: the model whose features give the candidates.
        search: options of `find_duplicates`.
    """
    names = [resolve_dataset(name, Path.cwd()) for name in (data, against) if name is not None]
    return find_duplicates(*(image_set(bench, model, name) for name in names), **search)


def image_set(bench: Workbench, model: str, dataset: str) -> ImageSet:
    """Return all readable images of a dataset, split by split, with their features."""
    loaded = bench.dataset(dataset)
    parts = bench.splits(model, dataset, LAYER)
    return ImageSet(
        name=dataset,
        images=join_splits([loaded.split(name).take(part.index) for name, part in parts.items()]),
        features=reduce(FeatureRows.join, [FeatureRows.of(part.features) for part in parts.values()]),
        splits=[name for name, part in parts.items() for _ in part.index],
    )


# ---- sanity checks ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Check:
    """The outcome of one sanity check.

    Attributes:
        name: what was checked, such as "shuffled labels score at chance".
        model: the model that it concerns; "" for checks of the data.
        status: "pass", "warning", "fail" or "skipped".
        found: what was measured.
        meaning: what a failure means and what to do; "" if the check passed.
    """

    name: str
    model: str
    status: Status
    found: str
    meaning: str = ""


def _check(name: str, passed: bool, found: str, meaning: str, *, model: str = "", status: Status = "fail") -> Check:
    """Return a check that passed, or its status and meaning if it did not."""
    return Check(name, model, "pass", found) if passed else Check(name, model, status, found, meaning)


def run_checks(
    bench: Workbench, data: str, models: Sequence[str], *, seen: str = "imagenet-1k", copies: bool = True, seed: int = 0
) -> Iterator[Check]:
    """Yield the sanity checks of a dataset with class labels, each as soon as it is done.

    Args:
        bench: provides datasets and features.
        data: name of the dataset.
        models: names of the models.
        seen: classes that the models were trained on, for the leak audit: "imagenet-1k" or "imagenet-21k".
        copies: whether to search for copies between training and test images.
        seed: seed of the label permutations and of subsamples.

    Raises:
        UsageError: if the dataset has no class labels or no training or test images.
    """
    dataset = bench.dataset(data)
    if dataset.target != CLASS or not {"train", "test"} <= set(dataset.splits):
        raise UsageError(f"{data} needs class labels, training images and test images for these checks.")
    yield check_balance(dataset)
    yield check_leaks(dataset, seen)
    for number, model in enumerate(models):
        rows = bench.splits(model, data)
        if number == 0:
            yield check_readable(rows)
            if copies:
                yield check_copies(bench, model, data)
        yield from run_controls(bench, data, model, seed=seed)


def run_controls(bench: Workbench, data: str, model: str, *, seed: int = 0) -> Iterator[Check]:
    """Yield the checks of one model whose outcome is known if data, weights and code are right."""
    probe = _Probe(bench.splits(model, data), model, seed)
    yield from (probe.check_majority(), probe.check_shuffled_labels(), probe.check_more_labels())
    baseline = random_baseline(bench, model)
    yield probe.check_random_weights(baseline, bench.splits(baseline, data) if baseline else None)


def check_balance(dataset: Dataset) -> Check:
    """Check that no training class is much larger than another, and that each class has test images."""
    train, test = (np.bincount(dataset.split(s).labels, minlength=len(dataset.class_names)) for s in ("train", "test"))
    untested = [dataset.class_names[k] for k in np.flatnonzero((train > 0) & (test == 0)).tolist()]
    used = train[train > 0]
    sizes = " to ".join(dict.fromkeys(f"{size:,}" for size in (used.min(), used.max())))
    meaning = "Top-1 accuracy is dominated by large classes: report accuracy per class."
    if untested:
        examples = ", ".join(untested[:3]) + (" and others" if len(untested) > 3 else "")
        meaning = f"{len(untested)} classes have no test image ({examples})."
    return _check(
        "classes are balanced",
        not untested and used.max() < IMBALANCE * used.min(),
        f"{sizes} training images per class, {len(used)} classes",
        meaning,
        status="warning",
    )


def check_leaks(dataset: Dataset, seen: str) -> Check:
    """Check whether class names are among the classes that models were trained on."""
    title, concepts = SEEN_SETS[seen]
    audit = audit_classes(list(dataset.class_names), concepts(), wnids=dataset.wnids or (), seen_name=title)
    leaked, unknown = audit.counts[Relation.SEEN], audit.counts[Relation.UNKNOWN]
    found = f"{title} has {leaked} of the {len(audit.rows)} classes; {unknown} not matched"
    meaning = "A model trained on these classes has seen them: do not call them unseen (unseen audit)."
    return _check(f"classes are not in {seen}", not leaked, found, meaning, status="warning")


def check_readable(rows: Mapping[str, SplitRows]) -> Check:
    """Check that every image could be read."""
    broken = [name for part in rows.values() for name in part.skipped]
    total = sum(part.total for part in rows.values())
    found = f"{len(broken)} of {total:,} images" if broken else f"{total:,} images"
    meaning = f"These images are not evaluated, for example {broken[0]}." if broken else ""
    return _check("all images are readable", not broken, found, meaning)


def check_copies(bench: Workbench, model: str, data: str) -> Check:
    """Check that no test image is a copy of a training image."""
    report = find_duplicates(image_set(bench, model, data))
    crossing = report.between_splits.get(("test", "train"), 0)
    found = counted(crossing, "test image") if crossing else "none"
    meaning = "Test accuracy is too high: models are tested on images of their training set (unseen audit --images)."
    return _check("no copies between training and test images", not crossing, found, meaning)


def random_baseline(bench: Workbench, model: str) -> str:
    """Return the name of the same architecture with random weights; "" for a model that is random itself."""
    if model.startswith("random:"):
        return ""
    backbone = bench.backbone(model)
    for architecture in (backbone.card.architecture.removeprefix("timm:"), RANDOM_BASELINE):
        name = f"random:{architecture}"
        try:
            check_backbone(name)
        except UnseenError:
            continue
        size = backbone.preprocessing.size
        return name if bench.backbone(name).preprocessing.size == size else f"{name}?size={size}"
    return ""


class _Probe:
    """Linear probes on the features of one model, with true and with shuffled labels."""

    def __init__(self, rows: Mapping[str, SplitRows], model: str, seed: int) -> None:
        self.model, self.rows = model, rows
        self.labels, self.test = rows["train"].labels, rows["test"]
        self.generator = np.random.default_rng(seed)
        self.chosen = _subsample(self.labels, MOST_TRAINING_IMAGES, self.generator)
        self.correct = self.fit(self.labels)

    def fit(
        self, labels: IntArray, shots: int | Literal["all"] = "all", rows: Mapping[str, SplitRows] | None = None
    ) -> BoolArray:
        """Return which test images a probe classifies correctly."""
        from unseen.probes import evaluate_probe  # imports torch

        train, test = ((rows or self.rows)[split] for split in ("train", "test"))
        chosen = self.chosen[self.chosen < len(train.labels)]
        (found,) = evaluate_probe(
            np.asarray(train.features[chosen]), labels[chosen], test.features, test.labels, shots=shots, seeds=[0]
        )
        return found.correct

    def check_majority(self) -> Check:
        """Check that the probe is better than always guessing the largest training class."""
        largest = np.bincount(self.labels[self.chosen]).argmax()
        share = float((self.test.labels == largest).mean())
        interval = accuracy_interval(self.correct)
        few = len(self.correct) < FEW_TEST_IMAGES
        meaning = "Features do not separate these classes: check labels, image size and weights, or add images."
        limits = f"{100 * interval.low:.1f}, {100 * interval.high:.1f}"
        return _check(
            "accuracy is above the majority class",
            interval.low > share,
            f"{100 * interval.value:.1f} % [{limits}], majority class {100 * share:.1f} %",
            _TOO_FEW if few else meaning,
            model=self.model,
            status="warning" if few else "fail",
        )

    def check_shuffled_labels(self) -> Check:
        """Check that probes trained on permuted labels are not better than guessing the largest test class.

        Images of a class share their errors, so the test is over permutations, not over images.
        """
        accuracies = [self.fit(self.generator.permutation(self.labels)).mean() for _ in range(SHUFFLES)]
        chance = float(np.bincount(self.test.labels).max() / len(self.test.labels))
        interval = mean_interval(accuracies, level=SHUFFLE_LEVEL)
        return _check(
            "shuffled labels score at chance",
            interval.low <= chance,
            f"{100 * interval.value:.1f} %, largest class {100 * chance:.1f} %, {SHUFFLES} permutations",
            "Information about test labels reaches the probe: look for copies, sorted files or a leak in the code.",
            model=self.model,
        )

    def check_more_labels(self) -> Check:
        """Check that all training images give a better probe than one image per class."""
        few = self.fit(self.labels, shots=1)
        found = f"{100 * self.correct.mean():.1f} % against {100 * few.mean():.1f} % with one image per class"
        saturated = few.mean() >= 0.99
        return _check(
            "more labels score higher",
            saturated or _is_better(self.correct, few),
            f"{found}: nothing left to gain" if saturated else found,
            "The gain is not significant: labels may be noisy, or there are too few test images to show it.",
            model=self.model,
            status="warning",
        )

    def check_random_weights(self, baseline: str, rows: Mapping[str, SplitRows] | None) -> Check:
        """Check that the model is better than the same architecture with random weights."""
        name = "random weights score lower"
        if rows is None:
            return Check(name, self.model, "skipped", "no architecture with random weights to compare with")
        _, own, other = np.intersect1d(self.test.index, rows["test"].index, return_indices=True)
        trained, random = self.correct[own], self.fit(rows["train"].labels, rows=rows)[other]
        few = len(own) < FEW_TEST_IMAGES
        meaning = "The weights may not have been loaded (unseen results record), or training did not help on this data."
        return _check(
            name,
            _is_better(trained, random),
            f"{100 * random.mean():.1f} %, {100 * (trained.mean() - random.mean()):+.1f} points on {len(own)} images",
            f"{_TOO_FEW if few else meaning} Random weights: {baseline}.",
            model=self.model,
            status="warning" if few else "fail",
        )


def _is_better(first: BoolArray, second: BoolArray) -> bool:
    """Return whether the first outcomes are significantly better than the second on the same images."""
    difference = decide({"first": first, "second": second}).pairs["first", "second"]
    return difference.significant and difference.value > 0


def _subsample(labels: IntArray, most: int, generator: np.random.Generator) -> IntArray:
    """Return the sorted rows of a random sample of at most `most` images, with every class in its proportion."""
    if len(labels) <= most:
        return np.arange(len(labels))
    rank, count = rank_in_class([str(i) for i in range(len(labels))], labels, int(generator.integers(1 << 31)))
    return np.sort(np.argsort((rank + 0.5) / count, kind="stable")[:most])
