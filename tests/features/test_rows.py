"""Rows of features: equal to those of NumPy, and nothing more is read than is requested."""

from __future__ import annotations

import pickle
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unseen.core.errors import DataError
from unseen.features import FeatureStore
from unseen.features.manifest import PROVENANCE, entry_folder
from unseen.features.rows import FeatureRows

ARRAY = np.arange(60, dtype=np.float32).reshape(20, 3)


class Recorded:
    """Rows that record how they are indexed."""

    shape, dtype = ARRAY.shape, ARRAY.dtype

    def __init__(self) -> None:
        self.requests: list[Any] = []

    def __getitem__(self, rows: Any) -> np.ndarray:
        self.requests.append(rows)
        return ARRAY[rows]


@settings(max_examples=60, deadline=None)
@given(chosen=st.lists(st.integers(0, 19)), data=st.data())
def test_selected_rows_equal_those_of_numpy(chosen: list[int], data: st.DataObject) -> None:
    index = np.array(chosen, np.int64)
    rows, expected = FeatureRows.of(ARRAY).select(index), ARRAY[index]
    assert (len(rows), rows.shape, rows.ndim, rows.dtype) == (len(index), expected.shape, 2, expected.dtype)
    np.testing.assert_array_equal(np.asarray(rows), expected)
    bound = st.none() | st.integers(-25, 25)
    part = data.draw(st.builds(slice, bound, bound, st.sampled_from([None, 1, 2, -1])))
    np.testing.assert_array_equal(rows[part], expected[part])
    if chosen:
        places = data.draw(st.lists(st.integers(0, len(chosen) - 1)))
        np.testing.assert_array_equal(rows[np.array(places, np.int64)], expected[np.array(places, np.int64)])


@pytest.mark.parametrize("begin", [0, 1, 5])
def test_consecutive_rows_are_read_as_one_slice(begin: int) -> None:
    """A disk reads a slice at once."""
    asked = Recorded()
    rows = FeatureRows.of(asked).select(np.arange(begin, begin + 12))
    for wanted in (slice(2, 8), slice(None), slice(3, 4), slice(4, 6)):
        np.testing.assert_array_equal(rows[wanted], ARRAY[begin : begin + 12][wanted])
    first = [request.indices(20)[:2] for request in asked.requests]
    assert first == [(begin + 2, begin + 8), (begin, begin + 12), (begin + 3, begin + 4), (begin + 4, begin + 6)]


@pytest.mark.parametrize("chosen", [[4, 5, 7, 8], [4, 6, 5, 7], [7, 6, 5, 4], [3, 3]])
def test_other_rows_are_read_by_number(chosen: list[int]) -> None:
    asked = Recorded()
    np.testing.assert_array_equal(FeatureRows.of(asked).select(np.array(chosen, np.int64))[:], ARRAY[chosen])
    (request,) = asked.requests
    assert np.asarray(request).tolist() == chosen


def test_a_selection_of_a_selection_reads_the_source_once() -> None:
    asked = Recorded()
    rows = FeatureRows.of(asked).select(np.array([9, 3, 14, 7])).select(np.array([2, 0]))
    np.testing.assert_array_equal(rows[:], ARRAY[[14, 9]])
    assert [np.asarray(request).tolist() for request in asked.requests] == [[14, 9]]
    assert rows.shape == (2, 3)


def test_selected_rows_become_an_array_of_any_dtype_by_a_copy() -> None:
    rows = FeatureRows.of(ARRAY).select(np.array([2, 0]))
    assert np.asarray(rows, np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="without a copy"):
        np.array(rows, copy=False)
    assert "shape=(2, 3)" in repr(rows)


def test_the_array_may_be_changed_without_harm_to_the_rows() -> None:
    """Also if they are consecutive in memory."""
    source = ARRAY.copy()
    for dtype in (None, np.float32, np.float64):
        found = np.array(FeatureRows.of(source).select(np.arange(4, 9)), dtype)
        np.testing.assert_array_equal(found, ARRAY[4:9])
        found[:] = -1
        np.testing.assert_array_equal(source, ARRAY)


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, 20), left=st.permutations(range(8)), data=st.data())
def test_joined_rows_equal_those_of_numpy(cut: int, left: list[int], data: st.DataObject) -> None:
    """Also if one side, or both, are a selection, and if their dtypes differ."""
    second = ARRAY[cut:].astype(np.float16)
    first = FeatureRows.of(ARRAY).select(np.array(left))
    expected = np.concatenate([ARRAY[left], second])
    for rows in (first.join(second), first.join(FeatureRows.of(second).select(np.arange(20 - cut)))):
        assert (rows.shape, rows.dtype) == (expected.shape, np.float32)
        bound = st.none() | st.integers(-30, 30)
        part = data.draw(st.builds(slice, bound, bound, st.sampled_from([None, 1, 2, -1])))
        np.testing.assert_array_equal(rows[part], expected[part])
        places = np.array(data.draw(st.lists(st.integers(0, len(expected) - 1))), np.int64)
        np.testing.assert_array_equal(rows[places], expected[places])
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(rows)).to_array(), expected)


def test_rows_with_different_columns_cannot_be_joined() -> None:
    with pytest.raises(DataError, match=r"\(20, 3\) and \(20, 2\) cannot be joined"):
        FeatureRows.of(ARRAY).join(ARRAY[:, :2])


def test_a_mask_over_many_rows(store: FeatureStore, store_process: ModuleType) -> None:
    sample = store_process.Sample(700, 400)
    sample.write(store)
    rows, mask = store.open(sample.key).features, np.arange(700) % 7 == 3
    np.testing.assert_array_equal(rows[mask], sample.rows(0, 700)[0][mask])


def test_stored_rows_become_an_array_by_a_copy_only(store: FeatureStore, store_process: ModuleType) -> None:
    sample = store_process.Sample()
    sample.write(store)
    rows = store.open(sample.key).features
    with pytest.raises(ValueError, match="without a copy"):
        np.array(rows, copy=False)
    assert repr(rows) == "FeatureRows(shape=(10, 3), dtype=float32, parts=3)"


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b"7", b"\xff"])
def test_provenance_that_is_gone_harms_nothing(
    store: FeatureStore, store_process: ModuleType, content: bytes | None
) -> None:
    sample = store_process.Sample()
    sample.write(store)
    stored, path = store.open(sample.key), entry_folder(store.root, sample.key) / PROVENANCE
    assert [*stored.provenance] == ["seconds"]
    path.unlink() if content is None else path.write_bytes(content)
    assert store.open(sample.key).provenance == {}
