"""Metadata of VTAB, and typed views of what it stores: the details of a result and the parameters of a cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from unseen.core.records import Typed

#: The benchmark whose accuracy on ImageNet is compared with VTAB's (Figure 18 of the paper).
IMAGENET_BENCHMARK = "probe"


@dataclass(frozen=True)
class VtabDetails(Typed):
    """The details of a result.

    Attributes:
        chance: accuracy of guessing.
        train_images: labelled examples, training and validation together.
        test_images: images that were tested.
        chosen: the hyper-parameters that the search chose; `validation_accuracy` is theirs.
        examples: digest of the labelled examples: equal digests, equal VTAB-1k.
        correct: one bit per tested image, as `pack_correct` writes them.
        trainable: number of trained parameters, the head included; 0 if unknown.
    """

    classes: int = 0
    chance: float | None = None
    train_images: int = 0
    test_images: int = 0
    chosen: Mapping[str, object] = field(default_factory=dict)
    validation_accuracy: float | None = None
    examples: str = ""
    correct: str = ""
    trainable: int = 0


@dataclass(frozen=True)
class VtabParameters(Typed):
    """The parameters of a cell that tables and figures read.

    Attributes:
        budget: number of training steps, if results are reported one by one for several of them; else 0.
        patches: whether the model receives images patch by patch.
    """

    adaptation: str = "linear"
    sweep: str = "lightweight"
    seed: int = 0
    budget: int = 0
    patches: bool = False

    @property
    def table(self) -> Literal["lightweight", "heavyweight", "linear"]:
        """Return the published table that results of these parameters compare with."""
        if self.adaptation == "linear":
            return "linear"
        return "heavyweight" if self.sweep == "heavyweight" else "lightweight"
