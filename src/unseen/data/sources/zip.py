"""`zip:FILE`: a folder of images as it was downloaded, read where it lies; nothing is unpacked.

Layouts as in `folder:`: CLASS/..., or train/CLASS/... and test/CLASS/... (and val); a single folder around all of it is
passed over. Options: `test=`, `val=` (shares) and `seed=` where no test images are there.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from unseen.core.errors import DataError
from unseen.core.guard import guarded, passing_reason, read_member
from unseen.core.names import Name, Options
from unseen.core.records import DatasetCard
from unseen.data.dataset import Dataset
from unseen.data.decode import MAX_BYTES
from unseen.data.given import GivenImages, divide
from unseen.data.load import DatasetSource
from unseen.data.scan import image_extensions, is_litter

_SPLITS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
_MOST_FILES = 5_000_000


class ZipSource(DatasetSource):
    """Loads `zip:FILE`."""

    pattern, hint = "zip:FILE", "a zipped folder per class; the path alone does too: photos.zip"
    paths = ("",)

    def cards(self) -> Iterable[DatasetCard]:
        return ()

    def load(self, name: str, options: Options) -> Dataset:
        with guarded(name, "a zip file of images"):
            return self._load(name, options)

    def _load(self, name: str, options: Options) -> Dataset:
        path = Path(name).expanduser()
        if not path.is_file():
            raise DataError(f"there is no archive {str(path)!r}.")
        test, val, seed = options.fraction("test"), options.fraction("val"), options.integer("seed") or 0
        options.finish()
        try:
            archive = zipfile.ZipFile(path)
            members = [info for info in archive.infolist() if not info.is_dir()]
        except (OSError, zipfile.BadZipFile, ValueError) as error:
            raise DataError(f"cannot read {str(path)!r} as a zip file: {error}. Download or copy it again.") from error
        if len(members) > _MOST_FILES:
            raise DataError(f"{str(path)!r} lists {len(members):,} files; the limit is {_MOST_FILES:,}.")
        found = _by_split(_images(members), path)
        own = str(Name("zip", str(path)))
        given = {
            split: GivenImages(
                items=_Members(archive, [info for _, info in rows]),
                labels=[label for label, _ in rows],
                names=[info.filename for _, info in rows],
                title=path.stem,
                keys=_keys([info for _, info in rows]),
                id=own if len(found) == 1 else f"{own}#{split}",
            )
            for split, rows in found.items()
        }
        return divide(given, share=0.2 if test is None else test, val=val or 0.0, seed=seed, group="zip")


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
    """An archive keeps the size and the checksum of every file."""
    return lambda i: b"%d:%d" % (members[i].file_size, members[i].CRC)


def _images(members: list[zipfile.ZipInfo]) -> list[tuple[tuple[str, ...], zipfile.ZipInfo]]:
    """Folders and entry of every image, without the one folder that may lie around all."""
    found = []
    for info in sorted(members, key=lambda each: each.filename):
        parts = PurePosixPath(info.filename).parts
        if any(is_litter(part) for part in parts) or PurePosixPath(parts[-1]).suffix.lower() not in image_extensions():
            continue
        found.append((parts[:-1], info))
    while found and len({folders[:1] for folders, _ in found}) == 1 and len(found[0][0]) > 1:
        found = [(folders[1:], info) for folders, info in found]
    return found


def _by_split(
    images: list[tuple[tuple[str, ...], zipfile.ZipInfo]], path: Path
) -> dict[str, list[tuple[str, zipfile.ZipInfo]]]:
    if not images or any(not folders for folders, _ in images):
        raise DataError(f"{str(path)!r} has images outside folders. There should be one folder per class.")
    heads = {folders[0].lower() for folders, _ in images}
    found: dict[str, list[tuple[str, zipfile.ZipInfo]]] = {}
    if "train" in heads and heads <= set(_SPLITS) and all(len(folders) > 1 for folders, _ in images):
        for folders, info in images:
            found.setdefault(_SPLITS[folders[0].lower()], []).append((folders[1], info))
        return found
    return {"train": [(folders[0], info) for folders, info in images]}
