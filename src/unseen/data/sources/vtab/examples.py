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
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from unseen.core.errors import DataError
from unseen.data.dataset import Dataset, Split
from unseen.data.decode import decode_rgb, open_image

IntArray = npt.NDArray[np.int64]
Column = npt.NDArray[np.int64] | npt.NDArray[np.float64]

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
    fields: Mapping[str, Column]
    open: Callable[[int], Image.Image]
    content_key: Callable[[int], bytes]
    class_names: Sequence[str] = field(default=())
    keys: Sequence[str] = field(default=())
    find: Callable[[int], object] | None = None
    own: str = ""
    certain: bool = True

    def __len__(self) -> int:
        return len(self.names)

    def __post_init__(self) -> None:
        assert not self.keys or len(self.keys) == len(self.names)

    def take(self, chosen: IntArray) -> Examples:
        """Return the examples at some positions."""
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

    def as_recorded(self, split: str, keys: Sequence[str] | None = None) -> Examples:
        """Return the examples in the order in which TFDS records the official split.

        Args:
            keys: what TFDS calls the examples; by default their numbers.
        """
        names = [str(i) for i in range(len(self))] if keys is None else list(keys)
        return replace(self, keys=names).take(record_order(names, split))

    def split(self, labels: IntArray, *, primary: IntArray | None = None) -> Split:
        """Return the examples as a split with these labels."""
        return Split(
            names=self.names,
            labels=labels,
            open=self.open,
            content_key=self.content_key,
            primary_labels=labels if primary is None else primary,
        )


def cut(official: Mapping[str, Examples], spec: str) -> Examples:
    """Return the examples of a specification such as "test", "train[:90%]" or "train[60%:80%]"; bounds are rounded."""
    name, low, high = _parts(spec)
    if name not in official:
        raise DataError(f"the data have no split {name!r}; they have: {', '.join(official) or 'none'}.")
    whole = official[name]
    start = round(len(whole) * int(low or 0) / 100)
    stop = round(len(whole) * int(high or 100) / 100)
    return whole if (start, stop) == (0, len(whole)) else whole.take(np.arange(start, stop, dtype=np.int64))


def official_splits(specs: Mapping[str, str]) -> list[str]:
    """Return the official splits that a task is cut from, each once."""
    return list(dict.fromkeys(_parts(spec)[0] for spec in specs.values()))


def _parts(spec: str) -> tuple[str, str, str]:
    match = _SPEC.fullmatch(spec)
    assert match is not None, spec
    name, low, high = match.groups()
    return name, low, high


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
    decode: Callable[[bytes], Image.Image] = open_image,
) -> Examples:
    """Return examples of encoded images from records, shards or archives."""
    columns = {name: column(values) for name, values in fields.items()}

    def key(i: int) -> bytes:
        return hashlib.blake2b(data(i), digest_size=16).digest()

    def find(i: int) -> None:
        if not data(i):
            raise DataError("an empty image (0 bytes)")

    return Examples(list(names), columns, lambda i: decode(data(i)), key, class_names, find=find)


def from_pixels(
    prefix: str,
    pixels: Callable[[int], npt.NDArray[np.uint8]],
    fields: Mapping[str, npt.ArrayLike],
    class_names: Sequence[str] = (),
) -> Examples:
    """Return examples whose pixels, (h, w) or (h, w, 3), are in one large array."""

    def key(i: int) -> bytes:
        return hashlib.blake2b(pixels(i).tobytes(), digest_size=16).digest()

    columns = {name: column(values) for name, values in fields.items()}
    names = [f"{prefix}/{i:06d}" for i in range(len(next(iter(columns.values()))))]
    return Examples(names, columns, lambda i: Image.fromarray(np.ascontiguousarray(pixels(i))), key, class_names)


def column(values: npt.ArrayLike) -> Column:
    """Return a column of numbers: integers as int64, others as float64."""
    array = np.asarray(values).reshape(-1)
    return array.astype(np.int64) if array.dtype.kind in "iub" else array.astype(np.float64)


def record_order(keys: Sequence[str], split: str) -> npt.NDArray[np.int64]:
    """Return the indices of `keys` in the order of the records of an official split."""
    hashes = record_hashes(keys, split)
    return np.asarray(sorted(range(len(keys)), key=hashes.__getitem__), np.int64)


def record_hashes(keys: Sequence[str], split: str) -> list[bytes]:
    """Return the sort key of each record."""
    salted = hashlib.md5(split.encode(), usedforsecurity=False)
    hashes = []
    for key in keys:
        hashed = salted.copy()
        hashed.update(key.encode("utf-8", "surrogateescape"))
        hashes.append(hashed.digest())
    return hashes


def is_record_order(keys: Sequence[str], split: str) -> bool:
    """Return whether examples are in the order of records."""
    hashes = record_hashes(keys, split)
    return all(a <= b for a, b in pairwise(hashes))


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


def content_digests(split: Split) -> list[bytes | None]:
    """Return one digest of the decoded pixels per image; None for an image that cannot be decoded."""

    def one(i: int) -> bytes | None:
        try:
            pixels = np.asarray(decode_rgb(split.open(i)))
        except (DataError, OSError):
            return None
        head = f"{pixels.shape[1]}x{pixels.shape[0]}:".encode()
        return hashlib.blake2b(head + pixels.tobytes(), digest_size=16).digest()

    with ThreadPoolExecutor() as pool:
        return list(pool.map(one, range(len(split))))


def content_hash(
    dataset: Dataset,
    splits: Iterable[str] = ("train", "val"),
    digests: Mapping[str, Sequence[bytes | None]] | None = None,
) -> str:
    """Return 16 hex digits over the images and labels of some splits, independent of their order within a split.

    Args:
        digests: of the splits, if already computed.

    Raises:
        DataError: an image cannot be decoded.
    """
    total = hashlib.blake2b(digest_size=8)
    for name in splits:
        split = dataset.split(name)
        keys = digests[name] if digests else content_digests(split)
        if lost := [split.names[i] for i, key in enumerate(keys) if key is None]:
            raise DataError(
                f"{dataset.id}, {name}: {len(lost):,} of {len(keys):,} images cannot be decoded, such as {lost[0]!r}. "
                "Missing images have no hash: get them again."
            )
        rows = sorted(zip((key for key in keys if key is not None), split.labels.tolist(), strict=True))
        total.update(f"{name}:{len(rows)};".encode())
        for key, label in rows:
            total.update(key + b"%d;" % label)
    return total.hexdigest()


def shared_images(
    dataset: Dataset, digests: Mapping[str, Sequence[bytes | None]] | None = None
) -> dict[tuple[str, str], int]:
    """Return, by pair of splits, how many images of the second also occur, pixel for pixel, in the first.

    Some published datasets have duplicates.
    """
    known = digests or {name: content_digests(split) for name, split in dataset.splits.items()}
    names = list(known)
    return {
        (a, b): sum(key in set_a for key in known[b])
        for k, a in enumerate(names)
        for b in names[k + 1 :]
        for set_a in [set(known[a]) - {None}]
    }
