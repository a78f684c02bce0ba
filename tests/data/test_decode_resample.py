"""Resizing as TensorFlow 1 does it, beside what TensorFlow 2.21 gave for the same pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unseen.data.decode import resize_like_tf

#: `before0`, `after0`, ...: random pixels, and `tf.compat.v1.image.resize` of them.
GIVEN = Path(__file__).parent / "fixtures" / "tf_resize.npz"


@pytest.mark.parametrize("number", range(6))
def test_tensorflows_values_bit_for_bit(number: int) -> None:
    with np.load(GIVEN) as given:
        before, after = given[f"before{number}"], given[f"after{number}"]
    found = resize_like_tf(before, *after.shape[:2])
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, after)


def test_an_image_of_the_same_size_stays() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (9, 13, 3), np.uint8)
    np.testing.assert_array_equal(resize_like_tf(pixels, 9, 13), pixels)


def test_there_is_no_low_pass() -> None:
    """Every other column is looked at, and no other: stripes vanish instead of turning grey."""
    stripes = np.tile(np.array([0, 255], np.uint8), 32)[None, :, None] * np.ones((64, 1, 3), np.uint8)
    assert resize_like_tf(stripes, 32, 32).max() == 0
