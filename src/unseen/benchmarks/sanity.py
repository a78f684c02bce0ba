"""Sanity checks of a dataset and its models: controls whose outcome is known if data, weights and code are right.

Each check states what was found and what a failure means. `unseen check` prints them; `unseen demo` runs the same
controls on its own data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from unseen.backbones.load import check_backbone
from unseen.benchmarks.image_audit import MODEL as MODEL
from unseen.benchmarks.image_audit import image_set
from unseen.benchmarks.workbench import SplitRows, Workbench
from unseen.concepts import Relation, audit_classes
from unseen.concepts.mapping import SEEN_SETS as SEEN_SETS
from unseen.core.errors import UnseenError, UsageError
from unseen.data import Dataset
from unseen.data.dataset import CLASS
from unseen.data.duplicates import find_duplicates
from unseen.stats import accuracy_interval, decide, mean_interval

Status = Literal["pass", "warning", "fail", "skipped"]
BoolArray = npt.NDArray[np.bool_]

#: Number of label permutations of the shuffled-label control.
SHUFFLES = 10
#: Confidence level of the shuffled-label control: a correct pipeline fails it in 1 of 2,000 runs.
SHUFFLE_LEVEL = 0.999
#: Probes train on at most this many images.
MOST_TRAINING_IMAGES = 2_000
#: Largest class over smallest class from which on the balance is reported.
IMBALANCE = 10
#: Architecture of the random baseline if the model's own is unknown.
RANDOM_BASELINE = "random:resnet18"


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


def run_checks(
    bench: Workbench,
    data: str,
    models: Sequence[str],
    *,
    seen: str = "imagenet-1k",
    copies: bool = True,
    seed: int = 0,
    on_check: Callable[[Check], None] = lambda check: None,
) -> list[Check]:
    """Run all sanity checks of a dataset with class labels.

    Args:
        bench: provides datasets and features.
        data: name of the dataset.
        models: names of the models.
        seen: classes that the models were trained on, for the leak audit: "imagenet-1k" or "imagenet-21k".
        copies: whether to search for copies between training and test images.
        seed: seed of the label permutations and of subsamples.
        on_check: called with each check as soon as it is done.

    Raises:
        UsageError: if the dataset has no class labels or no training or test images.
    """
    dataset = bench.dataset(data)
    if dataset.target != CLASS or not {"train", "test"} <= set(dataset.splits):
        raise UsageError(f"{data} needs class labels, training images and test images for these checks.")
    checks: list[Check] = []
    for check in _all_checks(bench, dataset, data, models, seen, copies, seed):
        checks.append(check)
        on_check(check)
    return checks


def _all_checks(
    bench: Workbench, dataset: Dataset, data: str, models: Sequence[str], seen: str, copies: bool, seed: int
) -> Iterator[Check]:
    yield check_balance(dataset)
    yield check_leaks(dataset, seen)
    for number, model in enumerate(models):
        rows = bench.splits(model, data)
        if number == 0:
            yield check_readable(rows)
            if copies:
                yield check_copies(bench, model, data)
        probe = _Probe(rows, model, seed)
        yield from (probe.check_majority(), probe.check_shuffled_labels(), probe.check_more_labels())
        baseline = random_baseline(bench, model)
        yield probe.check_random_weights(baseline, bench.splits(baseline, data) if baseline else None)


def check_balance(dataset: Dataset) -> Check:
    """Check that no training class is much larger than another, and that each class has test images."""
    counts = {
        name: np.bincount(dataset.split(name).labels, minlength=len(dataset.class_names)) for name in dataset.splits
    }
    train, test = counts["train"], counts["test"]
    untested = [dataset.class_names[k] for k in np.flatnonzero((train > 0) & (test == 0)).tolist()]
    used = train[train > 0]
    found = f"{used.min()} to {used.max()} training images per class, {len(used)} classes"
    name = "classes are balanced"
    if untested:
        listed = ", ".join(untested[:3]) + (" and others" if len(untested) > 3 else "")
        return Check(name, "", "warning", found, f"{len(untested)} classes have no test image ({listed}).")
    if used.max() >= IMBALANCE * used.min():
        return Check(
            name, "", "warning", found, "Top-1 accuracy is dominated by large classes: report accuracy per class."
        )
    return Check(name, "", "pass", found)


def check_leaks(dataset: Dataset, seen: str) -> Check:
    """Check whether class names are among the classes that models were trained on."""
    name = f"classes are not in {seen}"
    title, concepts = SEEN_SETS[seen]
    wnids = concepts()
    audit = audit_classes(list(dataset.class_names), wnids, wnids=dataset.wnids or (), seen_name=title)
    count = audit.counts
    found = f"{count[Relation.SEEN]} of {len(audit.rows)} classes are in {title}, {count[Relation.UNKNOWN]} not matched"
    if not count[Relation.SEEN]:
        return Check(name, "", "pass", found)
    return Check(
        name,
        "",
        "warning",
        found,
        "A model trained on these classes has seen them: do not call them unseen (unseen audit).",
    )


def check_readable(rows: dict[str, SplitRows]) -> Check:
    """Check that every image could be read."""
    broken = {name: part.skipped for name, part in rows.items() if part.skipped}
    total = sum(part.total for part in rows.values())
    name = "all images are readable"
    if not broken:
        return Check(name, "", "pass", f"{total:,} images")
    first = next(iter(next(iter(broken.values()))))
    count = sum(map(len, broken.values()))
    return Check(
        name, "", "fail", f"{count} of {total:,} images", f"These images are not evaluated, for example {first}."
    )


def check_copies(bench: Workbench, model: str, data: str) -> Check:
    """Check that no test image is a copy of a training image."""
    report = find_duplicates(image_set(bench, model, data), parts=False)
    crossing = report.between_splits.get(("test", "train"), 0)
    name = "no copies between training and test images"
    if not crossing:
        return Check(name, "", "pass", f"{report.compared:,} candidate pairs compared")
    return Check(
        name, "", "fail", f"{crossing} test images",
        "Test accuracy is too high: models are tested on images that they were trained on (unseen audit --images).",
    )  # fmt: skip


def random_baseline(bench: Workbench, model: str) -> str:
    """Return the name of the same architecture with random weights; "" for a model that is random itself."""
    if model.startswith("random:"):
        return ""
    architecture = bench.backbone(model).card.architecture.removeprefix("timm:")
    size = bench.backbone(model).preprocessing.size
    for name in (f"random:{architecture}?size={size}", f"{RANDOM_BASELINE}?size={size}"):
        try:
            check_backbone(name)
        except UnseenError:
            continue
        return name
    return ""


class _Probe:
    """Linear probes on the features of one model, with true and with shuffled labels."""

    def __init__(self, rows: dict[str, SplitRows], model: str, seed: int) -> None:
        self.model, self.test = model, rows["test"]
        self.train = rows["train"]
        self.generator = np.random.default_rng(seed)
        self.chosen = _subsample(self.train.labels, MOST_TRAINING_IMAGES, self.generator)
        self.correct, _ = self.fit(self.train.labels)

    def fit(
        self,
        labels: npt.NDArray[np.int64],
        shots: int | Literal["all"] = "all",
        rows: dict[str, SplitRows] | None = None,
    ) -> tuple[BoolArray, npt.NDArray[np.int64]]:
        """Return which test images a probe classifies correctly, and its predictions."""
        from unseen.probes import evaluate_probe

        train, test = (rows["train"], rows["test"]) if rows else (self.train, self.test)
        chosen = self.chosen[self.chosen < len(train.labels)]
        (found,) = evaluate_probe(
            np.asarray(train.features[chosen]), labels[chosen], test.features, test.labels, shots=shots, seeds=[0]
        )
        return found.correct, found.predictions

    def check_majority(self) -> Check:
        """Check that the probe is better than always guessing the largest training class."""
        largest = np.bincount(self.train.labels[self.chosen]).argmax()
        share = float((self.test.labels == largest).mean())
        interval = accuracy_interval(self.correct)
        limits = f"{100 * interval.low:.1f}, {100 * interval.high:.1f}"
        found = f"{100 * interval.value:.1f} % [{limits}], majority class {100 * share:.1f} %"
        name = "accuracy is above the majority class"
        if interval.low > share:
            return Check(name, self.model, "pass", found)
        meaning = "Features do not separate these classes: check labels, image size and weights, or add images."
        return Check(name, self.model, "fail", found, meaning)

    def check_shuffled_labels(self) -> Check:
        """Check that probes trained on permuted labels are not better than guessing the largest test class.

        Images of a class share their errors, so the test is over permutations, not over images.
        """
        accuracies = [self.fit(self.generator.permutation(self.train.labels))[0].mean() for _ in range(SHUFFLES)]
        chance = float(np.bincount(self.test.labels).max() / len(self.test.labels))
        interval = mean_interval(accuracies, level=SHUFFLE_LEVEL)
        found = f"{100 * interval.value:.1f} %, largest class {100 * chance:.1f} %, {SHUFFLES} permutations"
        name = "shuffled labels score at chance"
        if interval.low <= chance:
            return Check(name, self.model, "pass", found)
        meaning = (
            "Information about test labels reaches the probe: look for copies, sorted files or a leak in the code."
        )
        return Check(name, self.model, "fail", found, meaning)

    def check_more_labels(self) -> Check:
        """Check that all training images give a better probe than one image per class."""
        few, _ = self.fit(self.train.labels, shots=1)
        difference = decide({"all": self.correct, "one": few}).pairs["all", "one"]
        found = f"{100 * self.correct.mean():.1f} % against {100 * few.mean():.1f} % with one image per class"
        name = "more labels score higher"
        if difference.significant and difference.value > 0:
            return Check(name, self.model, "pass", found)
        if few.mean() >= 0.99:
            return Check(name, self.model, "pass", found + ": nothing left to gain")
        meaning = "More images do not help: labels may be noisy, or there are too few test images to show it."
        return Check(name, self.model, "warning", found, meaning)

    def check_random_weights(self, baseline: str, rows: dict[str, SplitRows] | None) -> Check:
        """Check that the model is better than the same architecture with random weights."""
        name = "random weights score lower"
        if rows is None:
            return Check(name, self.model, "skipped", "no architecture with random weights to compare with")
        common, own, other = np.intersect1d(self.test.index, rows["test"].index, return_indices=True)
        hits, _ = self.fit(rows["train"].labels, rows=rows)
        difference = decide({"trained": self.correct[own], "random": hits[other]}).pairs["trained", "random"]
        gain = f"difference {100 * difference.value:+.1f} on {len(common)} images"
        found = f"{100 * hits[other].mean():.1f} % ({baseline}), {gain}"
        if difference.significant and difference.value > 0:
            return Check(name, self.model, "pass", found)
        meaning = "The weights may not have been loaded, or training did not help on this data (unseen results record)."
        return Check(name, self.model, "fail", found, meaning)


def _subsample(labels: npt.NDArray[np.int64], most: int, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return the sorted rows of a random sample of at most `most` images, with every class in its proportion."""
    if len(labels) <= most:
        return np.arange(len(labels))
    order = generator.permutation(len(labels))
    position = np.empty(len(labels))
    for label in np.unique(labels):
        rows = order[labels[order] == label]
        position[rows] = (np.arange(len(rows)) + 0.5) / len(rows)
    return np.sort(np.argsort(position, kind="stable")[:most])
