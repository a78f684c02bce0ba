"""Rows from the disk in a nearly random order: shuffled blocks, mixed in a buffer, read ahead of their use.

Gathering every batch from all over a disk is some fifty times slower than memory. Here neighbouring rows are read
together, blocks in random order, and batches are drawn from a buffer of many blocks while a thread reads the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from unseen.probes.rows import FeatureSet, IntArray

BLOCK = 256  # neighbouring rows
BUFFERED = 64  # blocks that are mixed with one another


def shuffled_batches(features: FeatureSet, rows: IntArray, order: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Every row once, in batches of `size`, the last one smaller.

    Args:
        features: where to read.
        rows: (n,) row numbers, ascending.
        order: a permutation of n. Blocks go by the place of their first row in it, rows within a buffer by their own.
        size: of a batch.

    Yields:
        Features (b, d), and the places (b,) of their row numbers in `rows`.
    """
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order))
    starts = torch.arange(0, len(order), BLOCK)
    starts = starts[rank[starts].argsort()]
    groups = [
        torch.cat([torch.arange(start, min(start + BLOCK, len(order))) for start in group.sort()[0].tolist()])
        for group in torch.split(starts, BUFFERED)
    ]
    left, left_places = torch.empty(0, features.dimension, device=features.device), torch.empty(0, dtype=torch.int64)
    with ThreadPoolExecutor(1, thread_name_prefix="probe-reader") as reader:
        ahead = reader.submit(features.take, rows[groups[0].numpy()])
        for number, group in enumerate(groups):
            read = ahead.result()
            is_last = number + 1 == len(groups)
            if not is_last:
                ahead = reader.submit(features.take, rows[groups[number + 1].numpy()])
            mixed, places = torch.cat([left, read]), torch.cat([left_places, group])
            turns = rank[places].argsort()
            whole = len(turns) if is_last else len(turns) // size * size
            for batch in torch.split(turns[:whole], size) if whole else ():
                yield mixed[batch], places[batch]
            left, left_places = mixed[turns[whole:]], places[turns[whole:]]
