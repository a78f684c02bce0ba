"""What every reader gives: images that can be opened, with the raw numbers of their annotations, in a fixed order."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from unseen.core.errors import DataError
from unseen.data.dataset import Split
from unseen.data.decode import open_image
from unseen.data.sources.vtab.order import record_order

IntArray = npt.NDArray[np.int64]
Column = npt.NDArray[np.int64] | npt.NDArray[np.float64]

#: What stands in the place of a file that Git LFS has not fetched.
_POINTER = b"version https://git-lfs"

_SPEC = re.compile(r"(\w+)(?:\[(\d*)%?:(\d*)%?\])?")


@dataclass(frozen=True, eq=False)
class Examples:
    """One official split of a dataset, as it is on disk.

    Attributes:
        names: unique within the dataset.
        fields: numbers of the annotations, one per example: "label", or what a rule makes a label of.
        open: image `i`, not decoded where that is possible.
        content_key: bytes that change when image `i` does.
        class_names: where the files tell them.
        keys: what TFDS calls each example; empty where that is not known.
        find: raises `OSError` or `DataError` where image `i` is not there; cheaper than `open`, and says less. None
            where they are all in one array, which was checked when it was read.
        own: why the first examples are not the authors' VTAB-1k; "" where they are.
    """

    names: Sequence[str]
    fields: Mapping[str, Column]
    open: Callable[[int], Image.Image]
    content_key: Callable[[int], bytes]
    class_names: Sequence[str] = field(default=())
    keys: Sequence[str] = field(default=())
    find: Callable[[int], object] | None = None
    own: str = ""

    def __len__(self) -> int:
        return len(self.names)

    def __post_init__(self) -> None:
        assert not self.keys or len(self.keys) == len(self.names)

    def take(self, chosen: IntArray) -> Examples:
        open_all, key_all, find_all = self.open, self.content_key, self.find
        return replace(
            self,
            names=[self.names[i] for i in chosen.tolist()],
            fields={name: column[chosen] for name, column in self.fields.items()},
            open=lambda i: open_all(int(chosen[i])),
            content_key=lambda i: key_all(int(chosen[i])),
            keys=[self.keys[i] for i in chosen.tolist()] if self.keys else (),
            find=(lambda i: find_all(int(chosen[i]))) if find_all else None,
        )

    def as_recorded(self, split: str, keys: Sequence[str]) -> Examples:
        """In the order in which TFDS records the official split, by its names for the examples."""
        return replace(self, keys=list(keys)).take(record_order(keys, split))

    def split(self, labels: IntArray, *, primary: IntArray | None = None) -> Split:
        return Split(
            names=self.names,
            labels=labels,
            open=self.open,
            content_key=self.content_key,
            primary_labels=labels if primary is None else primary,
        )


def cut(official: Mapping[str, Examples], spec: str) -> Examples:
    """The examples of a specification such as "test", "train[:90%]" or "train[60%:80%]"; bounds are rounded."""
    name, low, high = _parts(spec)
    if name not in official:
        raise DataError(f"the data have no split {name!r}; they have: {', '.join(official) or 'none'}.")
    whole = official[name]
    start = round(len(whole) * int(low or 0) / 100)
    stop = round(len(whole) * int(high or 100) / 100)
    return whole if (start, stop) == (0, len(whole)) else whole.take(np.arange(start, stop, dtype=np.int64))


def official_splits(specs: Mapping[str, str]) -> list[str]:
    """The official splits that a task is cut from, each once."""
    return list(dict.fromkeys(_parts(spec)[0] for spec in specs.values()))


def _parts(spec: str) -> tuple[str, str, str]:
    match = _SPEC.fullmatch(spec)
    assert match is not None, spec
    name, low, high = match.groups()
    return name, low, high


def from_files(
    root: Path, names: Sequence[str], fields: Mapping[str, npt.ArrayLike], class_names: Sequence[str] = ()
) -> Examples:
    """Image files below a folder, by relative path.

    Raises:
        DataError: a path that leads out of the folder.
    """
    for name in names:
        if name.startswith("/") or (".." in name and ".." in name.split("/")):
            raise DataError(f"{name!r} leads out of {root}; paths are relative to it. Get the lists again.")

    def key(i: int) -> bytes:
        try:
            return hashlib.blake2b((root / names[i]).read_bytes(), digest_size=16).digest()
        except OSError:
            return b"unreadable"

    def find(i: int) -> None:
        with (root / names[i]).open("rb") as file:
            head = file.read(64)
        if not head:
            raise DataError("an empty file (0 bytes)")
        if head.startswith(_POINTER):
            raise DataError("a pointer of Git LFS, not the image itself: fetch it with `git lfs pull`")

    columns = {name: column(values) for name, values in fields.items()}
    return Examples(list(names), columns, lambda i: open_image(root / names[i]), key, class_names, find=find)


def from_bytes(
    names: Sequence[str],
    data: Callable[[int], bytes],
    fields: Mapping[str, npt.ArrayLike],
    class_names: Sequence[str] = (),
    show: Callable[[bytes], Image.Image] = open_image,
) -> Examples:
    """Encoded images out of records, shards or archives."""
    columns = {name: column(values) for name, values in fields.items()}

    def key(i: int) -> bytes:
        return hashlib.blake2b(data(i), digest_size=16).digest()

    def find(i: int) -> None:
        if not data(i):
            raise DataError("an empty image (0 bytes)")

    return Examples(list(names), columns, lambda i: show(data(i)), key, class_names, find=find)


def from_pixels(
    prefix: str,
    pixels: Callable[[int], npt.NDArray[np.uint8]],
    count: int,
    fields: Mapping[str, npt.ArrayLike],
    class_names: Sequence[str] = (),
) -> Examples:
    """Pixels out of one large array: (h, w) or (h, w, 3) per image."""

    def key(i: int) -> bytes:
        return hashlib.blake2b(pixels(i).tobytes(), digest_size=16).digest()

    names = [f"{prefix}/{i:06d}" for i in range(count)]
    columns = {name: column(values) for name, values in fields.items()}
    return Examples(names, columns, lambda i: Image.fromarray(np.ascontiguousarray(pixels(i))), key, class_names)


def column(values: npt.ArrayLike) -> Column:
    """A column of numbers: whole ones as int64, others as float64."""
    array = np.asarray(values).reshape(-1)
    return array.astype(np.int64) if array.dtype.kind in "iub" else array.astype(np.float64)


def first_folder(root: Path, *candidates: str) -> Path | None:
    """The first of the paths below `root` that is there; "" is the root itself."""
    return next((root / name for name in candidates if (root / name).exists()), None)
