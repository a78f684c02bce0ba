"""Extract the features that groups of cells read, part by part, with all workers on one split after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from unseen.backbones.load import RuntimeName
from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import DiskFullError, UnseenError
from unseen.core.progress import Progress
from unseen.core.records import FeatureKey
from unseen.features.part import PartLayers
from unseen.run.evaluate import Context, Task, error_text, worker_context
from unseen.run.executor import Engine
from unseen.run.leases import Leases

if TYPE_CHECKING:
    from unseen.features.extraction import Described, ExtractionJob

#: Most parts in one batch, and batches for each worker: small enough that all workers end at about the same time.
_MOST_PARTS, _BATCHES_PER_WORKER = 8, 4


@dataclass(frozen=True)
class FeaturePlan:
    """The features that a group of cells reads.

    Attributes:
        entries: one for each extraction, in the order of `extractions_of`.
        unexpected: the text of an exception that is not an `UnseenError`; "" without one.
    """

    task: Task
    entries: tuple[Described, ...] = ()
    unexpected: str = ""


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

    def lease_names(self) -> list[str]:
        """Return the name of the lease of each part."""
        first = next(iter(self.keys.values())).digest
        return [f"{first}/{self.part_size}/{start}" for start in self.starts]

    @property
    def images(self) -> int:
        """Number of images in the parts."""
        return sum(min(self.part_size, self.total - start) for start in self.starts)


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
    sent: tuple[tuple[dict[str, FeatureKey], PartLayers, dict[str, object]], ...] = ()


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
        found = [job.describe(bench.store) for job in extractions_of(task, bench)]
    except DiskFullError:
        raise
    except UnseenError:
        return FeaturePlan(task)
    except Exception as error:  # noqa: BLE001 - worker boundary: the run warns
        return FeaturePlan(task, unexpected=error_text(error))
    return FeaturePlan(task, tuple(found))


def extract_batch(batch: PartBatch, context: Context | None = None) -> PartBatchResult:
    """Extract parts into the store if the worker shares it; otherwise return them."""
    task = batch.task
    bench = (context or worker_context(task)).bench
    sent: list[tuple[dict[str, FeatureKey], PartLayers, dict[str, object]]] = []
    skipped, size = 0, batch.part_size

    def store(keys: dict[str, FeatureKey], part: PartLayers, provenance: dict[str, object]) -> None:
        nonlocal skipped
        skipped += len(next(iter(part.values())).skipped)
        if task.shared:
            bench.store.add_layers(keys, part, total=batch.total, part_size=size, provenance=provenance)
        else:
            sent.append((keys, part, provenance))

    error = ""
    try:
        job = list(extractions_of(task, bench))[batch.place]
        job.extract_parts(batch.starts, size, store)
    except DiskFullError:
        raise
    except Exception as caught:  # noqa: BLE001 - worker boundary: the run reports it
        error = error_text(caught)
    return PartBatchResult(batch, skipped, error, tuple(sent))


# ---- in the process of the run ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FeatureExtraction:
    """The extraction of the features of a run by several workers.

    Attributes:
        warn: called with the text of an exception that only makes the run slower.
        wait: called with a title when other runs hold the leases of everything that is left.
    """

    engine: Engine
    bench: Workbench
    leases: Leases
    warn: Callable[[str, str], None]
    wait: Callable[[str], None]

    def run(self, tasks: Sequence[Task]) -> list[Task]:
        """Extract the features that the groups read, and return the tasks with the runtime that was used."""
        entries: dict[tuple[str, ...], PartBatch] = {}
        runtimes: dict[str, RuntimeName] = {}
        needs = {"GPU": 1.0} if tasks and tasks[0].extraction.device in ("auto", "cuda") else {}
        for plan in self.engine.map(describe_features, tasks, lost=lambda task, _: FeaturePlan(task), needs=needs):
            task = plan.task
            if plan.unexpected:
                self.warn(f"the features of {task.cells[0].model}", plan.unexpected)
            for place, entry in enumerate(plan.entries):
                name = tuple(sorted(key.digest for key in entry.keys.values()))
                batch = PartBatch(task, place, entry.keys, entry.total, task.extraction.part_size, ())
                entries.setdefault(name, batch)
                runtimes[task.cells[0].id] = entry.runtime
        order = {task.cells[0].id: number for number, task in enumerate(tasks)}
        wanted = sorted(entries.values(), key=lambda batch: (order[batch.task.cells[0].id], batch.place))
        if wanted:
            self._extract(wanted, needs, self.bench.progress)
        return [replace(task, runtime=runtimes.get(task.cells[0].id, "")) for task in tasks]

    def _extract(self, wanted: list[PartBatch], needs: dict[str, float], progress: Progress) -> None:
        total, left = sum(batch.total for batch in wanted), sum(batch.images for batch in self._missing(wanted))
        if not left:
            return
        title = f"{len(wanted)} {'split' if len(wanted) == 1 else 'splits'} by {self.engine.slots} workers"
        progress.begin(title, total, total - left)
        failed: dict[str, str] = {}
        try:
            while batches := [b for b in self._missing(wanted) if not any(n in failed for n in b.lease_names())]:
                count = 0
                leased, lost = self._leased(batches), lambda batch, why: PartBatchResult(batch, error=why)
                for done in self.engine.map(extract_batch, leased, lost=lost, needs=needs):
                    count += 1
                    self._store(done)
                    failed |= dict.fromkeys(done.batch.lease_names(), done.error) if done.error else {}
                    self.leases.release(done.batch.lease_names())
                    progress.advance(0 if done.error else done.batch.images, done.skipped)
                if not count:
                    self.wait(title)
        finally:
            progress.end()
        for reason in dict.fromkeys(failed.values()):
            progress.note(f"some features could not be extracted: {reason}")

    def _missing(self, wanted: list[PartBatch]) -> list[PartBatch]:
        """Return the parts that the store lacks, in batches; complete entries that lack nothing but their end."""
        found: list[PartBatch] = []
        store = self.bench.store
        for entry in wanted:
            sizes: dict[int, set[int]] = {}
            for key in entry.keys.values():
                size, starts = store.missing(key, total=entry.total, part_size=entry.part_size)
                sizes.setdefault(size, set()).update(starts)
            for size, missing in sizes.items():
                if not missing and not all(map(store.holds, entry.keys.values())):
                    store.add_layers(entry.keys, {}, total=entry.total, part_size=size, provenance={"images": 0})
                ordered = sorted(missing)
                length = min(max(len(ordered) // (_BATCHES_PER_WORKER * self.engine.slots), 1), _MOST_PARTS)
                found += [
                    replace(entry, part_size=size, starts=tuple(ordered[i : i + length]))
                    for i in range(0, len(ordered), length)
                ]
        return found

    def _leased(self, batches: Sequence[PartBatch]) -> Iterator[PartBatch]:
        """Yield the parts whose leases this run acquires."""
        for batch in batches:
            names = batch.lease_names()
            acquired = set(self.leases.acquire(names))
            starts = tuple(start for start, name in zip(batch.starts, names, strict=True) if name in acquired)
            if starts:
                yield replace(batch, starts=starts)

    def _store(self, done: PartBatchResult) -> None:
        """Store the parts of a worker that does not share the store."""
        store, batch = self.bench.store, done.batch
        for keys, part, provenance in done.sent:
            store.add_layers(keys, part, total=batch.total, part_size=batch.part_size, provenance=provenance)
