"""The signature of an image, for comparisons with others: a perceptual hash, a small grey picture, a digest of pixels.

Papers:     Zauner, "Implementation and benchmarking of perceptual image hash functions", 2010 (the DCT hash)
Implements: 64 bits: the picture in grey at 32 x 32, its discrete cosine transform, the 8 x 8 lowest frequencies, one
            bit each for being above their median. A mirrored picture has the same frequencies with other signs, so
            the hashes of all four turns that keep the axes come from one transform
Differs:    the constant is left out of the median, as in the paper; the `imagehash` wheel includes it, and needs a
            second wheel of wavelets
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy.fft import dctn

from unseen.core.arrays import Pixels
from unseen.data.decode import decode_rgb

Hashes = npt.NDArray[np.uint64]

_HASHED = 32
_LOWEST = 8
#: Longest side of the small picture.
PICTURE = 128
#: Turns of a picture: unchanged, left-right, upside-down, both.
TURNS = ((1, 1), (1, -1), (-1, 1), (-1, -1))


@dataclass(frozen=True, eq=False)
class Signature:
    """The signature of one image.

    Attributes:
        size: width and height in pixels.
        hashes: (4,) 64 bits each, one per turn.
        picture: grey, longest side 128, values 0 to 255, proportions as in the image.
        digest: of the decoded pixels; equal for equal pixels, however they were stored.
    """

    size: tuple[int, int]
    hashes: Hashes
    picture: Pixels
    digest: bytes


def signature(image: Image.Image) -> Signature:
    """Decode an image and return its signature.

    Raises:
        DataError: the pixels cannot be decoded.
    """
    rgb = decode_rgb(image, truncated="accept")
    width, height = rgb.size
    digest = hashlib.blake2b(np.asarray(rgb).tobytes(), digest_size=16, key=b"%dx%d" % (width, height)).digest()
    scale = PICTURE / max(width, height)
    small = (max(8, round(width * scale)), max(8, round(height * scale)))
    grey = rgb.convert("L").resize(small, Image.Resampling.BICUBIC)
    return Signature((width, height), perceptual_hashes(grey), np.asarray(grey), digest)


def perceptual_hashes(grey: Image.Image) -> Hashes:
    """Return the (4,) hashes of a grey picture in its four turns."""
    square = np.asarray(grey.resize((_HASHED, _HASHED), Image.Resampling.BICUBIC), np.float32)
    low = dctn(square, norm="ortho")[:_LOWEST, :_LOWEST]
    order = np.arange(_LOWEST)
    # In a mirrored picture a cosine of odd order changes its sign.
    turned = np.array([low * float(down) ** order[:, None] * float(across) ** order for down, across in TURNS])
    flat = turned.reshape(len(TURNS), -1)
    bits = flat > np.median(flat[:, 1:], axis=1, keepdims=True)
    return np.packbits(bits, axis=1).view(np.uint64)[:, 0]


def hash_distance(a: np.uint64, b: np.uint64) -> int:
    """Return how many of the 64 bits differ."""
    return int(a ^ b).bit_count()
