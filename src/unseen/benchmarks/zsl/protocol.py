"""Zero-shot learning, the good, the bad and the ugly: unseen classes, known only by a description.

Paper:      Xian et al., "Zero-shot learning: a comprehensive evaluation of the good, the bad and the ugly", TPAMI 2018
Implements: its protocol on its own datasets, with the published features or any model's, and on any dataset of images
            with class embeddings. One cell per method (and validation fold, for Fig. 3)
Differs:    features are scaled to length 1 unless `normalise` says otherwise; the paper does not say
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from unseen.benchmarks.benchmark import Benchmark
from unseen.benchmarks.texts import text_embeddings, text_version
from unseen.benchmarks.workbench import GIVEN, SplitRows, Wanted, Workbench, skipped_details
from unseen.core.errors import DataError, UnknownNameError, UnseenError
from unseen.core.identity import option
from unseen.core.names import Name
from unseen.core.options import Share
from unseen.core.records import Cell, Result
from unseen.results import MetricStyle
from unseen.zeroshot.catalogue import METHODS, load_method, method_version, paper_methods

if TYPE_CHECKING:
    from unseen.concepts import Audit
    from unseen.data import Dataset
    from unseen.metrics.seen_unseen import SeenUnseenCurve
    from unseen.metrics.significance import Interval
    from unseen.zeroshot.problem import Images, Problem
    from unseen.zeroshot.protocol import Tuning
    from unseen.zeroshot.splits import ClassSplit


#: Class embeddings by a text tower.
PROMPTS = "prompts"


@dataclass(frozen=True)
class ZslBenchmark(Benchmark):
    """Options of the zero-shot benchmark."""

    name: ClassVar[str] = "zsl"
    question: ClassVar[str] = "How well are unseen classes told apart by their descriptions?"
    paper: ClassVar[str] = "gbu"
    section: ClassVar[str] = "unseen.benchmarks.zsl.section:zsl_section"
    command: ClassVar[str] = "zsl run"
    metrics: ClassVar[tuple[MetricStyle, ...]] = (
        MetricStyle("zsl", "ZSL", percent=True, long_title="per-class top-1 accuracy among unseen classes"),
        MetricStyle("ts", "ts", percent=True, long_title="accuracy on unseen classes among all classes"),
        MetricStyle("tr", "tr", percent=True, long_title="accuracy on seen classes among all classes"),
        MetricStyle("H", "H", percent=True, long_title="harmonic mean of ts and tr"),
        MetricStyle("AUSUC", "AUSUC", percent=True, long_title="area under the seen-unseen curve"),
        MetricStyle("zsl_top5", "ZSL top-5", percent=True, long_title="per-class top-5 accuracy among unseen classes"),
        MetricStyle("zsl_top10", "ZSL top-10", percent=True),
        MetricStyle(
            "zsl_per_image", "ZSL per image", percent=True, long_title="per-image accuracy among unseen classes"
        ),
        *(
            MetricStyle(f"{name}_top{k}", f"{name} top-{k}", percent=True)
            for k in (5, 10)
            for name in ("ts", "tr", "H")
        ),
        MetricStyle("ts_per_image", "ts per image", percent=True),
        MetricStyle("tr_per_image", "tr per image", percent=True),
    )

    methods: tuple[str, ...] = option(("all",), axis="method", help="Names of methods, or all of the paper's.")
    split: str = option(
        "PS",
        file=True,
        help="PS, SS, an ImageNet split such as 2-hops, or file:PATH; xlsa17 datasets bring theirs.",
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

    def __post_init__(self) -> None:
        super().__post_init__()
        for method in self.chosen:
            if method not in METHODS:
                raise UnknownNameError("zero-shot method", method, METHODS)

    @property
    def chosen(self) -> tuple[str, ...]:
        """The methods asked for, in the order of the paper's tables."""
        return paper_methods() if "all" in self.methods else tuple(dict.fromkeys(self.methods))

    def points(self, dataset: str) -> list[dict[str, Any]]:
        folds: tuple[Any, ...] = ("all", 1, 2, 3) if self.robustness else ("all",)
        return [{"method": method, "fold": fold} for method in self.chosen for fold in folds]

    def plan(self, model: str, dataset: str) -> list[Cell]:
        brings = given_model(dataset)
        if model.startswith(GIVEN) and brings and model != brings:
            raise UnknownNameError(f"features of {dataset}", model, [brings])
        return super().plan(model, dataset)

    def components(self, point: Mapping[str, Any]) -> Mapping[str, int]:
        return {point["method"]: method_version(point["method"]), **text_version(self.text_model)}

    def idle(self) -> Collection[str]:
        if self.embedding != PROMPTS:
            return ("templates", "text_model")
        return () if self.text_model else ("text_model",)

    def features(self, cells: Sequence[Cell], bench: Workbench) -> list[Wanted]:
        return bench.wanted(cells[0].dataset, self.layer)

    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> Iterator[Result]:
        from unseen.benchmarks.zsl.look import look_details

        problem, details = self.problem(bench, cells[0].model, cells[0].dataset)
        if hasattr(bench.dataset(cells[0].dataset), "attributes"):  # the paper's data: its Fig. 2
            details["look"] = look_details(problem, self.seed)
        test = self.problem(bench, cells[0].model, self.test_on)[0] if self.test_on else None
        tunings: dict[str, Tuning] = {}  # every fold is tried once; a cell of one fold chooses by its column
        for number, cell in enumerate(cells, 1):
            result = self._one(cell, problem, test, details, tunings)
            bench.progress.note(f"{number}/{len(cells)} {_said(result)}")
            yield result

    def _one(
        self, cell: Cell, problem: Problem, test: Problem | None, details: dict[str, Any], tunings: dict[str, Tuning]
    ) -> Result:
        """One cell; what goes wrong with a method is its own, and the others go on."""
        from unseen.zeroshot.method import ZeroShotMethod
        from unseen.zeroshot.protocol import evaluate_method

        method, fold = cell.parameters["method"], cell.parameters["fold"]
        estimator: ZeroShotMethod = load_method(method)()
        if "seed" in estimator.get_params():
            estimator.set_params(seed=self.seed)
        try:
            found = evaluate_method(
                estimator,
                problem,
                name=method,
                grid=self.grid,
                folds=None if fold == "all" else [int(fold) - 1],
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
            details={
                **details,
                "best": dict(found.best),
                "calibration": found.calibration,
                "per_class": dict(found.per_class),
                **({"curve": _points(found.curve)} if found.curve is not None else {}),
                "timings": dict(found.timings),
                "transductive": type(estimator).transductive,
            },
        )

    def problem(self, bench: Workbench, model: str, name: str) -> tuple[Problem, dict[str, Any]]:
        """The problem of one model on one dataset, features scaled, and what to say about it in every result."""
        from unseen.zeroshot.embeddings import class_embeddings
        from unseen.zeroshot.problem import Problem
        from unseen.zeroshot.splits import audit_unseen

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
        train, unseen, seen, folds = build(dataset, images)
        problem = Problem(train, unseen, seen, embeddings, list(dataset.class_names), folds, self.split)
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
            "feature_dimensions": train.X.shape[1],
            "indistinguishable_classes": int(same),
            "audit": audit.summary,
            "splits_digest": getattr(dataset, "splits_digest", ""),
            **skipped_details(parts),
        }
        return problem.normalised(self.normalise), details

    def _published_images(self, dataset: Dataset, images: Mapping[str, Images]) -> tuple[Any, ...]:
        """Images of a dataset that brings its split."""
        from unseen.zeroshot.problem import Fold, no_images

        protocol = getattr(dataset, "protocol", "PS")
        if self.split != protocol:
            raise DataError(
                f"{dataset.id!r} is loaded with the split {protocol}; {self.split!r} was asked for. Write "
                f"{dataset.id.partition('?')[0]}?split={self.split}."
            )
        train, unseen = images["trainval"], images["test_unseen"]
        seen = images.get("test_seen") or no_images(train.X.shape[1])
        return train, unseen, seen, [Fold(fold.train, fold.val) for fold in getattr(dataset, "folds", ())]

    def _drawn_images(self, dataset: Dataset, images: Mapping[str, Images]) -> tuple[Any, ...]:
        """Any dataset of images: seen classes train on what is not the test split, both kinds are tested on it.

        SS has no generalized test: as in the paper, every image of a seen class trains.
        """
        from unseen.zeroshot.problem import Images, no_images
        from unseen.zeroshot.splits import split_classes

        if "test" not in images:
            raise DataError(f"{dataset.id!r} has no test split; zero-shot learning tests on it.")
        counts = np.bincount(np.concatenate([p.y for p in images.values()]), minlength=len(dataset.class_names))
        division: ClassSplit = split_classes(
            self.split,
            dataset.class_names,
            dataset.wnids,
            counts=counts.tolist(),
            share=self.share,
            seed=self.seed,
        )
        test = images["test"]
        training = [p for s, p in images.items() if s != "test" or self.split == "SS"]
        pool = Images(np.concatenate([p.X for p in training]), np.concatenate([p.y for p in training]))
        seen = no_images(pool.X.shape[1]) if self.split == "SS" else test.of(division.seen)
        return pool.of(division.seen), test.of(division.unseen), seen, division.folds


def given_model(dataset: str) -> str:
    """What the features that a dataset brings are called, such as `xlsa17:res101`; nothing where a model is needed."""
    name = Name.parse(dataset)
    if f"{name.scheme}:" != GIVEN or "images" in name.options:
        return ""
    return GIVEN + (Path(name.options["features"]).stem if "features" in name.options else "res101")


def _said(result: Result) -> str:
    """A line on a method that is done."""
    asked = result.cell.parameters
    name = asked["method"] + ("" if asked["fold"] == "all" else f", fold {asked['fold']}")
    shown = ", ".join(f"{m} {100 * result.metrics[m]:.1f} %" for m in ("zsl", "H") if m in result.metrics)
    return f"{name}: {result.error or shown} ({result.seconds:.0f} s)"


def _bounds(intervals: Mapping[str, Interval]) -> dict[str, float]:
    """Intervals over test images as metrics beside what they bound."""
    ends = {f"{name}_low": each.low for name, each in intervals.items()}
    return ends | {f"{name}_high": each.high for name, each in intervals.items()}


def _points(curve: SeenUnseenCurve) -> dict[str, list[float]]:
    """The seen-unseen curve, as many points as a figure needs."""
    thin = curve.thinned()
    return {"ts": thin.ts.tolist(), "tr": thin.tr.tolist()}


def _images(rows: SplitRows) -> Images:
    from unseen.zeroshot.problem import Images

    return Images(np.asarray(rows.features[:], np.float32), rows.labels)
