"""The stored rows as one array-like object over many memory-mapped parts, and all that belongs to them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unseen.core.files import release_pages
from unseen.core.records import FeatureKey
from unseen.features.manifest import PROVENANCE, Manifest, Skipped
from unseen.features.part import Check, FloatArray, IntArray, PartFile, open_part

RowIndex = int | slice | Sequence[int] | npt.NDArray[Any]

# Each mapped part holds a file descriptor, of which a process has about a thousand.
_MAPPED_AT_ONCE = 64
_HASHING_THREADS = 4


class FeatureRows:
    """An (n, d) array of features whose parts stay on the disk until rows are asked for.

    Indexing by a slice, a row number, row numbers or a mask gives a fresh array that may be changed; the pages that it
    was read from are given back, so that resident memory stays flat. It can be pickled: what travels is where the parts
    are.
    """

    def __init__(self, parts: Sequence[PartFile], dim: int, dtype: npt.DTypeLike) -> None:
        self._parts = parts = tuple(parts)
        self._ends = np.cumsum([0, *(part.shape[0] for part in self._parts)])
        # Without `self` in it: a cycle would keep the files mapped until the garbage collector comes by.
        self._map = lru_cache(maxsize=_MAPPED_AT_ONCE)(lambda number: parts[number].map())
        self.shape = (int(self._ends[-1]), dim)
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.ndim = 2

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"FeatureRows(shape={self.shape}, dtype={self.dtype}, parts={len(self._parts)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return FeatureRows, (self._parts, self.shape[1], self.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that `to_array` takes."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def __getitem__(self, rows: RowIndex) -> FloatArray:
        if isinstance(rows, slice):
            begin, end, step = rows.indices(len(self))
            return self._range(begin, end) if step == 1 else self._gather(np.arange(begin, end, step))
        if isinstance(rows, tuple):
            raise TypeError("features are indexed by rows only: take the rows first, then columns of what comes back")
        wanted = np.asarray(rows)
        if wanted.ndim == 0 and wanted.dtype.kind in "iu":
            row: FloatArray = self._gather(wanted.reshape(1))[0]
            return row
        if wanted.ndim == 1 and wanted.dtype == bool:
            if len(wanted) != len(self):
                raise IndexError(f"a mask of {len(wanted)} does not fit {len(self)} rows")
            return self._gather(np.flatnonzero(wanted))
        if wanted.ndim == 1 and (wanted.dtype.kind in "iu" or len(wanted) == 0):
            return self._gather(wanted.astype(np.int64))
        raise TypeError(f"rows are a slice, whole numbers or a mask, not {wanted.dtype} of shape {wanted.shape}")

    def __iter__(self) -> Iterator[FloatArray]:
        for chunk in self.chunks(1024):
            yield from chunk

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> FloatArray:
        if copy is False:
            raise ValueError("stored features cannot become an array without a copy")
        array = self.to_array()
        return array if dtype is None else array.astype(dtype, copy=False)

    def chunks(self, rows: int) -> Iterator[FloatArray]:
        """Consecutive blocks of `rows` rows; the last may have fewer."""
        if rows < 1:
            raise ValueError(f"a chunk has at least one row, not {rows}")
        for begin in range(0, len(self), rows):
            yield self._range(begin, min(begin + rows, len(self)))

    def to_array(self) -> FloatArray:
        """All rows in memory."""
        return self._range(0, len(self))

    def _range(self, begin: int, end: int) -> FloatArray:
        result = np.empty((max(end - begin, 0), self.shape[1]), self.dtype)
        filled = 0
        while filled < len(result):
            position = begin + filled
            number = int(np.searchsorted(self._ends, position, side="right")) - 1
            offset = position - int(self._ends[number])
            piece = self._map(number)[offset : offset + len(result) - filled]
            result[filled : filled + len(piece)] = piece
            filled += len(piece)
            release_pages(piece)
        return result

    def _gather(self, rows: npt.NDArray[Any]) -> FloatArray:
        rows = np.where(rows < 0, rows + len(self), rows)
        if len(rows) and (rows.min() < 0 or rows.max() >= len(self)):
            raise IndexError(f"a row is out of range: there are {len(self)}")
        result = np.empty((len(rows), self.shape[1]), self.dtype)
        numbers = np.searchsorted(self._ends, rows, side="right") - 1
        # Part by part, so that each is mapped once however the rows are mixed.
        order = np.argsort(numbers, kind="stable")
        edges = np.searchsorted(numbers[order], np.arange(len(self._parts) + 1))
        for number in np.flatnonzero(np.diff(edges)):
            places = order[edges[number] : edges[number + 1]]
            part = self._map(int(number))
            result[places] = part[rows[places] - self._ends[number]]
            release_pages(part)
        return result


class ChosenRows:
    """Some rows of an (n, d) array-like, in an order of their own: an index, and no copy of what it points to."""

    def __init__(self, rows: Any, chosen: npt.NDArray[np.int64]) -> None:
        nested = isinstance(rows, ChosenRows)  # a choice among chosen rows points to the first ones
        self._rows: Any = rows._rows if nested else rows
        self._chosen = np.asarray(rows._chosen[chosen] if nested else chosen, np.int64)
        self.shape: tuple[int, ...] = (len(self._chosen), *rows.shape[1:])
        self.dtype: np.dtype[Any] = np.dtype(rows.dtype)
        self.ndim = len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"ChosenRows(shape={self.shape}, of={self._rows!r})"

    def __getitem__(self, rows: Any) -> FloatArray:
        wanted = self._chosen[rows]
        if isinstance(rows, slice) and len(wanted) and wanted[-1] - wanted[0] == len(wanted) - 1 and _ascending(wanted):
            found: FloatArray = np.asarray(self._rows[int(wanted[0]) : int(wanted[-1]) + 1])
            return found
        return np.asarray(self._rows[wanted])

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> FloatArray:
        if copy is False:
            raise ValueError("chosen rows cannot become an array without a copy")
        array = np.asarray(self._rows[self._chosen])  # by number: a slice of rows in memory would be no copy
        return array if dtype is None else array.astype(dtype, copy=False)


def _ascending(numbers: npt.NDArray[np.int64]) -> bool:
    return bool((np.diff(numbers) == 1).all())


@dataclass(frozen=True, eq=False)
class StoredFeatures:
    """The features of one key, complete and checked.

    Attributes:
        features: (n, d), read from the disk as rows are asked for.
        labels: (n,) class index per row.
        index: (n,) position of each row's image in its split, ascending.
    """

    path: Path
    manifest: Manifest
    features: FeatureRows
    labels: IntArray
    index: IntArray

    @property
    def key(self) -> FeatureKey:
        return self.manifest.key

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """Images that could not be read, in order."""
        return self.manifest.skipped

    @property
    def total(self) -> int:
        """Images in the split, skipped ones included."""
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
        """How the features were made, as the extraction told it; empty where that is not known any more."""
        try:
            values = json.loads((self.path / PROVENANCE).read_bytes())
        except (OSError, ValueError):
            return {}
        return values if isinstance(values, dict) else {}

    def __len__(self) -> int:
        return len(self.features)


def open_features(folder: Path, manifest: Manifest, check: Check) -> StoredFeatures:
    """Open the parts that `manifest` lists, several at a time.

    Raises:
        CorruptPartError: a part is missing, or its bytes are not those that were written.
    """

    def open_one(number: int) -> PartFile:
        return open_part(folder, manifest.parts[number], dim=manifest.dim, dtype=manifest.dtype, check=check)

    with ThreadPoolExecutor(_HASHING_THREADS) as threads:
        parts = list(threads.map(open_one, range(len(manifest.parts))))
    none = np.zeros(0, np.int64)
    return StoredFeatures(
        path=folder,
        manifest=manifest,
        features=FeatureRows(parts, manifest.dim, manifest.dtype or "float32"),
        labels=np.concatenate([none, *(part.labels for part in parts)]),
        index=np.concatenate([none, *(part.index for part in parts)]),
    )
