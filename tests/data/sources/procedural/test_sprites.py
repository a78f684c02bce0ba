"""Sprites: distinct, deterministic, uniform, anti-aliased."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from scipy.stats import chisquare

from unseen.core.errors import DataError
from unseen.data.sources.procedural import sprites


def test_every_shape_scale_and_orientation_looks_different() -> None:
    shape, scale, turn = np.indices(sprites.FACTORS[:3]).reshape(3, -1)
    middle = np.full_like(shape, 16)
    images = sprites.render_sprites(np.stack([shape, scale, turn, middle, middle], axis=1))
    assert len(images) == 720
    assert len(np.unique(images.reshape(720, -1), axis=0)) == 720


def test_x_moves_right_and_y_moves_down_by_a_pixel() -> None:
    base = sprites.render_sprites([[2, 3, 7, 10, 12]])[0]
    right, down = sprites.render_sprites([[2, 3, 7, 11, 12], [2, 3, 7, 10, 13]])
    assert np.array_equal(np.roll(base, 1, axis=1), right)
    assert np.array_equal(np.roll(base, 1, axis=0), down)


def test_corners_of_the_grid_stay_inside_the_image() -> None:
    for x in (0, 31):
        for y in (0, 31):
            image = sprites.render_sprites([[0, 5, 5, x, y]])[0]
            assert image.sum() == sprites.render_sprites([[0, 5, 5, 16, 16]])[0].sum()


def test_area_grows_with_scale_and_edges_are_soft() -> None:
    images = sprites.render_sprites([[s, k, 3, 16, 16] for s in range(3) for k in range(6)]).reshape(3, 6, -1)
    areas = images.sum(axis=2, dtype=np.int64) / 255
    assert (np.diff(areas, axis=1) > 0).all()
    assert areas[0, 5] == pytest.approx(21.0**2, rel=0.01)  # a square of half edge 10.5
    assert areas[1, 5] == pytest.approx(np.pi * 14 * 7, rel=0.01)  # an ellipse
    between = ((images > 0) & (images < 255)).sum(axis=2)
    assert (between > 8).all()


def test_a_quarter_turn_of_the_square_is_no_orientation() -> None:
    square = sprites.render_sprites([[0, 5, k, 16, 16] for k in range(40)])
    for k in range(40):
        assert not any(np.array_equal(np.rot90(square[0]), square[k]) for k in range(1, 40))


def test_same_numbers_same_bytes() -> None:
    factors = sprites.factors_of(np.random.default_rng(0).choice(sprites.COUNT, 200, replace=False))
    first = hashlib.sha256(sprites.render_sprites(factors).tobytes()).hexdigest()
    sprites._stamps.cache_clear()
    one_by_one = np.concatenate([sprites.render_sprites(f) for f in factors])
    assert hashlib.sha256(one_by_one.tobytes()).hexdigest() == first


def test_numbers_run_over_all_factors() -> None:
    rows = sprites.factors_of(np.arange(0, sprites.COUNT, 997))
    for factor, values in enumerate(sprites.FACTORS):
        counts = np.bincount(rows[:, factor], minlength=values)
        assert (counts > 0).all()
    drawn = sprites.factors_of(np.random.default_rng(1).choice(sprites.COUNT, 20_000, replace=False))
    for factor, values in enumerate(sprites.FACTORS):
        assert chisquare(np.bincount(drawn[:, factor], minlength=values)).pvalue > 1e-4


def test_factors_out_of_range_are_refused() -> None:
    with pytest.raises(DataError, match="below"):
        sprites.render_sprites([[3, 0, 0, 0, 0]])
    with pytest.raises(DataError, match="numbered from 0"):
        sprites.factors_of([sprites.COUNT])
