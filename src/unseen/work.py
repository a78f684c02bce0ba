"""What workers do, here or elsewhere: describe and extract features, do pieces of long work, evaluate groups of cells.

Everything a task needs travels with it; nothing here asks where it runs.
"""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

from unseen.backbones.names import RuntimeName
from unseen.benchmarks.benchmark import Benchmark
from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import DiskFullError, UnseenError
from unseen.core.identity import digest
from unseen.core.records import Cell, FeatureKey, Result
from unseen.features import Extraction, NoProgress
from unseen.results import capture_environment
from unseen.results.inbox import Inbox

if TYPE_CHECKING:
    from unseen.backbones import Backbone
    from unseen.data import Dataset
    from unseen.features.extraction import Described, ExtractedPart


@dataclass(frozen=True)
class Task:
    """A group of cells, or a piece of its work, with all that a worker in another process needs for it.

    Attributes:
        owner: the run that it is done for.
        piece: of long work; empty for the group itself.
        threads: that torch computes with; 0 leaves it as it is.
        runtime: instead of the "auto" of the extraction, where other workers than this one have chosen.
        shared: whether the worker sees the home of the run; otherwise it makes do with one of its own.
    """

    home: Path
    study: str
    extraction: Extraction
    benchmark: Benchmark
    cells: tuple[Cell, ...]
    owner: str = ""
    piece: Mapping[str, Any] = field(default_factory=dict)
    threads: int = 0
    runtime: RuntimeName | Literal[""] = ""
    shared: bool = True


@dataclass(frozen=True)
class Done:
    """What came of a task: results, and what the user should know."""

    task: Task
    results: tuple[Result, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Survey:
    """The features that a group reads, in the order of `wanted_by`."""

    task: Task
    found: tuple[Described, ...] = ()


@dataclass(frozen=True)
class Shard:
    """Some parts of what stands at `place` among the features that a group reads."""

    task: Task
    place: int
    keys: dict[str, FeatureKey]
    total: int
    part_size: int
    starts: tuple[int, ...]

    def work(self) -> list[str]:
        """What a run claims."""
        first = next(iter(self.keys.values())).digest
        return [f"{first}/{self.part_size}/{start}" for start in self.starts]

    @property
    def images(self) -> int:
        return sum(min(self.part_size, self.total - start) for start in self.starts)


@dataclass(frozen=True)
class ShardDone:
    """What came of a shard.

    Attributes:
        skipped: images that could not be read.
        error: why it was not done, or "".
        sent: parts for a store that the worker does not see, with their provenance.
    """

    shard: Shard
    skipped: int = 0
    seconds: float = 0.0
    error: str = ""
    sent: tuple[tuple[dict[str, FeatureKey], ExtractedPart, dict[str, object]], ...] = ()


class Notes(NoProgress):
    """Keeps one line of each extraction for the user, who is elsewhere."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._title, self._images, self._skipped = "", 0, 0

    def begin(self, title: str, total: int, done: int) -> None:
        self._title, self._images, self._skipped = title, 0, 0

    def advance(self, images: int, skipped: int) -> None:
        self._images += images
        self._skipped += skipped

    def note(self, text: str) -> None:
        self.lines.append(text)

    def end(self) -> None:
        skips = f", {self._skipped} unreadable and skipped" if self._skipped else ""
        self.lines.append(f"{self._title}: {self._images} images{skips}")


def wanted_by(task: Task, bench: Workbench) -> Iterator[tuple[Backbone, Dataset, str, tuple[str, ...]]]:
    """Model, dataset, split and layers of each extraction that a group will ask for; none where it does not say."""
    model = task.cells[0].model
    for wanted in task.benchmark.features(task.cells, bench):
        for dataset, split in bench.extractions(model, wanted.dataset, wanted.split):
            backbone = bench.backbone(model)
            yield wanted.view(backbone) if wanted.view else backbone, dataset, split, wanted.layers


def describe_features(task: Task) -> Survey:
    """What the features of a group are called by a worker; whatever goes wrong here, the evaluation will say."""
    from unseen.features.extraction import describe

    bench = _bench(task)
    try:
        found = [
            describe(backbone, dataset, split, bench.store, layers=layers, how=bench.how)
            for backbone, dataset, split, layers in wanted_by(task, bench)
        ]
    except DiskFullError:
        raise
    except Exception:  # noqa: BLE001 - it becomes the reason of the group's cells
        return Survey(task)
    return Survey(task, tuple(found))


def extract_shard(shard: Shard) -> ShardDone:
    """Extract parts, into the store where it is shared, else into what is sent back."""
    from unseen.features.extraction import extract_parts, keep_part

    task, bench = shard.task, _bench(shard.task)
    sent: list[tuple[dict[str, FeatureKey], ExtractedPart, dict[str, object]]] = []
    skipped, began = 0, perf_counter()

    def give(keys: dict[str, FeatureKey], part: ExtractedPart, provenance: dict[str, object]) -> None:
        nonlocal skipped
        skipped += len(part.skipped)
        if not task.shared:
            sent.append((keys, part, provenance))
            return
        keep_part(bench.store, keys, part, total=shard.total, part_size=shard.part_size, provenance=provenance)

    try:
        backbone, dataset, split, layers = list(wanted_by(task, bench))[shard.place]
        extract_parts(
            backbone,
            dataset,
            split,
            layers=layers,
            how=bench.how,
            starts=shard.starts,
            part_size=shard.part_size,
            give=give,
        )
    except DiskFullError:
        raise
    except Exception as error:  # noqa: BLE001 - the group's evaluation meets it again, and files it
        return ShardDone(shard, skipped, perf_counter() - began, _reason(error), tuple(sent))
    return ShardDone(shard, skipped, perf_counter() - began, "", tuple(sent))


def do_piece(task: Task) -> None:
    """Do a piece of a group's work, here or in a worker, with as many threads as the run's own process has: sums of
    floats depend on them in their last bits."""
    bench = _bench(task)
    before = torch_threads(task.threads)
    try:
        task.benchmark.do_piece(task.piece, task.cells, bench)
    except DiskFullError:
        raise
    except Exception:  # noqa: BLE001, S110 - the group's evaluation meets it again, and files it
        pass
    finally:
        torch_threads(before)


def torch_threads(wanted: int = 0) -> int:
    """The number of threads that torch computes with; set to `wanted` where that is not 0."""
    import torch

    present = torch.get_num_threads()
    if wanted and wanted != present:
        torch.set_num_threads(wanted)
    return present


def evaluate(task: Task) -> Done:
    """Evaluate one group, here or in a worker; each result is handed on as it comes.

    Whatever goes wrong becomes the reason of the cells that have no result yet, but a full disk.
    """
    here = _HERE[-1] if _HERE else None
    bench = _bench(task)
    hand_on = here.file if here else Inbox(task.home).drop(task.study, task.owner)
    environment = capture_environment()
    done: list[Result] = []
    began = perf_counter()
    try:
        for result in task.benchmark.evaluate(task.cells, bench):
            done.append(replace(result, environment=environment))
            hand_on(done[-1])
    except DiskFullError:
        raise
    except Exception as error:  # noqa: BLE001 - one cell must not end a night of others
        details = {} if isinstance(error, UnseenError) else {"traceback": traceback.format_exc()}
        known = {result.cell.id for result in done}
        left = [cell for cell in task.cells if cell.id not in known]
        for result in failures(left, _reason(error), perf_counter() - began, details):
            done.append(replace(result, environment=environment))
            hand_on(done[-1])
    notes = bench.progress.lines if isinstance(bench.progress, Notes) else []
    told, notes[:] = tuple(notes), []
    return Done(task, tuple(done), told)


def failures(
    cells: list[Cell], reason: str, seconds: float = 0.0, details: Mapping[str, Any] | None = None
) -> list[Result]:
    """Results that say why there is none."""
    each = seconds / max(len(cells), 1)
    return [Result(cell, error=reason, seconds=each, details=dict(details or {})) for cell in cells]


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, UnseenError) else f"{type(error).__name__}: {error}"


@dataclass(frozen=True)
class _Here:
    """A run in this process: its workbench, and who files its results."""

    bench: Workbench
    file: Callable[[Result], None]


#: Runs in this process, the present one last; empty in a worker.
_HERE: list[_Here] = []
_WORKBENCHES: dict[tuple[Path, Extraction], Workbench] = {}


class at_work:
    """While in force, what is evaluated in this process uses the run's own workbench."""

    def __init__(self, bench: Workbench, file: Callable[[Result], None]) -> None:
        self.here = _Here(bench, file)

    def __enter__(self) -> None:
        _HERE.append(self.here)

    def __exit__(self, *_: object) -> None:
        _HERE.pop()


def _bench(task: Task) -> Workbench:
    """The run's own workbench in its process; one per worker process elsewhere: what it has loaded serves the next."""
    if _HERE:
        return _HERE[-1].bench
    how = replace(task.extraction, workers=task.extraction.workers or _own_threads())
    if task.runtime and how.runtime == "auto":
        how = replace(how, runtime=task.runtime)
    home = task.home if task.shared else _own_home(task.home)
    if (home, how) not in _WORKBENCHES:
        _WORKBENCHES[home, how] = Workbench(home, how=how, progress=Notes())
    return _WORKBENCHES[home, how]


def _own_threads() -> int:
    """Threads of a worker: what whoever started it has allowed, or every core."""
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    return int(allowed) if allowed.isdigit() else 0


def _own_home(home: Path) -> Path:
    """A folder of the worker's machine for graphs, where it does not see the home of the run."""
    return Path(tempfile.gettempdir()) / f"unseen-worker-{digest(str(home), length=8)}"
