"""`unseen.evaluate_zeroshot`: the protocol of `unseen zsl run` on arrays or on a dataset by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from unseen.api.answer import Answer, percent
from unseen.api.objects import workbench
from unseen.benchmarks.workbench import given_models
from unseen.benchmarks.zsl.protocol import DEFAULT_MODEL, ZslBenchmark
from unseen.core.arrays import FloatArray
from unseen.core.errors import DataError, UsageError
from unseen.core.identity import Values
from unseen.core.run_record import RunRecord, SplitCounts, search_record
from unseen.data.load import resolve_dataset
from unseen.data.sources.features import FeatureDataset, class_rows, feature_dataset
from unseen.data.user_data import Division
from unseen.stats import Candidate, Decision, class_interval, decide
from unseen.zeroshot.catalogue import make_method
from unseen.zeroshot.embeddings import class_embeddings
from unseen.zeroshot.method import IntArray, as_matrix
from unseen.zeroshot.outcomes import class_candidate, power_statement, zeroshot_candidate
from unseen.zeroshot.problem import Images, Problem
from unseen.zeroshot.protocol import Evaluation, evaluate_method

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
        f"{name}{end}"
        for name in ("zsl", "zsl_per_image", "zsl_classes", "ts", "tr", "H", "AUSUC")
        for end in ("", "_low", "_high")
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

    def decision(self, metric: str = "zsl", over: Literal["images", "classes"] = "images") -> Decision:
        """Decide which methods differ in a metric.

        Args:
            over: "images" compares image by image, for other images of these classes (zsl, ts, tr, H, AUSUC);
                "classes" compares accuracies of unseen classes, for new classes (zsl).
        """
        if over == "classes":
            if metric != "zsl":
                raise UsageError(f"methods are compared over classes in zsl, not in {metric!r}.")
            return decide({name: class_candidate(values) for name, values in self._per_class().items()})
        known = {name: each for name, each in self.evaluations.items() if metric in each.metrics}
        return decide({name: _candidate(each, metric) for name, each in known.items()})

    def power(self) -> str:
        """Return whether the unseen classes separate the best two methods, and how many classes would."""
        return power_statement(self._per_class(), self.decision(over="classes"))

    def _per_class(self) -> dict[str, FloatArray]:
        return {name: np.asarray(list(each.per_class.values())) for name, each in self.evaluations.items()}

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
            over = class_interval(list(each.per_class.values()))
            row |= {"zsl_classes_low": over.low, "zsl_classes_high": over.high}
            found.append({**row, **{f"tuned {k}": v for k, v in each.best.items()}})
        return found


def _candidate(evaluation: Evaluation, metric: str) -> Candidate:
    """Return what `stats.decide` takes for a metric of a method."""
    found = zeroshot_candidate([evaluation.outcomes], metric)
    return replace(found or Candidate(), interval=evaluation.intervals[metric])


def evaluate_zeroshot(
    features: ArrayLike | str | Path,
    labels: ArrayLike | None = None,
    embeddings: ArrayLike | str | None = None,
    *,
    model: str | None = None,
    methods: str | Sequence[str] = _METHODS,
    unseen: Sequence[str | int] | float | str = 0.2,
    class_names: Sequence[str] | None = None,
    split: ArrayLike | None = None,
    folds: ArrayLike | None = None,
    test_share: float = 0.2,
    grid: Literal["full", "quick"] = "full",
    normalise: Literal["l2", "standard", "none"] = "l2",
    calibration: float | Literal["auto"] = 0.0,
    seed: int = 0,
    home: Path | str | None = None,
) -> ZeroShotAnswer:
    """Tune, fit and test zero-shot methods: seen classes train, unseen ones are known by their embeddings alone.

    Arrays, a `features:` dataset with the same arrays and `unseen zsl run` give the same numbers.

    Args:
        features: (n, d); or the name of a dataset, such as "xlsa17:AWA1", "features:own.npz" or "folder:photos".
        labels: (n,) rows of `embeddings`, counted from 0, or names out of `class_names`; for arrays only.
        embeddings: (c, a), one row per class, scaled to length 1. Every class needs images. For a dataset by name also
            what `--embedding` takes; its attributes by default.
        model: the model of a dataset by name; by default the features that the dataset has.
        methods: names of `unseen ls methods`, or groups of them: "all" of the paper's, "inductive", "transductive",
            "generative".
        unseen: the classes without training images (rows, or names), two or more; or the share of classes to sample
            for that, a float between 0 and 1. For a dataset by name also what `--split` takes.
        class_names: one per row of `embeddings`.
        split: (n,) "trainval", "test_seen" or "test_unseen" per image, in place of `unseen` and `test_share`.
        folds: (f, c) 0/1, the validation classes of each fold; with `split` only. Three are sampled by default.
        test_share: of the images of each seen class, held out to be tested among all classes; 0 for no such test.
        grid: "full" or "quick": the size of the hyper-parameter grid.
        normalise: how features are scaled: "l2", "standard" or "none".
        calibration: a constant to subtract from the scores of seen classes, or "auto" to tune it.
        seed: of the sampled classes and images, and of the methods.
        home: folder of features that are extracted; the default one if it is None.

    Raises:
        UnseenError: arrays that do not belong together, a class without images, too few classes, an unknown method.
    """
    share = float(unseen) if isinstance(unseen, float | np.floating) else 0.2
    if not 0 < share < 1:
        raise UsageError(f"unseen is a share of classes between 0 and 1, or a list of classes; found {unseen}.")
    benchmark = ZslBenchmark(
        methods=(methods,) if isinstance(methods, str) else tuple(methods),
        grid=grid,
        calibration=calibration,
        normalise=normalise,
        share=share,
        seed=seed,
    )
    if isinstance(features, str | Path):
        if labels is not None or class_names is not None or split is not None or folds is not None:
            raise UsageError("labels, class_names, split and folds belong to arrays; a dataset by name has its own.")
        problem = _named(str(features), model, embeddings, unseen, benchmark, home)
    else:
        arrays = {
            "features": as_matrix(features, "features"),
            "labels": labels,
            "attributes": as_matrix([] if embeddings is None else embeddings, "class embeddings"),
            "class_names": None if class_names is None else [str(name) for name in class_names],
            "split": split,
            "folds": folds,
        }
        dataset = feature_dataset(arrays, Division(test=test_share, seed=seed))
        problem = _problem(dataset, unseen, benchmark)
    found = {
        name: evaluate_method(make_method(name, seed), problem, grid=grid, calibration=calibration)
        for name in benchmark.chosen
    }
    return ZeroShotAnswer(found, tuple(problem.class_names[i] for i in problem.unseen), _data_record(problem))


def _problem(dataset: FeatureDataset, unseen: Sequence[str | int] | float, benchmark: ZslBenchmark) -> Problem:
    """Return the problem of a dataset in memory."""
    (read,) = dataset.given_features.values()
    images = {name: Images(read()[part.feature_rows], part.labels) for name, part in dataset.splits.items()}
    embeddings = class_embeddings("attributes", dataset)
    return benchmark.assemble(dataset, images, embeddings, "attributes", _unseen(unseen, dataset.class_names))[0]


def _named(
    name: str,
    model: str | None,
    embeddings: ArrayLike | str | None,
    unseen: Sequence[str | int] | float | str,
    benchmark: ZslBenchmark,
    home: Path | str | None,
) -> Problem:
    """Return the problem of a dataset by name."""
    bench = workbench(home, None, None)
    name = resolve_dataset(name, Path())
    model = model or next(iter(given_models(name)), DEFAULT_MODEL)
    dataset = bench.dataset(name)
    if isinstance(unseen, str):
        benchmark = replace(benchmark, split=unseen)
    elif isinstance(dataset, FeatureDataset) and dataset.protocol:
        benchmark = replace(benchmark, split=dataset.protocol)
    if embeddings is None or isinstance(embeddings, str):
        benchmark = replace(benchmark, embedding=embeddings or "auto")
    rows = None if embeddings is None or isinstance(embeddings, str) else as_matrix(embeddings, "class embeddings")
    listed = None if isinstance(unseen, str) else _unseen(unseen, dataset.class_names)
    return benchmark.problem(bench, model, name, embeddings=rows, unseen=listed)[0]


def _data_record(problem: Problem) -> RunRecord:
    """Return the counts of rows and classes."""
    titles = ("train", "test of unseen classes", "test of seen classes")
    counts = {
        title: SplitCounts(len(part), len(part)) for title, part in zip(titles, problem.parts.values(), strict=True)
    }
    return RunRecord(counts, len(problem.class_names), len(problem.class_names))


def _unseen(unseen: Sequence[str | int] | float, names: Sequence[str]) -> IntArray | None:
    """Return the indices of the unseen classes; None for a share of classes.

    Raises:
        UsageError: neither a share nor a list of classes.
        DataError: an unknown class.
    """
    if isinstance(unseen, float | np.floating):
        return None
    listed = np.asarray(unseen)
    if isinstance(unseen, str) or listed.ndim != 1:
        raise UsageError(f"unseen is a share of classes such as 0.2, or a list of classes; found {unseen!r}.")
    rows = class_rows(listed, names) if len(listed) else np.empty(0, np.int64)
    if len(rows) and (rows.min() < 0 or rows.max() >= len(names)):
        raise DataError(
            f"unseen classes go from {rows.min()} to {rows.max()}, and there are the classes 0 to {len(names) - 1}."
        )
    return rows
