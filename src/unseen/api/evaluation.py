"""`unseen.evaluate`: how well a probe on a model's features predicts the labels of images."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, TypedDict, Unpack

import numpy as np

from unseen.api.answer import Answer, percent
from unseen.api.arrays import FEATURES, evaluate_features, is_matrix
from unseen.api.objects import STUDY, Data, Model, NamedObjects, run, workbench
from unseen.core.arrays import AnyArray, FloatArray
from unseen.core.errors import UsageError
from unseen.core.identity import Values
from unseen.core.records import Details, Preprocessing, Result
from unseen.core.run_record import RunRecord
from unseen.features import Extraction, Progress
from unseen.results.grid import summary_of, unpack_correct, unpack_values
from unseen.stats import Candidate, Interval


class ProbeSettings(TypedDict, total=False):
    """Options of the probe benchmark; `unseen probe --help-all` describes them."""

    solver: Literal["logistic", "paper", "ridge", "knn", "ncm", "fast"]
    shots: int | Literal["all"] | Sequence[int | Literal["all"]]
    layer: str
    validation: Literal["own", "drawn"]
    square_root: bool
    memory_limit: int


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Answer):
    """The metrics of a probe over all seeds. Accuracies are shares in [0, 1].

    Attributes:
        model, dataset: their names; that of an object contains a digest of its content.
        results: one per seed (and number of shots), as the database stores them.
        class_names: by class index.
    """

    model: str
    dataset: str
    results: tuple[Result, ...]
    class_names: tuple[str, ...] = ()

    percent: ClassVar[tuple[str, ...]] = ("top1", "top1_low", "top1_high", "mean_per_class", "top5")
    #: The metric that `unseen.compare` orders models by.
    compared: ClassVar[str] = "top1"
    #: The metric of `interval`.
    main: ClassVar[str] = "top1"
    #: Parameters and metrics of the table; all metrics if none is named.
    parameters: ClassVar[tuple[str, ...]] = ("solver", "shots", "seed")
    columns: ClassVar[tuple[str, ...]] = ("top1", "top1_low", "top1_high", "top5", "mean_per_class", "log_loss")

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Every metric, the mean over seeds."""
        names = self.results[0].metrics
        return {name: float(np.mean([result.metrics[name] for result in self.results])) for name in names}

    @property
    def top1(self) -> float:
        """Share of test images whose class was predicted, the mean over seeds."""
        if self.main != "top1":
            raise AttributeError(f"{type(self).__name__} has no top-1 accuracy: use .metrics, .score or .interval")
        return self.interval_of("top1").value

    def interval_of(self, metric: str) -> Interval:
        """Return a metric over seeds with its confidence interval over test images."""
        return summary_of(self.results, metric).interval

    @property
    def interval(self) -> Interval:
        """Confidence interval of the main metric over test images."""
        return self.interval_of(self.main)

    @property
    def score(self) -> Interval:
        """The metric that `unseen.compare` orders models by, with its confidence interval."""
        return self.interval_of(self.compared)

    @cached_property
    def candidate(self) -> Candidate:
        """Score, confidence interval and outcomes per image: the input of `unseen.stats.decide`."""
        return summary_of(self.results, self.compared).candidate

    @cached_property
    def correct(self) -> FloatArray:
        """Per test image, the share of seeds whose prediction was correct, or its share of `score`."""
        scores = [unpack_values(d.image_scores) if d.image_scores else unpack_correct(d.correct) for d in self._details]
        return np.asarray(np.mean(scores, axis=0))

    @property
    def per_class(self) -> dict[str, float]:
        """Accuracy by class, the mean over seeds; NaN for a class without test images."""
        names = dict(enumerate(self.class_names))
        found = self._means([details.per_class for details in self._details])
        return {names.get(int(label), label): value for label, value in found.items()}

    @property
    def tuned(self) -> tuple[Mapping[str, object], ...]:
        """Per seed: the chosen setting; `results[i].sweep` has all that were tried."""
        return tuple(details.best for details in self._details)

    @property
    def chance(self) -> float:
        """Accuracy of guessing."""
        return self._details[0].chance or 0.0

    @property
    def record(self) -> RunRecord:
        """What the evaluations received, used and dropped, merged over seeds."""
        return RunRecord.merged({result.cell.id: result.record for result in self.results})

    def headline(self) -> str:
        details = self._details[0]
        return (
            f"top-1 {_percent_interval(self.interval)} on {details.test_images} test images of "
            f"{details.classes} classes (chance {percent(self.chance)}), {self.model}"
        )

    def rows(self) -> list[Values]:
        return [
            {
                "model": self.model,
                "dataset": self.dataset,
                **{name: result.cell.parameters.get(name) for name in self.parameters},
                **{name: result.metrics[name] for name in self.columns or result.metrics},
                **{f"tuned {name}": value for name, value in details.best.items()},
            }
            for result, details in zip(self.results, self._details, strict=True)
        ]

    @cached_property
    def _details(self) -> list[Details]:
        return [Details.read(result.details) for result in self.results]

    def _means(self, tables: Sequence[Mapping[str, float | None]]) -> dict[str, float]:
        """Return the mean over seeds of a table of values by class or label; NaN where no test image has it."""
        known = {label: [value for each in tables if (value := each[label]) is not None] for label in tables[0]}
        return {label: float(np.mean(values)) if values else float("nan") for label, values in known.items()}

    def _more(self) -> Values:
        return {"per_class": self.per_class, "results": [result.to_dict() for result in self.results]}


class RegressionEvaluation(Evaluation):
    """The metrics of a ridge regression of a number per image: r2, mae, rmse, pearson, spearman."""

    percent = columns = ()
    compared = main = "r2"
    parameters = ("seed",)

    @property
    def r2(self) -> float:
        """Share of the variance of the numbers of the test images that is explained."""
        return self.metrics["r2"]

    def headline(self) -> str:
        found, error = self.interval, self.interval_of("mae")
        return (
            f"R² {found.value:.3f} [{found.low:.3f}, {found.high:.3f}], mean absolute error {error.value:.4g} "
            f"[{error.low:.4g}, {error.high:.4g}] on {self._details[0].test_images} test images, {self.model}"
        )


class MultilabelEvaluation(Evaluation):
    """The metrics of logistic regressions of several labels per image: map, lrap."""

    percent = tuple(f"{name}{end}" for name in ("map", "lrap") for end in ("", "_low", "_high"))
    compared, main = "lrap", "map"
    parameters, columns = ("seed",), ()

    @property
    def mean_average_precision(self) -> float:
        """Mean over the labels that some test image has."""
        return self.metrics["map"]

    @property
    def per_label(self) -> dict[str, float]:
        """Average precision by label, the mean over seeds; NaN for a label that no test image has."""
        return self._means([details.per_label for details in self._details])

    def headline(self) -> str:
        details = self._details[0]
        return (
            f"mean average precision {_percent_interval(self.interval)} on {details.test_images} test images with "
            f"{details.labels} labels (chance {percent(self.chance)}), {self.model}"
        )

    def _more(self) -> Values:
        return {**super()._more(), "per_label": self.per_label}


#: Evaluations by the benchmark of their results.
_KINDS: dict[str, type[Evaluation]] = {"regression": RegressionEvaluation, "multilabel": MultilabelEvaluation}


def _percent_interval(interval: Interval) -> str:
    return f"{percent(interval.value)} [{percent(interval.low)}, {percent(interval.high)}]"


def evaluate(
    model: Model | AnyArray,
    train: Data,
    test: Data | None = None,
    *,
    transform: Callable[[Any], Any] | None = None,
    preprocessing: Preprocessing | None = None,
    seeds: int | Sequence[int] = 1,
    study: str = STUDY,
    home: Path | str | None = None,
    how: Extraction | None = None,
    progress: Progress | None = None,
    **options: Unpack[ProbeSettings],
) -> Evaluation:
    """Fit a probe on a model's features of the training images, and test it.

    Test images never select hyper-parameters. The result is stored, and read from there if it is computed again.
    `evaluate(X, y)` fits the probe on features that you have already; that result is not stored.

    Returns:
        An `Evaluation`: a `RegressionEvaluation` if each image has a number, a `MultilabelEvaluation` if images have
        several labels.

    Args:
        model: a name, a file, a torch module, a function or a backbone, as for `extract`; or an (n, d) array or
            tensor of features.
        train: images and labels, as for `extract`. Without `test`, the test split of the dataset is used, or a fifth
            of every class is held out. With features, their n labels.
        test: other images and labels. With features, (features, labels) of other rows.
        transform, preprocessing: for a model that is an object.
        seeds: a count, or the seeds; one run each.
        study: name that the result is stored under.
        home, how, progress: as for `extract`.
        **options: of the probe benchmark, such as solver="ridge", shots=5.

    Raises:
        UnseenError: a model or data that cannot be loaded, or a probe that cannot be fitted.
    """
    if is_matrix(model):
        if transform is not None or preprocessing is not None:
            raise UsageError("features are given: transform and preprocessing are for a model that is an object.")
        features, found = evaluate_features(model, train, test, seeds=seeds, options=options)
        return make_evaluation(FEATURES, features.id, found, tuple(features.class_names))
    bench = workbench(home, how, progress)
    with NamedObjects() as objects:
        name = objects.model(model, transform=transform, preprocessing=preprocessing)
        data = objects.dataset(train, test)
        results, classes = run(study, [name], data, {"seeds": seeds, **options}, bench)
    return make_evaluation(name, data, results, classes)


def make_evaluation(model: str, dataset: str, results: Sequence[Result], classes: tuple[str, ...]) -> Evaluation:
    """Return the evaluation of the results of one model, whose class depends on the kind of the labels."""
    return _KINDS.get(results[0].cell.benchmark, Evaluation)(model, dataset, tuple(results), classes)
