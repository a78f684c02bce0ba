"""Feature rows as probes read them: checked, in float32, l2-normalised, in memory or a block at a time.

The source needs `shape`, `dtype` and indexing by a slice or by row numbers: an array, a memory map, or a store of many
part files. Rows that fit into the memory budget become one float32 tensor; others are read again at every pass, block
by block, and the pages of a memory map are released after each block, so that resident memory stays constant.
"""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ParamSpec, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from unseen.core.arrays import AnyArray, IntArray
from unseen.core.errors import DataError
from unseen.core.files import release_pages
from unseen.features.rows import FeatureRows
from unseen.probes.solvers import MEMORY_LIMIT as MEMORY_LIMIT

# Rows per block of a pass over the disk: 8 MB of float32 at 1,024 dimensions. That is below the size from which every
# allocation is a fresh map, whose page faults would cost more than the work.
STREAM_ROWS = 2048
# Solvers hold about four working copies: the normalised rows, the same raised to a power, the rotated rows and one
# run's share of them.
WORKING_COPIES = 4


@runtime_checkable
class Rows(Protocol):
    """An (n, d) array-like whose rows can be taken by a slice or by an array of row numbers."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def __getitem__(self, rows: object, /) -> object: ...


class FeatureSet:
    """Checked feature rows in float32.

    Args:
        rows: the features, (n, d).
        name: what they are, for messages ("training features").
        normalize: scale every row to unit length; a row of zeros stays unchanged.
        square_root: a power of one half.
        power: exponent of every value, with its sign kept: below 1 it evens out features that are rectified and pooled.
        memory_limit: bytes that a solver's working copies may take before rows are streamed instead.
        device: of the rows that are returned.
    """

    def __init__(
        self,
        rows: Any,
        name: str,
        *,
        normalize: bool = True,
        square_root: bool = False,
        power: float = 1.0,
        memory_limit: int = MEMORY_LIMIT,
        device: torch.device | str = "cpu",
    ) -> None:
        if isinstance(rows, Tensor):
            rows = rows.detach().to("cpu", torch.float32 if rows.dtype == torch.bfloat16 else rows.dtype).numpy()
        if not isinstance(rows, Rows):
            rows = np.asarray(rows)
        shape = tuple(rows.shape)
        if len(shape) != 2 or 0 in shape:
            raise DataError(
                f"{name} must be a table of at least one image by at least one dimension, found shape {shape}."
            )
        if np.dtype(rows.dtype).kind not in "fiub":
            raise DataError(f"{name} must be real numbers, found {rows.dtype}. Convert them to float32 or float16.")
        self.name, self.normalize, self.power = name, normalize, 0.5 if square_root else power
        self.device = torch.device(device)
        self.count, self.dimension = shape
        self.source: Rows = rows
        self.tensor: Tensor | None = None
        if rows_fit(self, self.count, memory_limit):
            self.tensor = self.read(0, self.count)

    @property
    def is_on_cpu(self) -> bool:
        """Return whether work is divided among threads; other devices do all of it at once."""
        return self.device.type == "cpu"

    def blocks(self, rows: int = STREAM_ROWS) -> Iterator[tuple[int, int]]:
        """Yield the bounds (start, stop) of consecutive blocks."""
        return ((start, min(start + rows, self.count)) for start in range(0, self.count, rows))

    def read(self, start: int, stop: int) -> Tensor:
        """Return rows start to stop, (stop - start, d). Do not change them: they may be the caller's own memory."""
        if self.tensor is not None:
            return self.tensor[start:stop]
        found = self.source[start:stop]
        block = self._prepare(found, np.arange(start, stop))
        release_pages(found)
        return block

    def zeros(self, *shape: int) -> Tensor:
        """Return zeros in float64 on the device, for sums over rows."""
        return torch.zeros(*shape, dtype=torch.float64, device=self.device)

    def take(self, rows: IntArray) -> Tensor:
        """Return a new tensor of the given rows, in that order."""
        if self.tensor is not None:
            return self.tensor.index_select(0, torch.from_numpy(rows).to(self.device))
        order = np.argsort(rows, kind="stable")
        found = np.empty((len(rows), self.dimension), np.float32)
        for start in range(0, len(rows), STREAM_ROWS):
            part = order[start : start + STREAM_ROWS]
            found[part] = self.source[rows[part]]
            release_pages(self.source)
        return self._prepare(found, rows)

    def _prepare(self, found: object, numbers: IntArray) -> Tensor:
        """Check a block, convert it to float32 where it is not, and normalise it."""
        block = self._converted(found)
        lengths = torch.linalg.vector_norm(block, dim=1, keepdim=True)
        if not bool(torch.isfinite(lengths).all()):
            bad = int(torch.nonzero(~torch.isfinite(lengths.squeeze(1)))[0])
            raise DataError(
                f"{self.name} contain NaN, infinity or values beyond float32, first in row {int(numbers[bad])}. "
                "Extract that image again, or leave it out."
            )
        return block / lengths.clamp_min(1e-12) if self.normalize else block

    def _converted(self, found: object) -> Tensor:
        """Return rows in float32 on the device."""
        block = _as_tensor(np.asarray(found)).to(self.device)
        return block if self.power == 1.0 else raise_values(block, self.power)

    @cached_property
    def is_signed(self) -> bool:
        """Return whether one of the first rows has a negative value; pooled features after a rectifier have none."""
        return bool((np.asarray(self.source[:STREAM_ROWS]) < 0).any())

    def raised(self, power: float, memory_limit: int) -> FeatureSet:
        """Return the same rows with every value raised to a power."""
        return FeatureSet(
            self.source,
            self.name,
            normalize=self.normalize,
            power=power,
            memory_limit=0 if self.tensor is None else memory_limit,
            device=self.device,
        )


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Features with their class indices.

    Attributes:
        labels: (n,) int64, each below `classes`.
    """

    features: FeatureSet
    labels: Tensor
    classes: int

    def take_labels(self, rows: IntArray) -> Tensor:
        """Return the class indices of the given rows, on the device of the features."""
        return self.labels[torch.from_numpy(rows).to(self.labels.device)]

    def blocks(self, rows: IntArray, size: int = STREAM_ROWS) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield features and class indices of the given rows, some at a time."""
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            yield self.features.take(part), self.take_labels(part)


def raise_values(block: Tensor, power: float) -> Tensor:
    """Raise every value to a power and keep its sign; by square roots if possible, which are ten times faster."""
    root = block.abs().sqrt_()
    if power == 0.75:
        root *= root.sqrt()
    elif power != 0.5:
        root = block.abs().pow_(power)
    return root.copysign_(block)


def rows_fit(features: FeatureSet, count: int, memory_limit: int) -> bool:
    """Return whether a solver's working copies of that many rows fit into the memory limit."""
    return bool(WORKING_COPIES * 4 * count * features.dimension <= memory_limit)


def _as_tensor(array: AnyArray) -> Tensor:
    """Return a float32 tensor that shares the array's memory if possible."""
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is reported as such
        kept = array.dtype if array.dtype == np.float16 else np.float32
        block = np.ascontiguousarray(array, dtype=kept)
    with warnings.catch_warnings():  # torch warns that it cannot protect read-only memory; nothing here writes to it
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(block).float()  # torch converts half precision faster than numpy


def join_rows(train: tuple[Any, AnyArray], validation: tuple[Any, AnyArray] | None) -> tuple[object, AnyArray]:
    """Return features and targets of the training rows, followed by those of a validation split if there is one."""
    if validation is None:
        return train
    return FeatureRows.of(train[0]).join(validation[0]), np.concatenate([train[1], validation[1]])


def prepare_rows(train: Any, test: Any, **how: Any) -> tuple[FeatureSet, FeatureSet]:
    """Return training and test features, as `FeatureSet(..., **how)`; those to test stay on the CPU.

    Raises:
        DataError: they have different numbers of columns.
    """
    rows = FeatureSet(train, "training features", **how)
    wanted = FeatureSet(test, "test features", **how | {"device": "cpu"})
    if rows.dimension != wanted.dimension:
        raise DataError(
            f"training features have {rows.dimension} columns and test features {wanted.dimension}. "
            "Extract both with the same model."
        )
    return rows, wanted


Item = TypeVar("Item")
Found = TypeVar("Found")
Given = ParamSpec("Given")


class Workers:
    """A pool of single-threaded workers, and one driver thread that distributes pieces to them.

    Use as a context manager. `run` and `submit` are for the caller; `ordered` is for code inside `run`.
    """

    def __init__(self, count: int | None = None) -> None:
        self.count = torch.get_num_threads() if count is None else count
        self._pool = ThreadPoolExecutor(self.count, thread_name_prefix="probe", initializer=_single_threaded)
        self._driver = ThreadPoolExecutor(1, thread_name_prefix="probe-driver", initializer=_single_threaded)

    def __enter__(self) -> Self:
        before = torch.get_num_threads()
        barrier = threading.Barrier(self.count)
        started = [self._pool.submit(barrier.wait) for _ in range(self.count)]
        started.append(self._driver.submit(lambda: 0))
        for future in started:
            future.result()
        # A thread's own setting also becomes the default of threads that start later: put that back.
        torch.set_num_threads(before)
        return self

    def __exit__(self, *_error: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._driver.shutdown(cancel_futures=True)

    def run(self, work: Callable[Given, Found], *args: Given.args, **kwargs: Given.kwargs) -> Found:
        """Run `work` on the driver thread, from where it may call `ordered`."""
        return self._driver.submit(work, *args, **kwargs).result()

    def submit(self, work: Callable[Given, Found], *args: Given.args, **kwargs: Given.kwargs) -> Future[Found]:
        """Run `work` on a worker. It must not wait for other workers."""
        return self._pool.submit(work, *args, **kwargs)

    def ordered(self, work: Callable[[Item], Found], items: Iterable[Item]) -> Iterator[Found]:
        """Results of `work` in the order of `items`, with few of them held at a time."""
        waiting: deque[Future[Found]] = deque()
        for item in items:
            waiting.append(self._pool.submit(work, item))
            if len(waiting) > 2 * self.count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _single_threaded() -> None:
    """Make torch's kernels in this thread, and in no other, run on one core."""
    torch.get_num_threads()  # the first call in a thread overwrites its setting, so it must come before
    torch.set_num_threads(1)
