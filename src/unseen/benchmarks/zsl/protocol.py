"""Zero-shot learning, the good, the bad and the ugly: unseen classes, known only by a description.

Paper:      Xian et al., "Zero-shot learning: a comprehensive evaluation of the good, the bad and the ugly", TPAMI 2018
Implements: its protocol on its own datasets, with the published features or any model's, and on any dataset of images
            with class embeddings. One cell per method (and validation fold, for Fig. 3)
Differs:    features are scaled to length 1 unless `normalise` says otherwise; the paper does not say
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from unseen.benchmarks.benchmark import Benchmark
from unseen.benchmarks.prompting import PromptOptions
from unseen.benchmarks.workbench import Wanted, Workbench
from unseen.benchmarks.zsl import ZSL
from unseen.benchmarks.zsl.analysis import make_look
from unseen.benchmarks.zsl.details import ZslDetails, ZslParameters, pack_outcomes, parameters_of
from unseen.core.arrays import IntArray
from unseen.core.errors import DataError, UnseenError, UsageError
from unseen.core.identity import option
from unseen.core.options import Share
from unseen.core.records import Cell, Result
from unseen.core.run_record import RunRecord, dropped, search_record
from unseen.data import Dataset
from unseen.data.sources.features import FeatureDataset
from unseen.results.info import BenchmarkInfo
from unseen.zeroshot.catalogue import expand_methods, load_method, make_method
from unseen.zeroshot.embeddings import check_source, class_embeddings, normalise_embeddings
from unseen.zeroshot.problem import (
    IMAGENET_SPLITS,
    ClassSplit,
    FloatArray,
    Fold,
    Images,
    Problem,
    audit_unseen,
    draw_folds,
    join_images,
    split_classes,
)

if TYPE_CHECKING:
    from unseen.zeroshot.protocol import Tuning


#: Class embeddings by a text tower.
PROMPTS = "prompts"
#: The model of datasets without features.
DEFAULT_MODEL = "packaged:efficientnet-lite0"
_NO_TRAINING, _NO_IMAGE = "no training image", "no image"


@dataclass(frozen=True)
class ZslBenchmark(PromptOptions, Benchmark):
    """Options of the zero-shot benchmark."""

    name: ClassVar[str] = "zsl"
    info: ClassVar[BenchmarkInfo] = ZSL
    version: ClassVar[int] = 2  # every image of an unseen class is tested, not only those of the test split

    methods: tuple[str, ...] = option(
        ("all",),
        axis="method",
        help="Methods or groups: all (of the paper), inductive, transductive, generative; several can be combined.",
    )
    split: str = option(
        "PS",
        file=True,
        help="PS, SS, an ImageNet split such as 2-hops, or file:PATH with one unseen class per line.",
    )
    embedding: str = option(
        "auto", file=True, help="attributes, glove, prompts, or a file; auto takes what the dataset brings."
    )
    grid: Literal["full", "quick"] = option("full", help="Size of the hyper-parameter grid.")
    robustness: bool = option(
        False, neutral="it adds cells", help="Also choose parameters on each validation fold alone (Fig. 3).", rare=True
    )
    calibration: float | Literal["auto"] = option(
        0.0, help="A constant that is subtracted from the scores of seen classes, or auto."
    )
    normalise: Literal["l2", "standard", "none"] = option("l2", help="How features are scaled.", rare=True)
    share: Share = option(0.2, help="Share of classes that are unseen, if the split is sampled.", rare=True)
    seed: int = option(0, help="Random seed of the sampled classes and of the methods.")
    test_on: str = option(
        "", dataset=True, help="Another dataset with the same classes to test on (Table 4).", rare=True
    )
    layer: str = option("pooled", help="Features to use: pooled, logits, or the name of a module.", rare=True)
    split_file: str = option(
        "",
        file=True,
        help="Published unseen classes of an ImageNet split, in place of WordNet's: a list, or JSON lists by split.",
        rare=True,
    )
    drop_unknown: bool = option(
        False,
        help="Ignore classes of --split file:PATH that the dataset does not have; otherwise they are an error.",
        rare=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        expand_methods(self.methods)
        if self.split_file and self.split not in IMAGENET_SPLITS:
            raise UsageError(f"--split-file has classes of an ImageNet split; with --split {self.split} it has no use.")

    @property
    def chosen(self) -> tuple[str, ...]:
        """The requested methods, groups expanded."""
        return expand_methods(self.methods)

    def check(self, dataset: Dataset) -> None:
        """Raise a `DataError` for a split, class embeddings or templates that do not fit the dataset.

        Checks that take more than a moment (the leak audit of PS, word vectors) are left to the evaluation.
        """
        labels = {name: split.labels for name, split in dataset.splits.items()}
        quick = self.split in ("PS", "SS") and "test" in labels
        if not quick or len(np.intersect1d(self._trained(labels), labels["test"])) < len(dataset.class_names):
            _, lost = self._divide(dataset, labels)
            if empty := [f"{name!r} ({why})" for name, why in lost.items() if why in (_NO_TRAINING, _NO_IMAGE)]:
                raise DataError(
                    f"{len(empty)} classes of {dataset.id!r} cannot be used: {', '.join(empty[:5])}"
                    f"{' and more' if len(empty) > 5 else ''}. Zero-shot learning needs training images of every seen "
                    "class and images of every unseen one. Add images, or remove them."
                )
        if self.embedding == PROMPTS:
            self.check_prompts(dataset)
            if self.combine == "max" and self.chosen != ("prompt",):
                raise UsageError("--combine max has no class embedding to learn from: use it with --methods prompt.")
        elif self.embedding not in ("auto", "glove", "text", "wordnet"):
            check_source(self.embedding, dataset)

    def points(self, dataset: str) -> list[dict[str, Any]]:
        folds: tuple[Any, ...] = ("all", 1, 2, 3) if self.robustness else ("all",)
        return [{"method": method, "fold": fold} for method in self.chosen for fold in folds]

    def components(self, point: Mapping[str, Any]) -> Mapping[str, int]:
        prompts = self.prompt_versions(PROMPTS) if self.embedding == PROMPTS else {}
        return {point["method"]: load_method(point["method"]).version, **prompts}

    def idle(self) -> Collection[str]:
        unused = [name for name in ("drop_unknown", "split_file") if not getattr(self, name)]
        prompts = self.prompt_idle() if self.embedding == PROMPTS else [each.name for each in fields(PromptOptions)]
        return (*unused, *prompts)

    def features(self, cells: Sequence[Cell], bench: Workbench) -> list[Wanted]:
        return bench.wanted(cells[0].dataset, self.layer)

    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> Iterator[Result]:

        problem, details = self.problem(bench, cells[0].model, cells[0].dataset)
        if isinstance(bench.dataset(cells[0].dataset), FeatureDataset):  # Fig. 2 of the paper
            labels = np.concatenate([part.y for part in problem.parts.values()])
            look = make_look(problem.class_names, labels, problem.test_unseen, self.seed)
            details = replace(details, look=look.to_dict())
        test = self.problem(bench, cells[0].model, self.test_on)[0] if self.test_on else None
        tunings: dict[str, Tuning] = {}  # every fold is tried once; a cell of one fold chooses by its column
        for number, cell in enumerate(cells, 1):
            result = self._one(cell, problem, test, details, tunings)
            bench.progress.note(f"{number}/{len(cells)} {_summary(result)}")
            yield result

    def _one(
        self, cell: Cell, problem: Problem, test: Problem | None, details: ZslDetails, tunings: dict[str, Tuning]
    ) -> Result:
        """Return the result of one cell; the error of a method does not stop the others."""
        from unseen.zeroshot.protocol import evaluate_method

        parameters = ZslParameters.read(cell.parameters)
        method, folds = parameters.method, None if parameters.on_all_folds else [int(parameters.fold) - 1]
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
        except (UnseenError, ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            reason = str(error) if isinstance(error, UnseenError) else f"{type(error).__name__}: {error}"
            return Result(cell, error=reason)
        tunings[method] = found.tuning
        curve = found.curve.thinned() if found.curve is not None else None
        limits = {
            f"{name}_{end}": getattr(each, end) for name, each in found.intervals.items() for end in ("low", "high")
        }
        return Result(
            cell=cell,
            metrics={**found.metrics, **limits},
            seconds=sum(found.timings.values()),
            sweep=tuple(found.tuning.trials),
            details=replace(
                details,
                best=dict(found.best),
                calibration=found.calibration,
                per_class=dict(found.per_class),
                curve={"ts": curve.ts.tolist(), "tr": curve.tr.tolist()} if curve is not None else {},
                timings=dict(found.timings),
                transductive=estimator.transductive,
                **pack_outcomes(found.outcomes),
            ).to_dict(),
            record=RunRecord() if folds is None else search_record(found.tuning.on(folds), found.best),
        )

    def problem(
        self,
        bench: Workbench,
        model: str,
        name: str,
        *,
        embeddings: FloatArray | None = None,
        unseen: IntArray | None = None,
    ) -> tuple[Problem, ZslDetails]:
        """Return the problem of one model on one dataset, features scaled, and what every result states about it.

        Args:
            embeddings: of the classes, in place of `embedding`.
            unseen: the unseen classes, in place of `split`.
        """

        dataset = bench.dataset(name)
        source = self.embedding
        if source == "auto":
            source = "attributes" if getattr(dataset, "attributes", None) is not None else "glove"
        if embeddings is not None:
            embeddings = normalise_embeddings(np.asarray(embeddings, np.float64), dataset.class_names, "embeddings")
        elif source == PROMPTS:
            embeddings = self.text_embeddings(bench, model, dataset)
        else:
            embeddings = class_embeddings(source, dataset)
        images = {
            split: Images(np.asarray(rows.features[:], np.float32), rows.labels)
            for split, rows in bench.splits(model, name, self.layer).items()
        }
        problem, details, record = self.assemble(dataset, images, embeddings, source, unseen)
        bench.recorder.add(record)
        return problem, details

    def assemble(
        self,
        dataset: Dataset,
        images: Mapping[str, Images],
        embeddings: FloatArray,
        source: str,
        unseen: IntArray | None = None,
    ) -> tuple[Problem, ZslDetails, RunRecord]:
        """Return the problem, features scaled, what every result states about it, and the record of unused classes.

        Args:
            images: of every split of the dataset.
            embeddings: (c, a), rows of length 1.
            source: name of the embeddings.
            unseen: the unseen classes, in place of `split`.
        """
        division, lost = self._divide(dataset, {split: part.y for split, part in images.items()}, unseen)
        train, new, old = (join_images(images, splits) for splits in self._parts(images))
        problem = Problem(
            train.of(division.seen),
            new.of(division.unseen),
            old.of(division.seen),
            embeddings,
            list(dataset.class_names),
            division.folds,
            self.split,
        )
        used = len(problem.seen) + len(problem.unseen)
        record = RunRecord(classes_given=len(dataset.class_names), classes_used=used, dropped=dropped("class", lost))
        details = ZslDetails(
            classes=used,
            seen_classes=len(problem.seen),
            unseen_classes=len(problem.unseen),
            train_images=len(problem.train),
            test_images=len(problem.test_unseen),
            seen_test_images=len(problem.test_seen),
            chance=1 / len(problem.unseen),
            embedding=source,
            embedding_dimensions=embeddings.shape[1],
            feature_dimensions=problem.train.X.shape[1],
            indistinguishable_classes=len(embeddings) - len(np.unique(embeddings, axis=0)),
            audit=audit_unseen(dataset.class_names, dataset.wnids, problem.unseen).summary,
            splits_digest=str(getattr(dataset, "splits_digest", "")),
        )
        return problem.normalised(self.normalise), details, record

    def _parts(self, splits: Iterable[str]) -> tuple[list[str], list[str], list[str]]:
        """Return the splits of a dataset that hold training images, and test images of unseen and of seen classes.

        A dataset of the paper brings them. In others, seen classes train on all splits but test and are tested on
        test; all images of unseen classes are tested. SS has no generalized test: as in the paper, every image of a
        seen class trains.
        """
        if "test_unseen" in splits:
            return ["trainval"], ["test_unseen"], ["test_seen"]
        standard = self.split == "SS"
        training = [split for split in splits if split != "test" or standard]
        return training, list(splits), [] if standard or "test" not in splits else ["test"]

    def _trained(self, labels: Mapping[str, IntArray]) -> IntArray:
        """Return the labels of the images that seen classes train on."""
        return np.concatenate([np.empty(0, np.int64), *(labels[split] for split in self._parts(labels)[0])])

    def _divide(
        self, dataset: Dataset, labels: Mapping[str, IntArray], unseen: IntArray | None = None
    ) -> tuple[ClassSplit, dict[str, str]]:
        """Return the seen and unseen classes that have images, and the classes that are lost, with the reason.

        Args:
            labels: class of each image, by split of the dataset.
            unseen: the unseen classes, in place of `split`.
        """

        names, wnids = dataset.class_names, dataset.wnids
        if isinstance(dataset, FeatureDataset) and (protocol := dataset.protocol):
            if self.split != protocol:
                raise DataError(
                    f"{dataset.id!r} is loaded with the split {protocol}, not {self.split!r}. Write "
                    f"{dataset.id.partition('?')[0]}?split={self.split}."
                )
            folds = tuple(Fold(fold.train, fold.val) for fold in dataset.folds)
            seen, tested = np.unique(labels["trainval"]), np.unique(labels["test_unseen"])
            used = np.union1d(seen, tested)
            lost = {name: "no image" for i, name in enumerate(names) if i not in used}
            return ClassSplit(seen, tested, folds or self._folds(dataset, seen)), lost
        division: ClassSplit = split_classes(
            self.split if unseen is None else unseen,
            names,
            wnids,
            counts=np.bincount(np.concatenate(list(labels.values())), minlength=len(names)).tolist(),
            share=self.share,
            seed=self.seed,
            listed=Path(self.split_file.removeprefix("file:")).expanduser() if self.split_file else None,
            drop_unknown=self.drop_unknown,
        )
        seen = np.intersect1d(division.seen, self._trained(labels))
        tested = np.intersect1d(division.unseen, np.concatenate(list(labels.values())))
        lost = {names[i]: _NO_TRAINING for i in np.setdiff1d(division.seen, seen)}
        lost |= {names[i]: _NO_IMAGE for i in np.setdiff1d(division.unseen, tested)}
        used = np.union1d(division.seen, division.unseen)
        lost |= {name: f"not in the split {self.split}" for i, name in enumerate(names) if i not in used}
        lost |= dict.fromkeys(division.unknown, "in the split file, but no class of the dataset")
        if len(seen) < len(division.seen):
            division = replace(division, folds=self._folds(dataset, seen))
        return replace(division, seen=seen, unseen=tested), lost

    def _folds(self, dataset: Dataset, seen: IntArray) -> tuple[Fold, ...]:
        names, wnids = dataset.class_names, dataset.wnids
        return draw_folds(seen, [(wnids[i] if wnids else None) or names[i] for i in seen], self.seed)


def _summary(result: Result) -> str:
    """Return a progress line on a finished method."""
    parameters = parameters_of(result)
    name = parameters.method + ("" if parameters.on_all_folds else f", fold {parameters.fold}")
    shown = ", ".join(f"{m} {100 * result.metrics[m]:.1f} %" for m in ("zsl", "H") if m in result.metrics)
    return f"{name}: {result.error or shown} ({result.seconds:.0f} s)"
