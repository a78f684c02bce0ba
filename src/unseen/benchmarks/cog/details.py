"""Metadata of ImageNet-CoG, and typed views of the details and parameters that its results store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from unseen.core.arrays import FloatArray
from unseen.core.records import Cell, Result
from unseen.core.typed import Typed
from unseen.results.info import TOP1, BenchmarkInfo

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
class Confusion:
    """How many test images of the concept `true` were classified as `predicted`; both are indices of concepts."""

    true: str
    predicted: str
    images: int


@dataclass(frozen=True)
class FunnelStep:
    """How many classes a filter dropped and left."""

    filter: str
    dropped: int
    left: int


@dataclass(frozen=True)
class DomainDetails(Typed):
    """How the domains were made from the classes of a dataset."""

    seen: str = "the seen list"
    measure: str = "lin"
    classes: int = 0
    size: int = 0
    funnel: tuple[FunnelStep, ...] = ()


@dataclass(frozen=True)
class CogDetails(Typed):
    """Details of a result.

    Attributes:
        similarity: mean similarity of the concepts to their nearest seen concept; None for controls.
        train_per_class, test_per_class: images per concept; the latter is empty in results of an earlier version.
        per_class: accuracy per concept, by its index; None for a concept without test images.
        confusions: the most frequent errors.
    """

    classes: int = 0
    similarity: float | None = None
    concepts: tuple[ConceptDetails, ...] = ()
    train_per_class: tuple[int, ...] = ()
    test_per_class: tuple[int, ...] = ()
    per_class: Mapping[str, float | None] = field(default_factory=dict)
    confusions: tuple[Confusion, ...] = ()
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


COG = BenchmarkInfo(
    title="ImageNet-CoG",
    question="How does accuracy fall as concepts move away from the seen ones?",
    command="cog run",
    sentence="""Concept generalization follows ImageNet-CoG: the {solver} classifier on frozen features ({layer} layer)
        was trained separately on each of the domains {level}, with {shots} images per class; concepts seen in
        training are those of {seen}, levels are cut by the measure {measure}""",
    citations=("cog",),
    metrics=(TOP1,),
    section="unseen.benchmarks.cog.section:cog_section",
    tables="unseen.benchmarks.cog.section:cog_tables",
    cell_options=cell_options,
)

COG_FINETUNE = BenchmarkInfo(
    title="Fine-tuning on CoG levels",
    question="How far do frozen features fall behind fine-tuning, level by level?",
    command="cog finetune",
    sentence="""Networks were fine-tuned for {steps} steps, separately on each of the domains {level} of ImageNet-CoG,
        starting from the head {start}; the learning rate was chosen among {rates} on a part of the training images,
        never on test images""",
    citations=("cog",),
    metrics=(TOP1,),
    section="unseen.benchmarks.cog.section:cog_finetune_section",
    cell_options=cell_options,
)
