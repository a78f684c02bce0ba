"""From a number in an annotation to a class.

Paper:      Zhai et al., 2019, Appendix A; bounds from the authors' released source
Implements: bins: the index of the largest bound strictly below the value, so that a value on a bound falls below it
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rule:
    """How one field of the annotations becomes a class index.

    Attributes:
        field: of the annotations.
        kind: "class" (as it is), "offset" (minus `offset`), "floor" (floor of value / `width`), "bins" (by `bounds`).
    """

    field: str = "label"
    kind: Literal["class", "offset", "floor", "bins"] = "class"
    offset: int = 0
    width: float = 1.0
    bounds: tuple[float, ...] = ()

    def __call__(self, values: npt.ArrayLike, classes: int) -> IntArray:
        """Class indices of values.

        Raises:
            DataError: a value that belongs to none of the classes.
        """
        numbers = np.asarray(values)
        if self.kind == "bins":
            labels = np.searchsorted(np.asarray(self.bounds), numbers.astype(np.float64), side="left") - 1
        elif self.kind == "floor":
            labels = np.floor(numbers / self.width)
        else:
            labels = numbers - self.offset
        found = labels.astype(np.int64)
        wrong = np.flatnonzero((found < 0) | (found >= classes))
        if len(wrong):
            raise DataError(
                f"{self.field} = {numbers[wrong[0]]} of example {wrong[0]} belongs to none of the {classes} classes "
                f"({len(wrong)} such examples). Is this the dataset that it should be?"
            )
        return found
