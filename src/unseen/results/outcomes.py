"""Outcomes per test image as texts that a result stores: one bit, or one number in half precision, per image."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError
from unseen.core.guard import guarded
from unseen.core.records import Result


def pack_correct(correct: npt.NDArray[np.bool_]) -> str:
    """Return one bit per test image as text: 50,000 images take 8 kB."""
    return f"{len(correct)}:" + base64.b64encode(np.packbits(correct).tobytes()).decode("ascii")


def unpack_correct(text: str) -> npt.NDArray[np.bool_]:
    """Return what `pack_correct` packed.

    Raises:
        DataError: the text was not written by `pack_correct`.
    """
    with guarded("the answers per image of a result", "bits in base64"):
        count, _, encoded = text.partition(":")
        bits = np.unpackbits(np.frombuffer(base64.b64decode(encoded), np.uint8))
        if not 0 <= int(count) <= len(bits):
            raise DataError(f"the answers per image of a result are {len(bits)} bits, not {count[:20]} of them.")
        return bits[: int(count)].astype(bool)


def pack_values(values: npt.NDArray[np.float64]) -> str:
    """Return one number per test image, in half precision, as text."""
    return f"{len(values)}:" + base64.b64encode(values.astype("<f2").tobytes()).decode("ascii")


def unpack_values(text: str) -> npt.NDArray[np.float64]:
    """Return what `pack_values` packed.

    Raises:
        DataError: the text was not written by `pack_values`.
    """
    with guarded("the values per image of a result", "half-precision numbers in base64"):
        count, _, encoded = text.partition(":")
        values = np.frombuffer(base64.b64decode(encoded), "<f2").astype(np.float64)
        if int(count) != len(values):
            raise DataError(f"the values per image of a result are {len(values)}, not {count[:20]} of them.")
        return values


#: Key of `Result.details` for whether each image was classified correctly.
CORRECT = "correct"
_READERS: dict[str, Any] = {CORRECT: unpack_correct, "image_scores": unpack_values}


def stored_outcomes(results: Sequence[Result], name: str) -> npt.NDArray[np.float64] | None:
    """Return outcomes of shape (seeds, images) of results on the same images; None if one of them has none.

    Args:
        name: key of `Result.details` that holds the outcomes: "correct" or "image_scores".
    """
    texts = [result.details.get(name) for result in results]
    if not texts or name not in _READERS or not all(isinstance(text, str) for text in texts):
        return None
    found = [np.asarray(_READERS[name](text), np.float64) for text in texts]
    if len({len(each) for each in found}) != 1 or not len(found[0]) or len({r.cell.data for r in results}) != 1:
        return None
    stacked = np.stack(found)
    return stacked if np.isfinite(stacked).all() else None
