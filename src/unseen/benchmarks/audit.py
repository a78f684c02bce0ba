"""Audits before you trust a number: copies among images, and sanity checks whose outcome is known.

Copies are searched within a dataset, between its splits, and against another dataset or its stored features
(`unseen.data.duplicates`). The sanity checks of a dataset and its models pass if data, weights and code are right; each
states what was found and what a failure means. `unseen check` prints them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Literal

import numpy as np

from unseen.backbones.load import check_backbone
from unseen.benchmarks.workbench import SplitRows, Workbench
from unseen.concepts import Relation, audit_classes
from unseen.concepts.mapping import SEEN_SETS as SEEN_SETS
from unseen.core.arrays import BoolArray, IntArray
from unseen.core.errors import DataError, UnknownNameError, UnseenError, UsageError
from unseen.data import Dataset
from unseen.data.dataset import CLASS
from unseen.data.duplicates import DuplicateReport, ImageSet, find_duplicates
from unseen.data.load import SOURCES, resolve_dataset
from unseen.features import Entry, FeatureRows, StoredFeatures
from unseen.stats import accuracy_interval, decide, mean_interval

MODEL = "packaged:efficientnet-lite0"
LAYER = "pooled"

Status = Literal["pass", "warning", "fail", "skipped"]

#: Number of label permutations of the shuffled-label control.
SHUFFLES = 10
#: Confidence level of the shuffled-label control: a correct pipeline fails it in 1 of 2,000 runs.
SHUFFLE_LEVEL = 0.999
#: Probes train on at most this many images.
MOST_TRAINING_IMAGES = 2_000
#: Largest class over smallest class from which on the balance is reported.
IMBALANCE = 10
#: Architecture of the random baseline if the model's own is unknown.
RANDOM_BASELINE = "resnet18"

# ---- copies among images ---------------------------------------------------------------------------------------------


def audit_images(
    bench: Workbench,
    data: str,
    against: str | None = None,
    *,
    model: str | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    **search: Any,
) -> tuple[DuplicateReport, str]:
    """Find the copies among the images of a dataset, or between it and another one.

    Args:
        bench: provides stored features, and extracts missing ones.
        data: a dataset.
        against: another dataset; or, of features in the store, a dataset's name, or the beginning of an entry's id. A
            set whose images cannot be opened is compared by its features alone.
        model: the model whose features give the candidates; by default EfficientNet-Lite0, or the model of the stored
            features of `against`.
        progress: called with (stage, done, total).
        search: options of `find_duplicates`.

    Returns:
        The report, and the model whose features were used.

    Raises:
        UnknownNameError: if `against` is neither a dataset nor in the store.
    """
    other, used = _other_set(bench, against, model) if against is not None else (None, model or MODEL)
    own = image_set(bench, used, resolve_dataset(data, Path.cwd()))
    return find_duplicates(own, other, progress=progress, **search), used


def image_set(bench: Workbench, model: str, dataset: str) -> ImageSet:
    """Return all readable images of a dataset, split by split, with their features."""
    loaded = bench.dataset(dataset)
    parts = bench.splits(model, dataset, LAYER)
    rows = [(loaded.split(split), int(image)) for split, part in parts.items() for image in part.index]

    def content_key(i: int) -> bytes:
        split, image = rows[i]
        assert split.content_key is not None
        return split.content_key(image)

    return ImageSet(
        name=dataset,
        names=[split.names[image] for split, image in rows],
        features=_join(parts.values()),
        open=lambda i: rows[i][0].open(rows[i][1]),
        splits=[name for name, part in parts.items() for _ in part.index],
        labels=np.concatenate([part.labels for part in parts.values()]).tolist(),
        content_key=content_key if all(split.content_key for split, _ in rows) else None,
    )


def _join(parts: Iterable[SplitRows | StoredFeatures]) -> FeatureRows:
    return reduce(FeatureRows.join, [FeatureRows.of(part.features) for part in parts])


def _other_set(bench: Workbench, against: str, model: str | None) -> tuple[ImageSet, str]:
    """Return the set that `against` names: images with features if they can be opened, else stored features."""
    name = resolve_dataset(against, Path.cwd())
    source, colon, _ = name.partition(":")
    if colon and source in SOURCES:
        try:
            bench.dataset(name)
        except UnseenError as error:
            try:
                return _stored_set(bench.store.select(name), model)
            except UnknownNameError:
                raise error from None
        return image_set(bench, model or MODEL, name), model or MODEL
    entries = bench.store.select(against)
    keys = [entry.manifest.key for entry in entries if entry.manifest is not None]
    models = {model} if model else {key.model for key in keys}
    if len({key.dataset for key in keys}) == len(models) == 1:
        (used,) = models
        try:
            return image_set(bench, used, keys[0].dataset), used
        except UnseenError:
            pass  # the images are gone: compare features
    return _stored_set(entries, model)


def _stored_set(entries: Sequence[Entry], model: str | None) -> tuple[ImageSet, str]:
    """Return a set of stored features whose images cannot be opened."""
    kept = [
        (entry.path, entry.manifest)
        for entry in entries
        if entry.manifest is not None and entry.state == "complete" and entry.manifest.key.layer == LAYER
    ]
    models = sorted({manifest.key.model for _, manifest in kept})
    if model is None and len(models) > 1:
        raise DataError(f"the store has features of several models: {', '.join(models)}. Choose one with --model.")
    used = model or (models[0] if models else MODEL)
    own = [
        (manifest.key, StoredFeatures.open(path, manifest, "size"))
        for path, manifest in kept
        if manifest.key.model == used
    ]
    if not own:
        raise DataError(f"the store has no complete {LAYER} features of {used!r}. It has: {', '.join(models)}.")
    rows = [(key, image) for key, part in own for image in part.index]
    names = [f"{key.dataset} {key.split} #{image}" for key, image in rows]
    name = " and ".join(dict.fromkeys(key.dataset for key, _ in own))
    return ImageSet(name, names, _join(part for _, part in own), None, [key.split for key, _ in rows]), used


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

    def to_dict(self) -> dict[str, str]:
        """Return plain values for JSON."""
        return asdict(self)


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
    meaning = "Top-1 accuracy is dominated by large classes: report accuracy per class."
    if untested:
        examples = ", ".join(untested[:3]) + (" and others" if len(untested) > 3 else "")
        meaning = f"{len(untested)} classes have no test image ({examples})."
    return _check(
        "classes are balanced",
        not untested and used.max() < IMBALANCE * used.min(),
        f"{used.min()} to {used.max()} training images per class, {len(used)} classes",
        meaning,
        status="warning",
    )


def check_leaks(dataset: Dataset, seen: str) -> Check:
    """Check whether class names are among the classes that models were trained on."""
    title, concepts = SEEN_SETS[seen]
    audit = audit_classes(list(dataset.class_names), concepts(), wnids=dataset.wnids or (), seen_name=title)
    leaked, unknown = audit.counts[Relation.SEEN], audit.counts[Relation.UNKNOWN]
    found = f"{leaked} of {len(audit.rows)} classes are in {title}, {unknown} not matched"
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
    report = find_duplicates(image_set(bench, model, data), parts=False)
    crossing = report.between_splits.get(("test", "train"), 0)
    found = f"{crossing} test images" if crossing else "none; crops: unseen audit --images"
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
        limits = f"{100 * interval.low:.1f}, {100 * interval.high:.1f}"
        return _check(
            "accuracy is above the majority class",
            interval.low > share,
            f"{100 * interval.value:.1f} % [{limits}], majority class {100 * share:.1f} %",
            "Features do not separate these classes: check labels, image size and weights, or add images.",
            model=self.model,
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
        gain = f"difference {100 * (trained.mean() - random.mean()):+.1f} on {len(own)} images"
        return _check(
            name,
            _is_better(trained, random),
            f"{100 * random.mean():.1f} % ({baseline}), {gain}",
            "The weights may not have been loaded (unseen results record), training did not help on this data, or "
            "there are too few test images to show it.",
            model=self.model,
        )


def _is_better(first: BoolArray, second: BoolArray) -> bool:
    """Return whether the first outcomes are significantly better than the second on the same images."""
    difference = decide({"first": first, "second": second}).pairs["first", "second"]
    return difference.significant and difference.value > 0


def _subsample(labels: IntArray, most: int, generator: np.random.Generator) -> IntArray:
    """Return the sorted rows of a random sample of at most `most` images, with every class in its proportion."""
    if len(labels) <= most:
        return np.arange(len(labels))
    order = generator.permutation(len(labels))
    position = np.empty(len(labels))
    for label in np.unique(labels):
        rows = order[labels[order] == label]
        position[rows] = (np.arange(len(rows)) + 0.5) / len(rows)
    return np.sort(np.argsort(position, kind="stable")[:most])
