"""Zero-shot learning, the good, the bad and the ugly: unseen classes, known only by a description.

Paper:      Xian et al., "Zero-shot learning: a comprehensive evaluation of the good, the bad and the ugly", TPAMI 2018
Implements: its protocol on its own datasets, with the published features or any model's, and on any dataset of images
            with class embeddings. One cell per method (and validation fold, for Fig. 3)
Differs:    features are scaled to length 1 unless `normalise` says otherwise; the paper does not say
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import DataError, UnknownNameError, UsageError
from unseen.core.records import Cell, Result
from unseen.zeroshot.catalogue import METHODS, builtin_methods

if TYPE_CHECKING:
    from unseen.concepts import Audit
    from unseen.data import Dataset
    from unseen.zeroshot.problem import Images, Problem
    from unseen.zeroshot.protocol import Tuning
    from unseen.zeroshot.splits import ClassSplit

#: Features that came with a dataset, under a model's name.
PUBLISHED = "xlsa17:"


@dataclass(frozen=True)
class ZslBenchmark:
    """Options of the zero-shot benchmark, as a study's `[benchmarks.zsl]` gives them.

    Attributes:
        methods: names, or "all".
        split: "PS", "SS", an ImageNet split such as "2-hops", or "file:PATH"; the datasets of the paper bring theirs.
        embedding: where class embeddings come from; "auto" takes a dataset's attributes, else GloVe of the class name.
        grid: "full" or "quick".
        robustness: also choose parameters on each validation fold alone (Fig. 3 of the paper).
        calibration: 0, a constant that is subtracted from the scores of seen classes, or "auto".
        normalise: "l2", "standard" or "none".
        share: of classes that are unseen, where the split is drawn.
        seed: of what is drawn, and of the methods.
        test_on: another dataset with the same classes to test on (Table 4).
        layer: which features.
        only: datasets of a study that it is for; all by default.
    """

    name: ClassVar[str] = "zsl"
    question: ClassVar[str] = "How well are unseen classes told apart by their descriptions?"
    paper: ClassVar[str] = "gbu"

    methods: tuple[str, ...] | str = ("all",)
    split: str = "PS"
    embedding: str = "auto"
    grid: str = "full"
    robustness: bool = False
    calibration: float | str = 0.0
    normalise: str = "l2"
    share: float = 0.2
    seed: int = 0
    test_on: str = ""
    layer: str = "pooled"
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for method in self.chosen:
            if method not in METHODS:
                raise UnknownNameError("zero-shot method", method, METHODS)
        if isinstance(self.calibration, str) and self.calibration != "auto":
            raise UsageError(f"benchmark 'zsl': calibration {self.calibration!r} is neither a number nor 'auto'.")
        if not 0 < self.share < 1:
            raise UsageError(f"benchmark 'zsl': share {self.share} should be between 0 and 1, such as 0.2.")

    @property
    def chosen(self) -> tuple[str, ...]:
        """The methods asked for, in the order of the paper's tables."""
        wanted = (self.methods,) if isinstance(self.methods, str) else self.methods
        return builtin_methods() if "all" in wanted else tuple(dict.fromkeys(wanted))

    def plan(self, model: str, dataset: str) -> list[Cell]:
        if self.only and dataset not in self.only:
            return []
        shared = {
            "split": self.split,
            "embedding": self.embedding,
            "grid": self.grid,
            "calibration": self.calibration,
            "normalise": self.normalise,
            "layer": self.layer,
            "seed": self.seed,
        }
        shared |= {"share": self.share} if not dataset.startswith(PUBLISHED) else {}
        shared |= {"test_on": self.test_on} if self.test_on else {}
        folds: tuple[Any, ...] = ("all", 1, 2, 3) if self.robustness else ("all",)
        return [Cell(self.name, model, dataset, {"method": m, "fold": f, **shared}) for m in self.chosen for f in folds]

    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> list[Result]:
        first = cells[0].parameters
        problem, details = make_problem(bench, cells[0].model, cells[0].dataset, first)
        test = make_problem(bench, cells[0].model, first["test_on"], first)[0] if first.get("test_on") else None
        tunings: dict[str, Tuning] = {}  # every fold is tried once; a cell of one fold chooses by its column
        return [_evaluate(cell, problem, test, details, tunings) for cell in cells]


def _evaluate(
    cell: Cell, problem: Problem, test: Problem | None, details: dict[str, Any], tunings: dict[str, Tuning]
) -> Result:
    """One cell; what goes wrong with a method is its own, and the others go on."""
    from unseen.core.errors import UnseenError
    from unseen.zeroshot.method import ZeroShotMethod
    from unseen.zeroshot.protocol import evaluate_method

    options = cell.parameters
    estimator: ZeroShotMethod = METHODS.get(options["method"])()
    if "seed" in estimator.get_params():
        estimator.set_params(seed=options["seed"])
    fold = options["fold"]
    try:
        found = evaluate_method(
            estimator,
            problem,
            name=options["method"],
            grid=options["grid"],
            folds=None if fold == "all" else [int(fold) - 1],
            calibration=options["calibration"],
            test=test,
            tuning=tunings.get(options["method"]),
        )
        tunings[options["method"]] = found.tuning
    except (UnseenError, ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        reason = str(error) if isinstance(error, UnseenError) else f"{type(error).__name__}: {error}"
        return Result(cell, error=reason)
    return Result(
        cell=cell,
        metrics=found.metrics,
        seconds=sum(found.timings.values()),
        sweep=tuple(found.tuning.trials),
        details={
            **details,
            "best": dict(found.best),
            "calibration": found.calibration,
            "per_class": dict(found.per_class),
            "timings": dict(found.timings),
            "transductive": type(estimator).transductive,
        },
    )


def make_problem(bench: Workbench, model: str, name: str, options: Any) -> tuple[Problem, dict[str, Any]]:
    """The problem of one model on one dataset, features scaled, and what to say about it in every result."""
    from unseen.zeroshot.embeddings import class_embeddings
    from unseen.zeroshot.problem import Problem
    from unseen.zeroshot.splits import audit_unseen

    dataset = bench.dataset(name)
    brings = hasattr(dataset, "attributes")
    source = ("attributes" if brings else "glove") if options["embedding"] == "auto" else options["embedding"]
    embeddings = class_embeddings(source, dataset)
    build = _published_images if brings else _drawn_images
    train, unseen, seen, folds, notes = build(bench, model, dataset, options)
    problem = Problem(train, unseen, seen, embeddings, list(dataset.class_names), folds, options["split"])
    audit: Audit = audit_unseen(dataset.class_names, dataset.wnids, problem.unseen)
    same = len(embeddings) - len(np.unique(embeddings, axis=0))
    details = {
        "classes": len(problem.seen) + len(problem.unseen),
        "seen_classes": len(problem.seen),
        "unseen_classes": len(problem.unseen),
        "train_images": len(train),
        "test_images": len(unseen),
        "seen_test_images": len(seen),
        "chance": 1 / len(problem.unseen),
        "embedding": source,
        "embedding_dimensions": embeddings.shape[1],
        "indistinguishable_classes": int(same),
        "audit": audit.summary,
        **notes,
    }
    return problem.normalised(options["normalise"]), details


def _published_images(bench: Workbench, model: str, dataset: Dataset, options: Any) -> tuple[Any, ...]:
    """Images of a dataset that brings its split: published features by name, or those of any model."""
    from unseen.zeroshot.problem import Fold, Images, no_images

    protocol = getattr(dataset, "protocol", "PS")
    if options["split"] != protocol:
        raise DataError(
            f"{dataset.id!r} is loaded with the split {protocol}; {options['split']!r} was asked for. Write "
            f"{dataset.id.partition('?')[0]}?split={options['split']}."
        )
    given = getattr(dataset, "given_features", {})
    skipped: dict[str, int] = {}

    def images(split: str) -> Images:
        part = dataset.split(split)
        if model.startswith(PUBLISHED):
            feature = model.removeprefix(PUBLISHED)
            if feature not in given:
                raise UnknownNameError(f"features of {dataset.id}", feature, given)
            return Images(given[feature](split), part.labels)
        return _stored(bench, model, dataset, split, options["layer"], skipped)

    train, unseen = images("trainval"), images("test_unseen")
    seen = images("test_seen") if "test_seen" in dataset.splits else no_images(train.X.shape[1])
    folds = [Fold(fold.train, fold.val) for fold in getattr(dataset, "folds", ())]
    notes: dict[str, Any] = {"splits_digest": getattr(dataset, "splits_digest", "")}
    return train, unseen, seen, folds, notes | ({"skipped": skipped} if skipped else {})


def _drawn_images(bench: Workbench, model: str, dataset: Dataset, options: Any) -> tuple[Any, ...]:
    """Any dataset of images: seen classes train on what is not the test split; both kinds are tested on the test split.

    SS has no generalized test: as in the paper, every image of a seen class trains.
    """
    from unseen.zeroshot.problem import Images, no_images
    from unseen.zeroshot.splits import split_classes

    skipped: dict[str, int] = {}
    parts = {s: _stored(bench, model, dataset, s, options["layer"], skipped) for s in dataset.splits}
    counts = np.bincount(np.concatenate([p.y for p in parts.values()]), minlength=len(dataset.class_names))
    division: ClassSplit = split_classes(
        options["split"],
        dataset.class_names,
        dataset.wnids,
        counts=counts.tolist(),
        share=options["share"],
        seed=options["seed"],
    )
    if "test" not in parts:
        raise DataError(f"{dataset.id!r} has no test split; zero-shot learning tests on it.")
    test = parts["test"]
    training = [p for s, p in parts.items() if s != "test" or options["split"] == "SS"]
    pool = Images(np.concatenate([p.X for p in training]), np.concatenate([p.y for p in training]))
    seen = no_images(pool.X.shape[1]) if options["split"] == "SS" else test.of(division.seen)
    notes: dict[str, Any] = {"skipped": skipped} if skipped else {}
    return pool.of(division.seen), test.of(division.unseen), seen, division.folds, notes


def _stored(bench: Workbench, model: str, dataset: Dataset, split: str, layer: str, skipped: dict[str, int]) -> Images:
    from unseen.zeroshot.problem import Images

    if model.startswith(PUBLISHED):
        raise DataError(f"{model} are features that came with the xlsa17 datasets; {dataset.id!r} needs a model.")
    stored = bench.features(model, dataset.id, split, (layer,))[layer]
    if stored.skipped:
        skipped[split] = len(stored.skipped)
    features = np.asarray(stored.features[:], np.float32)
    return Images(features, dataset.split(split).labels[stored.index])
