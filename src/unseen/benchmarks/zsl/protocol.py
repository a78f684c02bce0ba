"""Zero-shot learning, the good, the bad and the ugly: unseen classes, known only by a description.

Paper:      Xian et al., "Zero-shot learning: a comprehensive evaluation of the good, the bad and the ugly", TPAMI 2018
Implements: its protocol on its own datasets, with the published features or any model's, and on any dataset of images
            with class embeddings. One cell per method (and validation fold, for Fig. 3)
Differs:    features are scaled to length 1 unless `normalise` says otherwise; the paper does not say
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from unseen.benchmarks.benchmark import Benchmark
from unseen.benchmarks.workbench import (
    GIVEN,
    PROMPT_VERSION,
    SplitRows,
    Wanted,
    Workbench,
    check_templates,
    text_embeddings,
    text_version,
)
from unseen.benchmarks.zsl.details import ZslDetails, ZslParameters, pack_outcomes, parameters_of
from unseen.benchmarks.zsl.info import ZSL
from unseen.core.errors import DataError, UnknownNameError, UnseenError
from unseen.core.identity import option
from unseen.core.names import Name
from unseen.core.options import Share
from unseen.core.records import Cell, Result
from unseen.core.run_record import RunRecord, dropped
from unseen.core.search_record import search_record
from unseen.results.info import BenchmarkInfo
from unseen.zeroshot.catalogue import expand_methods, load_method, make_method

if TYPE_CHECKING:
    from unseen.concepts import Audit
    from unseen.data import Dataset
    from unseen.data.dataset import IntArray
    from unseen.metrics.seen_unseen import SeenUnseenCurve
    from unseen.stats import Interval
    from unseen.zeroshot.problem import ClassSplit, Images, Problem
    from unseen.zeroshot.protocol import Tuning


#: Class embeddings by a text tower.
PROMPTS = "prompts"
_NO_TRAINING, _NO_TEST = "no training image", "no test image"


@dataclass(frozen=True)
class ZslBenchmark(Benchmark):
    """Options of the zero-shot benchmark."""

    name: ClassVar[str] = "zsl"
    info: ClassVar[BenchmarkInfo] = ZSL

    methods: tuple[str, ...] = option(
        ("all",),
        axis="method",
        help="Methods, or groups of them: all (of the paper), inductive, transductive, generative; they add up.",
    )
    split: str = option(
        "PS",
        file=True,
        help="PS, SS, an ImageNet split such as 2-hops, or file:PATH, an unseen class per line; xlsa17 brings one.",
    )
    embedding: str = option(
        "auto", file=True, help="attributes, glove, prompts, or a file; auto takes what the dataset brings."
    )
    grid: Literal["full", "quick"] = option("full", help="Hyper-parameters that are tried.")
    robustness: bool = option(
        False, neutral="it adds cells", help="Also choose parameters on each validation fold alone (Fig. 3)."
    )
    calibration: float | Literal["auto"] = option(
        0.0, help="A constant that is subtracted from the scores of seen classes, or auto."
    )
    normalise: Literal["l2", "standard", "none"] = option("l2", help="How features are scaled.")
    share: Share = option(0.2, help="Of classes that are unseen, where the split is drawn.")
    seed: int = option(0, help="Of what is drawn, and of the methods.")
    test_on: str = option("", dataset=True, help="Another dataset with the same classes to test on (Table 4).")
    layer: str = option("pooled", help="Which features: pooled, logits, or the name of a module.")
    templates: str = option("openai", file=True, help="Of embedding=prompts: openai, simple, plain, or a file.")
    text_model: str = option("", help="Of embedding=prompts: whose text tower; the cell's own model by default.")
    drop_unknown: bool = option(
        False, help="Ignore classes of --split file:PATH that the dataset does not have; otherwise they are an error."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        expand_methods(self.methods)

    @property
    def chosen(self) -> tuple[str, ...]:
        """The requested methods, groups expanded."""
        return expand_methods(self.methods)

    def check(self, dataset: Dataset) -> None:
        """Raise a `DataError` for a split, class embeddings or templates that do not fit the dataset.

        Checks that take more than a moment (the leak audit of PS, word vectors) are left to the evaluation.
        """
        if hasattr(dataset, "attributes"):
            self._check_published_split(dataset)
        else:
            self._check_split(dataset)
        if self.embedding == PROMPTS:
            check_templates(self.templates)
        elif self.embedding not in ("auto", "glove", "text", "wordnet"):
            from unseen.zeroshot.embeddings import check_source

            check_source(self.embedding, dataset)

    def _check_split(self, dataset: Dataset) -> None:
        if "test" not in dataset.splits:
            raise DataError(f"{dataset.id!r} has no test split; zero-shot learning tests on it.")
        labels = {name: split.labels for name, split in dataset.splits.items()}
        complete = len(np.intersect1d(self._trained(labels), labels["test"])) == len(dataset.class_names)
        if complete and self.split in ("PS", "SS"):
            return
        _, lost = self._divide(dataset, labels)
        if empty := {name: reason for name, reason in lost.items() if reason in (_NO_TRAINING, _NO_TEST)}:
            raise DataError(
                f"{len(empty)} classes of {dataset.id!r} cannot be used: {_reasons(empty)}. Zero-shot learning needs "
                "training images of every seen class and test images of every unseen one. Add images, or remove them."
            )

    def points(self, dataset: str) -> list[dict[str, Any]]:
        folds: tuple[Any, ...] = ("all", 1, 2, 3) if self.robustness else ("all",)
        return [{"method": method, "fold": fold} for method in self.chosen for fold in folds]

    def plan(self, model: str, dataset: str) -> list[Cell]:
        brings = given_model(dataset)
        if model.startswith(GIVEN) and brings and model != brings:
            raise UnknownNameError(f"features of {dataset}", model, [brings])
        return super().plan(model, dataset)

    def components(self, point: Mapping[str, Any]) -> Mapping[str, int]:
        prompts = {"prompts": PROMPT_VERSION} if self.embedding == PROMPTS else {}
        return {point["method"]: load_method(point["method"]).version, **prompts, **text_version(self.text_model)}

    def idle(self) -> Collection[str]:
        unused = [] if self.drop_unknown else ["drop_unknown"]
        if self.embedding != PROMPTS:
            return (*unused, "templates", "text_model")
        return tuple(unused) if self.text_model else (*unused, "text_model")

    def features(self, cells: Sequence[Cell], bench: Workbench) -> list[Wanted]:
        return bench.wanted(cells[0].dataset, self.layer)

    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> Iterator[Result]:
        from unseen.benchmarks.zsl.look import problem_look

        problem, details = self.problem(bench, cells[0].model, cells[0].dataset)
        if hasattr(bench.dataset(cells[0].dataset), "attributes"):  # the paper's data: its Fig. 2
            details = replace(details, look=problem_look(problem, self.seed).to_dict())
        test = self.problem(bench, cells[0].model, self.test_on)[0] if self.test_on else None
        tunings: dict[str, Tuning] = {}  # every fold is tried once; a cell of one fold chooses by its column
        for number, cell in enumerate(cells, 1):
            result = self._one(cell, problem, test, details, tunings)
            bench.progress.note(f"{number}/{len(cells)} {_said(result)}")
            yield result

    def _one(
        self, cell: Cell, problem: Problem, test: Problem | None, details: ZslDetails, tunings: dict[str, Tuning]
    ) -> Result:
        """Return the result of one cell; the error of a method does not stop the others."""
        from unseen.zeroshot.protocol import evaluate_method

        asked = ZslParameters.read(cell.parameters)
        method, folds = asked.method, None if asked.on_all_folds else [int(asked.fold) - 1]
        estimator = make_method(method, self.seed)
        try:
            found = evaluate_method(
                estimator,
                problem,
                grid=self.grid,
                folds=folds,
                calibration=self.calibration,
                test=test,
                tuning=tunings.get(method),
            )
            tunings[method] = found.tuning
        except (UnseenError, ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            reason = str(error) if isinstance(error, UnseenError) else f"{type(error).__name__}: {error}"
            return Result(cell, error=reason)
        return Result(
            cell=cell,
            metrics={**found.metrics, **_bounds(found.intervals)},
            seconds=sum(found.timings.values()),
            sweep=tuple(found.tuning.trials),
            details=replace(
                details,
                best=dict(found.best),
                calibration=found.calibration,
                per_class=dict(found.per_class),
                curve=_points(found.curve),
                timings=dict(found.timings),
                transductive=type(estimator).transductive,
                **pack_outcomes(found.outcomes),
            ).to_dict(),
            record=RunRecord() if folds is None else search_record(found.tuning.on(folds), found.best),
        )

    def problem(self, bench: Workbench, model: str, name: str) -> tuple[Problem, ZslDetails]:
        """Return the problem of one model on one dataset, features scaled, and what every result states about it."""
        from unseen.zeroshot.embeddings import class_embeddings
        from unseen.zeroshot.problem import Problem, audit_unseen

        dataset = bench.dataset(name)
        brings = hasattr(dataset, "attributes")
        source = ("attributes" if brings else "glove") if self.embedding == "auto" else self.embedding
        if source == PROMPTS:
            embeddings = text_embeddings(bench, self.text_model or model, dataset.class_names, self.templates)
        else:
            embeddings = class_embeddings(source, dataset)
        parts = bench.splits(model, name, self.layer)
        images = {split: _images(rows) for split, rows in parts.items()}
        build = self._published_images if brings else self._drawn_images
        train, unseen, seen, folds, lost = build(dataset, images)
        problem = Problem(train, unseen, seen, embeddings, list(dataset.class_names), folds, self.split)
        bench.recorder.classes(len(dataset.class_names), len(problem.seen) + len(problem.unseen))
        bench.recorder.add(RunRecord(dropped=dropped("class", lost)))
        audit: Audit = audit_unseen(dataset.class_names, dataset.wnids, problem.unseen)
        same = len(embeddings) - len(np.unique(embeddings, axis=0))
        details = ZslDetails(
            classes=len(problem.seen) + len(problem.unseen),
            seen_classes=len(problem.seen),
            unseen_classes=len(problem.unseen),
            train_images=len(train),
            test_images=len(unseen),
            seen_test_images=len(seen),
            chance=1 / len(problem.unseen),
            embedding=source,
            embedding_dimensions=embeddings.shape[1],
            feature_dimensions=train.X.shape[1],
            indistinguishable_classes=int(same),
            audit=audit.summary,
            splits_digest=str(getattr(dataset, "splits_digest", "")),
        )
        return problem.normalised(self.normalise), details

    def _published_images(self, dataset: Dataset, images: Mapping[str, Images]) -> tuple[Any, ...]:
        """Return the images of a dataset that brings its split: train, unseen and seen test, folds, lost classes."""
        from unseen.zeroshot.problem import Fold, no_images

        self._check_published_split(dataset)
        train, unseen = images["trainval"], images["test_unseen"]
        seen = images.get("test_seen") or no_images(train.X.shape[1])
        used = np.union1d(train.y, unseen.y)
        lost = {name: "no image" for i, name in enumerate(dataset.class_names) if i not in used}
        return train, unseen, seen, [Fold(fold.train, fold.val) for fold in getattr(dataset, "folds", ())], lost

    def _check_published_split(self, dataset: Dataset) -> None:
        protocol = getattr(dataset, "protocol", "PS")
        if self.split != protocol:
            raise DataError(
                f"{dataset.id!r} is loaded with the split {protocol}, not {self.split!r}. Write "
                f"{dataset.id.partition('?')[0]}?split={self.split}."
            )

    def _drawn_images(self, dataset: Dataset, images: Mapping[str, Images]) -> tuple[Any, ...]:
        """Return the images of any other dataset: train, unseen and seen test, folds, lost classes.

        Seen classes train on all splits but test, and both kinds are tested on test. SS has no generalized test: as in
        the paper, every image of a seen class trains.
        """
        from unseen.zeroshot.problem import Images, no_images

        if "test" not in images:
            raise DataError(f"{dataset.id!r} has no test split; zero-shot learning tests on it.")
        division, lost = self._divide(dataset, {name: each.y for name, each in images.items()})
        test = images["test"]
        training = [p for s, p in images.items() if s != "test" or self.split == "SS"]
        pool = Images(np.concatenate([p.X for p in training]), np.concatenate([p.y for p in training]))
        seen = no_images(pool.X.shape[1]) if self.split == "SS" else test.of(division.seen)
        return pool.of(division.seen), test.of(division.unseen), seen, division.folds, lost

    def _divide(self, dataset: Dataset, labels: Mapping[str, IntArray]) -> tuple[ClassSplit, dict[str, str]]:
        """Return the seen and unseen classes that have images, and the classes that are lost, with the reason.

        Args:
            labels: class of each image, by split of the dataset.
        """
        from unseen.zeroshot.problem import draw_folds, split_classes

        names = dataset.class_names
        division: ClassSplit = split_classes(
            self.split,
            names,
            dataset.wnids,
            counts=np.bincount(np.concatenate(list(labels.values())), minlength=len(names)).tolist(),
            share=self.share,
            seed=self.seed,
            drop_unknown=self.drop_unknown,
        )
        seen = np.intersect1d(division.seen, self._trained(labels))
        unseen = np.intersect1d(division.unseen, labels["test"])
        lost = {names[i]: _NO_TRAINING for i in np.setdiff1d(division.seen, seen)}
        lost |= {names[i]: _NO_TEST for i in np.setdiff1d(division.unseen, unseen)}
        used = np.union1d(division.seen, division.unseen)
        lost |= {name: f"not in the split {self.split}" for i, name in enumerate(names) if i not in used}
        lost |= dict.fromkeys(division.unknown, "in the split file, but no class of the dataset")
        folds = division.folds
        if len(seen) < len(division.seen):
            wnids = dataset.wnids or [None] * len(names)
            folds = draw_folds(seen, [wnids[i] or names[i] for i in seen], self.seed)
        return replace(division, seen=seen, unseen=unseen, folds=folds), lost

    def _trained(self, labels: Mapping[str, IntArray]) -> IntArray:
        """Return the labels of the images that seen classes train on."""
        parts = [y for split, y in labels.items() if split != "test" or self.split == "SS"]
        return np.concatenate([*parts, np.empty(0, np.int64)])


def _reasons(lost: Mapping[str, str], most: int = 5) -> str:
    shown = [f"{name!r} ({reason})" for name, reason in list(lost.items())[:most]]
    return ", ".join(shown) + (f" and {len(lost) - most:,} more" if len(lost) > most else "")


def given_model(dataset: str) -> str:
    """Return the name of the features that a dataset brings, such as `xlsa17:res101`; "" if it needs a model."""
    name = Name.parse(dataset)
    if f"{name.scheme}:" != GIVEN or "images" in name.options:
        return ""
    return GIVEN + (Path(name.options["features"]).stem if "features" in name.options else "res101")


def _said(result: Result) -> str:
    """Return a progress line on a finished method."""
    asked = parameters_of(result)
    name = asked.method + ("" if asked.on_all_folds else f", fold {asked.fold}")
    shown = ", ".join(f"{m} {100 * result.metrics[m]:.1f} %" for m in ("zsl", "H") if m in result.metrics)
    return f"{name}: {result.error or shown} ({result.seconds:.0f} s)"


def _bounds(intervals: Mapping[str, Interval]) -> dict[str, float]:
    """Return the limits of intervals as metrics."""
    ends = {f"{name}_low": each.low for name, each in intervals.items()}
    return ends | {f"{name}_high": each.high for name, each in intervals.items()}


def _points(curve: SeenUnseenCurve | None) -> dict[str, list[float]]:
    """Return as many points of the seen-unseen curve as a figure needs; nothing if there is no curve."""
    thin = curve.thinned() if curve is not None else None
    return {} if thin is None else {"ts": thin.ts.tolist(), "tr": thin.tr.tolist()}


def _images(rows: SplitRows) -> Images:
    from unseen.zeroshot.problem import Images

    return Images(np.asarray(rows.features[:], np.float32), rows.labels)
