"""Execution on a Dask cluster: one that runs already (SLURM, Kubernetes, SSH ...), or one started here.

Workers that share the home folder store features and results there. Without a shared folder they extract features and
send them back, and the process of the run evaluates the cells.

Every worker must have the package versions of this process; each uses its own accelerator. The scheduler retries an
item whose worker died (`distributed.scheduler.allowed-failures`); then the item is lost.
"""

from __future__ import annotations

import logging
import math
import platform
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from unseen.core.errors import UnseenError, UsageError, WorkerLostError
from unseen.core.extras import import_extra, installed_versions
from unseen.core.files import make_folder
from unseen.run.executor import RESUME, RETRIES, raise_lost, take_device, threads_each

A = TypeVar("A")
B = TypeVar("B")

#: Packages whose versions can change a number or the pickled tasks: they must be the same everywhere.
SAME = ("unseen", "torch", "numpy")
#: Items submitted for each slot.
_AHEAD = 2
#: Seconds between two requests to the scheduler for the list of workers.
_REFRESH = 1.0
#: Seconds to wait for a scheduler.
_CONNECT = 10.0


class DaskEngine:
    """Send each item to a worker of a cluster."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self._versions = versions()
        self._shared: dict[Path, bool] = {}
        self._found: tuple[float, list[Any]] = (-math.inf, [])

    @property
    def dashboard(self) -> str:
        """Address of the dashboard of the cluster."""
        return str(self.client.dashboard_link or "")

    @property
    def slots(self) -> int:
        """Number of threads of all workers; at least 2, since also a single worker is another process."""
        return max(sum(int(info["nthreads"]) for info in self._workers()), 2)

    def shares(self, home: Path) -> bool:
        """Return whether all workers see a file that is created in `home` now."""
        if home not in self._shared:
            make_folder(home)
            mark = home / f".shared-{secrets.token_hex(8)}"
            mark.touch()
            try:
                self._shared[home] = all(self.client.run(_sees, str(mark)).values())
            finally:
                mark.unlink(missing_ok=True)
        return self._shared[home]

    def map(
        self,
        function: Callable[[A], B],
        items: Iterable[A],
        *,
        lost: Callable[[A, str], B] = raise_lost,
        needs: Mapping[str, float] | None = None,
    ) -> Iterator[B]:
        distributed, waiting = _distributed(), iter(items)
        submitted: dict[Any, A] = {}
        completed = distributed.as_completed(loop=self.client.loop)
        try:
            while True:
                for item in islice(waiting, max(_AHEAD * self.slots - len(submitted), 0)):
                    # pure=False: the outcome depends on files, so two calls with equal arguments are not the same call.
                    future = self.client.submit(
                        _at_worker, function, item, self._versions, pure=False, resources=self._needed(needs)
                    )
                    submitted[future] = item
                    completed.add(future)
                if not submitted:
                    return
                future = next(completed)
                yield self._outcome(future, submitted.pop(future), lost)
        except (distributed.CancelledError, OSError, TimeoutError) as error:
            if isinstance(error, distributed.CancelledError) or self.client.status != "running":
                raise self._gone() from error
            raise
        finally:
            with suppress(*_lost_errors()):  # the scheduler may be gone
                self.client.cancel(list(submitted))

    def _outcome(self, future: Any, item: A, lost: Callable[[A, str], B]) -> B:
        if future.status in ("cancelled", "lost"):
            raise self._gone()
        try:
            result: B = future.result()
        except _distributed().KilledWorker as error:
            times = getattr(error, "allowed_failures", RETRIES) + 1
            return lost(item, f"the worker ({error.last_worker.address}) was ended during its task, {times} times")
        return result

    def _needed(self, needs: Mapping[str, float] | None) -> dict[str, float] | None:
        """Return the needs that workers declare as resources: unknown resources would never be scheduled."""
        known = {name for info in self._workers() for name in info.get("resources", {})}
        return {name: value for name, value in (needs or {}).items() if name in known} or None

    def _workers(self) -> list[Mapping[str, Any]]:
        when, found = self._found
        if not found or time.monotonic() - when > _REFRESH:
            try:
                found = list(self.client.scheduler_info(n_workers=-1)["workers"].values())
            except OSError as error:
                raise self._gone() from error
            self._found = time.monotonic(), found
        return found

    def _gone(self) -> WorkerLostError:
        return WorkerLostError(f"the Dask scheduler is gone, and its tasks with it. {RESUME}")


def versions() -> dict[str, str]:
    """Return the versions that must be the same in this process and in every worker."""
    found = installed_versions()
    return {name: found.get(name, "not installed") for name in SAME}


_PREPARED: list[Mapping[str, str]] = []


def prepare_worker(wanted: Mapping[str, str]) -> None:
    """Check the versions of a worker and assign an accelerator to it, once.

    Raises:
        UsageError: it has another version of a package that can change a number.
    """
    if wanted in _PREPARED:
        return
    for name, found in versions().items():
        if found != wanted[name]:
            raise UsageError(
                f"the Dask worker on {platform.node()} has {name} {found}, the process of the run has {wanted[name]}. "
                "Start the workers from the same environment."
            )
    take_device()
    _PREPARED.append(wanted)


def _at_worker(function: Callable[[A], B], item: A, wanted: Mapping[str, str]) -> B:
    """Return `function` of `item`; the worker may have joined after the start of the engine."""
    prepare_worker(wanted)
    return function(item)


def _sees(path: str) -> bool:
    return Path(path).is_file()


@contextmanager
def dask_engine(scheduler: str | None = None, workers: int = 2) -> Iterator[DaskEngine]:
    """Return an engine on the cluster at `scheduler` ("tcp://host:8786"), or on a cluster started on this machine."""
    distributed = _distributed()
    _silence()
    with ExitStack() as stack:
        if scheduler is None:
            scheduler = stack.enter_context(_local_cluster(workers))
        try:
            client = distributed.Client(scheduler, timeout=_CONNECT, set_as_default=False)
        except OSError as error:
            raise UnseenError(
                f"no Dask scheduler answers at {scheduler}: {error}. Start one, or leave it out."
            ) from error
        stack.callback(_close, client)
        if not client.scheduler_info(n_workers=-1)["workers"]:
            client.wait_for_workers(1, timeout=60)
        client.run(prepare_worker, versions())
        yield DaskEngine(client)


@contextmanager
def _local_cluster(workers: int) -> Iterator[Any]:
    """Start a cluster on this machine."""
    import dask

    names, threads = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads_each(workers))
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": RETRIES}),
        _distributed().LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            env=dict.fromkeys(names, threads),
        ) as cluster,
    ):
        yield cluster


def _silence() -> None:
    """Silence the logging of distributed; the engine reports failures."""
    for name in logging.root.manager.loggerDict:
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)


def _close(client: Any) -> None:
    """Close the client, also if its scheduler is gone."""
    with suppress(*_lost_errors()):
        client.close(timeout=10)


def _lost_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that a client raises if its scheduler is gone."""
    client = import_module("distributed.client")
    return OSError, RuntimeError, client.CancelledError, client.ClosedClientError


def _distributed() -> Any:
    """Import the package distributed."""
    return import_extra("distributed", "dask")
