"""Unseen concepts of ImageNet: those eligible for the levels of CoG, and the test splits of zero-shot learning.

Paper:      Sariyildiz et al., ICCV 2021, section 3.2 and supplement A.1 [P]; Xian et al., "Zero-shot learning: a
            comprehensive evaluation of the good, the bad and the ugly", TPAMI 2018, section 5.2 [X]
Implements: the steps of [P] as filters, which the caller can omit, change or extend; the splits of [X]: classes 2 and
            3 hops from ImageNet-1K, the 500, 1K, 5K most and least populated, all with an image
Differs:    "Not a leaf" follows the supplement of [P]: a concept is dropped if any concept of the whole starting list
            is below it, not only an eligible one. [X] counts hops in ImageNet's release tree. Its lists are public as
            files; measured on WordNet, their "2 hops" are one edge away in the undirected is-a graph (1,548 of 1,549)
            and their "3 hops" two edges or one (5,982 of 7,860); the rest are children of the root of the release tree
            and cannot be derived from WordNet. So a split here is a distance in edges, and a published list is read
            from its file
Expected:   from the 21,841 concepts of ImageNet-21K (Fall 2011) exactly 5,146 are left
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from os import PathLike
from pathlib import Path

from unseen.concepts.mapping import read_class_list
from unseen.concepts.taxonomy import Taxonomy
from unseen.concepts.wordnet import WordNet
from unseen.core.arrays import IntArray
from unseen.core.errors import DataError, UnknownNameError
from unseen.core.guard import reader

PERSON = "n00007846"
MIN_IMAGES = 782
POPULATED = {"500": 500, "1k": 1_000, "5k": 5_000}


@dataclass(frozen=True)
class Filter:
    """A step of the funnel: its name, and a function from a taxonomy and concepts to those to drop."""

    name: str
    drop: Callable[[Taxonomy, Sequence[str]], Collection[str]]


def listed(concepts: Collection[str], name: str = "listed by hand") -> Filter:
    """Drop listed concepts."""
    return Filter(name, lambda taxonomy, left: set(concepts).intersection(left))


def too_few_images(counts: Mapping[str, int], least: int = MIN_IMAGES) -> Filter:
    """Drop concepts with fewer images than `least`."""
    return Filter(f"fewer than {least} images", lambda taxonomy, left: {c for c in left if counts.get(c, 0) < least})


def sub_tree(root: str) -> Filter:
    """Drop `root` and everything below it."""
    return Filter(f"sub-tree {root}", lambda taxonomy, left: {root, *taxonomy.descendants(root)}.intersection(left))


def above(below: Sequence[str] | None = None, name: str = "not a leaf") -> Filter:
    """Drop everything above other concepts, as cat is above tiger cat.

    Args:
        below: the concepts that may be below; by default those still in the funnel, so that its leaves stay.
    """
    return Filter(name, lambda taxonomy, left: taxonomy.ancestors(left if below is None else below).intersection(left))


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
    """Return the filters of ImageNet-CoG, in the order of supplement A.1.

    Args:
        taxonomy: the graph. On WordNet the defaults are the paper's: 782 images, no `person`, not the 70 of Table A.
            On another ontology no concept is dropped for its count, its sub-tree or its name by default.
        concepts: the starting list, which decides what is a leaf.
        seen: concepts that models were trained on.
        counts: images per concept; without it, no concept is dropped for its number of images.
        min_images: 782 in the paper, the smallest number of any concept of ImageNet-1K.
        subtrees: roots of sub-trees to drop.
        discard: ids to drop.
    """
    paper = isinstance(taxonomy, WordNet)
    if min_images is None:
        min_images = MIN_IMAGES if paper else 0
    if subtrees is None:
        subtrees = (PERSON,) if paper else ()
    if discard is None:
        discard = cog_discarded() if paper else ()
    filters = [listed(seen, "seen")]
    filters += [too_few_images(counts, min_images)] if counts is not None and min_images > 0 else []
    filters += [sub_tree(root) for root in subtrees]
    return [*filters, above(seen, "ancestors of seen"), above(concepts), listed(discard)]


@cache
def cog_discarded() -> tuple[str, ...]:
    """Return the 70 concepts that the authors removed by hand: supplement, Table A."""
    text = (files("unseen.concepts") / "cog_discarded.txt").read_text(encoding="ascii")
    return tuple(line for line in text.split("\n") if line and not line.startswith("#"))


# ---- test splits of zero-shot learning -------------------------------------------------------------------------------


def graph_distance(taxonomy: Taxonomy, sources: Sequence[str], *, limit: int | None = None) -> IntArray:
    """Return the edges from each concept to the nearest source, in both directions; -1 beyond `limit`."""
    return taxonomy.distances(taxonomy.index(sources), taxonomy.parent_rows, taxonomy.child_rows, limit=limit)


def imagenet_zeroshot_split(name: str, taxonomy: Taxonomy, counts: Mapping[str, int], seen: Sequence[str]) -> list[str]:
    """Return a test split by its name.

    Args:
        name: "2-hops" or "3-hops" (one edge, at most two edges: see the header), "most-500", "most-1k", "most-5k",
            "least-500", "least-1k", "least-5k", "all".
        taxonomy: WordNet.
        counts: images per concept of the release.
        seen: the training concepts, ImageNet-1K.
    """
    unseen = sorted(set(counts).difference(seen))
    populated = [c for c in unseen if counts[c] > 0]
    if name == "all":
        return populated
    if name in ("2-hops", "3-hops"):
        distance = graph_distance(taxonomy, seen, limit=int(name[0]) - 1)[taxonomy.index(unseen)]
        return [c for c, edges in zip(unseen, distance, strict=True) if edges > 0]
    kind, _, size = name.partition("-")
    if kind in ("most", "least") and size in POPULATED:
        if POPULATED[size] > len(populated):
            raise DataError(f"{name}: {POPULATED[size]:,} concepts are needed, {len(populated):,} unseen have images.")
        sign = -1 if kind == "most" else 1
        return sorted(populated, key=lambda c: (sign * counts[c], c))[: POPULATED[size]]  # ties are broken by id
    known = ["all", "2-hops", "3-hops", *(f"{k}-{s}" for k in ("most", "least") for s in POPULATED)]
    raise UnknownNameError("zero-shot split", name, known)


@reader("a split")
def read_split(path: str | PathLike[str], name: str | None = None) -> list[str]:
    """Read a split: a class list (see `unseen.concepts.mapping`), or a JSON object from split name to classes.

    Args:
        name: the split of a JSON object; not needed if it has only one.
    """
    path = Path(path)
    if path.suffix != ".json":
        return read_class_list(path)
    content = json.loads(path.read_text(encoding="utf-8-sig"))
    if isinstance(content, dict):
        if name is None and len(content) == 1:
            (name,) = content
        if name is None or name not in content:
            wrong = "one list of classes is needed" if name is None else f"{name!r} is not one of them"
            raise DataError(f"{path} has the splits {', '.join(content)}; {wrong}.")
        content = content[name]
    if not isinstance(content, list) or not all(isinstance(concept, str) for concept in content):
        raise DataError(f"{path}: a split is a list of class names or WordNet ids.")
    return content
