"""Which concepts may enter the levels: a funnel of named filters.

Paper:      Sariyildiz et al., ICCV 2021, section 3.2 and supplement A.1 [P]
Implements: the steps of [P] as filters that can be left out, changed or added to
Differs:    nothing. "Not a leaf" follows the supplement: a concept is dropped if any concept of the whole starting list
            lies below it, not only an eligible one
Expected:   from the 21,841 concepts of ImageNet-21K (Fall 2011) exactly 5,146 are left
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Protocol

from unseen.concepts.taxonomy import Taxonomy
from unseen.concepts.wordnet import WordNet

PERSON = "n00007846"
MIN_IMAGES = 782


class Filter(Protocol):
    """Says which concepts to drop. Anything with a name and this call will do."""

    @property
    def name(self) -> str: ...

    def drop(self, taxonomy: Taxonomy, concepts: Sequence[str]) -> Collection[str]: ...


@dataclass(frozen=True)
class Seen:
    """Drops the concepts that were trained on."""

    seen: Sequence[str]
    name: str = "seen"

    def drop(self, taxonomy: Taxonomy, concepts: Sequence[str]) -> Collection[str]:
        return set(self.seen).intersection(concepts)


@dataclass(frozen=True)
class TooFewImages:
    """Drops concepts with fewer images than `least`."""

    counts: Mapping[str, int]
    least: int = MIN_IMAGES
    name: str = "too few images"

    def drop(self, taxonomy: Taxonomy, concepts: Sequence[str]) -> Collection[str]:
        return {c for c in concepts if self.counts.get(c, 0) < self.least}


@dataclass(frozen=True)
class SubTree:
    """Drops `root` and everything below it."""

    root: str
    name: str = "sub-tree"

    def drop(self, taxonomy: Taxonomy, concepts: Sequence[str]) -> Collection[str]:
        return {self.root, *taxonomy.descendants(self.root)}.intersection(concepts)


@dataclass(frozen=True)
class AncestorsOfSeen:
    """Drops everything above a seen concept, as cat is above tiger cat."""

    seen: Sequence[str]
    name: str = "ancestors of seen"

    def drop(self, taxonomy: Taxonomy, concepts: Sequence[str]) -> Collection[str]:
        return taxonomy.ancestors(self.seen).intersection(concepts)


@dataclass(frozen=True)
class NotALeaf:
    """Drops concepts above another concept.

    Attributes:
        among: the concepts that count as being below; None means those still in the funnel.
    """

    among: Sequence[str] | None = None
    name: str = "not a leaf"

    def drop(self, taxonomy: Taxonomy, concepts: Sequence[str]) -> Collection[str]:
        return taxonomy.ancestors(concepts if self.among is None else self.among).intersection(concepts)


@dataclass(frozen=True)
class Listed:
    """Drops concepts named one by one."""

    concepts: Collection[str]
    name: str = "listed by hand"

    def drop(self, taxonomy: Taxonomy, concepts: Sequence[str]) -> Collection[str]:
        return set(self.concepts).intersection(concepts)


@dataclass(frozen=True)
class Step:
    """What one filter did."""

    name: str
    dropped: int
    left: int


@dataclass(frozen=True)
class Eligibility:
    """What the funnel left, and how.

    Attributes:
        concepts: ids that passed every filter, in the order given.
        started: how many went in.
        steps: one per filter, in order.
    """

    concepts: tuple[str, ...]
    started: int
    steps: tuple[Step, ...]


def run_funnel(taxonomy: Taxonomy, concepts: Sequence[str], filters: Sequence[Filter]) -> Eligibility:
    """Put concepts through filters, one after the other."""
    taxonomy.index(concepts)  # an unknown id is an error with advice
    left = tuple(dict.fromkeys(concepts))
    started, steps = len(left), []
    for each in filters:
        dropped = set(each.drop(taxonomy, left))
        left = tuple(c for c in left if c not in dropped)
        steps.append(Step(each.name, len(dropped), len(left)))
    return Eligibility(left, started, tuple(steps))


def cog_filters(
    concepts: Sequence[str],
    seen: Sequence[str],
    *,
    counts: Mapping[str, int] | None = None,
    min_images: int = MIN_IMAGES,
    subtrees: Sequence[str] = (PERSON,),
    discard: Collection[str] | None = None,
) -> list[Filter]:
    """The filters of ImageNet-CoG, in the order of supplement A.1.

    Args:
        concepts: the starting list, which decides what is a leaf.
        seen: concepts trained on.
        counts: images per concept; without it, none is dropped for having few.
        min_images: 782 in the paper, the least that any concept of ImageNet-1K has.
        subtrees: roots of sub-trees to drop whole; `person` in the paper.
        discard: ids to drop; by default the 70 of Table A.
    """
    filters: list[Filter] = [Seen(seen)]
    if counts is not None:
        filters.append(TooFewImages(counts, min_images, f"fewer than {min_images} images"))
    filters += [SubTree(root, f"sub-tree {root}") for root in subtrees]
    filters += [AncestorsOfSeen(seen), NotALeaf(concepts)]
    filters.append(Listed(cog_discarded() if discard is None else discard))
    return filters


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
    """The filters of ImageNet-CoG with what fits the taxonomy: the paper's own figures and lists are those of WordNet.

    Args:
        taxonomy: the graph. On WordNet the defaults are the paper's: 782 images, no `person`, not the 70 of Table A.
            On an ontology of one's own nothing is dropped for its count, its sub-tree or its name unless asked for.
        concepts, seen, counts: as for `cog_filters`.
        min_images, subtrees, discard: given, they go before the defaults.
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
    """The 70 concepts that the authors removed by hand: supplement, Table A."""
    text = (files("unseen.concepts") / "cog_discarded.txt").read_text(encoding="ascii")
    return tuple(line for line in text.split("\n") if line and not line.startswith("#"))
