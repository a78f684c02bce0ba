"""Extract the features that groups of cells read, part by part, with all workers on one split after the other."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from unseen.backbones.load import RuntimeName
from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import DiskFullError
from unseen.core.records import FeatureKey
from unseen.run.evaluate import Context, Task, error_text, worker_context
from unseen.run.executor import Engine

if TYPE_CHECKING:
    from unseen.features import FeatureStore
    from unseen.features.extraction import Described, ExtractionJob, KeyedPart

#: Most parts in one batch, and batches for each worker: small enough that all workers end at about the same time.
_MOST_PARTS, _BATCHES_PER_WORKER = 8, 4


@dataclass(frozen=True)
class FeaturePlan:
    """The features that a group of cells reads, one entry for each extraction, in the order of `extractions_of`."""

    task: Task
    entries: tuple[Described, ...] = ()


@dataclass(frozen=True)
class PartBatch:
    """Some parts of one extraction of a group.

    Attributes:
        place: the position of the extraction in `extractions_of`.
        starts: the first image of each part.
    """

    task: Task
    place: int
    keys: dict[str, FeatureKey]
    total: int
    part_size: int
    starts: tuple[int, ...]

    @property
    def images(self) -> int:
        """Number of images in the parts."""
        return sum(min(self.part_size, self.total - start) for start in self.starts)

    def left(self, store: FeatureStore) -> list[int]:
        """Return the first image of each part that is not stored."""
        keys = self.keys.values()
        found = [store.missing(key, total=self.total, part_size=self.part_size)[1] for key in keys]
        return [start for start in self.starts if any(start in starts for starts in found)]

    def store(self, store: FeatureStore, keyed: KeyedPart) -> None:
        """Store the rows of a part, if any, and complete the entries that have all their parts."""
        keys, part, provenance = keyed
        store.add_layers(keys, part, total=self.total, part_size=self.part_size, provenance=provenance)


@dataclass(frozen=True)
class PartBatchResult:
    """The outcome of a batch.

    Attributes:
        skipped: number of unreadable images.
        error: why the batch failed; "" after success.
        sent: parts with their provenance, from a worker that does not share the store.
    """

    batch: PartBatch
    skipped: int = 0
    error: str = ""
    sent: tuple[KeyedPart, ...] = ()


# ---- in workers ------------------------------------------------------------------------------------------------------


def extractions_of(task: Task, bench: Workbench) -> Iterator[ExtractionJob]:
    """Yield each extraction of a group; none if its benchmark declares none."""
    from unseen.features.extraction import ExtractionJob  # imports torch

    model = task.cells[0].model
    for wanted in task.benchmark.features(task.cells, bench):
        for dataset, split in bench.extractions(model, wanted.dataset, wanted.split):
            backbone = bench.backbone(model)
            viewed = wanted.view(backbone) if wanted.view else backbone
            yield ExtractionJob(viewed, dataset, split, wanted.layers, bench.how)


def describe_features(task: Task, context: Context | None = None) -> FeaturePlan:
    """Return the keys of the features that a group reads; none if that fails, as the evaluation reports the reason."""
    bench = (context or worker_context(task)).bench
    try:
        return FeaturePlan(task, tuple(job.describe(bench.store) for job in extractions_of(task, bench)))
    except DiskFullError:
        raise
    except Exception:  # noqa: BLE001 - worker boundary: the evaluation stores the reason
        return FeaturePlan(task)


def extract_batch(batch: PartBatch, context: Context | None = None) -> PartBatchResult:
    """Extract parts into the store if the worker shares it; otherwise return them."""
    task = batch.task
    bench = (context or worker_context(task)).bench
    sent: list[KeyedPart] = []
    skipped, error = 0, ""
    try:
        job = list(extractions_of(task, bench))[batch.place]
        for keyed in job.extract_parts(batch.left(bench.store) if task.shared else batch.starts, batch.part_size):
            skipped += len(next(iter(keyed[1].values())).skipped)
            if task.shared:
                batch.store(bench.store, keyed)
            else:
                sent.append(keyed)
    except DiskFullError:
        raise
    except Exception as caught:  # noqa: BLE001 - worker boundary: the run reports it
        error = error_text(caught)
    return PartBatchResult(batch, skipped, error, tuple(sent))


# ---- in the process of the run ---------------------------------------------------------------------------------------


def extract_features(tasks: Sequence[Task], engine: Engine, bench: Workbench) -> list[Task]:
    """Extract the features that groups read with several workers; return the tasks with the runtime that was used."""
    entries: dict[tuple[str, ...], PartBatch] = {}
    runtimes: dict[str, RuntimeName] = {}
    needs = {"GPU": 1.0} if tasks and tasks[0].extraction.device in ("auto", "cuda") else {}
    for plan in engine.map(describe_features, tasks, lost=lambda task, _: FeaturePlan(task), needs=needs):
        task = plan.task
        for place, entry in enumerate(plan.entries):
            name = tuple(sorted(key.digest for key in entry.keys.values()))
            batch = PartBatch(task, place, entry.keys, entry.total, task.extraction.part_size, ())
            entries.setdefault(name, batch)
            runtimes[task.cells[0].id] = entry.runtime
    wanted = list(entries.values())
    if batches := [batch for entry in wanted for batch in _missing(entry, engine, bench.store)]:
        # Each run has its own order, and a worker skips parts that are stored: runs on one home share the work.
        random.shuffle(batches)
        total, left = sum(batch.total for batch in wanted), sum(batch.images for batch in batches)
        title = f"{len(wanted)} {'split' if len(wanted) == 1 else 'splits'} by {engine.slots} workers"
        bench.progress.begin(title, total, total - left)
        failed: list[str] = []
        try:
            lost = lambda batch, why: PartBatchResult(batch, error=why)  # noqa: E731
            for done in engine.map(extract_batch, batches, lost=lost, needs=needs):
                for keyed in done.sent:  # of a worker that does not share the store
                    done.batch.store(bench.store, keyed)
                failed += [done.error] if done.error else []
                bench.progress.advance(0 if done.error else done.batch.images, done.skipped)
        finally:
            bench.progress.end()
        for reason in dict.fromkeys(failed):
            bench.progress.note(f"some features could not be extracted: {reason}")
    return [replace(task, runtime=runtimes.get(task.cells[0].id, "")) for task in tasks]


def _missing(entry: PartBatch, engine: Engine, store: FeatureStore) -> Iterator[PartBatch]:
    """Yield the parts that the store lacks, in batches; complete an entry that lacks nothing but its end."""
    sizes: dict[int, set[int]] = {}
    for key in entry.keys.values():
        size, starts = store.missing(key, total=entry.total, part_size=entry.part_size)
        sizes.setdefault(size, set()).update(starts)
    for size, missing in sizes.items():
        if not missing and not all(map(store.holds, entry.keys.values())):
            replace(entry, part_size=size).store(store, (entry.keys, {}, {"images": 0}))
        ordered = sorted(missing)
        length = min(max(len(ordered) // (_BATCHES_PER_WORKER * engine.slots), 1), _MOST_PARTS)
        for i in range(0, len(ordered), length):
            yield replace(entry, part_size=size, starts=tuple(ordered[i : i + length]))
