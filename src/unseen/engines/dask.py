"""Work done on a Dask cluster: one that runs already (SLURM, Kubernetes, SSH ...), or one started here.

Workers need the same home folder, on a shared file system, because features and exported graphs live there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar

from unseen.core.errors import MissingExtraError, UnseenError

A = TypeVar("A")
B = TypeVar("B")


class DaskEngine:
    """Sends each item to a worker of a cluster."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def map(self, function: Callable[[A], B], items: Sequence[A]) -> Iterator[B]:
        # pure=False: the outcome depends on files, so two calls with equal arguments are not the same call.
        futures = self.client.map(function, items, pure=False)
        try:
            with self.client.as_current():
                completed = _distributed().as_completed(futures)
            for future in completed:
                yield future.result()
        finally:
            self.client.cancel(futures)


@contextmanager
def dask_engine(scheduler: str | None = None, workers: int = 2) -> Iterator[DaskEngine]:
    """An engine on the cluster at `scheduler` ("tcp://host:8786"), or on one started on this machine's loopback."""
    distributed = _distributed()
    if scheduler is not None:
        try:
            client = distributed.Client(scheduler, timeout="10s", set_as_default=False)
        except OSError as error:
            raise UnseenError(
                f"no Dask scheduler answers at {scheduler}: {error}. Start one, or leave it out."
            ) from error
        with client:
            yield DaskEngine(client)
        return
    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield DaskEngine(client)


def _distributed() -> Any:
    """The package, loaded when it is first needed."""
    try:
        return import_module("distributed")
    except ImportError as error:
        raise MissingExtraError("Dask distributed", "dask") from error
