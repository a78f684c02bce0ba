"""What VTAB stores beyond metrics, and the options that identify a cell, as typed views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unseen.core.typed import Typed


@dataclass(frozen=True)
class VtabDetails(Typed):
    """The details of a result.

    Attributes:
        chance: accuracy of guessing.
        train_images: labelled examples, training and validation together.
        test_images: images that were tested.
        chosen: the hyper-parameters that the search chose; `validation_accuracy` is theirs.
        task: name, title, group and data of the task, as `TaskInfo`.
        examples: digest of the labelled examples: equal digests, equal VTAB-1k.
        correct: one bit per tested image, as `pack_correct` writes them.
    """

    classes: int = 0
    chance: float | None = None
    train_images: int = 0
    test_images: int = 0
    chosen: Mapping[str, Any] = field(default_factory=dict)
    validation_accuracy: float | None = None
    task: Mapping[str, str] = field(default_factory=dict)
    examples: str = ""
    correct: str = ""


@dataclass(frozen=True)
class VtabParameters(Typed):
    """The parameters of a cell that tables and figures read.

    Attributes:
        budget: number of training steps, if results are reported one by one for several of them; else 0.
    """

    adaptation: str = "linear"
    sweep: str = "lightweight"
    seed: int = 0
    budget: int = 0
