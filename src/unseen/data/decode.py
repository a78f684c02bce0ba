"""From a file that somebody put into a folder to an 8-bit RGB image, or to one short reason why not.

Everything here is safe to call from many threads: Pillow's module-wide switches (`MAX_IMAGE_PIXELS`,
`LOAD_TRUNCATED_IMAGES`) and the warning filters, which belong to the whole process, are never touched.
"""

from __future__ import annotations

import errno
import io
import struct
import zlib
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageCms, ImageFile, JpegImagePlugin

from unseen.core.errors import DataError

#: Images with more pixels are refused: the same bound at which Pillow begins to warn of decompression bombs.
MAX_PIXELS = 89_478_485
#: Files with more bytes are refused before they are read.
MAX_BYTES = 1 << 30

# Formats that Pillow only recognises, or hands to another program to draw.
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
_ORIENTATION = 0x0112


def open_image(source: Path | bytes) -> Image.Image:
    """Open an image file, or its bytes, without decoding the pixels.

    Raises:
        DataError: it is empty, too large, or not an image that Pillow can read.
        OSError: the file cannot be read: it is gone, or (`unseen.core.guard`) the disk fails.
    """
    if isinstance(source, Path):
        size = _size(source)
        if size > MAX_BYTES:
            raise DataError(f"a file of {size:,} bytes; the limit is {MAX_BYTES:,}")
        source = source.read_bytes()
    if not source:
        raise DataError("an empty file (0 bytes)")
    # This is what Image.open does, less the decompression bomb warning, which no thread can silence for itself alone.
    tried: set[str] = set()
    for load_plugins in (Image.preinit, Image.init):
        load_plugins()
        for name in [each for each in Image.ID if each not in tried and each not in NOT_PICTURES]:
            tried.add(name)
            factory, accepts = Image.OPEN[name]
            try:
                answer = accepts is None or accepts(source[:16])
                if answer and not isinstance(answer, str):  # a string tells why it cannot, such as a missing codec
                    return factory(io.BytesIO(source), "")
            except MemoryError as error:
                raise DataError("its header asks for more memory than there is") from error
            except _READ_ERRORS:
                continue  # a reader that looked and found that the file is not for it
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
        DataError: the pixels cannot be had; the message is a short reason.
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
        rgb = _to_rgb(upright, background)
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
        return int(image.getexif().get(_ORIENTATION, 1))
    except _READ_ERRORS:
        return 1  # a broken EXIF block says nothing about the pixels


def _to_rgb(image: Image.Image, background: tuple[int, int, int]) -> Image.Image:
    if image.mode.startswith("I;16"):
        return _grey(np.asarray(image).astype(np.float64) / 257)
    if image.mode == "I":
        return _grey(_from_integers(np.asarray(image), sixteen_bit=image.format in {"PNG", "PPM"}))
    if image.mode == "F":
        return _grey(_from_floats(np.asarray(image)))
    if image.mode == "LAB":
        lab, srgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
        converted = ImageCms.profileToProfile(image, lab, srgb, outputMode="RGB")
        assert converted is not None
        return converted
    if image.has_transparency_data or image.mode in {"La", "RGBa"}:
        # Pillow knows no way from La to RGBA but by LA.
        rgba = (image.convert("LA") if image.mode == "La" else image).convert("RGBA")
        canvas = Image.new("RGBA", rgba.size, (*background, 255))
        return Image.alpha_composite(canvas, rgba).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")


def _grey(values: npt.NDArray[np.floating[Any]]) -> Image.Image:
    """Grey values in [0, 255] as an RGB image."""
    return Image.fromarray(np.clip(np.rint(values), 0, 255).astype(np.uint8)).convert("RGB")


def _from_integers(values: npt.NDArray[np.int32], *, sixteen_bit: bool) -> npt.NDArray[np.float32]:
    """32-bit integers: a 16-bit range where the format or the values say so, otherwise stretched from end to end."""
    low, high = int(values.min()), int(values.max())
    if low >= 0 and high <= 255 and not sixteen_bit:
        return values.astype(np.float32)
    if low >= 0 and high <= 65535:
        return (values / 257).astype(np.float32)
    return _stretch(values.astype(np.float64))


def _from_floats(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Floats: in [0, 1] or [0, 255] as they are, otherwise stretched from end to end."""
    if not np.isfinite(values).all():
        raise DataError("pixels that are not finite numbers")
    low, high = float(values.min()), float(values.max())
    if low >= 0 and high <= 1:
        return values * np.float32(255)
    return values if low >= 0 and high <= 255 else _stretch(values.astype(np.float64))


def _stretch(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    low, high = float(values.min()), float(values.max())
    return ((values - low) * (255 / ((high - low) or 1))).astype(np.float32)


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 160 else text[:157] + "..."
