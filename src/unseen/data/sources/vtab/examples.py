"""Examples as every reader returns them, the order in which TFDS records them, and hashes of what was chosen.

Source:     TensorFlow Datasets, "hashing": records ascend by md5 of the split's name followed by the example's key.
            VTAB-1k is the first 800 and the first 200 records: with the keys, they follow from the original files
Differs:    nothing. Holds for all 9,144 records of the real Caltech101 and for every record in the tests

Two hashes answer who has the same VTAB-1k. The split hash needs no image: it is over what TFDS calls the examples, and
equal if the same ones were chosen, from records or from original files. The content hash is over decoded pixels and
classes; names of files do not matter.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from PIL import Image

from unseen.core.arrays import AnyArray, IntArray, Pixels
from unseen.core.errors import DataError
from unseen.data.dataset import Dataset, Split
from unseen.data.decode import decode_rgb, open_image
from unseen.data.images import bytes_key

_T = TypeVar("_T")

#: First bytes of a file that Git LFS has not fetched.
_POINTER = b"version https://git-lfs"

_SPEC = re.compile(r"(\w+)(?:\[(\d*)%?:(\d*)%?\])?")


@dataclass(frozen=True, eq=False)
class Examples:
    """One official split of a dataset on disk.

    Attributes:
        names: unique within the dataset.
        fields: numbers of the annotations, one per example: "label", or what a rule makes a label of.
        open: returns image `i`, not decoded if possible.
        content_key: returns bytes that change when image `i` does.
        class_names: empty if the files do not name them.
        keys: what TFDS calls each example; empty if unknown.
        find: raises `OSError` or `DataError` if image `i` is missing; cheaper than `open`, and less thorough. None if
            all images are in one array, which was checked when it was read.
        own: why the first examples are not, or may not be, the authors' VTAB-1k; "" if they are.
        certain: whether the examples of `own` are certainly not the authors'; otherwise it is unknown.
    """

    names: Sequence[str]
    fields: Mapping[str, AnyArray]
    open: Callable[[int], Image.Image]
    content_key: Callable[[int], bytes]
    class_names: Sequence[str] = ()
    find: Callable[[int], object] | None = None
    keys: Sequence[str] = ()
    own: str = ""
    certain: bool = True

    def __len__(self) -> int:
        return len(self.names)

    def take(self, chosen: IntArray) -> Examples:
        """Return the examples at some positions."""

        def at(call: Callable[[int], _T]) -> Callable[[int], _T]:
            return lambda i: call(int(chosen[i]))

        return replace(
            self,
            names=[self.names[i] for i in chosen.tolist()],
            fields={name: column[chosen] for name, column in self.fields.items()},
            open=at(self.open),
            content_key=at(self.content_key),
            keys=[self.keys[i] for i in chosen.tolist()] if self.keys else (),
            find=at(self.find) if self.find else None,
        )

    def as_recorded(self, split: str, keys: Sequence[str] | None = None) -> Examples:
        """Return the examples in the order in which TFDS records the official split.

        Args:
            keys: what TFDS calls the examples; by default their numbers.
        """
        names = list(map(str, range(len(self)))) if keys is None else list(keys)
        return replace(self, keys=names).take(record_order(names, split))


def cut(official: Mapping[str, Examples], spec: str) -> Examples:
    """Return the examples of a specification such as "test", "train[:90%]" or "train[60%:80%]"; bounds are rounded."""
    match = _SPEC.fullmatch(spec)
    assert match is not None, spec
    name, low, high = match.groups()
    if name not in official:
        raise DataError(f"the data have no split {name!r}; they have: {', '.join(official) or 'none'}.")
    whole = official[name]
    start, stop = (round(len(whole) * int(percent) / 100) for percent in (low or 0, high or 100))
    return whole if (start, stop) == (0, len(whole)) else whole.take(np.arange(start, stop))


def from_files(
    root: Path, names: Sequence[str], fields: Mapping[str, npt.ArrayLike], class_names: Sequence[str] = ()
) -> Examples:
    """Return examples of image files below a folder, by relative path.

    Raises:
        DataError: a path leads out of the folder.
    """
    for name in names:
        if name.startswith("/") or (".." in name and ".." in name.split("/")):
            raise DataError(f"{name!r} leads out of {root}; paths are relative to it. Get the lists again.")

    def key(i: int) -> bytes:
        try:
            return bytes_key((root / names[i]).read_bytes())
        except OSError:
            return b"unreadable"

    def find(i: int) -> None:
        with (root / names[i]).open("rb") as file:
            head = file.read(64)
        if not head:
            raise DataError("an empty file (0 bytes)")
        if head.startswith(_POINTER):
            raise DataError("a pointer of Git LFS, not the image itself: fetch it with `git lfs pull`")

    return Examples(list(names), columns(fields), lambda i: open_image(root / names[i]), key, class_names, find)


def from_bytes(
    names: Sequence[str],
    data: Callable[[int], bytes],
    fields: Mapping[str, npt.ArrayLike],
    class_names: Sequence[str] = (),
    decode: Callable[[bytes], Image.Image] = open_image,
) -> Examples:
    """Return examples of encoded images from records, shards or archives."""

    def find(i: int) -> None:
        if not data(i):
            raise DataError("an empty image (0 bytes)")

    return Examples(
        list(names), columns(fields), lambda i: decode(data(i)), lambda i: bytes_key(data(i)), class_names, find
    )


def from_pixels(
    prefix: str,
    pixels: Callable[[int], Pixels],
    fields: Mapping[str, npt.ArrayLike],
    class_names: Sequence[str] = (),
) -> Examples:
    """Return examples whose pixels, (h, w) or (h, w, 3), are in one large array."""
    numbers = columns(fields)
    return Examples(
        [f"{prefix}/{i:06d}" for i in range(len(next(iter(numbers.values()))))],
        numbers,
        lambda i: Image.fromarray(np.ascontiguousarray(pixels(i))),
        lambda i: bytes_key(pixels(i).tobytes()),
        class_names,
    )


def columns(fields: Mapping[str, npt.ArrayLike]) -> dict[str, AnyArray]:
    """Return columns of numbers: integers as int64, others as float64."""
    arrays = {name: np.asarray(values).reshape(-1) for name, values in fields.items()}
    return {name: each.astype(np.int64 if each.dtype.kind in "iub" else np.float64) for name, each in arrays.items()}


def record_order(keys: Sequence[str], split: str) -> IntArray:
    """Return the indices of `keys` in the order of the records of an official split."""
    texts = [f"{split}{key}".encode("utf-8", "surrogateescape") for key in keys]
    hashes = [hashlib.md5(text, usedforsecurity=False).digest() for text in texts]
    return np.asarray(sorted(range(len(keys)), key=hashes.__getitem__), np.int64)


def is_record_order(keys: Sequence[str], split: str) -> bool:
    """Return whether examples are in the order of records."""
    return bool((record_order(keys, split) == np.arange(len(keys))).all())


def split_hash(examples: Mapping[str, Examples], splits: Iterable[str] = ("train", "val")) -> str:
    """Return 16 hex digits over which examples are in some splits; "" if their names in TFDS are unknown."""
    total = hashlib.blake2b(digest_size=8)
    for name in splits:
        if not examples[name].keys:
            return ""
        keys = sorted(examples[name].keys)
        total.update(f"{name}:{len(keys)};".encode())
        for key in keys:
            total.update(key.encode("utf-8", "surrogateescape") + b"\0")
    return total.hexdigest()


def content_hash(dataset: Dataset, splits: Iterable[str] = ("train", "val")) -> str:
    """Return 16 hex digits over the decoded images and labels of some splits, independent of their order in a split.

    Raises:
        DataError: an image cannot be decoded.
    """
    total = hashlib.blake2b(digest_size=8)

    def key_of(split: Split, i: int) -> bytes:
        try:
            pixels = np.asarray(decode_rgb(split.open(i)))
        except (DataError, OSError) as error:
            raise DataError(f"{dataset.id}: the image {split.names[i]!r} cannot be decoded: {error}") from error
        return bytes_key(f"{pixels.shape[1]}x{pixels.shape[0]}:".encode() + pixels.tobytes())

    for name in splits:
        split = dataset.split(name)
        with ThreadPoolExecutor() as pool:
            keys = list(pool.map(partial(key_of, split), range(len(split))))
        total.update(f"{name}:{len(keys)};".encode())
        for key, label in sorted(zip(keys, split.labels.tolist(), strict=True)):
            total.update(key + b"%d;" % label)
    return total.hexdigest()
