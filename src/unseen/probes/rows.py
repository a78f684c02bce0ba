"""Feature rows as probes read them: checked, in float32, l2-normalised, in memory or a block at a time.

Anything with `shape`, `dtype` and indexing by a slice or by row numbers will do: an array, a memory map, or a store of
many part files. What fits into the memory budget becomes one float32 tensor; what does not is read again at every
pass, block by block, and the pages of a memory map are given back after each block, so that resident memory stays
flat however many rows there are.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from unseen.core.errors import DataError
from unseen.core.files import release_pages

IntArray = npt.NDArray[np.int64]

# Rows per block of a pass over the disk: 8 MB of float32 at 1,024 dimensions. That is below the size from which every
# allocation is a fresh map, whose page faults would cost more than the work.
STREAM_ROWS = 2048
# Solvers hold about four working copies: the normalised rows, the same raised to a power, the rotated rows and one
# run's share of them.
WORKING_COPIES = 4
_SHARE_OF_MEMORY = 4


def machine_memory() -> int:
    """Bytes of memory that this process may use: the machine's, or those of the container that it runs in."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 8 << 30
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            whole = min(whole, int(Path(path).read_text(encoding="ascii")))
    return whole


#: Bytes that working copies may take before rows are streamed: a quarter of the machine's memory.
MEMORY_LIMIT = machine_memory() // _SHARE_OF_MEMORY


@runtime_checkable
class Rows(Protocol):
    """An (n, d) array-like whose rows can be taken by a slice or by an array of row numbers."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def __getitem__(self, rows: Any, /) -> Any: ...


class FeatureSet:
    """Checked feature rows in float32.

    Args:
        rows: the features, (n, d).
        name: what they are, for messages ("training features").
        normalize: scale every row to unit length; a row of zeros stays as it is.
        square_root: a power of one half.
        power: that every value is raised to first, its sign kept: below 1 it evens out features that are rectified
            and pooled.
        memory_limit: bytes that a solver's working copies may take before rows are streamed instead.
        device: where rows are handed out.
        precision: that solvers keep their own copies of rows in; sums are taken in float32 all the same.
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
        precision: torch.dtype = torch.float32,
    ) -> None:
        rows = getattr(rows, "features", rows)  # of a store's whole entry
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
        self.device, self.precision = torch.device(device), precision
        self.count, self.dimension = shape
        self.source: Rows = rows
        fits = rows_fit(self, self.count, memory_limit)
        self.tensor: Tensor | None = self.read(0, self.count) if fits else None

    @property
    def is_on_cpu(self) -> bool:
        """Whether work is cut into pieces for threads; other devices take it whole."""
        return self.device.type == "cpu"

    def blocks(self, rows: int = STREAM_ROWS) -> Iterator[tuple[int, int]]:
        """Bounds (start, stop) of consecutive blocks."""
        return ((start, min(start + rows, self.count)) for start in range(0, self.count, rows))

    def read(self, start: int, stop: int) -> Tensor:
        """Rows start to stop, (stop - start, d). Not to be changed in place: it may be the caller's own memory."""
        if getattr(self, "tensor", None) is not None:
            assert self.tensor is not None
            return self.tensor[start:stop]
        found = self.source[start:stop]
        block = self._prepare(found, np.arange(start, stop))
        release_pages(found)
        return block

    def read_raw(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Rows as they are stored, in float32, and what each must be multiplied by to be normalised, (stop - start,).

        For passes over the disk: scaling a few scores per row is cheaper than scaling the row. Unchecked.
        """
        found = self.source[start:stop]
        block = self._converted(found)
        release_pages(found)
        if not self.normalize:
            return block, torch.ones(len(block), device=self.device)
        return block, 1.0 / torch.linalg.vector_norm(block, dim=1).clamp_min(1e-12)

    def take(self, rows: IntArray) -> Tensor:
        """A fresh tensor of the rows asked for, in that order."""
        if self.tensor is not None:
            return self.tensor.index_select(0, torch.from_numpy(rows).to(self.device))
        order = np.argsort(rows, kind="stable")
        found = np.empty((len(rows), self.dimension), np.float32)
        for start in range(0, len(rows), STREAM_ROWS):
            part = order[start : start + STREAM_ROWS]
            found[part] = self.source[rows[part]]
            release_pages(self.source)
        return self._prepare(found, rows)

    def _prepare(self, found: Any, numbers: IntArray) -> Tensor:
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

    def _converted(self, found: Any) -> Tensor:
        """Rows in float32 on the device."""
        block = _as_tensor(np.asarray(found)).to(self.device)
        return block if self.power == 1.0 else raise_values(block, self.power)

    @cached_property
    def is_signed(self) -> bool:
        """Whether one of the first rows has a negative value; pooled features behind a rectifier have none."""
        return bool((np.asarray(self.source[:STREAM_ROWS]) < 0).any())

    def raised(self, power: float, memory_limit: int) -> FeatureSet:
        """The same rows with every value raised to a power."""
        limit = 0 if self.tensor is None else memory_limit
        how: dict[str, Any] = {"memory_limit": limit, "device": self.device, "precision": self.precision}
        return FeatureSet(self.source, self.name, normalize=self.normalize, power=power, **how)


def raise_values(block: Tensor, power: float) -> Tensor:
    """Every value to a power, its sign kept; by square roots where they do, which are ten times faster."""
    root = block.abs().sqrt_()
    if power == 0.75:
        root *= root.sqrt()
    elif power != 0.5:
        root = block.abs().pow_(power)
    return root.copysign_(block)


def rows_fit(features: FeatureSet, count: int, memory_limit: int) -> bool:
    """Whether a solver's working copies of so many rows fit into the memory allowed."""
    return bool(WORKING_COPIES * 4 * count * features.dimension <= memory_limit)


def _as_tensor(array: npt.NDArray[Any]) -> Tensor:
    """A float32 tensor that shares the array's memory where it can."""
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is reported as such
        kept = array.dtype if array.dtype == np.float16 else np.float32
        block = np.ascontiguousarray(array, dtype=kept)
    with warnings.catch_warnings():  # torch warns that it cannot protect read-only memory; nothing here writes to it
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(block).float()  # torch converts half precision faster than numpy
