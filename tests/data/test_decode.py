"""Decoding: every kind of image to upright 8-bit RGB, every kind of rubbish to a short reason."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from unseen.core.errors import DataError
from unseen.data import decode_rgb, open_image


def encoded(image: Image.Image, form: str, **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def gradient(size: tuple[int, int] = (48, 32)) -> Image.Image:
    x, y = np.meshgrid(np.linspace(0, 255, size[0]), np.linspace(0, 255, size[1]))
    return Image.fromarray(np.stack([x, y, 255 - x], axis=2).astype(np.uint8))


def pixels(data: bytes) -> np.ndarray:
    image = decode_rgb(open_image(data))
    assert image.mode == "RGB"
    return np.asarray(image).astype(int)


@pytest.mark.parametrize("form", ["PNG", "BMP", "TIFF", "PPM", "WEBP"])
def test_lossless_formats_give_back_the_pixels(form: str) -> None:
    options = {"lossless": True} if form == "WEBP" else {}
    np.testing.assert_array_equal(pixels(encoded(gradient(), form, **options)), np.asarray(gradient()))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("form", ["JPEG", "PNG", "TIFF", "WEBP"])
def test_exif_orientation_is_applied(orientation: int, form: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(gradient(), form, exif=exif.tobytes())
    with Image.open(io.BytesIO(data)) as image:
        image.load()
        reference = ImageOps.exif_transpose(image).convert("RGB")
    np.testing.assert_array_equal(pixels(data), np.asarray(reference))
    assert reference.size == ((32, 48) if orientation >= 5 else (48, 32))


def test_cmyk_jpeg_has_its_colours() -> None:
    # Pillow writes CMYK JPEGs as Adobe does, with inverted values.
    data = encoded(gradient((64, 64)).convert("CMYK"), "JPEG", quality=95)
    assert Image.open(io.BytesIO(data)).mode == "CMYK"
    assert np.abs(pixels(data) - np.asarray(gradient((64, 64)))).mean() < 4


def test_sixteen_bit_grey_is_scaled_not_clipped() -> None:
    values = np.linspace(0, 65535, 256).astype(np.uint16).reshape(16, 16)
    for form in ("PNG", "TIFF"):
        got = pixels(encoded(Image.fromarray(values), form))
        np.testing.assert_array_equal(got[..., 0], np.rint(values / 257))
        np.testing.assert_array_equal(got[..., 0], got[..., 2])


def test_thirty_two_bit_and_float_images() -> None:
    eight = np.arange(256, dtype=np.int32).reshape(16, 16)
    cases = [
        (eight, eight),  # 8-bit values in a large container
        (eight * 257, eight),  # a 16-bit range
        (eight * 100_000 - 7, eight),  # no known range: stretched from end to end
        (eight.astype(np.float32) / 255, eight),
        (eight.astype(np.float32), eight),
        (eight.astype(np.float32) * 5 - 100, eight),
    ]
    for values, expected in cases:
        assert np.abs(pixels(encoded(Image.fromarray(values), "TIFF"))[..., 0] - expected).max() <= 1
    with pytest.raises(DataError, match="not finite"):
        pixels(encoded(Image.fromarray(np.full((4, 4), np.nan, np.float32)), "TIFF"))
    assert (pixels(encoded(Image.fromarray(np.full((4, 4), -3.0, np.float32)), "TIFF")) == 0).all()


def test_transparency_is_laid_on_white() -> None:
    rgba = np.zeros((4, 4, 4), np.uint8)
    rgba[..., 0], rgba[..., 3] = 200, np.linspace(0, 255, 16).reshape(4, 4)
    alpha = rgba[..., 3:] / 255
    expected = np.rint(rgba[..., :3] * alpha + 255 * (1 - alpha))
    assert np.abs(pixels(encoded(Image.fromarray(rgba), "PNG")) - expected).max() <= 1
    grey = np.stack([rgba[..., 0], rgba[..., 3]], axis=2)
    got = pixels(encoded(Image.fromarray(grey), "PNG"))
    assert np.abs(got[..., 0] - expected[..., 0]).max() <= 1


def test_a_palette_with_transparency_is_laid_on_the_background() -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([255, 0, 0, 0, 0, 255])
    image.putpixel((1, 0), 1)
    data = encoded(image, "PNG", transparency=bytes([255, 0]))
    np.testing.assert_array_equal(pixels(data), [[[255, 0, 0], [255, 255, 255]]])
    black = decode_rgb(open_image(data), background=(0, 0, 0))
    assert black.getpixel((1, 0)) == (0, 0, 0)
    # A single transparent index, and a transparent colour of an RGB image.
    np.testing.assert_array_equal(pixels(encoded(image, "PNG", transparency=0))[0, 0], [255, 255, 255])
    keyed = encoded(Image.new("RGB", (1, 1), (9, 9, 9)), "PNG", transparency=(9, 9, 9))
    np.testing.assert_array_equal(pixels(keyed)[0, 0], [255, 255, 255])


@pytest.mark.parametrize("form", ["GIF", "PNG", "WEBP", "TIFF"])
def test_the_first_frame_of_an_animation_is_taken(form: str) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue", "lime")]
    data = encoded(frames[0], form, save_all=True, append_images=frames[1:])
    assert np.abs(pixels(data) - [255, 0, 0]).max() <= 2


def test_bits_greys_and_lab() -> None:
    bits = Image.fromarray(np.eye(8, dtype=bool))
    np.testing.assert_array_equal(pixels(encoded(bits, "PNG"))[..., 1], np.eye(8) * 255)
    np.testing.assert_array_equal(pixels(encoded(Image.new("L", (2, 2), 77), "PNG")), np.full((2, 2, 3), 77))
    white = Image.new("LAB", (2, 2), (255, 128, 128))
    assert np.asarray(decode_rgb(white)).min() >= 250


@pytest.mark.parametrize("mode", ["La", "RGBa", "PA", "HSV", "YCbCr", "RGBX", "I;16B", "I;16L"])
def test_other_modes_become_rgb(mode: str) -> None:
    assert decode_rgb(Image.new(mode, (3, 2))).mode == "RGB"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty file"),
        (b"this is not an image, whatever its name says\n", "not an image"),
        (b"\x89PNG\r\n\x1a\n", "not an image"),
        (b"\xff\xd8\xff\xe0" + bytes(20), "not an image"),
        (b"GIF89a", "not an image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image"),
    ],
)
def test_rubbish_has_a_reason(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "image.png"
    path.write_bytes(data)
    with pytest.raises(DataError, match=reason):
        open_image(path)


@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF", "TIFF", "BMP"])
def test_a_truncated_file_is_refused(form: str) -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (200, 200, 3), np.uint8))
    data = encoded(noise, form)
    image = None
    with pytest.raises(DataError) as caught:
        image = decode_rgb(open_image(data[: len(data) // 2]))
    assert image is None
    assert 0 < len(str(caught.value)) <= 160


@pytest.mark.parametrize("form", ["JPEG", "PNG"])
def test_a_truncated_file_is_kept_on_request_as_pillow_would(form: str, tmp_path: Path) -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (128, 128, 3), np.uint8))
    data = encoded(noise, form)
    data = data[: len(data) * 2 // 3]
    got = decode_rgb(open_image(data), truncated="accept")
    (tmp_path / "image").write_bytes(data)
    # Pillow's own way is a switch for the whole process: hence another process.
    code = (
        "import sys; from PIL import Image, ImageFile; ImageFile.LOAD_TRUNCATED_IMAGES = True;"
        "sys.stdout.buffer.write(Image.open(sys.argv[1]).convert('RGB').tobytes())"
    )
    reference = subprocess.run([sys.executable, "-c", code, tmp_path / "image"], capture_output=True, check=True)
    assert got.tobytes() == reference.stdout
    assert np.asarray(got)[:32].std() > 50  # the part that was there is there


def bomb(side: int) -> bytes:
    """A PNG of one bit per pixel whose header promises side x side pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(99))) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("side", [10_000, 12_000, 60_000])
def test_a_decompression_bomb_is_refused_without_a_warning(side: int) -> None:
    # 10,000 squared is in Pillow's zone of warnings, 60,000 squared in that of errors.
    before = Image.MAX_IMAGE_PIXELS
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with pytest.raises(DataError, match=f"{side} x {side} pixels"):
            decode_rgb(open_image(bomb(side)))
    assert seen == []
    assert before == Image.MAX_IMAGE_PIXELS


def test_the_pixel_limit_can_be_chosen() -> None:
    with pytest.raises(DataError, match="48 x 32 pixels; the limit is 100 in all"):
        decode_rgb(gradient(), max_pixels=100)


def test_an_image_in_memory_can_be_used_again() -> None:
    image = Image.new("RGBA", (2, 2), (255, 0, 0, 128))
    assert decode_rgb(image).tobytes() == decode_rgb(image).tobytes()


def test_a_broken_exif_block_does_not_matter() -> None:
    data = encoded(gradient(), "JPEG", exif=b"Exif\0\0" + b"\xff" * 40)
    assert pixels(data).shape == (32, 48, 3)


@given(st.binary(max_size=300), st.sampled_from(["JPEG", "PNG", "GIF", "TIFF", "WEBP", "BMP"]), st.integers(0, 400))
def test_damaged_files_decode_or_say_why(noise: bytes, form: str, at: int) -> None:
    data = bytearray(encoded(gradient((20, 20)), form))
    data[at : at + len(noise)] = noise
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow speaks of corrupt tags; which is not for us to say
        try:
            image = decode_rgb(open_image(bytes(data)), max_pixels=1_000_000)
        except DataError as error:
            assert 0 < len(str(error)) <= 160
        else:
            assert image.mode == "RGB"


def test_decoding_in_many_threads_is_decoding_in_one(tmp_path: Path) -> None:
    forms = ["JPEG", "PNG", "GIF", "TIFF", "WEBP"] * 20
    blobs = [encoded(gradient((20 + i, 30)), form) for i, form in enumerate(forms)]
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda b: decode_rgb(open_image(b)).tobytes(), blobs))
    assert got == [decode_rgb(open_image(b)).tobytes() for b in blobs]
