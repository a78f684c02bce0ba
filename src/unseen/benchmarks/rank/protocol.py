"""Rank checkpoints by their features before fine-tuning; on request, evaluate how well scores predict the result.

Paper:      Li et al., "Ranking neural checkpoints" (NeuCRaB), CVPR 2021 [P]
Implements: a cell per checkpoint, layer and score: the score on the training images, Eq. (2);
            with truth=true a cell per checkpoint with its fine-tuned accuracy, Eq. (1). Cells are
            combined when they are read: `answer` orders the checkpoints, `ranking_rows` evaluates the scores by the
            metrics of section 2.3
Differs:    pools, tasks and budgets are those of the study file, so that a laptop can run one; scores that are
            newer than [P] are included
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import ClassVar, Literal

import numpy as np

from unseen.benchmarks.benchmark import Benchmark
from unseen.benchmarks.rank.details import EXPECTED, TRUTH, RankParameters
from unseen.benchmarks.rank.scoring import ScoredImages, score_result
from unseen.benchmarks.workbench import GIVEN, Workbench
from unseen.core.errors import DataError, DiskFullError, UnseenError, UsageError
from unseen.core.identity import Natural, Positive, Rate, Values, option
from unseen.core.names import as_number
from unseen.core.records import Cell, Result
from unseen.data import Dataset
from unseen.data.dataset import CLASS, NUMBER, SEVERAL
from unseen.ranking.cards import SCORES, find_score
from unseen.ranking.ridge import FEWEST
from unseen.results.info import BenchmarkInfo, built_in_info

TRUTH_VERSION = 3  # 1 started from an empty head, one seed; 2 was SGD without an early stop
#: Default scores; docs/rank.md has the experiment behind the choice.
DEFAULT_SCORES = ("logme", "parc", "knn")

#: What a number depends on, besides score and layer: of a score over features, of one that trains, of the truth.
_SCORED = ("split", "sample", "seed", "metric")
_TRAINED = ("sample", "seed", "batch_size", "early_learning_rate")
_TRUE = ("seed", "batch_size", "learning_rates", "steps", "truth_seeds")

#: Labels that are not classes, in words.
_KINDS = {NUMBER: "numbers", SEVERAL: "several labels"}


@dataclass(frozen=True)
class RankBenchmark(Benchmark):
    """Options of the ranking."""

    name: ClassVar[str] = "rank"
    version: ClassVar[int] = 2  # 1 also scored half-samples of the images
    info: ClassVar[BenchmarkInfo] = built_in_info("rank")

    scores: tuple[str, ...] = option(DEFAULT_SCORES, axis="score", help="Ids of unseen ls scores, or all.")
    layers: tuple[str, ...] = option(("pooled",), axis="layer", help="Layers to score; each is a candidate.", rare=True)
    split: str = option("train", help="Split to score.", rare=True)
    sample: Natural = option(0, help="Images to score, sampled with classes in proportion; 0 means all.", rare=True)
    seed: Natural = option(0, help="Random seed of samples, scores and fine-tuning.")
    metric: Literal["accuracy", "balanced"] = option(
        "accuracy", help="Order by accuracy, or balanced: by the mean of per-class accuracies."
    )
    prefer: str = option(
        "",
        neutral="it changes which candidate is recommended, and no number",
        help="Recommend the first by expected accuracy (accuracy), the cheapest that is statistically tied with it "
        "(cheap), or the cheapest within so many points (2). By default the first, unless one that is tied with it and "
        "loses at most a point is at least twice as cheap.",
    )
    truth: bool = option(False, help="Also fine-tune every checkpoint, to evaluate the scores.")
    learning_rates: tuple[Rate, ...] = option(
        (0.001, 0.0001), help="Learning rates of --truth, each with every number of steps.", rare=True
    )
    steps: tuple[Positive, ...] = option(
        (100, 500), help="Steps of --truth, in addition to the linear probe before them.", rare=True
    )
    truth_seeds: Positive = option(
        3, help="Seeds of --truth for the chosen setting; their mean is reported.", rare=True
    )
    batch_size: Positive = option(32, help="Images per step of fine-tuning.", rare=True)
    early_learning_rate: Rate = option(0.01, help="Learning rate of scores that fine-tune for a few epochs.", rare=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.score_names():
            find_score(name)
        if not self.scores and not self.truth:
            raise UsageError("rank by at least one score, such as nleep. List them with: unseen ls scores.")
        check_prefer(self.prefer)
        if not self.layers:
            raise UsageError("rank by at least one layer, such as pooled.")
        if self.truth and (not self.learning_rates or not self.steps):
            raise UsageError("benchmark 'rank': the ground truth needs at least one learning rate and one length.")

    def score_names(self) -> tuple[str, ...]:
        """Return the requested scores, each once, after the one that the answer is based on."""
        names = tuple(SCORES) if "all" in self.scores else self.scores
        return tuple(dict.fromkeys((EXPECTED, *names))) if names else ()

    def suited(self, dataset: Dataset) -> RankBenchmark:
        """Return the benchmark for a dataset: LogME alone for numbers and several labels, unless scores are given."""
        if dataset.target == CLASS or self.scores != DEFAULT_SCORES:
            return self
        return replace(self, scores=("logme",))

    def check(self, dataset: Dataset) -> None:
        split = dataset.split(self.split)
        images = min(len(split), self.sample or len(split))
        where = f"{dataset.id!r}, split {self.split!r}: {images} images"
        if dataset.target != CLASS:
            self._check_targets(dataset, images, where)
            return
        names = np.unique(split.labels)
        if len(names) < 2:
            raise DataError(
                f"{where}, {len(names)} class found{''.join(f' ({dataset.class_names[name]!r})' for name in names)}; "
                "ranking needs at least two classes. Put the images of each class into a folder of their own."
            )
        if images <= len(names):
            raise DataError(
                f"{where} of {len(names)} classes; ranking needs more images than classes. Add images, or take fewer "
                "classes (?classes=N)."
            )
        if self.truth:
            dataset.split("test")

    def _check_targets(self, dataset: Dataset, images: int, where: str) -> None:
        if images < FEWEST:
            raise DataError(f"{where}; ranking by {_KINDS[dataset.target]} needs at least {FEWEST}.")
        needs = [name for name in self.score_names() if name != EXPECTED and find_score(name).targets is None]
        needs += ["a balanced accuracy"] * (self.metric != "accuracy") + ["fine-tuning"] * self.truth
        if needs:
            raise UsageError(
                f"{', '.join(needs)} need classes; {dataset.id!r} has {_KINDS[dataset.target]}, for which there are a "
                "ridge regression and LogME (--scores logme)."
            )

    def components(self, point: Mapping[str, object]) -> Mapping[str, int]:
        name = str(point["score"])
        return {name: TRUTH_VERSION if name == TRUTH else find_score(name).version}

    def points(self, dataset: str) -> list[Values]:
        """Return the score, the layer and the options of every cell: those that cannot change it are not in it."""
        found: list[Values] = []
        for name in (*self.score_names(), *([TRUTH] if self.truth else [])):
            options = {option: getattr(self, option) for option in _options_of(name)}
            if options.get("metric") == "accuracy":
                del options["metric"]
            layered = name != TRUTH and "features" in find_score(name).inputs
            layers = [{"layer": layer} for layer in dict.fromkeys(self.layers)] if layered else [{}]
            found += [{"score": name, **layer, **options} for layer in layers]
        return found

    def idle(self) -> Collection[str]:
        return {*_SCORED, *_TRAINED, *_TRUE, "truth"}  # each cell has its own, see `points`

    def counted(self, cells: Sequence[Cell], bench: Workbench) -> list[tuple[str | Dataset, str]]:
        return [(ScoredImages(bench, cells, split=self.split, sample=self.sample, seed=self.seed).dataset, self.split)]

    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> Iterator[Result]:
        if not cells[0].model.startswith(GIVEN):
            bench.backbone(cells[0].model)  # one that does not load fails all of its cells at once, with its own reason
        images = ScoredImages(bench, cells, split=self.split, sample=self.sample, seed=self.seed)
        for cell in cells:
            states: list[Path] = []
            result = self._one(cell, bench, images, states)
            yield result
            # The caller has stored this result before it requests the next one; its training states are not needed.
            for state in states if result.ok else ():
                state.unlink(missing_ok=True)

    def _one(self, cell: Cell, bench: Workbench, images: ScoredImages, states: list[Path]) -> Result:
        """Compute one score or the fine-tuned accuracy; a score that fails (LEEP without a head) stops no other."""
        from unseen.benchmarks.rank.truth import early_result, truth_result

        def state(*run: object) -> Path:
            states.append(bench.home / "finetuning" / f"{cell.name_of('finetuning', *run)}.pt")
            return states[-1]

        began = perf_counter()
        try:
            score = RankParameters.read(cell.parameters).score
            if score == TRUTH:
                return truth_result(cell, bench, state)
            if find_score(score).needs_training:
                return early_result(cell, bench, images.dataset, find_score(score), state)
            return score_result(cell, find_score(score), images, seed=self.seed)
        except DiskFullError:
            raise
        except Exception as error:  # noqa: BLE001 - worker boundary: one failed cell must not stop the other cells
            expected = isinstance(error, UnseenError)
            reason = str(error) if expected else f"{type(error).__name__}: {error}"
            details = {} if expected else {"traceback": traceback.format_exc()}
            return Result(cell, error=reason, seconds=perf_counter() - began, details=details)


def check_prefer(prefer: str) -> None:
    """Raise a `UsageError` unless `prefer` is "", accuracy, cheap or a number of points."""
    points = as_number(prefer)
    if prefer not in ("", "accuracy", "cheap") and (points is None or not 0 <= points < math.inf):
        raise UsageError(f"prefer is accuracy, cheap or a number of points, such as 2; found {prefer!r}.")


def _options_of(score: str) -> tuple[str, ...]:
    """Return the options that a score depends on."""
    if score == TRUTH:
        return _TRUE
    return _TRAINED if find_score(score).needs_training else _SCORED
