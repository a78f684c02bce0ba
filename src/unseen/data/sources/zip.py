"""`zip:FILE`: a zipped folder of images, read without unpacking it.

Layouts as in `folder:`: CLASS/..., or train/CLASS/... and test/CLASS/... (and val); a single folder around all of it is
skipped. Options: `test=`, `val=` (shares) and `seed=` if it has no test images; `layout=` as in `folder:`.
"""

from __future__ import annotations

import zipfile
from pathlib import Path, PurePosixPath

from unseen.core.errors import DataError
from unseen.core.guard import guarded
from unseen.core.names import Name, Options
from unseen.data.archives import read_zipped
from unseen.data.dataset import Dataset
from unseen.data.images import image_extensions, is_litter
from unseen.data.layout import LAYOUTS, arrange
from unseen.data.load import DatasetSource
from unseen.data.subset import Division
from unseen.data.user_data import LabelledImages, LazyImages, divide

_MOST_FILES = 5_000_000


class ZipSource(DatasetSource):
    """Loads `zip:FILE`."""

    pattern, hint = "zip:FILE", "a zipped folder per class; the path alone does too: photos.zip"
    paths = ("",)

    def load(self, name: str, options: Options) -> Dataset:
        path = Path(name).expanduser()
        division, _ = Division.read(options)
        layout = options.choice("layout", LAYOUTS)
        options.finish()
        with guarded(path, "a zip file of images", advice="Download or copy it again."):
            archive = zipfile.ZipFile(path)
            return divide(_read(archive, path, layout), division, group="zip")


def _read(archive: zipfile.ZipFile, path: Path, layout: str) -> dict[str, LabelledImages]:
    members = [info for info in sorted(archive.infolist(), key=lambda info: info.filename) if not info.is_dir()]
    members = [info for info in members if not any(map(is_litter, PurePosixPath(info.filename).parts))]
    if len(members) > _MOST_FILES:
        raise DataError(f"{str(path)!r} lists {len(members):,} files; the limit is {_MOST_FILES:,}.")
    images = [info for info in members if _is_image(info)]
    inside = _paths_inside([info.filename for info in images])
    if not inside or any("/" not in each for each in inside):
        raise DataError(f"{str(path)!r} has images outside folders. There should be one folder per class.")
    arranged = arrange(inside, f"the archive {str(path)!r}", layout)
    losses = arranged.notes
    if others := [info.filename for info in members if not _is_image(info)]:
        losses += (f"{len(others):,} files do not have the ending of an image, such as {others[0]}.",)
    own = str(Name("zip", str(path)))

    def part(split: str, rows: list[int]) -> LabelledImages:
        chosen = [images[i] for i in rows]
        return LabelledImages(
            LazyImages(len(chosen), lambda i: read_zipped(archive, chosen[i])),
            arranged.classes[split],
            names=[info.filename for info in chosen],
            sampling_keys=[inside[i] for i in rows],
            title=path.stem,
            keys=lambda i: b"%d:%d" % (chosen[i].file_size, chosen[i].CRC),
            id=own if len(arranged.rows) == 1 else f"{own}#{split}",
            losses=losses,
        )

    return {split: part(split, rows) for split, rows in arranged.rows.items()}


def _is_image(info: zipfile.ZipInfo) -> bool:
    return PurePosixPath(info.filename).suffix.lower() in image_extensions()


def _paths_inside(names: list[str]) -> list[str]:
    """Return paths without the single folders around all of them."""
    parts = [PurePosixPath(name).parts for name in names]
    while parts and len({each[:1] for each in parts}) == 1 and len(parts[0]) > 2:
        parts = [each[1:] for each in parts]
    return ["/".join(each) for each in parts]
