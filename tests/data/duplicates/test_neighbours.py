"""Candidates by features: against the whole matrix of products, and in bounded memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from unseen.core.errors import DataError
from unseen.data.duplicates import near_pairs


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("memory", [1 << 14, 1 << 17, 1 << 26])
def test_all_pairs_above_the_threshold(memory: int) -> None:
    """With room for all, and blocks from 64 rows to the whole, the same pairs as by one product."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 8))
    products = unit(rows) @ unit(rows).T
    want = {(i, j) for i, j in zip(*np.nonzero(products >= 0.8), strict=True) if i < j}
    found = near_pairs(rows, threshold=0.8, most=300, memory=memory)
    assert {*zip(found.first.tolist(), found.second.tolist(), strict=True)} == want and len(found) == len(want)
    np.testing.assert_allclose(found.similarity, products[found.first, found.second], atol=1e-5)
    assert (np.diff(found.similarity) <= 0).all(), "the most alike first"
    others = rng.normal(size=(170, 8)).astype(np.float16)
    between = unit(rows) @ unit(others.astype(np.float64)).T
    found = near_pairs(rows, others, threshold=0.7, most=300, memory=memory)
    want = {*zip(*(side.tolist() for side in np.nonzero(between >= 0.7)), strict=True)}
    assert {*zip(found.first.tolist(), found.second.tolist(), strict=True)} == want


@pytest.mark.parametrize("memory", [1 << 14, 1 << 26])
def test_the_best_of_every_row(memory: int) -> None:
    rng = np.random.default_rng(1)
    rows, others = rng.normal(size=(90, 6)), rng.normal(size=(400, 6))
    products = unit(rows) @ unit(others).T
    found = near_pairs(rows, others, threshold=-1.0, most=3, memory=memory)
    for i in range(90):
        assert set(found.second[found.first == i].tolist()) == set(np.argsort(-products[i])[:3].tolist())


def test_rows_without_a_direction_are_like_nothing() -> None:
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [np.nan, 1.0], [np.inf, 0.0]])
    found = near_pairs(rows, threshold=0.5)
    assert (found.first.tolist(), found.second.tolist()) == ([1], [2])


def test_bad_requests() -> None:
    with pytest.raises(DataError, match="same dimensions"):
        near_pairs(np.zeros((3, 4)), np.zeros((3, 5)), threshold=0.5)
    with pytest.raises(DataError, match="at least one pair"):
        near_pairs(np.zeros((3, 4)), threshold=0.5, most=0)
    assert len(near_pairs(np.zeros((0, 4)), threshold=0.5)) == 0


def test_twenty_thousand_in_bounded_memory(tmp_path: Path) -> None:
    """Rows on the disk, 200 planted copies among 20,000: all found, within a thirtieth of the matrix of products."""
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(20_000, 128)).astype(np.float16)
    copies = rng.choice(10_000, 200, replace=False)
    rows[19_800:] = rows[copies] + 0.1 * rng.normal(size=(200, 128))
    np.save(tmp_path / "rows.npy", rows)
    del rows
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    tracemalloc.start()
    found = near_pairs(mapped, threshold=0.9, most=5, memory=32 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert {*zip(found.first.tolist(), found.second.tolist(), strict=True)} == {
        *zip(copies.tolist(), range(19_800, 20_000), strict=True)
    }
    kept = 2 * 20_000 * 5 * 12
    assert peak < (32 << 20) + 4 * kept, f"{peak / 2**20:.0f} MiB; the matrix would have 1,526"
