"""Images as people hold them in Python: Pillow images, arrays, tensors, paths, encoded bytes."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from os import PathLike
from pathlib import Path

import numpy as np
from PIL import Image

from unseen.core.arrays import Pixels
from unseen.core.errors import DataError
from unseen.core.guard import read_patiently
from unseen.data.decode import NOT_PICTURES, open_image


def is_image(value: object) -> bool:
    """Return whether `to_image` accepts a value; arrays by their number of dimensions."""
    if isinstance(value, Image.Image | bytes | str | PathLike):
        return True
    if isinstance(value, dict):
        return "bytes" in value or "path" in value
    return getattr(value, "ndim", 0) in (2, 3) and hasattr(value, "dtype")


def to_image(value: object) -> Image.Image:
    """Return a value as a new image; the caller's value stays unchanged.

    Args:
        value: a Pillow image, a path, encoded bytes, a dict of the two (as Hugging Face stores images), or an array or
            tensor (h, w), (h, w, c) or (c, h, w) of uint8, or of floats in [0, 1].

    Raises:
        DataError: it is none of these, or its values lie outside their range.
    """
    if isinstance(value, Image.Image):
        return value.copy()
    encoded = _encoded(value)
    return Image.fromarray(_pixels(value)) if encoded is None else open_image(encoded)


def _encoded(value: object) -> bytes | Path | None:
    """Return the encoded bytes or the file of an image; None if it is decoded."""
    if isinstance(value, dict):
        value = value.get("bytes") or str(value.get("path"))
    if isinstance(value, bytes):
        return value
    return Path(value).expanduser() if isinstance(value, str | PathLike) else None


def image_key(value: object) -> bytes:
    """Return bytes that change when the image changes."""
    encoded = _encoded(value)
    if isinstance(encoded, Path):
        return content_key(encoded)
    if encoded is not None:
        return b"file:" + bytes_key(encoded)
    if isinstance(value, Image.Image):
        head = f"{value.mode}{value.size}{value.info.get('exif', b'')!r}".encode()
        return bytes_key(head + bytes(value.getpalette() or ()) + value.tobytes())
    pixels = _pixels(value)
    return bytes_key(str(pixels.shape).encode() + pixels.tobytes())


def bytes_key(data: bytes) -> bytes:
    """Return a digest of 16 bytes."""
    return hashlib.blake2b(data, digest_size=16).digest()


def _pixels(value: object) -> Pixels:
    """Return an array or tensor as uint8 (h, w) or (h, w, c)."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    array = np.asarray(value)
    if array.ndim == 3 and array.shape[0] in (1, 3, 4) and array.shape[2] not in (1, 3, 4):
        array = np.moveaxis(array, 0, 2)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)):
        raise DataError(f"an image is an array (h, w), (h, w, 3) or (3, h, w); found shape {array.shape}.")
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    low, high = float(np.min(array, initial=0)), float(np.max(array, initial=0))
    white = {"f": 1, "i": 255, "u": 255}.get(array.dtype.kind, -1)
    if low >= 0 and high <= white:
        return np.ascontiguousarray(np.rint(array * (255 // white)).astype(np.uint8))
    raise DataError(
        f"an image has values from {low:.3g} to {high:.3g} ({array.dtype}): uint8, or floats in [0, 1], are taken. "
        "Leave normalisation to the model's preprocessing."
    )


# What operating systems leave lying about, beside everything that begins with a dot.
#: Extensions of formats that Pillow always reads: the list of all others takes 0.05 CPU s.
_COMMON = frozenset({".jpg", ".jpeg", ".png"})
_LITTER = frozenset({"__macosx", "thumbs.db", "desktop.ini", "ehthumbs.db", "@eadir", "$recycle.bin"})


@dataclass
class Found:
    """What a scan has found.

    Attributes:
        names: images, as paths relative to the scan's root.
        others: number of other files, by their folder and their ending in lower case.
        links: links to folders that were not followed.
    """

    names: list[str] = field(default_factory=list)
    others: Counter[tuple[str, str]] = field(default_factory=Counter)
    links: list[str] = field(default_factory=list)


def is_litter(name: str) -> bool:
    """Return whether a file or folder is hidden or was created by the operating system."""
    return name.startswith(".") or name.lower() in _LITTER


@cache
def image_extensions() -> frozenset[str]:
    """Return the lower-case extensions, with the dot, of the formats that Pillow reads."""
    known = Image.registered_extensions()
    return frozenset(e for e, form in known.items() if form in Image.OPEN and form not in NOT_PICTURES)


def subfolders(folder: Path) -> list[str]:
    """Return the sorted names of the folders inside a folder, including links to folders."""
    with _readable(folder), os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if not is_litter(entry.name) and entry.is_dir())


@contextmanager
def _readable(folder: Path | str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(f"cannot read the folder {str(folder)!r}: {error.strerror}") from error


def find_images(folder: Path, prefix: str, *, links: Callable[[str], bool] = lambda path: False) -> Found:
    """Return all images under `folder`, at any depth, sorted by path.

    Args:
        prefix: is put before every name.
        links: whether a link to a folder is followed, by its path with the prefix.
    """
    found = Found()

    def read(inner: str, prefix: str, above: frozenset[tuple[int, int]]) -> None:
        deeper: list[os.DirEntry[str]] = []
        with _readable(inner), os.scandir(inner) as entries:
            for entry in entries:
                if is_litter(entry.name):
                    continue
                if entry.is_dir():
                    deeper.append(entry)
                    continue
                ending = "." + entry.name.rpartition(".")[2].lower()
                if ending not in _COMMON and ending not in image_extensions():
                    found.others[prefix.rstrip("/"), ending if "." in entry.name else ""] += 1
                elif entry.is_file() or entry.is_symlink():  # a broken link stays, and fails when it is opened
                    found.names.append(prefix + entry.name)
        for entry in deeper:
            path, identity = prefix + entry.name, _identity(entry.path)
            if entry.is_symlink() and (identity in above or not links(path)):
                found.links.append(path)
            else:
                read(entry.path, f"{path}/", above | {identity})

    read(str(folder), prefix, frozenset(_identity(each) for each in (folder.resolve(), *folder.resolve().parents)))
    found.names.sort()
    found.links.sort()
    return found


def _identity(folder: Path | str) -> tuple[int, int]:
    with _readable(folder):
        status = os.stat(folder)  # noqa: PTH116 - Path.stat costs a third of the time of a scan
        return status.st_dev, status.st_ino


def content_key(path: Path) -> bytes:
    """Return the size and a digest of the first and last 16 KiB of a file.

    An edit inside a large file that keeps its size goes unnoticed: possible in uncompressed formats, unlikely in
    compressed ones, whose length changes. In return, large datasets need not be read twice.
    """

    def read() -> bytes:
        with path.open("rb") as file:
            head = file.read(_SAMPLE)
            size = os.fstat(file.fileno()).st_size
            if size > len(head):
                file.seek(max(len(head), size - _SAMPLE))
                head += file.read(_SAMPLE)
        return b"%d:" % size + bytes_key(head)

    try:
        return read_patiently(read, path)
    except OSError:
        return b"unreadable"


_SAMPLE = 16 * 1024
