"""Which rows make up each step of a training, as a function of the seed and the step alone."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]

#: Steps whose rows are counted together.
_COUNTED = 256


class BatchOrder:
    """Which rows make up each step: consecutive ones of epoch after epoch, each epoch in an order of its own."""

    def __init__(self, count: int, batch_size: int, seed: int) -> None:
        self.count, self.batch_size, self.seed = count, batch_size, seed
        self._order = lru_cache(maxsize=4)(self._epoch_order)

    def positions(self, step: int) -> IntArray:
        """(batch_size,) rows of step `step`; one may be there twice where a batch reaches into the next epoch."""
        places = np.arange(step * self.batch_size, (step + 1) * self.batch_size, dtype=np.int64)
        epochs, within = np.divmod(places, self.count)
        found = np.empty(self.batch_size, np.int64)
        for epoch in range(int(epochs[0]), int(epochs[-1]) + 1):
            here = epochs == epoch
            found[here] = self._order(epoch)[within[here]]
        return found

    def counts(self, steps: int) -> npt.NDArray[np.uint8]:
        """(steps, count): how often each row is in the batch of each step, for all steps at once."""
        found = np.empty((steps, self.count), np.uint8)
        for first in range(0, steps, _COUNTED):
            last = min(first + _COUNTED, steps)
            begin, end = first * self.batch_size, last * self.batch_size
            epochs = range(begin // self.count, -(-end // self.count))
            stream = np.concatenate([self._epoch_order(epoch) for epoch in epochs])
            start = begin - epochs[0] * self.count
            rows = stream[start : start + end - begin].reshape(last - first, self.batch_size)
            places = rows + self.count * np.arange(last - first)[:, None]
            times = np.bincount(places.reshape(-1), minlength=(last - first) * self.count)
            found[first:last] = times.reshape(last - first, self.count)
        return found

    def _epoch_order(self, epoch: int) -> IntArray:
        return np.random.default_rng([self.seed, 0, epoch]).permutation(self.count)
