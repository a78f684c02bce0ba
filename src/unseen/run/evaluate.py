"""Evaluate groups of cells, in the process of the run or in a worker.

A `Task` carries everything that a worker in another process needs. In the process of the run, a task is evaluated with
the `Context` of the run; a worker makes its own.
"""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from unseen.backbones.load import RuntimeName
from unseen.benchmarks.benchmark import Benchmark
from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import DiskFullError, UnseenError
from unseen.core.extras import capture_environment
from unseen.core.identity import digest
from unseen.core.progress import MessageLog
from unseen.core.records import Cell, Details, Result
from unseen.core.run_record import Recorder, search_record
from unseen.features import Extraction
from unseen.run.record import Inbox


@dataclass(frozen=True)
class Task:
    """A group of cells, or a piece of its work.

    Attributes:
        owner: the run that the task belongs to.
        piece: a piece of long work; empty for the evaluation of the group.
        threads: number of torch threads; 0 keeps the present number.
        runtime: replaces "auto" of the extraction if another worker has chosen already.
        shared: whether the worker shares the home of the run; otherwise it uses a temporary one.
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
class TaskResult:
    """Results and messages of a finished task."""

    task: Task
    results: tuple[Result, ...] = ()
    messages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Context:
    """What a process evaluates tasks with: its workbench, and a function that records each result."""

    bench: Workbench
    record: Callable[[Result], None]


#: Workbenches of a worker process: datasets and models that one task has loaded serve the next.
_WORKBENCHES: dict[tuple[Path, Extraction], Workbench] = {}


def worker_context(task: Task) -> Context:
    """Return the context of a task in a worker process, which writes results to the inbox of the home."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    how = replace(task.extraction, workers=task.extraction.workers or (int(limit) if limit.isdigit() else 0))
    if task.runtime and how.runtime == "auto":
        how = replace(how, runtime=task.runtime)
    home = task.home
    if not task.shared:  # a folder of the worker's machine, for exported graphs
        home = Path(tempfile.gettempdir()) / f"unseen-worker-{digest(str(home), length=8)}"
    if (home, how) not in _WORKBENCHES:
        _WORKBENCHES[home, how] = Workbench(home, how=how, progress=MessageLog())
    inbox = Inbox(task.home)
    return Context(_WORKBENCHES[home, how], lambda result: inbox.write(result, task.study, task.owner))


def evaluate_group(task: Task, context: Context | None = None) -> TaskResult:
    """Evaluate a group of cells and record each result as soon as it is known.

    An exception of the benchmark becomes the error of the cells without a result; a full disk ends the run. Exceptions
    of the code that stores results or of the callbacks of the run are not caught.
    """
    context = context or worker_context(task)
    bench = context.bench
    environment = {**capture_environment(), "device": _device(bench)}
    done: list[Result] = []
    bench.recorder = Recorder()
    began = perf_counter()
    results: Iterator[Result] | None = None
    while True:
        try:
            results = iter(task.benchmark.evaluate(task.cells, bench)) if results is None else results
            result = next(results, None)
        except DiskFullError:
            raise
        except Exception as error:  # noqa: BLE001 - worker boundary: keep running after a failed cell
            trace = {} if isinstance(error, UnseenError) else {"traceback": "".join(traceback.format_exception(error))}
            known = {each.cell.id for each in done}
            left = [cell for cell in task.cells if cell.id not in known]
            results = iter(failures(left, error_text(error), perf_counter() - began, trace))
            continue
        if result is None:
            break
        done.append(complete_result(result, bench, environment))
        context.record(done[-1])
    messages = bench.progress.take() if isinstance(bench.progress, MessageLog) else ()
    return TaskResult(task, tuple(done), messages)


def run_piece(task: Task, context: Context | None = None) -> str:
    """Run a piece of the work of a group and return why it failed; "" after success.

    It computes with as many threads as the process of the run, since sums of floats depend on them in their last bits.
    The evaluation of the group repeats a failed piece, so that the reason is stored with its cells.
    """
    bench = (context or worker_context(task)).bench
    before = torch_threads(task.threads)
    try:
        task.benchmark.do_piece(task.piece, task.cells, bench)
    except DiskFullError:
        raise
    except Exception as error:  # noqa: BLE001 - worker boundary: the evaluation of the group stores the reason
        return error_text(error)
    finally:
        torch_threads(before)
    return ""


def torch_threads(wanted: int = 0) -> int:
    """Return the number of threads of torch, and set it to `wanted` unless that is 0."""
    import torch

    present = torch.get_num_threads()
    if wanted and wanted != present:
        torch.set_num_threads(wanted)
    return present


def failures(
    cells: list[Cell], error: str, seconds: float = 0.0, details: Mapping[str, object] | None = None
) -> list[Result]:
    """Return a failed result for each cell."""
    each = seconds / max(len(cells), 1)
    return [Result(cell, error=error, seconds=each, details=dict(details or {})) for cell in cells]


def error_text(error: Exception) -> str:
    """Return the message of an exception; of an unexpected one also the class."""
    return str(error) if isinstance(error, UnseenError) else f"{type(error).__name__}: {error}"


def _device(bench: Workbench) -> str:
    """Return the device of the networks without importing torch."""
    if bench.how.device != "auto":
        return bench.how.device
    if "torch" not in sys.modules:
        return "cpu"
    from unseen.backbones.runtimes import best_device  # imports torch

    return best_device()


def complete_result(result: Result, bench: Workbench, environment: Mapping[str, str]) -> Result:
    """Return the result with its environment and its run record.

    The record has what the workbench recorded for the group, how the search went, and what the benchmark itself
    recorded for the cell.
    """
    details = Details.read(result.details)
    search = search_record(result.sweep, details.best or details.chosen)
    record = bench.recorder.record.merge(search).merge(result.record)
    with suppress(UnseenError):  # a dataset that cannot be loaded has failed the cell already
        record = record.expecting(bench.dataset(result.cell.dataset).expected)
    return replace(result, environment=environment, record=record)
