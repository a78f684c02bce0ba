"""Feature rows as one array-like object, over memory-mapped part files or arrays in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from unseen.core.arrays import AnyArray, FloatingArray, IntArray
from unseen.core.errors import DataError
from unseen.core.files import release_pages
from unseen.core.records import FeatureKey
from unseen.features.manifest import PROVENANCE, Manifest, Skipped
from unseen.features.part import PartFile, open_part

RowIndex = int | slice | Sequence[int] | AnyArray

# Each mapped part holds a file descriptor, of which a process has about a thousand.
_MAPPED_AT_ONCE = 64
_HASHING_THREADS = 4


class RowSource(Protocol):
    """Consecutive rows that become an array when they are needed."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def map(self) -> Any:
        """Return an (n, d) array-like."""


@dataclass(frozen=True, eq=False)
class _ArrayRows:
    """Rows of the caller: an array, or any (n, d) array-like that is indexed by slices and row numbers."""

    array: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    def map(self) -> Any:
        return self.array


class FeatureRows:
    """An (n, d) array of features that is read only as rows are indexed.

    Indexing by a slice, a row number, row numbers or a mask returns a new array that may be changed. The pages behind
    it are released, so that resident memory stays constant. Pickling stored features pickles the paths of their parts.

    Args:
        parts: where the rows are, in order.
        selection: row numbers among those of the parts, in any order; all rows by default.
    """

    def __init__(
        self, parts: Sequence[RowSource], dim: int, dtype: npt.DTypeLike, selection: IntArray | None = None
    ) -> None:
        self._parts = parts = tuple(parts)
        self._ends = np.cumsum([0, *(part.shape[0] for part in self._parts)])
        self._selection = selection
        # Without `self` in it: a reference cycle would keep the files mapped until the garbage collector runs.
        self._map = lru_cache(maxsize=_MAPPED_AT_ONCE)(lambda number: parts[number].map())
        self.shape = (int(self._ends[-1]) if selection is None else len(selection), dim)
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.ndim = 2

    @classmethod
    def of(cls, rows: Any, dtype: npt.DTypeLike | None = None) -> FeatureRows:
        """Return an array or array-like of shape (n, d) as `FeatureRows`, without a copy; blocks get the `dtype`."""
        if isinstance(rows, FeatureRows):
            return rows
        return cls([_ArrayRows(rows)], int(rows.shape[1]), rows.dtype if dtype is None else dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"FeatureRows(shape={self.shape}, dtype={self.dtype}, parts={len(self._parts)})"

    def __reduce__(self) -> tuple[object, ...]:
        return FeatureRows, (self._parts, self.shape[1], self.dtype, self._selection)

    def select(self, rows: IntArray) -> FeatureRows:
        """Return the given rows, in that order, without a copy of their features."""
        selection = rows if self._selection is None else self._selection[rows]
        return FeatureRows(self._parts, self.shape[1], self.dtype, np.asarray(selection, np.int64))

    def join(self, other: object) -> FeatureRows:
        """Return these rows followed by those of another array-like, without a copy.

        Raises:
            DataError: the numbers of columns differ.
        """
        second = FeatureRows.of(other)
        if self.shape[1] != second.shape[1]:
            raise DataError(
                f"features of shape {self.shape} and {second.shape} cannot be joined: the number of columns must "
                "agree. Extract both with the same model."
            )
        selection = None
        if self._selection is not None or second._selection is not None:
            selection = np.concatenate([self._positions, second._positions + self._ends[-1]])
        dtype = np.result_type(self.dtype, second.dtype)
        return FeatureRows((*self._parts, *second._parts), self.shape[1], dtype, selection)

    def __getitem__(self, rows: RowIndex) -> FloatingArray:
        if isinstance(rows, tuple):
            raise TypeError("features are indexed by rows only: select the rows first, then columns of the result")
        if isinstance(rows, slice) and self._selection is None:
            return self._gather(np.arange(*rows.indices(len(self))))
        wanted = self._positions[np.zeros(0, np.int64) if isinstance(rows, list) and not rows else rows]
        if np.ndim(wanted) > 1:
            raise TypeError(f"rows are a slice, whole numbers or a mask, not an array of shape {np.shape(wanted)}")
        found = self._gather(np.atleast_1d(wanted))
        return found if np.ndim(wanted) else found[0]

    def __iter__(self) -> Iterator[FloatingArray]:
        for begin in range(0, len(self), 1024):
            yield from self[begin : begin + 1024]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> FloatingArray:
        if copy is False:
            raise ValueError("features cannot become an array without a copy")
        array = self.to_array()
        return array if dtype is None else array.astype(dtype, copy=False)

    def to_array(self) -> FloatingArray:
        """Return all rows in memory."""
        return self[:]

    @cached_property
    def _positions(self) -> IntArray:
        """Return the number of each row among those of the parts."""
        return np.arange(len(self)) if self._selection is None else self._selection

    def _gather(self, rows: IntArray) -> FloatingArray:
        """Return rows by their numbers among those of the parts."""
        result = np.empty((len(rows), self.shape[1]), self.dtype)
        numbers = np.searchsorted(self._ends, rows, side="right") - 1
        # Part by part, so that each is mapped once in any order of rows.
        order = np.argsort(numbers, kind="stable")
        edges = np.searchsorted(numbers[order], np.arange(len(self._parts) + 1))
        for number in np.flatnonzero(np.diff(edges)):
            places = order[edges[number] : edges[number + 1]]
            part, wanted = self._map(int(number)), rows[places] - self._ends[number]
            if (np.diff(wanted) == 1).all() and (np.diff(places) == 1).all():  # slices are faster
                result[places[0] : places[-1] + 1] = part[wanted[0] : wanted[-1] + 1]
            else:
                result[places] = part[wanted]
            release_pages(part)
        return result


@dataclass(frozen=True, eq=False)
class StoredFeatures:
    """The features of one key, complete and verified.

    Attributes:
        features: (n, d), read from the disk as rows are indexed.
        labels: (n,) class index per row.
        index: (n,) position of each row's image in its split, ascending.
    """

    path: Path
    manifest: Manifest
    features: FeatureRows
    labels: IntArray
    index: IntArray

    @classmethod
    def open(cls, folder: Path, manifest: Manifest) -> Self:
        """Open the parts that `manifest` lists, several at a time.

        Raises:
            CorruptPartError: a part is missing, or its bytes differ from those that were written.
        """

        def open_one(number: int) -> PartFile:
            return open_part(folder, manifest.parts[number], dim=manifest.dim, dtype=manifest.dtype)

        with ThreadPoolExecutor(_HASHING_THREADS) as threads:
            parts = list(threads.map(open_one, range(len(manifest.parts))))
        none = np.zeros(0, np.int64)
        return cls(
            path=folder,
            manifest=manifest,
            features=FeatureRows(parts, manifest.dim, manifest.dtype or "float32"),
            labels=np.concatenate([none, *(part.labels for part in parts)]),
            index=np.concatenate([none, *(part.index for part in parts)]),
        )

    @property
    def key(self) -> FeatureKey:
        return self.manifest.key

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """Images that could not be read, in order."""
        return self.manifest.skipped

    @property
    def total(self) -> int:
        """Images in the split, including skipped ones."""
        return self.manifest.total

    @property
    def dim(self) -> int:
        return self.manifest.dim

    @property
    def nbytes(self) -> int:
        """Bytes of the part files."""
        return sum(part.bytes for part in self.manifest.parts)

    @property
    def provenance(self) -> dict[str, Any]:
        """How the features were made; empty if that is unknown."""
        try:
            values = json.loads((self.path / PROVENANCE).read_bytes())
        except (OSError, ValueError):
            return {}
        return values if isinstance(values, dict) else {}

    def __len__(self) -> int:
        return len(self.features)
