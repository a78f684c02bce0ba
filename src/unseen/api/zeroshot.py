"""`unseen.evaluate_zeroshot`: zero-shot methods on arrays of features, labels and class embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from unseen.api.shown import Answer, percent
from unseen.core.errors import DataError
from unseen.zeroshot.catalogue import load_method, paper_methods
from unseen.zeroshot.problem import Images, Problem, no_images
from unseen.zeroshot.protocol import Evaluation, evaluate_method
from unseen.zeroshot.splits import draw_folds, split_classes

_METHODS = ("ESZSL", "SAE", "ALE", "DEVISE", "GFZSL")


@dataclass(frozen=True, eq=False, repr=False)
class ZeroShotAnswer(Answer):
    """What methods reached on classes that they had no image of.

    Attributes:
        evaluations: by method, in the order asked for.
        unseen_classes: names of the classes without training images.
    """

    evaluations: Mapping[str, Evaluation]
    unseen_classes: tuple[str, ...]

    percent: ClassVar[tuple[str, ...]] = ("zsl", "zsl_low", "zsl_high", "zsl_per_image", "ts", "tr", "H", "AUSUC")

    @property
    def top1(self) -> dict[str, float]:
        """Per-class accuracy among unseen classes, by method."""
        return {name: each.metrics["zsl"] for name, each in self.evaluations.items()}

    def headline(self) -> str:
        name, value = max(self.top1.items(), key=lambda item: item[1])
        chance = 1 / len(self.unseen_classes)
        return (
            f"{name} has {percent(value)} among {len(self.unseen_classes)} unseen classes (chance {percent(chance)}), "
            f"the best of {len(self.evaluations)} methods"
        )

    def rows(self) -> list[dict[str, Any]]:
        found = []
        for name, each in self.evaluations.items():
            row: dict[str, Any] = {"method": name, "zsl": each.metrics["zsl"]}
            if "zsl" in each.intervals:
                row |= {"zsl_low": each.intervals["zsl"].low, "zsl_high": each.intervals["zsl"].high}
            row |= {key: each.metrics[key] for key in self.percent if key in each.metrics}
            found.append({**row, **{f"tuned {k}": v for k, v in each.best.items()}})
        return found


def evaluate_zeroshot(
    features: npt.ArrayLike,
    labels: npt.ArrayLike,
    embeddings: npt.ArrayLike,
    *,
    methods: str | Sequence[str] = _METHODS,
    unseen: Sequence[Any] | float = 0.2,
    class_names: Sequence[str] | None = None,
    test_share: float = 0.2,
    grid: str = "quick",
    normalise: str = "l2",
    seed: int = 0,
) -> ZeroShotAnswer:
    """Tune, fit and test zero-shot methods: seen classes train, unseen ones are known by their embeddings alone.

    Args:
        features: (n, d).
        labels: (n,) rows of `embeddings`, or names out of `class_names`.
        embeddings: (c, a), one row per class.
        methods: names of `unseen ls methods`, or "all" of the paper's.
        unseen: the classes without training images, or the share of classes to draw for that.
        class_names: one per row of `embeddings`.
        test_share: of the images of each seen class, held out to be tested among all classes; 0 leaves that out.
        grid: "quick" or "full": the settings that are tried.
        normalise: how features are scaled: "l2", "standard" or "none".
        seed: of what is drawn, and of the methods.

    Raises:
        UnseenError: arrays that do not belong together, too few classes, an unknown method.
    """
    S = np.asarray(embeddings)
    names = [str(name) for name in class_names] if class_names is not None else [str(i) for i in range(len(S))]
    images = Images(np.asarray(features, np.float32), _indices(labels, names))
    if len(images.X) != len(images.y):
        raise DataError(f"there are {len(images.X)} rows of features and {len(images.y)} labels.")
    named = class_names is not None
    problem = _problem(images, S, names, unseen, test_share, seed, named=named).normalised(normalise)
    chosen = [methods] if isinstance(methods, str) else list(methods)
    chosen = list(paper_methods()) if "all" in chosen else chosen
    found = {}
    for name in dict.fromkeys(chosen):
        estimator: Any = load_method(name)()
        if "seed" in estimator.get_params():
            estimator.set_params(seed=seed)
        found[name] = evaluate_method(estimator, problem, name=name, grid=grid)
    return ZeroShotAnswer(found, tuple(names[i] for i in problem.unseen))


def _indices(labels: npt.ArrayLike, names: Sequence[str]) -> npt.NDArray[np.int64]:
    given = np.asarray(labels)
    if given.dtype.kind in "iu":
        return given.astype(np.int64)
    index = {name: i for i, name in enumerate(names)}
    try:
        return np.asarray([index[str(label)] for label in given], np.int64)
    except KeyError as error:
        raise DataError(f"the label {error.args[0]!r} is not among the {len(names)} class names.") from None


def _problem(
    images: Images,
    S: Any,
    names: list[str],
    unseen: Sequence[Any] | float,
    test_share: float,
    seed: int,
    *,
    named: bool,
) -> Problem:
    if isinstance(unseen, float):
        # Class names can be audited: then no unseen class is one that ImageNet-1K has.
        counts = np.bincount(images.y, minlength=len(names)).tolist()
        division = split_classes("PS" if named else "SS", names, (), counts=counts, share=unseen, seed=seed)
        seen, hidden, folds = division.seen, division.unseen, division.folds
    else:
        hidden = _indices(list(unseen), names)
        seen = np.setdiff1d(np.unique(images.y), hidden)
        folds = draw_folds(seen, [names[i] for i in seen], seed)
    rng = np.random.default_rng(seed)
    own = np.flatnonzero(np.isin(images.y, seen))
    held = [rng.permutation(rows)[: round(test_share * len(rows))] for rows in _by_class(images.y, own)]
    test = np.sort(np.concatenate([*held, np.empty(0, np.int64)])).astype(np.int64)
    train = np.setdiff1d(own, test)
    tested = Images(images.X[test], images.y[test]) if len(test) else no_images(images.X.shape[1])
    return Problem(Images(images.X[train], images.y[train]), images.of(hidden), tested, S, names, folds)


def _by_class(labels: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    return [rows[labels[rows] == label] for label in np.unique(labels[rows])]
