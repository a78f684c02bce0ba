"""Decode an image file into an 8-bit RGB image, or raise with one short reason.

Everything here is safe to call from many threads: Pillow's module-wide switches (`MAX_IMAGE_PIXELS`,
`LOAD_TRUNCATED_IMAGES`) and the warning filters, which belong to the whole process, are never touched.
"""

from __future__ import annotations

import errno
import io
import math
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import ExifTags, Image, ImageFile, JpegImagePlugin

from unseen.core.arrays import Float32Array, IntArray, Pixels
from unseen.core.errors import DataError

#: Images with more pixels are refused: the same bound at which Pillow begins to warn of decompression bombs.
MAX_PIXELS = 89_478_485
#: Files with more bytes are refused before they are read.
MAX_BYTES = 1 << 30
_BAND = 1 << 20  # pixels that are converted at a time

# Formats that Pillow only recognises, or that another program renders.
NOT_PICTURES = frozenset({"BUFR", "EPS", "GRIB", "HDF5", "MPEG", "WMF"})

# What Pillow's readers raise on rubbish. A warning is among them where the process turns warnings into errors.
_READ_ERRORS = (
    *(OSError, SyntaxError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError, EOFError),
    *(RuntimeError, MemoryError, struct.error, zlib.error, Image.DecompressionBombError, Warning),
)

_TURN = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def open_image(source: Path | bytes) -> Image.Image:
    """Open an image file, or its bytes, without decoding the pixels.

    Raises:
        DataError: it is empty, too large, or not an image that Pillow can read.
        OSError: the file cannot be read: it is gone, or (`unseen.core.guard`) the disk fails.
    """
    if isinstance(source, Path):
        try:
            size = _size(source)
        except ValueError as error:  # a zero byte in its name
            raise DataError(f"no file can be called that: {error}") from error
        if size > MAX_BYTES:
            raise DataError(f"a file of {size:,} bytes; the limit is {MAX_BYTES:,}")
        source = source.read_bytes()
    if not source:
        raise DataError("an empty file (0 bytes)")
    # This is what Image.open does, less the decompression bomb warning, which no thread can silence for itself alone.
    Image.preinit()
    Image.init()
    for factory, accepts in [Image.OPEN[name] for name in Image.ID if name not in NOT_PICTURES]:
        try:
            answer = accepts is None or accepts(source[:16])
            if answer and not isinstance(answer, str):  # a string is a reason why it cannot, such as a missing codec
                return factory(io.BytesIO(source), "")
        except MemoryError as error:
            raise DataError("its header asks for more memory than there is") from error
        except _READ_ERRORS:
            continue  # the file has another format
    raise DataError("not an image that Pillow can read, or one whose header is broken")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        if path.parent.is_dir():
            raise
        # Not the file but all around it is missing, as where a mount went away.
        raise OSError(errno.ESTALE, "its folder is gone", str(path)) from None


def decode_rgb(
    image: Image.Image,
    *,
    background: tuple[int, int, int] = (255, 255, 255),
    max_pixels: int = MAX_PIXELS,
    truncated: Literal["refuse", "accept"] = "refuse",
) -> Image.Image:
    """Decode an image into 8-bit RGB, upright, without transparency.

    The first frame of an animation is taken, EXIF orientation applied, transparent pixels laid over `background`,
    and 16-bit values scaled to 8 bits. An opened file is used up: do not read from `image` again.

    Args:
        truncated: "accept" keeps the part of a file that ends early, and leaves the rest as it was, grey or black.

    Raises:
        DataError: the pixels cannot be decoded; the message is a short reason.
    """
    width, height = image.size
    if width * height > max_pixels:
        raise DataError(f"a decompression bomb? {width} x {height} pixels; the limit is {max_pixels:,} in all")
    if width * height == 0:
        raise DataError(f"no pixels: {width} x {height}")
    try:
        if image.tell() != 0:
            image.seek(0)
        _load(image, keep_part=truncated == "accept")
        turn = _TURN.get(_orientation(image))
        upright = image.transpose(turn) if turn is not None else image
        rgb = _to_rgb(upright, background, image.format)
        if isinstance(image, ImageFile.ImageFile) and image.fp is not None:
            rgb = rgb.copy() if rgb is image else rgb
            image.close()  # animations hold on to their file
    except DataError:
        raise
    except _READ_ERRORS as error:
        raise DataError(_reason(error)) from error
    return rgb


def _load(image: Image.Image, *, keep_part: bool) -> None:
    """Decode the pixels; with `keep_part`, as far as they go, the same as Pillow's switch would for all threads."""
    if not (keep_part and isinstance(image, ImageFile.ImageFile)):
        image.load()
        return
    if isinstance(image, JpegImagePlugin.JpegImageFile):
        _end_with_marker(image)
    try:
        image.load()
    except OSError:
        # What was decoded before the end is in the image already: with no tile left to read, load() gives it.
        image.tile = []
        image.load()


def _end_with_marker(image: JpegImagePlugin.JpegImageFile) -> None:
    """Give the decoder an end-of-image marker where the file stops, so that it draws the rows it has begun."""
    read, ended = image.load_read, False

    def read_and_end(count: int) -> bytes:
        nonlocal ended
        data = read(count)
        if not data and not ended:
            ended = True
            return b"\xff\xd9"
        return data

    setattr(image, "load_read", read_and_end)  # noqa: B010 - this one image, not its class


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(ExifTags.Base.Orientation, 1))
    except _READ_ERRORS:
        return 1  # a broken EXIF block says nothing about the pixels


def _to_rgb(image: Image.Image, background: tuple[int, int, int], form: str | None) -> Image.Image:
    """Convert an image band by band: a whole conversion needs several times the memory of the pixels."""
    if image.mode in {"I", "F"} or image.mode.startswith("I;16"):
        low, high = _range(image, form)

        def scale(band: Image.Image) -> Image.Image:
            values = (np.asarray(band, np.float64) - low) * (255 / ((high - low) or 1))
            return Image.fromarray(np.clip(np.rint(values), 0, 255).astype(np.uint8)).convert("RGB")

        return _banded(image, scale)
    if image.has_transparency_data or image.mode in {"La", "RGBa"}:

        def lay_over(band: Image.Image) -> Image.Image:
            # Pillow converts La to RGBA over LA only.
            rgba = (band.convert("LA") if band.mode == "La" else band).convert("RGBA")
            return Image.alpha_composite(Image.new("RGBA", rgba.size, (*background, 255)), rgba).convert("RGB")

        return _banded(image, lay_over)
    return image if image.mode == "RGB" else image.convert("RGB")


def _bands(image: Image.Image) -> Iterator[tuple[int, Image.Image]]:
    rows = max(1, _BAND // image.width)
    for top in range(0, image.height, rows):
        yield top, image.crop((0, top, image.width, min(image.height, top + rows)))


def _banded(image: Image.Image, convert: Callable[[Image.Image], Image.Image]) -> Image.Image:
    rgb = Image.new("RGB", image.size)
    for top, band in _bands(image):
        rgb.paste(convert(band), (0, top))
    return rgb


def _range(image: Image.Image, form: str | None) -> tuple[float, float]:
    """Return the values of black and white.

    Sixteen bits and floats in [0, 1] or [0, 255] mean what they say, and so do 32-bit integers in the range of 8 or 16
    bits; all else is stretched from end to end.
    """
    if image.mode.startswith("I;16"):
        return 0.0, 65535.0
    low, high = math.inf, -math.inf
    for _, band in _bands(image):
        values = np.asarray(band)
        if not np.isfinite(values).all():
            raise DataError("pixels that are not finite numbers")
        low, high = min(low, float(values.min())), max(high, float(values.max()))
    sixteen_bit = image.mode == "I" and form in {"PNG", "PPM"}
    known = (65535.0,) if sixteen_bit else (255.0, 65535.0) if image.mode == "I" else (1.0, 255.0)
    white = next((end for end in known if high <= end), None)
    return (0.0, white) if white is not None and low >= 0 else (low, high)


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 160 else text[:157] + "..."


def resize_like_tf(pixels: Pixels, height: int, width: int) -> Float32Array:
    """Resize an image without rounding."""
    low_y, high_y, part_y = _neighbours(pixels.shape[0], height)
    low_x, high_x, part_x = _neighbours(pixels.shape[1], width)
    used = np.unique(np.concatenate([low_y, high_y]))  # of a large image most rows are never looked at
    rows = pixels[used]
    left, right = rows[:, low_x].astype(np.float32), rows[:, high_x].astype(np.float32)
    across = left + (right - left) * part_x[None, :, None]
    top, bottom = across[np.searchsorted(used, low_y)], across[np.searchsorted(used, high_y)]
    return np.asarray(top + (bottom - top) * part_y[:, None, None])


def _neighbours(before: int, after: int) -> tuple[IntArray, IntArray, Float32Array]:
    """Return the two inputs next to each output, and the weight of the second."""
    # Single precision, as there: it decides on which side of a pixel a place falls.
    places = np.arange(after, dtype=np.float32) * (np.float32(before) / np.float32(after))
    low = np.floor(places)
    index = low.astype(np.int64)
    return np.minimum(index, before - 1), np.minimum(index + 1, before - 1), places - low
