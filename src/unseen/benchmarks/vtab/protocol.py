"""The Visual Task Adaptation Benchmark: how well does a model adapt to unseen tasks with few labels?

Paper:      Zhai et al., "A Large-scale Study of Representation Learning with the Visual Task Adaptation Benchmark",
            2019 [P], sections 2 and 3.1, Appendices C, D, I and K
Implements: hyper-parameters chosen on the 200 validation examples, retraining on all 1,000, top-1 on the test set for
            each of three seeds (their median is reported); plain resize, no augmentation in the lightweight sweep
Differs:    images are resized to the model's own input instead of 224 for all
Expected:   Table 6 (fine-tuning, lightweight): Sup-100% 65.6, From-Scratch 42.1; Table 9 (linear): Sup-100% 57.1
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from msgspec import Meta

from unseen.benchmarks.benchmark import Benchmark
from unseen.benchmarks.vtab.info import VtabDetails
from unseen.benchmarks.vtab.published_tables import GROUPS
from unseen.benchmarks.vtab.search import (
    BLANK,
    OF_SWEEP,
    PEFT_BATCH,
    TRIALS,
    SealedTest,
    Selection,
    Trial,
    sample_settings,
)
from unseen.benchmarks.workbench import Wanted, Workbench
from unseen.core.arrays import IntArray
from unseen.core.errors import BackboneError, DataError, UnknownNameError, UsageError
from unseen.core.identity import Natural, Positive, Rate, digest, option
from unseen.core.names import Name
from unseen.core.records import Cell, Result
from unseen.data import Dataset
from unseen.data.sources.vtab import default_root, ready_tasks, vtab_tasks
from unseen.features.manifest import tf_preprocessing
from unseen.finetuning import ADAPTATIONS
from unseen.metrics import mean_per_class_accuracy
from unseen.metrics.accuracy import quadratic_kappa
from unseen.results.grid import pack_correct
from unseen.results.info import BenchmarkInfo, built_in_info
from unseen.stats import accuracy_interval

if TYPE_CHECKING:
    from unseen.backbones import Backbone
    from unseen.benchmarks.vtab.adapters import FinetuneAdapter, LinearAdapter

#: The embedded default: four procedural twins and photographs with two labellings. Nothing of it is downloaded.
MINI = (
    "packaged:grocery",
    "packaged:grocery?labels=coarse",
    "procedural:shapes-count",
    "procedural:shapes-distance",
    "procedural:sprites-location",
    "procedural:sprites-orientation",
)
#: Parameters that a training with given hyper-parameters does not depend on.
_SEARCH = {"seed", "budget", "sweep", "selection_seeds", *chain(*OF_SWEEP.values())}
#: Adaptations of the paper itself; version 1 of them has no name in the version of a cell.
_OF_PAPER = ("linear", "finetune", "scratch")
#: Decoded images that fine-tuning keeps by default: 7,000 of 224 pixels.
CACHE_BYTES = 1 << 30
#: Version of the start from a probe: 2 clips gradients and trains the network at a tenth of the head's rate.
PROBE_START = 2
#: Weight decay of training from scratch, per unit of learning rate (Appendix I).
SCRATCH_DECAY = 0.01


#: A weight decay.
Decay = Annotated[float, Meta(ge=0)]


@dataclass(frozen=True)
class VtabBenchmark(Benchmark):
    """Options of VTAB."""

    name: ClassVar[str] = "vtab"
    info: ClassVar[BenchmarkInfo] = built_in_info("vtab")
    version: ClassVar[int] = 2  # warm-up of the authors' script; evaluation crops and samples of the heavyweight search

    adaptation: str = option(
        "linear",
        help="linear (a layer on stored features), finetune, scratch (random weights), lora, adapter, vpt, bitfit, "
        "partial (the last blocks), or a plug-in.",
    )
    adaptation_size: Natural = option(
        0, help="Rank of lora, width of adapter, prompts of vpt, blocks of partial; 0 for the default.", rare=True
    )
    sweep: Literal["lightweight", "heavyweight", "peft-1k"] = option(
        "lightweight", help="heavyweight is the random search; peft-1k: AdamW, cosine, 100 epochs."
    )
    learning_rates: tuple[Rate, ...] = option((0.1, 0.01), help="Learning rates of the lightweight sweep.")
    steps: tuple[Positive, ...] = option((2500, 10_000), help="Training steps of the lightweight sweep.")
    batch_size: Positive = option(512, help="Batch size of the lightweight sweep.")
    budgets: tuple[Positive, ...] = option(
        (), axis="budget", help="Steps to report one by one instead of choosing among --steps (Figure 6).", rare=True
    )
    trials: Positive = option(TRIALS, help="Settings of the heavyweight search.", rare=True)
    longest: Natural = option(0, help="Longest schedule of the heavyweight search; 0 for no cap.", rare=True)
    epochs: Positive = option(100, help="Epochs of peft-1k.", rare=True)
    adamw_rates: tuple[Rate, ...] = option((0.001,), help="Learning rates of peft-1k.", rare=True)
    weight_decays: tuple[Decay, ...] = option((0.01, 0.001, 0.0001, 0.0), help="Weight decays of peft-1k.", rare=True)
    selection_seeds: Positive = option(
        1, help="Trainings of each candidate of fine-tuning, whose mean accuracy on val selects.", rare=True
    )
    seeds: tuple[int, ...] = option(
        (0, 1, 2), axis="seed", count=(0, 1, 2), help="Seeds of the final runs; a single number is a count."
    )
    preprocessing: Literal["plain", "own", "tf"] = option(
        "plain", help="plain resizes both sides; tf does so as the authors' TensorFlow; own is the model's.", rare=True
    )
    patches: bool = option(False, help="Pass images patch by patch (Appendix C).", rare=True)
    reduced_strides: bool = option(
        False, help="With --patches: the first and the last strided convolution step by one (Appendix C).", rare=True
    )
    start: Literal["zero", "probe"] = option("zero", help="Initial head of fine-tuning: zero, or a linear probe.")
    micro_batch: Natural = option(
        0, help="Images per forward pass of fine-tuning, if memory is short; 0 for the batch size.", rare=True
    )
    feeders: Natural | Literal["auto"] = option(
        "auto",
        neutral="every image has its own random generator",
        help="Processes that decode images for fine-tuning; auto: none on the CPU, up to eight for a GPU.",
        rare=True,
    )
    cache_bytes: Natural = option(
        CACHE_BYTES, neutral="a cache", help="Bytes of decoded images that fine-tuning keeps between epochs.", rare=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.adaptation not in ADAPTATIONS:
            raise UnknownNameError("adaptation", self.adaptation, ADAPTATIONS)
        refused = {
            f"{self.sweep} is for fine-tuning; linear has the lightweight sweep": self.adaptation == "linear"
            and self.sweep != "lightweight",
            "patches go with the lightweight sweep, whose inputs are 224 pixels": self.patches
            and self.sweep == "heavyweight",
            "reduced strides go with patches": self.reduced_strides and not self.patches,
            "it needs at least one seed. A single number is a count; `0,` is the seed 0": not self.seeds,
            "it needs at least one learning rate, weight decay and number of steps": not all(
                (self.steps, self.learning_rates, self.adamw_rates, self.weight_decays)
            ),
            "budgets are steps of the lightweight sweep; peft-1k has epochs": self.budgets and self.sweep == "peft-1k",
        }
        for reason, found in refused.items():
            if found:
                raise UsageError(f"benchmark 'vtab': {reason}.")

    def idle(self) -> Collection[str]:
        unused = {name for sweep, names in OF_SWEEP.items() if sweep != self.sweep for name in names}
        unused |= {"steps"} if self.budgets else set()
        unused |= {"adaptation_size"} if not self.adaptation_size else set()
        unused |= {"selection_seeds"} if self.selection_seeds == 1 else set()
        return unused | ({"micro_batch", "start", "selection_seeds"} if self.adaptation == "linear" else set())

    def components(self, point: Mapping[str, object]) -> Mapping[str, int]:
        """Return the version of a parameter-efficient adaptation, and of the start from a probe."""
        own = {} if self.adaptation in _OF_PAPER else {self.adaptation: ADAPTATIONS.get(self.adaptation).version}
        probe = self.start == "probe" and self.adaptation != "linear"
        return own | ({"probe-start": PROBE_START} if probe else {})

    def points(self, dataset: str) -> list[dict[str, Any]]:
        budgets = [{"budget": budget} for budget in self.budgets] or [{}]
        # Version 2 of the protocol had an option to prune the search; the ids of other results stay.
        fixed = {"prune": False} if self.sweep == "heavyweight" else {}
        return [{**fixed, **budget, "seed": seed} for budget in budgets for seed in self.seeds]

    def check(self, dataset: Dataset) -> None:
        if missing := [split for split in ("train", "val", "test") if split not in dataset.splits]:
            raise DataError(
                f"{dataset.id!r} has no {missing[0]!r} split, which VTAB needs; it has {tuple(dataset.splits)}."
            )

    def features(self, cells: Sequence[Cell], bench: Workbench) -> list[Wanted]:
        if self.adaptation != "linear":
            return []
        return bench.wanted(cells[0].dataset, splits=("train", "val", "test"), view=self._view)

    def pieces(self, cells: Sequence[Cell], bench: Workbench) -> list[dict[str, object]]:
        """Return the trainings that can be done now: candidates of the search first, then a final one per seed."""
        if self.adaptation == "linear":
            return []
        found: list[dict[str, Any]] = []
        for budget, chosen in _by_budget(cells).items():
            adapter = self._finetuning(chosen[0], bench, budget)
            found += [{"budget": budget, **piece} for piece in adapter.todo(_seeds(chosen))]
        return found

    def do_piece(self, piece: Mapping[str, Any], cells: Sequence[Cell], bench: Workbench) -> None:
        """Run one training, and store its outcome in a file."""
        self._finetuning(cells[0], bench, piece["budget"]).do(piece)

    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> Iterator[Result]:
        dataset = bench.dataset(cells[0].dataset)
        self.check(dataset)
        sealed = SealedTest(dataset.split("test"))
        for budget, chosen in _by_budget(cells).items():
            began = time.perf_counter()
            adapter = self._adapter(chosen[0], bench, budget)
            selection = adapter.tune()
            for cell, found in zip(chosen, adapter.predict(selection, _seeds(chosen)), strict=True):
                # The test labels are opened only here: everything is chosen, and this run is predicted.
                result = _result(cell, dataset, sealed.open(selection), found, selection, adapter.trainable)
                seconds, began = time.perf_counter() - began, time.perf_counter()
                yield replace(result, seconds=seconds, record=adapter.record)

    def _adapter(self, cell: Cell, bench: Workbench, budget: int) -> LinearAdapter | FinetuneAdapter:
        from unseen.benchmarks.vtab.adapters import LinearAdapter

        if self.adaptation != "linear":
            return self._finetuning(cell, bench, budget)
        splits = ("train", "val", "test")
        train, val, test = (bench.split(cell.model, cell.dataset, split, view=self._view) for split in splits)
        blank = replace(test, labels=np.full_like(test.labels, BLANK))
        return LinearAdapter(train, val, blank, len(bench.dataset(cell.dataset).class_names), self._settings(budget))

    def _finetuning(self, cell: Cell, bench: Workbench, budget: int) -> FinetuneAdapter:
        from unseen.benchmarks.vtab.adapters import FinetuneAdapter, FinetuneOptions

        dataset = bench.dataset(cell.dataset)
        model = scratch_model(cell.model, bench) if self.adaptation == "scratch" else cell.model
        backbone = self._view(bench.backbone(model))
        return FinetuneAdapter(
            backbone=backbone,
            train=dataset.split("train"),
            val=dataset.split("val"),
            test=SealedTest(dataset.split("test")).images,
            classes=len(dataset.class_names),
            settings=self._settings(budget, len(dataset.split("train")), backbone.preprocessing.size),
            options=FinetuneOptions(
                weight_decay=SCRATCH_DECAY if self.adaptation == "scratch" else 0.0,
                micro_batch=self.micro_batch,
                own_preprocessing=self.preprocessing != "plain",
                start=self.start,
                adaptation=self.adaptation,
                adaptation_size=self.adaptation_size,
                device=bench.how.device,
                workers=-1 if self.feeders == "auto" else self.feeders,
                cache_bytes=self.cache_bytes,
            ),
            folder=bench.home / "vtab" / "runs",
            name=partial(cell.name_of, without=_SEARCH),
            tolerant=self.sweep == "heavyweight",
            selection_seeds=self.selection_seeds,
        )

    def _settings(self, budget: int, images: int = 0, size: int = 0) -> list[Trial]:
        """Return the candidates of the sweep; a probe to start from is one of them, with no step after it."""
        if self.sweep == "heavyweight":
            return sample_settings(self.trials, images=images, size=size, longest=self.longest)
        if self.sweep == "peft-1k":
            fixed = {"epochs": self.epochs, "batch_size": PEFT_BATCH, "optimizer": "adamw", "schedule": "cosine"}
            recipe = product(self.adamw_rates, self.weight_decays)
            found = [{"learning_rate": rate, "weight_decay": decay, **fixed} for rate, decay in recipe]
        else:
            grid = product((budget,) if budget else self.steps, self.learning_rates)
            found = [{"learning_rate": rate, "steps": steps, "batch_size": self.batch_size} for steps, rate in grid]
        if self.adaptation != "linear" and self.start == "probe":
            found.insert(0, {"learning_rate": self.learning_rates[0], "steps": 0, "batch_size": self.batch_size})
        return found

    def _view(self, backbone: Backbone) -> Backbone:
        """Return the model with the preprocessing of this adaptation."""
        own = backbone.preprocessing
        if backbone.transform is not None and self.preprocessing != "own":
            raise BackboneError(
                f"{backbone.id!r} has its own transform, which preprocessing={self.preprocessing!r} cannot change: "
                "use preprocessing='own', or a model whose transform is the usual chain."
            )
        if self.preprocessing == "tf":
            own = tf_preprocessing(own, centred=self.adaptation == "scratch")
        elif self.preprocessing == "plain":
            own = replace(own, resize=own.size, mode="squash", interpolation="bilinear")
        viewed = replace(backbone, preprocessing=own)
        if not self.patches:
            return viewed
        from unseen.backbones.forwards import patchwise

        return patchwise(viewed, reduced_strides=self.reduced_strides)


def scratch_model(model: str, bench: Workbench) -> str:
    """Return the name of the same architecture with random weights."""
    if model.startswith("random:"):
        return model
    architecture = bench.backbone(model).card.architecture
    if not architecture:
        raise UsageError(f"the architecture of {model!r} is not known by name: train random:ARCHITECTURE from scratch.")
    return f"random:{architecture}"


def _result(
    cell: Cell, dataset: Dataset, labels: IntArray, predictions: IntArray, selection: Selection, trainable: int
) -> Result:
    """Return the metrics and details of one run; images that could not be read have the prediction -1."""
    readable = predictions >= 0
    wanted, found = labels[readable], predictions[readable]
    correct, classes = found == wanted, len(dataset.class_names)
    interval = accuracy_interval(correct)
    details = VtabDetails(
        classes=classes,
        chance=1 / classes,
        train_images=len(dataset.split("train")) + len(dataset.split("val")),
        test_images=len(correct),
        chosen=selection.setting,
        validation_accuracy=selection.accuracy,
        examples=digest([dataset.split(s).fingerprint for s in ("train", "val")]),
        correct=pack_correct(correct),
        trainable=trainable,
    )
    metrics = {
        "top1": interval.value,
        "mean_per_class": mean_per_class_accuracy(wanted, found),
        "kappa": quadratic_kappa(wanted, found),
        "top1_low": interval.low,
        "top1_high": interval.high,
    }
    return Result(cell, metrics, sweep=selection.trials, details=details.to_dict())


def _by_budget(cells: Sequence[Cell]) -> dict[int, list[Cell]]:
    budgets = [cell.parameters.get("budget", 0) for cell in cells]
    return {b: [cell for cell, own in zip(cells, budgets, strict=True) if own == b] for b in dict.fromkeys(budgets)}


def _seeds(cells: Sequence[Cell]) -> list[int]:
    return [cell.parameters["seed"] for cell in cells]


def suite(names: Sequence[str], *, size: str = "1000", root: str = "") -> list[str]:
    """Return the dataset ids of suites, groups, tasks and plain dataset ids, in order, each once.

    Args:
        names: "mini", "all", "ready" (with complete data), a group ("natural"), a task ("caltech101"), any dataset.
        size: of VTAB's own tasks: "1000" or "full".
        root: folder of their data; "" for the default.
    """
    options = {"size": size if size != "1000" else None, "root": root or None}
    tasks = vtab_tasks().values()
    suites = {"all": list(vtab_tasks()), **{group: [t.name for t in tasks if t.group == group] for group in GROUPS}}
    suites |= {task.name: [task.name] for task in tasks}
    found: list[str] = []
    for name in names:
        chosen = suites.get(name.removeprefix("vtab:"), [])
        if name == "ready":
            folder = Path(root or default_root())
            if not (chosen := ready_tasks(folder)):
                raise DataError(f"no task is ready below {folder}. List the data: unseen vtab check {folder}")
        elif not chosen and name != "mini" and ":" not in name:
            raise UnknownNameError("task or suite", name, ["mini", "ready", *suites])
        found += [str(Name.parse(f"vtab:{task}", options)) for task in chosen] or (MINI if name == "mini" else [name])
    return list(dict.fromkeys(found))
