"""Metadata of ImageNet-CoG, and typed views of the details and parameters that its results store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from unseen.core.arrays import FloatArray
from unseen.core.records import Cell, Result, Typed

#: Training images per concept.
Shots = int | Literal["all"]
#: Value of `shots` for all training images.
ALL: Literal["all"] = "all"


@dataclass(frozen=True)
class ConceptDetails:
    """A concept of a domain; controls have no similarity."""

    id: str
    name: str
    similarity: float | None = None
    nearest: str | None = None


@dataclass(frozen=True)
class DomainDetails(Typed):
    """The seen list, and the measure that ranked the other classes."""

    seen: str = "the seen list"
    measure: str = "lin"


@dataclass(frozen=True)
class CogDetails(Typed):
    """Details of a result.

    Attributes:
        similarity: mean similarity of the concepts to their nearest seen concept; None for controls.
        train_per_class, test_per_class: images per concept; the latter is empty in results of an earlier version.
        per_class: accuracy per concept, by its index; None for a concept without test images.
    """

    classes: int = 0
    similarity: float | None = None
    concepts: tuple[ConceptDetails, ...] = ()
    train_per_class: tuple[int, ...] = ()
    test_per_class: tuple[int, ...] = ()
    per_class: Mapping[str, float | None] = field(default_factory=dict)
    domains: DomainDetails = DomainDetails()

    @classmethod
    def of(cls, result: Result) -> CogDetails:
        """Return the details of a result."""
        return cls.read(result.details)

    @property
    def accuracies(self) -> FloatArray:
        """Accuracy per concept; NaN for a concept without test images."""
        found = [self.per_class.get(str(place)) for place in range(len(self.concepts))]
        return np.array([np.nan if value is None else value for value in found], np.float64)


@dataclass(frozen=True)
class CogParameters(Typed):
    """The parameters of a cell that readers of results use."""

    level: str = ""
    shots: Shots = ALL
    seed: int = 0

    @classmethod
    def of(cls, cell: Cell) -> CogParameters:
        """Return the parameters of a cell."""
        return cls.read(cell.parameters)


def cell_options(parameters: Mapping[str, object]) -> Mapping[str, object]:
    """Return the options that plan a cell: random levels R1, R2 and so on are counted by `controls`."""
    level = str(parameters.get("level", ""))
    random = level.startswith("R") and level[1:].isdecimal()
    return {**parameters, "controls": int(level[1:])} if random else parameters
