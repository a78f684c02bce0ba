"""The preprocessing of VTAB's authors, and that the old ones keep their place in the store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unseen.core.errors import UsageError
from unseen.core.records import FeatureKey, Preprocessing
from unseen.data.decode import open_image, resize_like_tf
from unseen.features import Extraction
from unseen.features.batches import to_pixels
from unseen.features.manifest import tf_preprocessing

IMAGE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (90, 130, 3), np.uint8))


def test_both_sides_are_resized_without_a_low_pass() -> None:
    shown = tf_preprocessing(Preprocessing(size=48, resize=56, interpolation="lanczos"))
    found = to_pixels(IMAGE, shown)
    assert found.shape == (48, 48, 3)
    exact = resize_like_tf(np.asarray(IMAGE), 48, 48)
    assert np.abs(found - exact).max() <= 0.5  # rounded, nothing else
    pillow = to_pixels(IMAGE, replace(shown, interpolation="bilinear"))
    assert np.abs(found.astype(int) - pillow).mean() > 20  # on noise the low-pass changes nearly everything


def test_an_image_that_grows_is_shifted_as_tensorflow_shifts_it() -> None:
    found = to_pixels(IMAGE, Preprocessing(size=260, resize=260, mode="squash", interpolation="tf-bilinear"))
    np.testing.assert_array_equal(found[0, ::2], np.asarray(IMAGE)[0])


def test_the_aspect_can_be_kept_too() -> None:
    shown = Preprocessing(size=40, resize=45, mode="shortest", interpolation="tf-bilinear")
    exact = resize_like_tf(np.asarray(IMAGE), 45, 65)[2:42, 12:52]
    assert np.abs(to_pixels(IMAGE, shown) - exact).max() <= 0.5


@pytest.mark.parametrize("turned", [False, True])
def test_large_jpegs_are_decoded_at_a_fraction_of_their_size(turned: bool, tmp_path: Path) -> None:
    waves = np.sin(np.arange(640)[None, :, None] / 25) * np.cos(np.arange(480)[:, None, None] / np.array([9, 17, 31]))
    exif = Image.Exif()
    exif[0x0112] = 6 if turned else 1
    Image.fromarray(np.uint8(127 + 100 * waves)).save(tmp_path / "large.jpg", exif=exif, quality=90)
    plain, scaled = (Preprocessing(64, 73, "shortest", name) for name in ("bilinear", "scaled-bilinear"))
    found, full = (to_pixels(open_image(tmp_path / "large.jpg"), each).astype(int) for each in (scaled, plain))
    image = Image.open(tmp_path / "large.jpg")
    image.draft(None, (97, 73))
    assert image.size == (160, 120)
    upright = image.transpose(Image.Transpose.ROTATE_270) if turned else image
    size = (73, 97) if turned else (97, 73)
    left, top = round((size[0] - 64) / 2), round((size[1] - 64) / 2)
    expected = upright.resize(size, Image.Resampling.BILINEAR).crop((left, top, left + 64, top + 64))
    np.testing.assert_array_equal(found, np.asarray(expected))
    assert 0 < np.abs(found - full).mean() < 2


@pytest.mark.parametrize("name", ["small.jpg", "large.png"])
def test_scaled_decoding_changes_neither_small_images_nor_other_formats(name: str, tmp_path: Path) -> None:
    (IMAGE if name == "small.jpg" else IMAGE.resize((640, 480))).save(tmp_path / name)
    shown = [Preprocessing(64, 73, "shortest", each) for each in ("bicubic", "scaled-bicubic")]
    np.testing.assert_array_equal(*(to_pixels(open_image(tmp_path / name), each) for each in shown))


def test_the_range_is_the_models_own_unless_asked_otherwise() -> None:
    own = Preprocessing()
    assert (tf_preprocessing(own).mean, tf_preprocessing(own).std) == (own.mean, own.std)
    centred = tf_preprocessing(own, centred=True)
    for mean, std in zip(centred.mean, centred.std, strict=True):
        assert [(value - mean) / std for value in (0.0, 1.0)] == [-1.0, 1.0]
    assert len(centred.mean) == 3


@pytest.mark.parametrize(
    ("interpolation", "expected"),
    [("bicubic", "d0e51d10bf2a03b1"), ("bilinear", None), ("tf-bilinear", None), ("scaled-bicubic", None)],
)
def test_features_of_another_interpolation_are_other_features(interpolation: str, expected: str | None) -> None:
    key = FeatureKey("m", "w", "pooled", Preprocessing(), "fp32", "onnx", "d", "test", "f")
    changed = replace(key, preprocessing=replace(Preprocessing(), interpolation=interpolation))  # type: ignore[arg-type]
    assert FeatureKey.from_dict(changed.to_dict()) == changed
    # The key of the default, as stores of before have it, is frozen.
    assert (changed.digest == key.digest) == (expected is not None)
    if expected:
        assert changed.digest == expected


@pytest.mark.parametrize("device", ["auto", "cpu", "mps", "cuda", "cuda:1", "cuda:12"])
def test_devices(device: str) -> None:
    assert Extraction(device=device).device == device
    for wrong in (f"{device} ", f"{device}:x", f"x{device}", device.upper(), ""):
        with pytest.raises(UsageError, match="is none of auto, cpu"):
            Extraction(device=wrong)
