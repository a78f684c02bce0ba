"""`unseen.evaluate_zeroshot`: the protocol of `unseen zsl run` on arrays or on a dataset by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from unseen.api.answer import Answer, percent
from unseen.api.objects import CallFailedError, workbench
from unseen.benchmarks.workbench import Workbench, given_models
from unseen.benchmarks.zsl.details import details_of, parameters_of
from unseen.benchmarks.zsl.protocol import DEFAULT_MODEL, ZslBenchmark, ZslInputs
from unseen.benchmarks.zsl.tables import SplitResults, compare_classes, decide_methods
from unseen.core.errors import DataError, UsageError
from unseen.core.identity import Values
from unseen.core.records import Result
from unseen.core.run_record import Recorder, RunRecord, SplitCounts, search_record
from unseen.data.load import resolve_dataset
from unseen.data.sources.features import class_rows, feature_dataset
from unseen.data.subset import Division
from unseen.stats import Decision, class_interval
from unseen.zeroshot.method import IntArray, as_matrix

_METHODS = ("ESZSL", "SAE", "ALE", "DEVISE", "GFZSL")


@dataclass(frozen=True, eq=False, repr=False)
class ZeroShotAnswer(Answer):
    """The accuracy of methods on classes without training images.

    Attributes:
        results: by method, in the order of the request.
        unseen_classes: names of the classes without training images.
        data_record: rows and classes of the arrays, and what was used of them.
        splits: results of random class splits; none by default.
    """

    results: Mapping[str, Result]
    unseen_classes: tuple[str, ...]
    data_record: RunRecord = field(default_factory=RunRecord)
    splits: Sequence[Result] = ()

    percent: ClassVar[tuple[str, ...]] = tuple(
        f"{name}{end}"
        for name in ("zsl", "zsl_per_image", "zsl_classes", "ts", "tr", "H", "AUSUC")
        for end in ("", "_low", "_high")
    )

    @property
    def top1(self) -> dict[str, float]:
        """Per-class accuracy among unseen classes, by method."""
        return {name: each.metrics["zsl"] for name, each in self.results.items()}

    @property
    def record(self) -> RunRecord:
        """What the methods received, used and dropped, merged over methods."""
        searches = {name: search_record(each.sweep, details_of(each).best) for name, each in self.results.items()}
        return RunRecord.merged({name: self.data_record.merge(search) for name, search in searches.items()})

    def decision(self, metric: str = "zsl", over: Literal["images", "classes", "splits"] = "images") -> Decision:
        """Decide which methods differ in a metric.

        Args:
            over: "images" compares image by image, for other images of these classes (zsl, ts, tr, H, AUSUC);
                "classes" compares accuracies of unseen classes, for new classes (zsl);
                "splits" compares means over random class splits, for new classes (zsl, ts, tr, H).
        """
        results = list(self.results.values())
        if over == "splits":
            if not self.splits:
                raise UsageError("there are no random class splits: call evaluate_zeroshot(..., splits=20).")
            return SplitResults.of(self.splits).decide(metric)
        if over == "classes":
            if metric != "zsl":
                raise UsageError(f"methods are compared over classes in zsl, not in {metric!r}.")
            return self._over_classes[0]
        return decide_methods(results, metric)

    @property
    def _over_classes(self) -> tuple[Decision, str]:
        found = compare_classes(list(self.results.values()))
        assert found is not None
        return found

    def power(self) -> str:
        """Return whether the unseen classes separate the best two methods, and how many classes would."""
        return self._over_classes[1]

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
        for name, each in self.results.items():
            details = details_of(each)
            over = class_interval(list(details.per_class.values()))
            limits = {"zsl_classes_low": over.low, "zsl_classes_high": over.high}
            metrics = {key: each.metrics[key] for key in self.percent if key in each.metrics}
            tuned = {f"tuned {key}": value for key, value in details.best.items()}
            found.append({"method": name, **metrics, **limits, **tuned})
        return found


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
    splits: int = 0,
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
        splits: also evaluate on this many random class splits, for `decision(over="splits")`.
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
        splits=splits,
        seed=seed,
    )
    bench = workbench(home, None, None)
    if isinstance(features, str | Path):
        if labels is not None or class_names is not None or split is not None or folds is not None:
            raise UsageError("labels, class_names, split and folds belong to arrays; a dataset by name has its own.")
        inputs, benchmark = _named(str(features), model, embeddings, unseen, benchmark, bench)
    else:
        arrays = {
            "features": as_matrix(features, "features"),
            "labels": labels,
            "attributes": as_matrix([] if embeddings is None else embeddings, "class embeddings"),
            "class_names": None if class_names is None else [str(name) for name in class_names],
            "split": split,
            "folds": folds,
        }
        inputs = benchmark.inputs(
            bench, "features:features", feature_dataset(arrays, Division(test=test_share, seed=seed))
        )
    if not (isinstance(features, str | Path) and isinstance(unseen, str)):  # a split is among the options
        inputs = replace(inputs, unseen=_unseen(unseen, inputs.dataset.class_names))
    if splits and inputs.unseen is not None:
        raise UsageError("splits samples unseen classes: give a share of classes, not a list.")
    recorder = Recorder()
    results = list(benchmark.results(benchmark.plan("", inputs.dataset.id), inputs, recorder, None, look=False))
    if failed := [result for result in results if not result.ok]:
        raise CallFailedError(f"{parameters_of(failed[0]).method}: {failed[0].error}")
    found = {parameters_of(r).method: r for r in results if not parameters_of(r).class_split}
    details = details_of(results[0])
    counts = {
        "train": details.train_images,
        "test of unseen classes": details.test_images,
        "test of seen classes": details.seen_test_images,
    }
    images_used = {title: SplitCounts(number, number) for title, number in counts.items()}
    record = recorder.record.merge(RunRecord(images_used))
    return ZeroShotAnswer(found, tuple(details.per_class), record, [r for r in results if r not in found.values()])


def _named(
    name: str,
    model: str | None,
    embeddings: ArrayLike | str | None,
    unseen: Sequence[str | int] | float | str,
    benchmark: ZslBenchmark,
    bench: Workbench,
) -> tuple[ZslInputs, ZslBenchmark]:
    """Return a dataset by name with its features and class embeddings, and the options for it."""
    name = resolve_dataset(name, Path())
    model = model or next(iter(given_models(name)), DEFAULT_MODEL)
    protocol = str(getattr(bench.dataset(name), "protocol", ""))
    benchmark = replace(benchmark, split=unseen if isinstance(unseen, str) else protocol or benchmark.split)
    if embeddings is None or isinstance(embeddings, str):
        benchmark = replace(benchmark, embedding=embeddings or "auto")
        return benchmark.inputs(bench, model, name), benchmark
    return benchmark.inputs(bench, model, name, as_matrix(embeddings, "class embeddings")), benchmark


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
