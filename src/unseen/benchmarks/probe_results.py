"""From a probe's record to a result of the database, with which test images were right for paired comparisons."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unseen.core.records import Cell, Result

if TYPE_CHECKING:
    from unseen.probes import ProbeResult


def probe_result(cell: Cell, record: ProbeResult, details: Mapping[str, Any]) -> Result:
    """The result of a cell, `details` of its dataset included."""
    interval = record.interval()
    values = record.to_dict()
    return Result(
        cell=cell,
        metrics={
            "top1": record.top1,
            "top5": record.top5,
            "mean_per_class": float(np.nanmean(record.per_class)),
            "top1_low": interval.low,
            "top1_high": interval.high,
        },
        seconds=record.seconds,
        sweep=tuple(trial.to_dict() for trial in record.trials),
        details={
            **details,
            "per_class": values["per_class"],
            "best": values["best"],
            "train_size": record.train_size,
            "validation_size": record.validation_size,
            "correct": pack_correct(record.correct),
        },
    )


def pack_correct(correct: npt.NDArray[np.bool_]) -> str:
    """One bit per test image, as text: 50,000 images take 8 kB."""
    return f"{len(correct)}:" + base64.b64encode(np.packbits(correct).tobytes()).decode("ascii")


def unpack_correct(text: str) -> npt.NDArray[np.bool_]:
    """What `pack_correct` packed."""
    count, _, encoded = text.partition(":")
    bits = np.unpackbits(np.frombuffer(base64.b64decode(encoded), np.uint8))
    return bits[: int(count)].astype(bool)
