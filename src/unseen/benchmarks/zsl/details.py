"""Zero-shot results as typed records: details, and parameters of cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from unseen.core.errors import DataError
from unseen.core.identity import Values
from unseen.core.names import Name
from unseen.core.records import Result, Typed
from unseen.results.grid import pack_correct, unpack_correct
from unseen.stats import Candidate
from unseen.zeroshot.outcomes import ImageOutcomes, zeroshot_candidate

BENCHMARK = "zsl"
#: `ZslParameters.fold` of a cell whose parameters were chosen on all validation folds.
ALL_FOLDS = "all"
_ACCURACIES = ("zsl", "ts", "tr")


@dataclass(frozen=True)
class ZslParameters(Typed):
    """The parameters of a cell that readers of results need."""

    method: str = ""
    split: str = ""
    fold: int | str = ALL_FOLDS
    calibration: float | str = 0.0
    test_on: str = ""
    class_split: int = 0

    @property
    def on_all_folds(self) -> bool:
        """Whether hyper-parameters were chosen on all validation folds."""
        return self.fold == ALL_FOLDS


@dataclass(frozen=True)
class Look(Typed):
    """Fig. 2 of the paper for one dataset, small enough for a result.

    Attributes:
        counts: images per class.
        x, y, labels: t-SNE coordinates and classes of some images of the test classes; empty for fewer than ten.
    """

    classes: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    x: tuple[float, ...] = ()
    y: tuple[float, ...] = ()
    labels: tuple[int, ...] = ()


@dataclass(frozen=True)
class ZslDetails(Typed):
    """Details of a zero-shot result.

    Attributes:
        classes: number of seen and unseen classes.
        test_images, seen_test_images: of unseen and of seen classes.
        chance: accuracy of guessing among unseen classes.
        indistinguishable_classes: classes whose embedding equals that of another class.
        audit: the findings of the leak audit.
        splits_digest: of the attributes and splits of a dataset of the paper.
        pool: number of classes that the unseen ones were sampled from; 0 if they were not sampled.
        look: `Look`, images per class and t-SNE points of Fig. 2.
        best: the chosen hyper-parameters.
        per_class: accuracy per unseen class, among unseen classes.
        zsl_correct, ts_correct, tr_correct, unseen_counts, seen_counts: `ImageOutcomes`, packed.
    """

    classes: int = 0
    seen_classes: int = 0
    unseen_classes: int = 0
    train_images: int = 0
    test_images: int = 0
    seen_test_images: int = 0
    chance: float = 0.0
    embedding: str = ""
    embedding_dimensions: int = 0
    feature_dimensions: int = 0
    indistinguishable_classes: int = 0
    audit: str = ""
    splits_digest: str = ""
    pool: int = 0
    look: Values = field(default_factory=dict)
    best: Values = field(default_factory=dict)
    calibration: float = 0.0
    per_class: dict[str, float] = field(default_factory=dict)
    transductive: bool = False
    zsl_correct: str = ""
    ts_correct: str = ""
    tr_correct: str = ""
    unseen_counts: tuple[int, ...] = ()
    seen_counts: tuple[int, ...] = ()

    @property
    def outcomes(self) -> ImageOutcomes | None:
        """The outcomes per test image; None if the result does not store them, or they are damaged."""
        try:
            right = [unpack_correct(getattr(self, f"{name}_correct") or "0:") for name in _ACCURACIES]
            counts = [np.asarray(each, np.int64) for each in (self.unseen_counts, self.seen_counts)]
            found = ImageOutcomes(right[0], right[1], right[2], counts[0], counts[1])
        except DataError:
            return None
        return found if 0 < len(found.zsl) == len(found.ts) == found.unseen_counts.sum() else None


def parameters_of(result: Result) -> ZslParameters:
    """Return the parameters of a result's cell."""
    return ZslParameters.read(result.cell.parameters)


def details_of(result: Result) -> ZslDetails:
    """Return the details of a result."""
    return ZslDetails.read(result.details)


def plain_name(dataset: str) -> str:
    """Return the name of a dataset without its split and features, which are separate settings."""
    return str(Name.parse(dataset).without("split", "features"))


def short_name(dataset: str) -> str:
    """Return the name of a dataset in the paper: AWA1 for `xlsa17:AWA1?root=...`."""
    name = Name.parse(plain_name(dataset)).rest.rpartition("/")[2] or plain_name(dataset)
    return "aPY" if name == "APY" else name


def pack_outcomes(outcomes: ImageOutcomes) -> Values:
    """Return outcomes per test image as the fields of `ZslDetails`."""
    return {
        **{f"{name}_correct": pack_correct(getattr(outcomes, name)) for name in _ACCURACIES},
        "unseen_counts": tuple(map(int, outcomes.unseen_counts)),
        "seen_counts": tuple(map(int, outcomes.seen_counts)),
    }


def zsl_candidate(results: Sequence[Result], metric: str) -> Candidate | None:
    """Return the candidate of `stats.decide` for a metric of results of one method that differ in the seed alone.

    None if a result does not store the outcomes, or if the seeds have other unseen classes.
    """
    details = [details_of(result) for result in results]
    found = [outcomes for each in details if (outcomes := each.outcomes) is not None]
    images = {(r.cell.data, *each.per_class, *each.unseen_counts) for r, each in zip(results, details, strict=True)}
    if len(found) < len(results) or len(images) != 1:
        return None
    return zeroshot_candidate(found, metric, " ".join(map(str, images.pop())))
