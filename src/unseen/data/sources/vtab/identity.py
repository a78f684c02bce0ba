"""Who has the same VTAB-1k? A hash of what images show and how they are labelled, whatever their files are called."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from unseen.core.errors import DataError
from unseen.data.dataset import Dataset, Split
from unseen.data.decode import decode_rgb


def content_digests(split: Split) -> list[bytes]:
    """One digest of the decoded pixels per image, in order; an unreadable image has a digest of its name."""

    def one(i: int) -> bytes:
        try:
            pixels = np.asarray(decode_rgb(split.open(i)))
        except (DataError, OSError):
            return hashlib.blake2b(b"unreadable" + split.names[i].encode(), digest_size=16).digest()
        head = f"{pixels.shape[1]}x{pixels.shape[0]}:".encode()
        return hashlib.blake2b(head + pixels.tobytes(), digest_size=16).digest()

    with ThreadPoolExecutor() as pool:
        return list(pool.map(one, range(len(split))))


def content_hash(dataset: Dataset, splits: Iterable[str] = ("train", "val")) -> str:
    """16 hex digits over the images and labels of some splits; the order within a split does not matter."""
    total = hashlib.blake2b(digest_size=8)
    for name in splits:
        split = dataset.split(name)
        rows = sorted(zip(content_digests(split), split.labels.tolist(), strict=True))
        total.update(f"{name}:{len(rows)};".encode())
        for key, label in rows:
            total.update(key + b"%d;" % label)
    return total.hexdigest()


def shared_images(dataset: Dataset) -> dict[tuple[str, str], int]:
    """Pairs of splits to how many images of the second also occur, pixel for pixel, in the first.

    Some published datasets hold duplicates; this says how many, it does not judge.
    """
    digests = {name: content_digests(split) for name, split in dataset.splits.items()}
    names = list(digests)
    return {
        (a, b): sum(key in set_a for key in digests[b])
        for k, a in enumerate(names)
        for b in names[k + 1 :]
        for set_a in [set(digests[a])]
    }
