"""Types of NumPy arrays, one name for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

AnyArray = npt.NDArray[Any]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
Float32Array = npt.NDArray[np.float32]
FloatingArray = npt.NDArray[np.floating[Any]]  # float16, float32 or float64
IntArray = npt.NDArray[np.int64]
Pixels = npt.NDArray[np.uint8]
