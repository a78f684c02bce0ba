"""Images by concept below one root: a folder or a tar file per concept, or one tar file of tar files.

    folders   ROOT/n01440764/n01440764_18.JPEG
    tars      ROOT/n01440764.tar
    one tar   fall11_whole.tar or ILSVRC2012_img_train.tar, which holds n01440764.tar and so on

In every layout an image is called `n01440764/n01440764_18.JPEG`, and images are in the order of their names: so
samples, fingerprints and stored features do not depend on the layout. If a concept has both a folder and a tar file,
the tar is used: it is whole or refused, while a folder may be half unpacked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image

from unseen.core.arrays import IntArray
from unseen.core.errors import DataError
from unseen.core.guard import guarded
from unseen.data.archives import TarIndex, index_tar
from unseen.data.dataset import Split, join_splits
from unseen.data.decode import open_image
from unseen.data.images import find_images, image_extensions, is_litter

#: ImageNet-21K as one file, as its makers offered it.
WHOLE_TARS = ("fall11_whole.tar", "winter21_whole.tar")

_THREADS = 16  # they wait for the disk or the network, not for the processor


def list_images(names: Sequence[str], open_one: Callable[[int], Image.Image], size: Callable[[int], int]) -> Split:
    """Return the images of one concept, without labels yet.

    An image counts as changed when its name or its size on disk does: of a million compressed files, reading the sizes
    alone takes seconds to minutes, and a tar's index has them already.
    """

    def content_key(i: int) -> bytes:
        try:
            return b"%d" % size(i)
        except OSError:
            return b"unreadable"

    return Split(names, np.zeros(len(names), np.int64), open_one, content_key=content_key)


@dataclass(frozen=True, eq=False)
class ImageTree:
    """The concepts below a root, each listed on first access.

    Attributes:
        layout: "folders", "tars", "folders and tars" or "one tar".
    """

    root: Path
    layout: str
    listers: Mapping[str, Callable[[], Split]]

    def __contains__(self, concept: object) -> bool:
        return concept in self.listers

    @property
    def concepts(self) -> list[str]:
        """Return the sorted names of all concepts."""
        return sorted(self.listers)

    def images(self, concept: str) -> Split:
        """Return the images of one concept; raise `DataError` if its folder or tar file cannot be read."""
        return self.listers[concept]()

    def every(self, concepts: Sequence[str]) -> list[Split]:
        """Return the images of several concepts, in that order, listed by many threads."""
        with ThreadPoolExecutor(_THREADS) as pool:
            return list(pool.map(self.images, concepts))


def find_tree(root: Path) -> ImageTree:
    """Return the concepts below a root. Only the root itself is read.

    Raises:
        DataError: there is no such root, or nothing in it that could be a concept.
    """
    if root.is_file():
        return _one_tar(root)
    if not root.is_dir():
        raise DataError(f"there is no folder {str(root)!r}. {_EXPECTED}")
    folders, tars = _entries(root)
    whole = next((root / name for name in WHOLE_TARS if name.removesuffix(".tar") in tars), None)
    if whole is not None and len(tars) == 1 and not folders:
        return _one_tar(whole)
    listers: dict[str, Callable[[], Split]] = {name: partial(images_in_folder, root / name, name) for name in folders}
    listers |= {name: partial(images_in_tar, root / f"{name}.tar", name) for name in tars}
    if not listers:
        inside = sorted(entry.name for entry in root.iterdir())
        raise DataError(f"{str(root)!r} holds neither folders nor .tar files, but {some(inside)}. {_EXPECTED}")
    kinds = " and ".join(kind for kind, found in (("folders", set(folders) - set(tars)), ("tars", tars)) if found)
    return ImageTree(root, kinds, listers)


_EXPECTED = "Expected: a folder (n01440764) or an uncompressed tar file (n01440764.tar) per concept."


def some(names: Sequence[str]) -> str:
    """Return the first few of many names, for a message."""
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "") if names else "nothing"


def images_in_folder(folder: Path, concept: str) -> Split:
    """Return all images in a folder, at any depth, with names that start with `concept/`."""
    names = tuple(find_images(folder, f"{concept}/" if concept else "").names)
    cut, base = len(concept) + 1 if concept else 0, str(folder)
    return list_images(
        names,
        lambda i: open_image(folder / names[i][cut:]),
        # A million of these make a fingerprint, and a Path takes longer to build than the system takes to answer.
        lambda i: os.stat(f"{base}/{names[i][cut:]}").st_size,  # noqa: PTH116
    )


def images_in_tar(archive: Path | TarIndex, concept: str) -> Split:
    """Return all images in a tar file, with names that start with `concept/`."""
    index = index_tar(archive) if isinstance(archive, Path) else archive
    extensions = image_extensions()
    rows: dict[str, int] = {}
    for row, member in enumerate(index.names):
        name = member.removeprefix("./")
        last = name.rpartition("/")[2]
        if not is_litter(last) and "." + last.rpartition(".")[2].lower() in extensions:
            rows[name if not concept or name.startswith(f"{concept}/") else f"{concept}/{name}"] = row
    names = tuple(sorted(rows))
    order = np.asarray([rows[name] for name in names], np.int64)
    return list_images(names, lambda i: open_image(index.read(int(order[i]))), lambda i: int(index.sizes[order[i]]))


def join_split(parts: Sequence[tuple[Split, IntArray, int]], prefix: str = "") -> Split:
    """Join one split of several concepts: the images at some rows of each, with its label."""
    return join_splits([images.take(rows, np.full(len(rows), label)) for images, rows, label in parts], prefix=prefix)


def _entries(root: Path) -> tuple[list[str], list[str]]:
    """Return the names of the folders in a folder, and of its tar files without .tar."""
    with guarded(root, "a folder"), os.scandir(root) as entries:
        shown = [entry for entry in entries if not is_litter(entry.name)]
        tars = [entry.name.removesuffix(".tar") for entry in shown if entry.name.endswith(".tar")]
        return [entry.name for entry in shown if not entry.name.endswith(".tar") and entry.is_dir()], tars


def _one_tar(path: Path) -> ImageTree:
    outer = index_tar(path)
    inner = {PurePosixPath(name).stem: row for row, name in enumerate(outer.names) if name.endswith(".tar")}
    if not inner:
        found = f"such as {outer.names[0]!r}" if outer.names else "none at all"
        raise DataError(
            f"{str(path)!r} holds {len(outer):,} files, {found}, but no tar file per concept such as n01440764.tar."
        )

    def list_inner(concept: str) -> Split:
        return images_in_tar(outer.nested(inner[concept]), concept)

    return ImageTree(path, "one tar", {concept: partial(list_inner, concept) for concept in inner})
