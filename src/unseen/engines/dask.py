"""Work done on a Dask cluster: one that runs already (SLURM, Kubernetes, SSH ...), or one started here.

Workers that see the home folder put features and results there. Without a shared folder they extract features and send
them back, and cells are evaluated where the run is.

Every worker must have the versions of this process; each gets an accelerator of its own. An item whose worker dies is
given to another by the scheduler (`distributed.scheduler.allowed-failures`), then it is lost.
"""

from __future__ import annotations

import logging
import math
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

from unseen.core.errors import MissingExtraError, UnseenError, UsageError, WorkerLostError
from unseen.core.files import make_folder
from unseen.engines.devices import take_device, threads_each
from unseen.engines.engine import RETRIES, no_longer

A = TypeVar("A")
B = TypeVar("B")

#: What must be the same everywhere: it can move a number, or change what travels.
SAME = ("unseen", "torch", "numpy")
_AHEAD = 2
#: Seconds for which the list of workers counts as known: asking for it is a round trip to the scheduler.
_KNOWN_FOR = 1.0
_GO_ON = "What was finished is kept: run the same command to go on."


class DaskEngine:
    """Sends each item to a worker of a cluster."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self._versions = versions()
        self._shared: dict[Path, bool] = {}
        self._found: tuple[float, list[Any]] = (-math.inf, [])

    @property
    def dashboard(self) -> str:
        """The address of the cluster's own page."""
        return str(self.client.dashboard_link or "")

    @property
    def slots(self) -> int:
        """At least two: the work is done elsewhere, also by a single worker."""
        return max(sum(self._workers(lambda info: int(info["nthreads"]))), 2)

    def shares(self, home: Path) -> bool:
        """Whether all workers see a file that is laid into `home` now."""
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
        lost: Callable[[A, str], B] | None = None,
        needs: Mapping[str, float] | None = None,
    ) -> Iterator[B]:
        distributed, waiting = _distributed(), iter(items)
        given: dict[Any, A] = {}
        completed = distributed.as_completed(loop=self.client.loop)
        try:
            while True:
                while len(given) < _AHEAD * self.slots:
                    nothing: list[A] = []
                    if not (item := next(([each] for each in waiting), nothing)):
                        break
                    # pure=False: the outcome depends on files, so two calls with equal arguments are not the same call.
                    future = self.client.submit(
                        _at_worker, function, item[0], self._versions, pure=False, resources=self._needed(needs)
                    )
                    given[future] = item[0]
                    completed.add(future)
                if not given:
                    return
                future = next(completed)
                yield self._outcome(future, given.pop(future), lost or no_longer)
        except (distributed.CancelledError, OSError, TimeoutError) as error:
            if isinstance(error, distributed.CancelledError) or self.client.status != "running":
                raise self._gone() from error
            raise
        finally:
            with suppress(Exception):  # a scheduler that is gone takes no orders
                self.client.cancel(list(given))

    def check(self) -> None:
        """Refuse workers of other versions, and see that each takes an accelerator of its own.

        Raises:
            UsageError: a worker has another version of something that moves numbers.
        """
        for address, found in self.client.run(versions).items():
            _refuse_other(self._versions, found, address)
        self.client.run(take_device)

    def _outcome(self, future: Any, item: A, lost: Callable[[A, str], B]) -> B:
        if future.status in ("cancelled", "lost"):
            raise self._gone()
        try:
            result: B = future.result()
        except _distributed().KilledWorker as error:
            times = getattr(error, "allowed_failures", RETRIES) + 1
            return lost(item, f"the worker ({error.last_worker.address}) was ended while at it, {times} times")
        return result

    def _needed(self, needs: Mapping[str, float] | None) -> dict[str, float] | None:
        """Those needs that workers of this cluster know of: one that nobody offers would wait for ever."""
        known = {name for offered in self._workers(lambda info: info.get("resources", {})) for name in offered}
        return {name: value for name, value in (needs or {}).items() if name in known} or None

    def _workers(self, take: Callable[[Any], B]) -> list[B]:
        when, found = self._found
        if not found or time.monotonic() - when > _KNOWN_FOR:
            try:
                found = list(self.client.scheduler_info(n_workers=-1)["workers"].values())
            except OSError as error:
                raise self._gone() from error
            self._found = time.monotonic(), found
        return [take(info) for info in found]

    def _gone(self) -> WorkerLostError:
        return WorkerLostError(f"the Dask scheduler is gone, and its tasks with it. {_GO_ON}")


def versions() -> dict[str, str]:
    """The versions that must be the same in this process and in every worker."""
    found = {}
    for name in SAME:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _refuse_other(wanted: Mapping[str, str], found: Mapping[str, str], who: str) -> None:
    for name, value in wanted.items():
        if found.get(name) != value:
            raise UsageError(
                f"the Dask worker {who} has {name} {found.get(name, 'not installed')}, this process has {value}. "
                "Start the workers from the same environment."
            )


_CHECKED: set[tuple[tuple[str, str], ...]] = set()


def _at_worker(function: Callable[[A], B], item: A, wanted: Mapping[str, str]) -> B:
    """`function` of `item`, in a worker that came later than the others perhaps."""
    asked = tuple(wanted.items())
    if asked not in _CHECKED:
        _refuse_other(wanted, versions(), f"process {os.getpid()}")
        take_device()
        _CHECKED.add(asked)
    return function(item)


def _sees(path: str) -> bool:
    return Path(path).is_file()


@contextmanager
def dask_engine(scheduler: str | None = None, workers: int = 2) -> Iterator[DaskEngine]:
    """An engine on the cluster at `scheduler` ("tcp://host:8786"), or on one started on this machine's loopback."""
    distributed = _distributed()
    _hush()
    if scheduler is not None:
        try:
            client = distributed.Client(scheduler, timeout="10s", set_as_default=False)
        except OSError as error:
            raise UnseenError(
                f"no Dask scheduler answers at {scheduler}: {error}. Start one, or leave it out."
            ) from error
        with _ending(client):
            if not client.scheduler_info(n_workers=-1)["workers"]:
                client.wait_for_workers(1, timeout=60)
            engine = DaskEngine(client)
            engine.check()
            yield engine
        return
    import dask

    threads = str(threads_each(workers))
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": RETRIES}),
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            env=dict.fromkeys(names, threads),
        ) as cluster,
        _ending(distributed.Client(cluster, set_as_default=False)) as client,
    ):
        engine = DaskEngine(client)
        engine.check()
        yield engine


def _hush() -> None:
    """What becomes of workers and the scheduler is told by us, in a line; the library would print tracebacks too."""
    for name in logging.root.manager.loggerDict:
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)


@contextmanager
def _ending(client: Any) -> Iterator[Any]:
    """A client that is closed at the end, whatever has become of its scheduler."""
    try:
        yield client
    finally:
        with suppress(Exception):
            client.close(timeout=10)


def _distributed() -> Any:
    """The package, loaded when it is first needed."""
    try:
        return import_module("distributed")
    except ImportError as error:
        raise MissingExtraError("Dask distributed", "dask") from error
