"""The order in which TFDS writes its records, from the names of the examples alone.

Source:     TensorFlow Datasets, "hashing": records ascend by md5 of the split's name followed by the example's key
Used for:   VTAB-1k is the first 800 and the first 200 records: with the keys, they can be had from the original files
Differs:    nothing. Held for all 9,144 records of the real Caltech101 and for every record in `tests/.../test_forms.py`
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt


def record_order(keys: Sequence[str], split: str) -> npt.NDArray[np.int64]:
    """Indices of `keys` in the order of the records of an official split."""
    hashes = record_hashes(keys, split)
    return np.asarray(sorted(range(len(keys)), key=hashes.__getitem__), np.int64)


def record_hashes(keys: Sequence[str], split: str) -> list[bytes]:
    """What records are sorted by, one per key."""
    salted = hashlib.md5(split.encode(), usedforsecurity=False)
    hashes = []
    for key in keys:
        hashed = salted.copy()
        hashed.update(key.encode("utf-8", "surrogateescape"))
        hashes.append(hashed.digest())
    return hashes


def is_record_order(keys: Sequence[str], split: str) -> bool:
    """Whether examples stand in the order of records."""
    hashes = record_hashes(keys, split)
    return all(a <= b for a, b in pairwise(hashes))
