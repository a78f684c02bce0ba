"""Zero-shot learning, the good, the bad and the ugly: unseen classes, known only by a description.

Paper:      Xian et al., "Zero-shot learning: a comprehensive evaluation of the good, the bad and the ugly", TPAMI 2018
Implements: its protocol on its own datasets, with the published features or any model's, and on any dataset of images
            with class embeddings. One cell per method (and validation fold, for Fig. 3)
Differs:    features are scaled to length 1 unless `normalise` says otherwise; the paper does not say
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from itertools import groupby, product
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from unseen.benchmarks.benchmark import Benchmark
from unseen.benchmarks.prompting import PromptOptions
from unseen.benchmarks.workbench import Wanted, Workbench
from unseen.benchmarks.zsl.analysis import make_look
from unseen.benchmarks.zsl.details import ZslDetails, ZslParameters, pack_outcomes, parameters_of
from unseen.core.arrays import AnyArray, IntArray
from unseen.core.errors import DataError, UnseenError, UsageError
from unseen.core.identity import Share, option
from unseen.core.records import Cell, Result
from unseen.core.run_record import Recorder, RunRecord, dropped, search_record
from unseen.data import Dataset
from unseen.data.sources.features import FeatureDataset
from unseen.features import FeatureRows
from unseen.results.info import BenchmarkInfo, built_in_info
from unseen.zeroshot.catalogue import expand_methods, load_method, make_method
from unseen.zeroshot.embeddings import check_source, class_embeddings, normalise_embeddings
from unseen.zeroshot.problem import (
    IMAGENET_SPLITS,
    ClassSplit,
    FloatArray,
    Images,
    Problem,
    audit_unseen,
    draw_folds,
    split_classes,
)

if TYPE_CHECKING:
    from unseen.zeroshot.protocol import Tuning


#: Class embeddings by a text tower.
PROMPTS = "prompts"
#: The model of datasets without features.
DEFAULT_MODEL = "packaged:efficientnet-lite0"
#: Distance of the seeds of random class splits.
_SAMPLE_SEEDS = 1_000_003


@dataclass(frozen=True, eq=False)
class ZslInputs:
    """What a problem is assembled from.

    Attributes:
        images: of all splits of the dataset, one after the other; features are read as they are needed.
        parts: (n,) the split of each image.
        embeddings: (c, a), rows of length 1.
        source: name of the embeddings.
        unseen: the unseen classes, in place of the option `split`.
    """

    dataset: Dataset
    images: Images
    parts: AnyArray
    embeddings: FloatArray
    source: str
    unseen: IntArray | None = None


class _Roles(NamedTuple):
    """Which images train seen classes, and which test unseen and seen ones, as row numbers."""

    train: IntArray
    new: IntArray
    old: IntArray


@dataclass(frozen=True)
class ZslBenchmark(PromptOptions, Benchmark):
    """Options of the zero-shot benchmark."""

    name: ClassVar[str] = "zsl"
    info: ClassVar[BenchmarkInfo] = built_in_info("zsl")
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
        "auto", file=True, help="attributes, glove, prompts, or a file; auto: those of the dataset."
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

    splits: int = option(
        0,
        neutral="it adds cells",
        help="Also evaluate on this many random class splits, for intervals and comparisons over splits.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        expand_methods(self.methods)
        if self.splits and (self.splits < 2 or self.split not in ("PS", "SS") or self.test_on):
            raise UsageError("--splits takes two or more, samples classes of PS or SS, and has no use with --test-on.")
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
        y = np.concatenate([split.labels for split in dataset.splits.values()])
        parts = np.repeat(list(dataset.splits), [len(split) for split in dataset.splits.values()])
        classes = len(dataset.class_names)
        sampled = self.split == "PS" and not getattr(dataset, "protocol", "")
        unseen = round(self.share * classes)
        if sampled and not self.test_on and (unseen < 2 or classes - unseen < 4):
            raise DataError(
                f"--share {self.share:g} of the {classes} classes of {dataset.id!r} leaves {classes - unseen} seen and "
                f"{unseen} unseen classes; 4 and 2 are needed. Add classes, or change the share."
            )
        for sample in (0, 1) if self.splits else (0,):
            if sample or not sampled:
                self._divide(dataset, y, self._roles(parts, y, sample), sample=sample)
        if self.embedding == PROMPTS:
            self.check_prompts(dataset)
            if self.combine == "max" and self.chosen != ("prompt",):
                raise UsageError("--combine max has no class embedding to learn from: use it with --methods prompt.")
        elif self.embedding not in ("auto", "glove", "wordnet"):
            check_source(self.embedding, dataset)

    def points(self, dataset: str) -> list[dict[str, Any]]:
        folds = ("all", 1, 2, 3) if self.robustness else ("all",)
        found: list[dict[str, Any]] = [{"method": method, "fold": fold} for method in self.chosen for fold in folds]
        pairs = product(range(1, self.splits + 1), self.chosen)
        return found + [{"method": method, "fold": "all", "class_split": number} for number, method in pairs]

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
        model, name = cells[0].model, cells[0].dataset
        test = self.assemble(self.inputs(bench, model, self.test_on))[0] if self.test_on else None
        results = self.results(cells, self.inputs(bench, model, name), bench.recorder, test, look=True)
        for number, result in enumerate(results, 1):
            shown = [f"{m} {100 * result.metrics[m]:.1f} %" for m in ("zsl", "H") if m in result.metrics]
            text = f"{parameters_of(result).method}: {result.error or ', '.join(shown)} ({result.seconds:.0f} s)"
            bench.progress.note(f"{number}/{len(cells)} {text}")
            yield result

    def results(
        self, cells: Sequence[Cell], inputs: ZslInputs, recorder: Recorder, test: Problem | None, *, look: bool
    ) -> Iterator[Result]:
        """Yield the result of each cell.

        Args:
            test: another problem with the same classes to test on.
            look: whether results contain Fig. 2 of data that bring features.
        """
        for sample, own in groupby(cells, lambda cell: ZslParameters.read(cell.parameters).class_split):
            problem, details, record = self.assemble(inputs, sample)
            recorder.add(record)
            if look and isinstance(inputs.dataset, FeatureDataset) and not sample:
                drawn = make_look(problem.class_names, inputs.images.y, problem.test_unseen, self.seed)
                details = replace(details, look=drawn.to_dict())
            tunings: dict[str, Tuning] = {}  # every fold is tried once; a cell of one fold chooses by its column
            for cell in own:
                yield self._one(cell, problem, test, details, tunings)

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
        except (UnseenError, ValueError, ArithmeticError) as error:
            reason = str(error) if isinstance(error, UnseenError) else f"{type(error).__name__}: {error}"
            return Result(cell, error=reason)
        tunings[method] = found.tuning
        limits = {
            f"{name}_{end}": getattr(each, end) for name, each in found.intervals.items() for end in ("low", "high")
        }
        return Result(
            cell=cell,
            metrics={**found.metrics, **limits},
            seconds=found.seconds,
            sweep=tuple(found.tuning.trials),
            details=replace(
                details,
                best=dict(found.best),
                calibration=found.calibration,
                per_class=dict(found.per_class),
                transductive=estimator.transductive,
                **pack_outcomes(found.outcomes),
            ).to_dict(),
            record=RunRecord() if folds is None else search_record(found.tuning.on(folds), found.best),
        )

    def inputs(
        self, bench: Workbench, model: str, data: str | Dataset, embeddings: FloatArray | None = None
    ) -> ZslInputs:
        """Return what `assemble` takes.

        Args:
            embeddings: of the classes, in place of the option `embedding`.
        """
        dataset = bench.dataset(data) if isinstance(data, str) else data
        source = self.embedding if embeddings is None else "embeddings"
        if source == "auto":
            source = "attributes" if getattr(dataset, "attributes", None) is not None else "glove"
        if embeddings is not None:
            embeddings = normalise_embeddings(np.asarray(embeddings, np.float64), dataset.class_names, source)
        elif source == PROMPTS:
            embeddings = self.text_embeddings(bench, model, dataset)
        else:
            embeddings = class_embeddings(source, dataset)
        rows = [bench.layers(model, data, part, (self.layer,))[self.layer] for part in dataset.splits]
        images = reduce(Images.join, (Images(FeatureRows.of(part.features), part.labels) for part in rows))
        parts = np.repeat(list(dataset.splits), [len(part.labels) for part in rows])
        return ZslInputs(dataset, images, parts, embeddings, source)

    def _roles(self, parts: AnyArray, y: IntArray, sample: int = 0) -> _Roles:
        """Return the roles of images.

        A dataset of the paper has these parts. In others, seen classes train on all splits but test and are tested on
        test; all images of unseen classes are tested. SS has no generalized test: as in the paper, every image of a
        seen class trains. A random class split uses all images, of which a fifth per unseen class is held out.
        """
        new, held = parts == "test_unseen", np.isin(parts, ("test", "test_seen"))
        if new.any() and not sample:
            return _Roles(*map(np.flatnonzero, (parts == "trainval", new, held)))
        rows = np.random.default_rng(self.seed).permutation(np.flatnonzero(new))
        for own in (rows[y[rows] == c] for c in np.unique(y[rows])):
            held[own[: len(own) // 5]] = True
        held &= self.split != "SS"
        return _Roles(np.flatnonzero(~held), np.arange(len(y)), np.flatnonzero(held))

    def assemble(self, inputs: ZslInputs, sample: int = 0) -> tuple[Problem, ZslDetails, RunRecord]:
        """Return the problem, features scaled, what every result states about it, and the record of unused classes.

        Training images are in memory, test images are read block by block.

        Args:
            sample: number of a random class split; 0 for the split itself.
        """
        dataset, images, embeddings = inputs.dataset, inputs.images, inputs.embeddings
        roles = self._roles(inputs.parts, images.y, sample)
        division, lost = self._divide(dataset, images.y, roles, inputs.unseen, sample)
        problem = Problem(
            images.take(roles.train).of(division.seen).load(),
            images.take(roles.new).of(division.unseen),
            images.take(roles.old).of(division.seen),
            embeddings,
            list(dataset.class_names),
            division.folds,
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
            embedding=inputs.source,
            embedding_dimensions=embeddings.shape[1],
            feature_dimensions=problem.train.X.shape[1],
            indistinguishable_classes=len(embeddings) - len(np.unique(embeddings, axis=0)),
            audit=audit_unseen(dataset, problem.unseen).summary,
            splits_digest="" if sample else str(getattr(dataset, "splits_digest", "")),
            pool=division.pool,
        )
        return problem.normalised(self.normalise), details, record

    def _divide(
        self, dataset: Dataset, y: IntArray, roles: _Roles, listed: IntArray | None = None, sample: int = 0
    ) -> tuple[ClassSplit, dict[str, str]]:
        """Return the seen and unseen classes that have images, and the classes that are lost, with the reason.

        Args:
            y: class of each image.
            listed: the unseen classes, in place of `split`.
            sample: number of a random class split, with as many unseen classes as the published split, if there is one.
        """
        names, share = dataset.class_names, self.share
        seen, tested = np.unique(y[roles.train]), np.unique(y[roles.new])
        protocol, seed = getattr(dataset, "protocol", ""), self.seed + _SAMPLE_SEEDS * sample
        if protocol:
            if self.split != protocol:
                raise DataError(
                    f"{dataset.id!r} is loaded with the split {protocol}, not {self.split!r}. Write "
                    f"{dataset.id.partition('?')[0]}?split={self.split}."
                )
            share = len(np.unique(dataset.splits["test_unseen"].labels)) / len(names)
        if protocol and not sample:
            division = ClassSplit(seen, np.setdiff1d(np.arange(len(names)), seen), getattr(dataset, "folds", ()))
        else:
            division = split_classes(
                self.split if listed is None else listed,
                dataset,
                counts=np.bincount(y, minlength=len(names)).tolist(),
                share=share,
                seed=seed,
                listed=self.split_file,
                drop_unknown=self.drop_unknown,
            )
        if sample and division.pool <= len(division.unseen):
            raise DataError(
                f"every random class split of {dataset.id!r} would have the same {division.pool} unseen classes: the "
                "leak audit clears no others. Use --split SS, whose test classes may be seen ones, or a smaller share."
            )
        lost = {names[i]: "no training image" for i in np.setdiff1d(division.seen, seen)}
        lost |= {names[i]: "no image" for i in np.setdiff1d(division.unseen, tested)}
        unused = np.setdiff1d(np.arange(len(names)), np.union1d(division.seen, division.unseen))
        lost |= {names[i]: f"not in the split {self.split}" for i in unused}
        lost |= dict.fromkeys(division.unknown, "in the split file, but no class of the dataset")
        seen, tested = np.intersect1d(division.seen, seen), np.intersect1d(division.unseen, tested)
        folds = division.folds or draw_folds(seen, dataset, seed)
        return replace(division, seen=seen, unseen=tested, folds=folds), lost
