"""Memory maps that stay small: pages that have been read are given back, so that resident memory does not grow."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np


def release_pages(array: Any) -> None:
    """Give the resident pages behind a read-only memory map back to the system; they stay in its page cache.

    Anything else, a map that may be written to among it, is left alone.
    """
    base = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:  # it might be a private map, whose changes would be lost
            return
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)
