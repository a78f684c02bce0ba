"""Find the images under a folder, fast and always in the same order.

Only directories are read, no file is opened: a million files take seconds. Links are followed, loops are not.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from PIL import Image

from unseen.core.errors import DataError
from unseen.core.guard import read_patiently
from unseen.data.decode import NOT_PICTURES

# What operating systems leave lying about, beside everything that begins with a dot.
_LITTER = frozenset({"__macosx", "thumbs.db", "desktop.ini", "ehthumbs.db", "@eadir", "$recycle.bin"})


@dataclass
class Found:
    """The images of one folder, as paths relative to the scan's root, and how many other files lay beside them."""

    names: list[str] = field(default_factory=list)
    ignored: int = 0


def is_litter(name: str) -> bool:
    """Whether a file or folder is hidden, or put there by the system and not by a person."""
    return name.startswith(".") or name.lower() in _LITTER


@cache
def image_extensions() -> frozenset[str]:
    """Lower-case extensions, with the dot, of the formats that Pillow reads."""
    known = Image.registered_extensions()
    return frozenset(e for e, form in known.items() if form in Image.OPEN and form not in NOT_PICTURES)


def subfolders(folder: Path) -> list[str]:
    """Names of the folders inside a folder, links to folders included, sorted."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if not is_litter(entry.name) and entry.is_dir())
    except OSError as error:
        raise DataError(f"cannot read the folder {str(folder)!r}: {error.strerror}") from error


def find_images(folder: Path, prefix: str) -> Found:
    """All images under `folder`, at any depth, sorted by path; `prefix` is put before every name."""
    found = Found()
    _scan(str(folder), prefix, found, frozenset())
    found.names.sort()
    return found


def _scan(folder: str, prefix: str, found: Found, above: frozenset[tuple[int, int]]) -> None:
    extensions = image_extensions()
    try:
        status = Path(folder).stat()
        identity = (status.st_dev, status.st_ino)
        if identity in above:
            return  # a link that leads back to where we came from
        deeper: list[os.DirEntry[str]] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if is_litter(entry.name):
                    continue
                if entry.is_dir():
                    deeper.append(entry)
                elif "." + entry.name.rpartition(".")[2].lower() not in extensions:
                    found.ignored += 1
                elif entry.is_file() or entry.is_symlink():  # a broken link stays, and is counted when it fails to open
                    found.names.append(prefix + entry.name)
    except OSError as error:
        raise DataError(f"cannot read the folder {folder!r}: {error.strerror}") from error
    for entry in deeper:
        _scan(entry.path, f"{prefix}{entry.name}/", found, above | {identity})


def content_key(path: Path) -> bytes:
    """Size, and digest of the first and last 16 KiB: the whole of a small file, and the ends of a large one.

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
        return b"%d:" % size + hashlib.blake2b(head, digest_size=16).digest()

    try:
        return read_patiently(read, path)
    except OSError:
        return b"unreadable"


_SAMPLE = 16 * 1024
