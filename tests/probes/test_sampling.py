"""The published splits and few-shot draws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unseen.core.errors import UsageError
from unseen.probes import SEEDS, SHOTS, draw_rows

SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=8).filter(lambda sizes: max(sizes) > 1)


def labels_of(sizes):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    return np.random.default_rng(0).permutation(labels)


@given(SIZES, st.integers(0, 1000))
def test_split_is_a_partition_of_a_fifth_of_each_class(sizes, seed):
    labels = labels_of(sizes)
    draw = draw_rows(labels, seed=seed)[0]
    together = np.concatenate([draw.tuning, draw.validation])
    np.testing.assert_array_equal(np.sort(together), np.arange(len(labels)))
    np.testing.assert_array_equal(draw.final, np.arange(len(labels)))
    for name, size in enumerate(sizes):
        held = int((labels[draw.validation] == name).sum())
        assert held == (max(int(size * 0.2), 1) if size > 1 else 0)


@given(SIZES, st.integers(0, 1000))
def test_shots_come_from_where_the_paper_draws_them(sizes, seed):
    labels = labels_of(sizes)
    draws = draw_rows(labels, seed=seed, shots=SHOTS)
    everything = draws[-1]
    for draw, smaller in zip(draws, [None, *draws[:-1]], strict=True):
        np.testing.assert_array_equal(draw.validation, everything.validation)
        assert np.isin(draw.tuning, everything.tuning).all()
        if draw.shots != "all":
            for rows, pool in ((draw.tuning, everything.tuning), (draw.final, everything.final)):
                for name in range(len(sizes)):
                    available = int((labels[pool] == name).sum())
                    assert (labels[rows] == name).sum() == min(draw.shots, available)
        if smaller is not None:
            assert np.isin(smaller.tuning, draw.tuning).all()


def test_the_final_draw_is_a_new_one():
    labels = np.repeat(np.arange(5), 100)
    draw = draw_rows(labels, seed=22, shots=(8,))[0]
    assert len(np.intersect1d(draw.tuning, draw.final)) < 8
    assert len(np.intersect1d(draw.validation, draw.final)) > 0


def test_seeds_differ_and_repeat():
    labels = np.repeat(np.arange(5), 20)
    draws = [draw_rows(labels, seed=seed)[0] for seed in SEEDS]
    assert len({tuple(draw.validation) for draw in draws}) == len(SEEDS)
    again = draw_rows(labels, seed=SEEDS[0])[0]
    np.testing.assert_array_equal(again.tuning, draws[0].tuning)


def test_a_validation_split_of_the_dataset_is_used_as_it_is():
    labels = np.repeat(np.arange(3), 10)
    draw = draw_rows(labels, seed=1, validation_start=20)[0]
    np.testing.assert_array_equal(draw.tuning, np.arange(20))
    np.testing.assert_array_equal(draw.validation, np.arange(20, 30))
    np.testing.assert_array_equal(draw.final, np.arange(30))


def test_where_every_class_has_one_image_nothing_validates():
    draw = draw_rows(np.arange(4), seed=0)[0]
    assert len(draw.validation) == 0
    np.testing.assert_array_equal(np.sort(draw.final), np.arange(4))


def test_bad_requests_are_refused():
    with pytest.raises(UsageError, match="whole numbers"):
        draw_rows(np.repeat([0, 1], 5), seed=0, shots=(0,))
