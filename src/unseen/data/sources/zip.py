"""`zip:FILE`: a folder of images as it was downloaded, read where it lies; nothing is unpacked.

Layouts as in `folder:`: CLASS/..., or train/CLASS/... and test/CLASS/... (and val); a single folder around all of it is
passed over. Options: `test=`, `val=` (shares) and `seed=` where no test images are there; `layout=` as in `folder:`.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Any

from unseen.core.errors import DataError
from unseen.core.guard import guarded, passing_reason, read_member
from unseen.core.names import Name, Options
from unseen.data.dataset import Dataset
from unseen.data.decode import MAX_BYTES
from unseen.data.images import image_extensions, is_litter
from unseen.data.layout import LAYOUTS, Arranged, arrange
from unseen.data.load import DatasetSource
from unseen.data.user_data import LabelledImages, divide

_MOST_FILES = 5_000_000


class ZipSource(DatasetSource):
    """Loads `zip:FILE`."""

    pattern, hint = "zip:FILE", "a zipped folder per class; the path alone does too: photos.zip"
    paths = ("",)

    def load(self, name: str, options: Options) -> Dataset:
        with guarded(name, "a zip file of images"):
            return self._load(name, options)

    def _load(self, name: str, options: Options) -> Dataset:
        path = Path(name).expanduser()
        if not path.is_file():
            raise DataError(f"there is no archive {str(path)!r}.")
        test, val, seed = options.fraction("test"), options.fraction("val"), options.integer("seed") or 0
        layout = options.choice("layout", LAYOUTS)
        options.finish()
        try:
            archive = zipfile.ZipFile(path)
            members = [info for info in archive.infolist() if not info.is_dir()]
        except (OSError, zipfile.BadZipFile, ValueError) as error:
            raise DataError(f"cannot read {str(path)!r} as a zip file: {error}. Download or copy it again.") from error
        if len(members) > _MOST_FILES:
            raise DataError(f"{str(path)!r} lists {len(members):,} files; the limit is {_MOST_FILES:,}.")
        images = _images(members)
        if not images or any("/" not in inside for inside, _ in images):
            raise DataError(f"{str(path)!r} has images outside folders. There should be one folder per class.")
        arranged = arrange([inside for inside, _ in images], f"the archive {str(path)!r}", layout)
        own = str(Name("zip", str(path)))
        losses = (*arranged.notes, *_other_files(members))
        given = {
            split: _given(archive, [images[i] for i in rows], arranged, split, path.stem, own, losses)
            for split, rows in arranged.rows.items()
        }
        return divide(given, share=0.2 if test is None else test, val=val or 0.0, seed=seed, group="zip")


def _given(
    archive: zipfile.ZipFile,
    images: list[tuple[str, zipfile.ZipInfo]],
    arranged: Arranged,
    split: str,
    title: str,
    own: str,
    losses: tuple[str, ...],
) -> LabelledImages:
    members = [info for _, info in images]
    return LabelledImages(
        items=_Members(archive, members),
        labels=arranged.classes[split],
        names=[info.filename for info in members],
        sampling_keys=[inside for inside, _ in images],
        title=title,
        keys=_keys(members),
        id=own if len(arranged.rows) == 1 else f"{own}#{split}",
        losses=losses,
    )


class _Members:
    """The encoded images of an archive; `ZipFile` takes care of several readers itself."""

    threadsafe = True

    def __init__(self, archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> None:
        self._archive, self._members = archive, members

    def __len__(self) -> int:
        return len(self._members)

    def __getitem__(self, i: int) -> bytes:
        info = self._members[i]
        if info.file_size > MAX_BYTES:
            raise DataError(f"a file of {info.file_size:,} bytes; the limit is {MAX_BYTES:,}")
        try:
            return read_member(self._archive, info)
        except (OSError, zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, ValueError, struct.error) as error:
            if passing_reason(error) is not None:
                raise  # of the disk, not of the file
            raise DataError(f"damaged or encrypted in the archive: {error}") from error


def _keys(members: list[zipfile.ZipInfo]) -> Any:
    """Return the size and the checksum that an archive stores of every file."""
    return lambda i: b"%d:%d" % (members[i].file_size, members[i].CRC)


def _is_litter(info: zipfile.ZipInfo) -> bool:
    return any(is_litter(part) for part in PurePosixPath(info.filename).parts)


def _is_image(info: zipfile.ZipInfo) -> bool:
    return PurePosixPath(info.filename).suffix.lower() in image_extensions()


def _other_files(members: list[zipfile.ZipInfo]) -> list[str]:
    """Return a sentence on the files that are not images."""
    others = [info.filename for info in members if not _is_litter(info) and not _is_image(info)]
    return [f"{len(others):,} files do not have the ending of an image, such as {others[0]}."] if others else []


def _images(members: list[zipfile.ZipInfo]) -> list[tuple[str, zipfile.ZipInfo]]:
    """Return the path and the entry of every image, without the one folder that may lie around all."""
    ordered = sorted(members, key=lambda each: each.filename)
    found = [(PurePosixPath(info.filename).parts, info) for info in ordered if _is_image(info) and not _is_litter(info)]
    while found and len({parts[:1] for parts, _ in found}) == 1 and len(found[0][0]) > 2:
        found = [(parts[1:], info) for parts, info in found]
    return [("/".join(parts), info) for parts, info in found]
