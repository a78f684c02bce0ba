"""Rows as probes read them: arrays, maps and stores alike."""

import numpy as np
import pytest
import torch
from sklearn.preprocessing import normalize

from unseen.core.errors import DataError
from unseen.features.rows import FeatureRows
from unseen.probes.rows import FeatureSet


class Parts:
    """A store of several part files in miniature: rows by slice or by numbers, nothing else."""

    def __init__(self, *parts):
        self._all = np.concatenate(parts)
        self.shape, self.dtype = self._all.shape, self._all.dtype

    def __getitem__(self, rows):
        return self._all[rows]


@pytest.fixture
def table():
    return np.random.default_rng(0).standard_normal((300, 7)).astype(np.float16)


@pytest.mark.parametrize("limit", [0, 1 << 30])
@pytest.mark.parametrize("kind", ["array", "memmap", "store", "list"])
def test_all_kinds_of_rows_read_alike(table, tmp_path, kind, limit):
    table.tofile(tmp_path / "rows")
    rows = {
        "array": table,
        "memmap": np.memmap(tmp_path / "rows", np.float16, "r", shape=table.shape),
        "store": Parts(table[:100], table[100:]),
        "list": table.tolist(),
    }[kind]
    features = FeatureSet(rows, "rows", memory_limit=limit)
    expected = normalize(table.astype(np.float32))
    assert (features.tensor is None) == (limit == 0)
    np.testing.assert_allclose(features.read(20, 60), expected[20:60], rtol=1e-5)
    wanted = np.array([299, 0, 5, 5, 150])
    np.testing.assert_allclose(features.take(wanted), expected[wanted], rtol=1e-5)


def test_float32_without_normalisation_is_not_copied():
    table = np.ones((4, 3), np.float32)
    features = FeatureSet(table, "rows", normalize=False)
    assert np.shares_memory(features.read(0, 4).numpy(), table)


def test_read_only_memory_raises_no_warning():
    table = np.ones((4, 3), np.float32)
    table.flags.writeable = False
    assert FeatureSet(table, "rows", normalize=False).read(0, 4).sum() == 12


def test_a_row_of_zeros_stays_zero():
    table = np.zeros((2, 3), np.float32)
    assert torch.equal(FeatureSet(table, "rows").read(0, 2), torch.zeros(2, 3))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
@pytest.mark.parametrize("limit", [0, 1 << 30])
def test_what_is_not_finite_is_refused_with_its_row(bad, limit):
    table = np.ones((50, 3))
    table[37, 1] = bad
    with pytest.raises(DataError, match=r"training features .* row 37"):
        FeatureSet(table, "training features", memory_limit=limit).read(0, 50)


@pytest.mark.parametrize(("table", "message"), [([1.0, 2.0], "shape"), (np.zeros((0, 3)), "at least one image")])
def test_what_is_not_a_table_is_refused(table, message):
    with pytest.raises(DataError, match=message):
        FeatureSet(table, "rows")


def test_text_is_refused():
    with pytest.raises(DataError, match="real numbers"):
        FeatureSet(np.array([["a", "b"]]), "rows")


def test_joined_rows_equal_concatenation(table):
    joined = FeatureRows.of(table[:100]).join(table[100:])
    np.testing.assert_array_equal(joined[90:110], table[90:110])
    np.testing.assert_array_equal(joined[np.array([299, 3, 100, 99])], table[[299, 3, 100, 99]])
    with pytest.raises(DataError, match="columns"):
        FeatureRows.of(table).join(table[:, :3])
