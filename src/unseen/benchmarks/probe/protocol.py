"""Linear probes on frozen features: how well do the features separate the classes of a dataset?

Paper:      the protocol of ImageNet-CoG, section 3.4 [cog], on any dataset
Implements: features l2-normalised; regularisation chosen on validation images only; refit; top-1 on the test images
Differs:    a dataset that brings its own validation split selects on that instead of 20 % of train
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

from unseen.benchmarks.benchmark import Benchmark
from unseen.benchmarks.probe import targets
from unseen.benchmarks.probing import ProbeOptions, probe_cells
from unseen.benchmarks.workbench import Wanted, Workbench
from unseen.core.errors import UsageError
from unseen.core.records import Cell, Result
from unseen.data import Dataset
from unseen.data.dataset import CLASS, NUMBER, check_classes
from unseen.results.info import BenchmarkInfo, built_in_info


@dataclass(frozen=True)
class ProbeBenchmark(ProbeOptions, Benchmark):
    """Options of the probe benchmark."""

    name: ClassVar[str] = "probe"
    info: ClassVar[BenchmarkInfo] = built_in_info("probe")

    def suited(self, dataset: Dataset) -> Benchmark:
        """Return the probe for the dataset's kind of labels (`unseen.benchmarks.probe.targets`)."""
        if dataset.target == CLASS:
            return self
        solvers = ("logistic", "ridge") if dataset.target == NUMBER else ("logistic",)
        if self.solver not in solvers or self.shots != ("all",):
            raise UsageError(
                f"{dataset.id!r} has labels of the kind {dataset.target}: shots are of classes, and the solver "
                f"{self.solver} too. Leave both out."
            )

        kind = targets.RegressionBenchmark if dataset.target == NUMBER else targets.MultilabelBenchmark
        return kind(**{f.name: getattr(self, f.name) for f in fields(kind)})

    def check(self, dataset: Dataset) -> None:
        check_classes(dataset)

    def features(self, cells: Sequence[Cell], bench: Workbench) -> list[Wanted]:
        return bench.wanted(cells[0].dataset, self.layer)

    def evaluate(self, cells: Sequence[Cell], bench: Workbench) -> Iterator[Result]:
        dataset = bench.dataset(cells[0].dataset)
        parts = bench.splits(cells[0].model, cells[0].dataset, self.layer)
        names = list(dataset.class_names)
        details = {"class_names": names}
        return probe_cells(cells, parts, self, classes=len(names), details=details, how=bench.how)
