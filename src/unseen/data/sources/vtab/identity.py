"""Who has the same VTAB-1k? Two hashes: of which examples were chosen, and of what they show and how they are labelled.

The split hash needs no image: it is over what TFDS calls the examples, and equal wherever the same ones were chosen,
out of records or out of original files. The content hash is over decoded pixels and classes, whatever the files are
called.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from unseen.core.errors import DataError
from unseen.data.dataset import Dataset, Split
from unseen.data.decode import decode_rgb
from unseen.data.sources.vtab.examples import Examples


def split_hash(examples: Mapping[str, Examples], splits: Iterable[str] = ("train", "val")) -> str:
    """16 hex digits over which examples are in some splits; "" where their names in TFDS are not known."""
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
    """One digest of the decoded pixels per image, in order; None for an image that cannot be decoded."""

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
    """16 hex digits over the images and labels of some splits; the order within a split does not matter.

    Args:
        digests: of the splits, where they are known already.

    Raises:
        DataError: an image cannot be decoded: there is nothing to hash.
    """
    total = hashlib.blake2b(digest_size=8)
    for name in splits:
        split = dataset.split(name)
        keys = digests[name] if digests else content_digests(split)
        if lost := [split.names[i] for i, key in enumerate(keys) if key is None]:
            raise DataError(
                f"{dataset.id}, {name}: {len(lost):,} of {len(keys):,} images cannot be decoded, such as {lost[0]!r}. "
                "What is not there has no hash: get it again."
            )
        rows = sorted(zip((key for key in keys if key is not None), split.labels.tolist(), strict=True))
        total.update(f"{name}:{len(rows)};".encode())
        for key, label in rows:
            total.update(key + b"%d;" % label)
    return total.hexdigest()


def shared_images(
    dataset: Dataset, digests: Mapping[str, Sequence[bytes | None]] | None = None
) -> dict[tuple[str, str], int]:
    """Pairs of splits to how many images of the second also occur, pixel for pixel, in the first.

    Some published datasets hold duplicates; this says how many, it does not judge.
    """
    known = digests or {name: content_digests(split) for name, split in dataset.splits.items()}
    names = list(known)
    return {
        (a, b): sum(key in set_a for key in known[b])
        for k, a in enumerate(names)
        for b in names[k + 1 :]
        for set_a in [set(known[a]) - {None}]
    }
