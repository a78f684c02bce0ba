"""`unseen.evaluate`: how well a probe on a model's features tells the classes apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from unseen.api.arrays import FEATURES, evaluate_features, is_matrix
from unseen.api.holding import STUDY, holding, run, workbench
from unseen.api.shown import Answer, percent
from unseen.core.errors import UsageError
from unseen.core.records import Preprocessing, Result
from unseen.core.run_record import RunRecord
from unseen.features import Extraction, Progress
from unseen.results.grid import summary_of, unpack_correct
from unseen.stats import Candidate, Interval


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Answer):
    """What a probe reached, over all seeds. Accuracies are shares in [0, 1].

    Attributes:
        model, dataset: their names; an object's has the digest of its content.
        results: one per seed (and number of shots), as the database has them.
        class_names: by class index.
    """

    model: str
    dataset: str
    results: tuple[Result, ...]
    class_names: tuple[str, ...] = ()

    percent: ClassVar[tuple[str, ...]] = ("top1", "top1_low", "top1_high", "mean_per_class", "top5")

    @property
    def top1(self) -> float:
        """Share of test images whose class was found, the mean over seeds."""
        return self.interval.value

    @cached_property
    def correct(self) -> npt.NDArray[np.float64]:
        """Per test image, the share of seeds that got it right."""
        return np.asarray(np.mean([unpack_correct(str(result.details["correct"])) for result in self.results], axis=0))

    #: What models are compared by, of which every image has its share.
    compared: ClassVar[str] = "top1"

    @property
    def score(self) -> Interval:
        """What `unseen.compare` goes by: `top1`."""
        return self.interval

    @property
    def image_scores(self) -> npt.NDArray[np.float64]:
        """Per test image, its share of `score`."""
        return self.correct

    @cached_property
    def candidate(self) -> Candidate:
        """Accuracy, confidence interval and outcomes per image: what `unseen.stats.decide` takes."""
        return summary_of(self.results, "top1").candidate

    @property
    def interval(self) -> Interval:
        """Confidence interval of `top1` over test images."""
        assert self.candidate.interval is not None
        return self.candidate.interval

    @property
    def per_class(self) -> dict[str, float]:
        """Accuracy by class, the mean over seeds; NaN for a class without test images."""
        tables = [result.details["per_class"] for result in self.results]
        known = {label: [t[label] for t in tables if t[label] is not None] for label in tables[0]}
        names = dict(enumerate(self.class_names))
        return {
            names.get(int(label), label): float(np.mean(values)) if values else float("nan")
            for label, values in known.items()
        }

    @property
    def tuned(self) -> tuple[Mapping[str, Any], ...]:
        """Per seed: the setting that was chosen; `results[i].sweep` has all that were tried."""
        return tuple(dict(result.details["best"]) for result in self.results)

    @property
    def chance(self) -> float:
        return float(self.results[0].details["chance"])

    @property
    def record(self) -> RunRecord:
        """What the evaluations received, used and dropped, merged over seeds."""
        return RunRecord.merged({result.cell.id: result.record for result in self.results})

    def headline(self) -> str:
        interval, details = self.interval, self.results[0].details
        return (
            f"top-1 {percent(interval.value)} [{percent(interval.low)}, {percent(interval.high)}] on "
            f"{details['test_images']} test images of {details['classes']} classes (chance {percent(self.chance)}), "
            f"{self.model}"
        )

    def rows(self) -> list[dict[str, Any]]:
        keys = ("top1", "top1_low", "top1_high", "top5", "mean_per_class", "log_loss")
        return [
            {
                "model": self.model,
                "dataset": self.dataset,
                "solver": result.cell.parameters["solver"],
                "shots": result.cell.parameters["shots"],
                "seed": result.cell.parameters["seed"],
                **{key: result.metrics[key] for key in keys},
                **{f"tuned {key}": value for key, value in result.details["best"].items()},
            }
            for result in self.results
        ]

    def _more(self) -> dict[str, Any]:
        return {"per_class": self.per_class, "results": [result.to_dict() for result in self.results]}


def evaluate(
    model: Any,
    train: Any,
    test: Any = None,
    *,
    transform: Callable[[Any], Any] | None = None,
    preprocessing: Preprocessing | None = None,
    seeds: int | Sequence[int] = 1,
    study: str = STUDY,
    home: Path | str | None = None,
    how: Extraction | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Any:
    """Fit a probe on a model's features of the training images, and test it.

    Nothing is tuned on test images. The result is filed, and is read from there when the same is computed again.
    `evaluate(X, y)` fits the probe on features that you have already; that result is not filed.

    Returns:
        An `Evaluation`; of images with a number each a `RegressionEvaluation`, of images with several labels each a
        `MultilabelEvaluation` (`unseen.api.targets`).

    Args:
        model: a name, a file, a torch module, a function, a backbone, as `extract` takes them; or an (n, d) array or
            tensor of features.
        train: images and labels, as `extract` takes them; with no `test` they bring it, or a fifth of every class is
            held out. With features, their n labels.
        test: other images and labels. With features, (features, labels) of other rows.
        transform, preprocessing: of a model that is an object.
        seeds: one run each: a count, or the seeds.
        study: what the result is filed under.
        home, how, progress: as for `extract`.
        **options: of the probe benchmark, such as solver="ridge", shots=5.

    Raises:
        UnseenError: a model or data that cannot be had, or a probe that cannot be fitted.
    """
    if is_matrix(model):
        if transform is not None or preprocessing is not None:
            raise UsageError("features are given: transform and preprocessing are for a model that is an object.")
        features, found = evaluate_features(model, train, test, seeds=seeds, options=options)
        return answer_of(FEATURES, features.id, found, tuple(features.class_names))
    bench = workbench(home, how, progress)
    with holding() as holder:
        name = holder.model(model, transform=transform, preprocessing=preprocessing)
        data = holder.dataset(train, test)
        results = run(study, [name], data, {"probe": {"seeds": seeds, **options}}, bench)
        classes = tuple(bench.dataset(data).class_names)
    return answer_of(name, data, results, classes)


def answer_of(model: str, dataset: str, results: Sequence[Result], classes: tuple[str, ...]) -> Any:
    """What comes back for the results of one model: which kind depends on what the images' labels are."""
    kind = results[0].cell.benchmark
    from unseen.api.targets import ANSWERS

    if kind in ANSWERS:
        return ANSWERS[kind](model, dataset, tuple(results))
    return Evaluation(model, dataset, tuple(results), classes)
