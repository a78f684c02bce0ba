"""Methods that learn in passes over the images, where the number of passes is a parameter like any other.

Implements: on a grid, one run serves every number of passes; what it has learned after each of them is scored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from unseen.zeroshot.method import FloatArray, IntArray, Params, ZeroShotMethod, group_by


class EarlyStoppedMethod(ZeroShotMethod):
    """A method with the parameter `epochs`; a subclass gives `_path` and `_keep`."""

    epochs: int

    def _path(self, X: FloatArray, y: IntArray, S: FloatArray, epochs: int) -> Iterator[tuple[int, Any]]:
        """After each epoch: its number, and what has been learned, which the next epoch may change in place."""
        raise NotImplementedError

    def _keep(self, learned: Any) -> None:
        """Take what `_path` gave for good, so that `_scores` works with it."""
        raise NotImplementedError

    def _fit(self, X: FloatArray, y: IntArray, S: FloatArray) -> None:
        ((_, learned),) = deque(self._path(X, y, S, self.epochs), maxlen=1)  # the last alone is held
        self._keep(learned)

    def _grid_scores(
        self, X: FloatArray, y: IntArray, X_val: FloatArray, S_val: FloatArray, grid: Sequence[Params]
    ) -> Iterator[tuple[Params, FloatArray]]:
        for shared, settings in group_by(grid, ("epochs", *self.scoring_params)).items():
            method = self._with(dict(shared))
            stops: dict[int, list[Params]] = {}
            for params in settings:
                stops.setdefault(int(params.get("epochs", self.epochs)), []).append(params)
            for epoch, learned in method._path(X, y, self.signatures_, max(stops)):
                if epoch in stops:
                    method._keep(learned)
                    method.__dict__.pop("_prepared", None)  # made with what was learned before
                    yield from method._settings_scores(X_val, S_val, stops[epoch])
