"""`unseen.evaluate_zeroshot`: zero-shot methods on arrays of features, labels and class embeddings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from unseen.api.answer import Answer, percent
from unseen.concepts import list_unknown
from unseen.core.errors import DataError, UsageError
from unseen.core.identity import Values
from unseen.core.run_record import RunRecord, SplitCounts
from unseen.core.search_record import search_record
from unseen.stats import Candidate, Decision, decide
from unseen.zeroshot.catalogue import expand_methods, make_method
from unseen.zeroshot.embeddings import normalise_embeddings
from unseen.zeroshot.method import FloatArray, IntArray, as_matrix
from unseen.zeroshot.outcomes import zeroshot_candidate
from unseen.zeroshot.problem import Images, Problem, split_classes
from unseen.zeroshot.protocol import Evaluation, evaluate_method

BoolArray = npt.NDArray[np.bool_]

_METHODS = ("ESZSL", "SAE", "ALE", "DEVISE", "GFZSL")


@dataclass(frozen=True, eq=False, repr=False)
class ZeroShotAnswer(Answer):
    """The accuracy of methods on classes without training images.

    Attributes:
        evaluations: by method, in the order of the request.
        unseen_classes: names of the classes without training images.
        data_record: rows and classes of the arrays, and what was used of them.
    """

    evaluations: Mapping[str, Evaluation]
    unseen_classes: tuple[str, ...]
    data_record: RunRecord = field(default_factory=RunRecord)

    percent: ClassVar[tuple[str, ...]] = tuple(
        f"{name}{end}" for name in ("zsl", "zsl_per_image", "ts", "tr", "H", "AUSUC") for end in ("", "_low", "_high")
    )

    @property
    def top1(self) -> dict[str, float]:
        """Per-class accuracy among unseen classes, by method."""
        return {name: each.metrics["zsl"] for name, each in self.evaluations.items()}

    @property
    def record(self) -> RunRecord:
        """What the methods received, used and dropped, merged over methods."""
        searches = {name: search_record(each.tuning.trials, each.best) for name, each in self.evaluations.items()}
        return RunRecord.merged({name: self.data_record.merge(search) for name, search in searches.items()})

    def decision(self, metric: str = "zsl") -> Decision:
        """Decide which methods differ in a metric: image by image for zsl, ts, tr, H and AUSUC."""
        known = {name: each for name, each in self.evaluations.items() if metric in each.metrics}
        return decide({name: _candidate(each, metric) for name, each in known.items()})

    def headline(self) -> str:
        decision, chance = self.decision(), 1 / len(self.unseen_classes)
        name, *others = decision.order
        found = decision.intervals[name]
        tied = [each for each in decision.possibly_best if each != name]
        where = "" if not others else f", significantly better than {', '.join(others)}"
        if tied:
            where = f"; {', '.join(tied)} {'is' if len(tied) == 1 else 'are'} statistically tied with it"
        return (
            f"{name} has {percent(found.value)} [{percent(found.low)}, {percent(found.high)}] among "
            f"{len(self.unseen_classes)} unseen classes (chance {percent(chance)}){where}"
        )

    def rows(self) -> list[Values]:
        found = []
        for name, each in self.evaluations.items():
            row: Values = {"method": name}
            for metric, interval in ((key, each.intervals[key]) for key in self.percent if key in each.intervals):
                row |= {metric: interval.value, f"{metric}_low": interval.low, f"{metric}_high": interval.high}
            found.append({**row, **{f"tuned {k}": v for k, v in each.best.items()}})
        return found


def _candidate(evaluation: Evaluation, metric: str) -> Candidate:
    """Return what `stats.decide` takes for a metric of a method."""
    found = zeroshot_candidate([evaluation.outcomes], metric)
    return replace(found or Candidate(), interval=evaluation.intervals[metric])


def evaluate_zeroshot(
    features: ArrayLike,
    labels: ArrayLike,
    embeddings: ArrayLike,
    *,
    methods: str | Sequence[str] = _METHODS,
    unseen: Sequence[str | int] | float = 0.2,
    class_names: Sequence[str] | None = None,
    test_share: float = 0.2,
    grid: str = "quick",
    normalise: str = "l2",
    calibration: float | str = 0.0,
    seed: int = 0,
) -> ZeroShotAnswer:
    """Tune, fit and test zero-shot methods: seen classes train, unseen ones are known by their embeddings alone.

    Args:
        features: (n, d).
        labels: (n,) rows of `embeddings`, counted from 0, or names out of `class_names`.
        embeddings: (c, a), one row per class. Every class needs images. Rows are scaled to length 1.
        methods: names of `unseen ls methods`, or groups of them: "all" of the paper's, "inductive", "transductive",
            "generative".
        unseen: the classes without training images (rows, or names out of `class_names`), two or more; or the share of
            classes to sample for that, a float between 0 and 1.
        class_names: one per row of `embeddings`.
        test_share: of the images of each seen class, held out to be tested among all classes; 0 for no such test.
        grid: "quick" or "full": the size of the hyper-parameter grid.
        normalise: how features are scaled: "l2", "standard" or "none".
        calibration: a constant to subtract from the scores of seen classes, or "auto" to tune it.
        seed: of the sampled classes and images, and of the methods.

    Raises:
        UnseenError: arrays that do not belong together, a class without images, too few classes, an unknown method.
    """
    S = as_matrix(embeddings, "class embeddings")
    names = _names(class_names, S)
    X = as_matrix(features, "features").astype(np.float32, copy=False)
    images = Images(X, _labels(labels, names, X.shape, S.shape))
    listed = _unseen(unseen, names)
    division = split_classes(
        # Class names can be audited: then no unseen class is one that ImageNet-1K has.
        ("SS" if class_names is None else "PS") if listed is None else listed,
        names,
        (),
        counts=np.bincount(images.y, minlength=len(names)).tolist(),
        share=float(unseen) if isinstance(unseen, float | np.floating) else 0.0,
        seed=seed,
    )
    test = _held_out(images.y, division.seen, test_share, seed)
    problem = Problem(
        Images(X[~test], images.y[~test]).of(division.seen),
        images.of(division.unseen),
        Images(X[test], images.y[test]),
        normalise_embeddings(S, names, "embeddings"),
        names,
        division.folds,
    ).normalised(normalise)
    chosen = expand_methods([methods] if isinstance(methods, str) else methods)
    found = {
        name: evaluate_method(make_method(name, seed), problem, grid=grid, calibration=calibration) for name in chosen
    }
    return ZeroShotAnswer(found, tuple(names[i] for i in problem.unseen), _data_record(problem))


def _held_out(labels: IntArray, seen: IntArray, share: float, seed: int) -> BoolArray:
    """Return which images to test seen classes on: a share of each class."""
    rng = np.random.default_rng(seed)
    held = np.zeros(len(labels), bool)
    for label in seen:
        rows = np.flatnonzero(labels == label)
        held[rng.permutation(rows)[: round(share * len(rows))]] = True
    return held


def _data_record(problem: Problem) -> RunRecord:
    """Return the counts of rows and classes."""
    titles = ("train", "test of unseen classes", "test of seen classes")
    counts = {
        title: SplitCounts(len(part), len(part)) for title, part in zip(titles, problem.parts.values(), strict=True)
    }
    return RunRecord(counts, len(problem.class_names), len(problem.class_names))


def _names(class_names: Sequence[str] | None, S: FloatArray) -> list[str]:
    if class_names is None:
        return [str(i) for i in range(len(S))]
    names = [str(name) for name in class_names]
    if len(names) != len(S):
        swapped = " The axes are swapped: transpose them." if S.shape[1] == len(names) else ""
        raise DataError(f"class embeddings have shape {S.shape} and there are {len(names)} class names.{swapped}")
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise DataError(f"the class name {twice[0]!r} occurs twice; class names must be different.")
    return names


def _labels(
    labels: ArrayLike, names: Sequence[str], features: tuple[int, ...], embeddings: tuple[int, ...]
) -> IntArray:
    """Return the row of the class embeddings of each image.

    Raises:
        DataError: another number of labels than of images, a label without a class, or a class without an image.
    """
    found = np.asarray(labels)
    found = found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found
    if found.ndim != 1 or len(found) != features[0]:
        if found.ndim == 1:
            raise DataError(f"there are {features[0]} rows of features and {len(found)} labels.")
        raise DataError(f"labels must have shape ({features[0]},), one per row of features; found {found.shape}.")
    rows = _indices(found, names)
    swapped = f" Class embeddings of shape {embeddings} look transposed: they need one row per class."
    classes = np.unique(rows)
    if classes[0] < 0 or classes[-1] >= len(names):
        if embeddings[1] == classes[-1] + 1:
            advice = swapped
        elif classes[0] == 1 and classes[-1] == len(names):
            advice = " Labels count rows from 0: subtract 1."
        else:
            advice = " Labels are rows of the class embeddings, counted from 0."
        raise DataError(
            f"labels go from {classes[0]} to {classes[-1]}, and class embeddings have shape {embeddings}: "
            f"{len(names)} classes.{advice}"
        )
    if len(empty := np.setdiff1d(np.arange(len(names)), classes)):
        advice = swapped if embeddings[1] == len(classes) else " Remove their rows, and count labels anew."
        raise DataError(
            f"{len(empty)} of {len(names)} classes have no image: {', '.join(repr(names[i]) for i in empty[:5])}"
            f"{' and more' if len(empty) > 5 else ''}.{advice}"
        )
    return rows


def _indices(found: npt.NDArray[Any], names: Sequence[str]) -> IntArray:
    """Return rows as they are, and names as their rows."""
    if found.dtype.kind in "iu":
        return found.astype(np.int64)
    index = {name: i for i, name in enumerate(names)}
    unknown = [str(label) for label in found if str(label) not in index]
    if unknown:
        raise DataError(f"{list_unknown(list(dict.fromkeys(unknown)), names)}: not among the {len(names)} class names.")
    return np.asarray([index[str(label)] for label in found], np.int64)


def _unseen(unseen: Sequence[str | int] | float, names: Sequence[str]) -> IntArray | None:
    """Return the indices of the unseen classes; None for a share of classes.

    Raises:
        UsageError: neither a share nor a list of classes.
        DataError: an unknown class.
    """
    if isinstance(unseen, float | np.floating):
        if not 0 < unseen < 1:
            raise UsageError(f"unseen is a share of classes between 0 and 1, or a list of classes; found {unseen}.")
        return None
    listed = np.asarray(unseen)
    if isinstance(unseen, str) or listed.ndim != 1:
        raise UsageError(f"unseen is a share of classes such as 0.2, or a list of classes; found {unseen!r}.")
    rows = _indices(listed, names) if len(listed) else np.empty(0, np.int64)
    if len(rows) and (rows.min() < 0 or rows.max() >= len(names)):
        raise DataError(
            f"unseen classes go from {rows.min()} to {rows.max()}, and there are the classes 0 to {len(names) - 1}."
        )
    return rows
