"""Concepts that are eligible for the levels: a funnel of named filters.

Paper:      Sariyildiz et al., ICCV 2021, section 3.2 and supplement A.1 [P]
Implements: the steps of [P] as filters, which the caller can omit, change or extend
Differs:    nothing. "Not a leaf" follows the supplement: a concept is dropped if any concept of the whole starting list
            is below it, not only an eligible one
Expected:   from the 21,841 concepts of ImageNet-21K (Fall 2011) exactly 5,146 are left
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Protocol

from unseen.concepts.taxonomy import Taxonomy
from unseen.concepts.wordnet import WordNet

PERSON = "n00007846"
MIN_IMAGES = 782


class Filter(Protocol):
    """A step of the funnel: any object with a name and this method."""

    @property
    def name(self) -> str: ...

    def drop(self, taxonomy: Taxonomy, concepts: Sequence[str]) -> Collection[str]:
        """Return the concepts to drop."""
        ...


@dataclass(frozen=True)
class Listed:
    """Drop listed concepts."""

    concepts: Collection[str]
    name: str = "listed by hand"

    def drop(self, taxonomy: Taxonomy, concepts: Sequence[str]) -> Collection[str]:
        return set(self.concepts).intersection(concepts)


@dataclass(frozen=True)
class TooFewImages:
    """Drop concepts with fewer images than `least`."""

    counts: Mapping[str, int]
    least: int = MIN_IMAGES
    name: str = "too few images"

    def drop(self, taxonomy: Taxonomy, concepts: Sequence[str]) -> Collection[str]:
        return {c for c in concepts if self.counts.get(c, 0) < self.least}


@dataclass(frozen=True)
class SubTree:
    """Drop `root` and everything below it."""

    root: str
    name: str = "sub-tree"

    def drop(self, taxonomy: Taxonomy, concepts: Sequence[str]) -> Collection[str]:
        return {self.root, *taxonomy.descendants(self.root)}.intersection(concepts)


@dataclass(frozen=True)
class Above:
    """Drop everything above other concepts, as cat is above tiger cat.

    Attributes:
        below: the concepts that may be below; by default those still in the funnel, so that its leaves stay.
    """

    below: Sequence[str] | None = None
    name: str = "not a leaf"

    def drop(self, taxonomy: Taxonomy, concepts: Sequence[str]) -> Collection[str]:
        return taxonomy.ancestors(concepts if self.below is None else self.below).intersection(concepts)


@dataclass(frozen=True)
class Step:
    """Result of one filter."""

    name: str
    dropped: int
    left: int


@dataclass(frozen=True)
class Eligibility:
    """Result of the funnel.

    Attributes:
        concepts: ids that passed every filter, in order.
        started: number of concepts before the first filter.
        steps: one per filter, in order.
        reasons: the filter that dropped each of the other concepts.
    """

    concepts: tuple[str, ...]
    started: int
    steps: tuple[Step, ...]
    reasons: Mapping[str, str] = field(default_factory=dict)


def run_funnel(taxonomy: Taxonomy, concepts: Sequence[str], filters: Sequence[Filter]) -> Eligibility:
    """Apply filters to concepts, one after the other."""
    taxonomy.index(concepts)  # raises if an id is unknown
    left = tuple(dict.fromkeys(concepts))
    started, steps = len(left), []
    reasons: dict[str, str] = {}
    for each in filters:
        dropped = set(each.drop(taxonomy, left))
        reasons |= {c: each.name for c in left if c in dropped}
        left = tuple(c for c in left if c not in dropped)
        steps.append(Step(each.name, len(dropped), len(left)))
    return Eligibility(left, started, tuple(steps), reasons)


def cog_filters(
    concepts: Sequence[str],
    seen: Sequence[str],
    *,
    counts: Mapping[str, int] | None = None,
    min_images: int = MIN_IMAGES,
    subtrees: Sequence[str] = (PERSON,),
    discard: Collection[str] | None = None,
) -> list[Filter]:
    """Return the filters of ImageNet-CoG, in the order of supplement A.1.

    Args:
        concepts: the starting list, which decides what is a leaf.
        seen: concepts that models were trained on.
        counts: images per concept; without it, no concept is dropped for its number of images.
        min_images: 782 in the paper, the smallest number of any concept of ImageNet-1K.
        subtrees: roots of sub-trees to drop; `person` in the paper.
        discard: ids to drop; by default the 70 of Table A.
    """
    filters: list[Filter] = [Listed(seen, "seen")]
    if counts is not None:
        filters.append(TooFewImages(counts, min_images, f"fewer than {min_images} images"))
    filters += [SubTree(root, f"sub-tree {root}") for root in subtrees]
    filters += [Above(seen, "ancestors of seen"), Above(concepts)]
    return [*filters, Listed(cog_discarded() if discard is None else discard)]


def filters_for(
    taxonomy: Taxonomy,
    concepts: Sequence[str],
    seen: Sequence[str],
    *,
    counts: Mapping[str, int] | None = None,
    min_images: int | None = None,
    subtrees: Sequence[str] | None = None,
    discard: Collection[str] | None = None,
) -> list[Filter]:
    """Return the filters of ImageNet-CoG with defaults for the taxonomy: those of the paper are for WordNet.

    Args:
        taxonomy: the graph. On WordNet the defaults are the paper's: 782 images, no `person`, not the 70 of Table A.
            On another ontology no concept is dropped for its count, its sub-tree or its name by default.
        concepts, seen, counts: as for `cog_filters`.
        min_images, subtrees, discard: override the defaults.
    """
    paper = isinstance(taxonomy, WordNet)
    least = min_images if min_images is not None else (MIN_IMAGES if paper else 0)
    return cog_filters(
        concepts,
        seen,
        counts=counts if least > 0 else None,
        min_images=least,
        subtrees=subtrees if subtrees is not None else ((PERSON,) if paper else ()),
        discard=discard if discard is not None else (cog_discarded() if paper else ()),
    )


@cache
def cog_discarded() -> tuple[str, ...]:
    """Return the 70 concepts that the authors removed by hand: supplement, Table A."""
    text = (files("unseen.concepts") / "cog_discarded.txt").read_text(encoding="ascii")
    return tuple(line for line in text.split("\n") if line and not line.startswith("#"))
