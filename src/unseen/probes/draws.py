"""Which images tune, validate and train: the published splits and few-shot draws.

Paper:      Sariyildiz et al., "Concept generalization in visual representation learning", ICCV 2021 [P],
            Section 3.4.3 and supplement B.2; the order of draws follows the authors' released source
Implements: per class a random order of its images, the last 20 % validate; N shots for tuning are drawn from the
            other 80 %, N shots for the final fit are drawn again from all of train
Differs:    a class of 2 to 4 images still gives one to validation (20 % rounded down would be none); a class of one
            image only trains, and where that is so of every class nothing validates; a class with fewer than N images
            gives all it has
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from unseen.core.errors import UsageError
from unseen.probes.rows import IntArray

Shots = int | Literal["all"]

_SPLIT, _TUNING, _FINAL = range(3)  # each draw has its own stream of the seed


@dataclass(frozen=True, eq=False)
class Draw:
    """Row numbers of one run.

    Attributes:
        tuning: rows that candidates are fitted on.
        validation: rows that candidates are compared on.
        final: rows that the chosen setting is fitted on.
        own_validation: whether the dataset brought the validation rows.
    """

    seed: int
    shots: Shots
    tuning: IntArray
    validation: IntArray
    final: IntArray
    own_validation: bool = False


def draw_rows(
    labels: IntArray,
    *,
    seed: int,
    shots: Sequence[Shots] = ("all",),
    validation_fraction: float = 0.2,
    validation_start: int | None = None,
    refit: bool = True,
) -> list[Draw]:
    """The draws of one seed, one per number of shots, over one common validation split.

    Args:
        labels: class index per row.
        seed: of all draws.
        shots: images per class, or "all".
        validation_fraction: share of each class that validates.
        validation_start: rows from here on are a validation split that the dataset brings: it is used as it is.
        refit: fit the chosen setting on tuning and validation rows together; otherwise on the tuning rows again.
    """
    own = validation_start is not None
    if validation_start is None:
        tuning, validation = _split(labels, validation_fraction, np.random.default_rng([seed, _SPLIT]))
    else:
        tuning, validation = np.arange(validation_start), np.arange(validation_start, len(labels))
    everything = np.arange(len(labels)) if refit else tuning
    draws = []
    for count in shots:
        if count == "all":
            draws.append(Draw(seed, count, tuning, validation, everything, own))
            continue
        if count < 1:
            raise UsageError(f"shots are whole numbers from 1, or 'all'; found {count!r}.")
        few = tuning[_few(labels[tuning], count, np.random.default_rng([seed, _TUNING]))]
        final = everything[_few(labels[everything], count, np.random.default_rng([seed, _FINAL]))] if refit else few
        draws.append(Draw(seed, count, few, validation, final, own))
    return draws


def _split(labels: IntArray, fraction: float, generator: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Rows to tune on and rows to validate on."""
    if not 0.0 < fraction < 1.0:
        raise UsageError(f"the validation fraction lies between 0 and 1, found {fraction}.")
    tuning, validation = [], []
    for rows in _by_class(labels):
        order = rows[generator.permutation(len(rows))]
        held = min(max(int(len(rows) * fraction), 1), len(rows) - 1)
        tuning.append(order[: len(rows) - held])
        validation.append(order[len(rows) - held :])
    return np.concatenate(tuning), np.concatenate(validation)


def _few(labels: IntArray, count: int, generator: np.random.Generator) -> IntArray:
    """Positions of `count` random images per class. A larger count holds the images of a smaller one."""
    return np.concatenate([rows[generator.permutation(len(rows))[:count]] for rows in _by_class(labels)])


def _by_class(labels: IntArray) -> list[IntArray]:
    """Rows of each class, classes ascending, rows ascending."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
