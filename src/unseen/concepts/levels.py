"""Generalization levels: groups of unseen concepts, ever further from the seen ones.

Paper:      Sariyildiz et al., ICCV 2021, section 3.3 and Fig. 2 [P], supplement D.1 [S]
Implements: ranking by Eq. (2) of [P]; runs of equal size spread over the whole ranked list; re-ranking of the chosen
            concepts by another measure and random control levels [S]
Differs:    [P] does not say how gaps are rounded: run i of k starts at floor(i (n - size) / (k - 1)). Ties go by id.
            The corpus of the information content is pinned (`unseen.concepts.corpus`), so that levels do not depend
            on which synsets lie on the disk
Expected:   5,146 eligible concepts give 5 levels of 1,000 and 146 left over in the four gaps; 15 control levels
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from unseen.concepts.corpus import corpus_information
from unseen.concepts.information import InformationContent, information_content
from unseen.concepts.nearest import Nearest, SimilarityFunction, nearest_seen
from unseen.concepts.taxonomy import Taxonomy
from unseen.core.errors import DataError, TaxonomyError
from unseen.core.guard import guarded

FORMAT = "unseen-levels/1"


@dataclass(frozen=True)
class RankedConcept:
    """An unseen concept with its similarity to the seen ones and the seen one it is nearest to."""

    id: str
    similarity: float | None = None
    nearest: str | None = None


@dataclass(frozen=True)
class Level:
    """One generalization level: concepts from most to least similar."""

    name: str
    concepts: tuple[RankedConcept, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(concept.id for concept in self.concepts)

    @property
    def mean_similarity(self) -> float:
        """Mean over the concepts; not a number where similarities are not known."""
        known = [c.similarity for c in self.concepts if c.similarity is not None]
        return float(np.mean(known)) if known else float("nan")


@dataclass(frozen=True)
class Levels:
    """A list of levels and what was left between them.

    Attributes:
        levels: from the nearest to the farthest.
        gaps: concepts that fell between two levels, one tuple per gap.
        measure: how they were ranked.
        details: whatever else the maker wants to keep, JSON values.
    """

    levels: tuple[Level, ...]
    gaps: tuple[tuple[RankedConcept, ...], ...] = ()
    measure: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def ids(self) -> tuple[str, ...]:
        """All concepts of all levels."""
        return tuple(concept for level in self.levels for concept in level.ids)

    def __getitem__(self, name: str) -> Level:
        for level in self.levels:
            if level.name.lower() == name.lower():
                return level
        raise DataError(f"there is no level {name!r}. There are: {', '.join(level.name for level in self.levels)}.")

    def to_dict(self) -> dict[str, Any]:
        def rows(concepts: Sequence[RankedConcept]) -> list[list[Any]]:
            return [[c.id, c.similarity, c.nearest] for c in concepts]

        return {
            "format": FORMAT,
            "measure": self.measure,
            "columns": ["id", "similarity", "nearest"],
            "levels": [{"name": level.name, "concepts": rows(level.concepts)} for level in self.levels],
            "gaps": [rows(gap) for gap in self.gaps],
            "details": self.details,
        }

    @classmethod
    def from_dict(cls, content: Any) -> Levels:
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise DataError(f"not a levels file: its format must be {FORMAT!r}. Make one with: unseen cog levels")
        try:
            levels = tuple(
                Level(level["name"], tuple(RankedConcept(*row) for row in level["concepts"]))
                for level in content["levels"]
            )
            gaps = tuple(tuple(RankedConcept(*row) for row in gap) for gap in content["gaps"])
            return cls(levels, gaps, content["measure"], content["details"])
        except (KeyError, TypeError) as error:
            raise DataError(f"a damaged levels file: {error}. Make it anew with: unseen cog levels") from None

    def save(self, path: str | PathLike[str]) -> None:
        """Write JSON; the same levels give the same bytes."""
        try:
            Path(path).write_text(json.dumps(self.to_dict(), indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise DataError(f"cannot write the levels {path}: {error.strerror}.") from None

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Levels:
        """Read what `save` wrote."""
        with guarded(path, "levels", advice="Make them with: unseen cog levels"):
            return cls.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))


def level_starts(count: int, levels: int, size: int) -> list[int]:
    """Where each run begins in a ranked list of `count`: the first at its start, the last at its end."""
    if levels < 1 or size < 1:
        raise DataError(f"levels and their size must be at least 1; asked for {levels} of {size}.")
    if levels * size > count:
        raise DataError(
            f"{levels} levels of {size:,} need {levels * size:,} concepts, and {count:,} are eligible. Ask for "
            f"fewer or smaller levels (at most {count // levels:,} each), or loosen the filters."
        )
    return [i * (count - size) // max(levels - 1, 1) for i in range(levels)]


def build_levels(
    taxonomy: Taxonomy,
    concepts: Sequence[str],
    seen: Sequence[str],
    *,
    levels: int = 5,
    size: int = 1000,
    measure: str | SimilarityFunction = "lin",
    corpus: Sequence[str] | None = None,
    ic: InformationContent | None = None,
) -> Levels:
    """Rank unseen concepts by similarity to the seen ones and cut the list into levels.

    Args:
        taxonomy: the graph.
        concepts: eligible unseen concepts.
        seen: concepts trained on.
        levels, size: how many levels of how many concepts.
        measure: a name that `similarity_matrix` knows, or a function from two lists of ids to their matrix.
        corpus: what to take information content from, with `concepts` and `seen`; by default the pinned corpus of
            ImageNet-CoG in WordNet, the whole of another taxonomy.
        ic: information content, if you have it already; goes before `corpus`.
    """
    both = set(seen).intersection(concepts)
    if both:
        raise TaxonomyError(f"{len(both)} concepts are both seen and unseen, such as {min(both)!r}. Drop them first.")
    starts = level_starts(len(concepts), levels, size)
    if ic is None:
        given = information_content(taxonomy, [*corpus, *concepts, *seen]) if corpus is not None else None
        ic = given or corpus_information(taxonomy)
    ranked = _ranked(nearest_seen(taxonomy, concepts, seen, measure, ic=ic))
    ends = [start + size for start in starts]
    return Levels(
        tuple(Level(f"L{i + 1}", ranked[a:b]) for i, (a, b) in enumerate(zip(starts, ends, strict=True))),
        tuple(ranked[a:b] for a, b in zip(ends[:-1], starts[1:], strict=True)),
        measure if isinstance(measure, str) else getattr(measure, "__name__", "custom"),
    )


def rerank_levels(
    base: Levels,
    taxonomy: Taxonomy,
    seen: Sequence[str],
    measure: str | SimilarityFunction,
    *,
    ic: InformationContent | None = None,
) -> Levels:
    """The same concepts in levels of the same sizes, ranked by another measure (supplement D.1).

    Information content, for measures that take it, is that of `build_levels` unless `ic` is given.
    """
    ranked = _ranked(nearest_seen(taxonomy, base.ids, seen, measure, ic=ic or corpus_information(taxonomy)))
    sizes = [len(level.concepts) for level in base.levels]
    ends = np.cumsum(sizes).tolist()
    cut = tuple(
        Level(level.name, ranked[end - size : end]) for level, size, end in zip(base.levels, sizes, ends, strict=True)
    )
    return Levels(cut, (), measure if isinstance(measure, str) else getattr(measure, "__name__", "custom"))


def random_levels(concepts: Sequence[str], *, draws: int = 15, size: int = 1000, seed: int = 0) -> Levels:
    """Control levels: independent random draws of `size` unseen concepts each (supplement D.1 has 15)."""
    if size > len(concepts):
        raise DataError(f"cannot draw {size:,} of {len(concepts):,} concepts. Ask for a smaller size.")
    pool = sorted(set(concepts))
    drawn = []
    for i in range(draws):
        # One generator per draw: asking for more draws does not change the first ones.
        chosen = np.random.default_rng([seed, i]).choice(len(pool), size, replace=False)
        drawn.append(Level(f"R{i + 1}", tuple(RankedConcept(pool[k]) for k in sorted(chosen.tolist()))))
    return Levels(tuple(drawn), (), "random", {"seed": seed})


def _ranked(nearest: Nearest) -> tuple[RankedConcept, ...]:
    return tuple(
        RankedConcept(nearest.concepts[i], float(nearest.similarity[i]), nearest.nearest[i])
        for i in nearest.ranking().tolist()
    )
