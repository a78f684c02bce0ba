"""Generalization levels: groups of unseen concepts, increasingly distant from the seen ones.

Paper:      Sariyildiz et al., ICCV 2021, section 3.3 and Fig. 2 [P], supplement D.1 [S]
Implements: ranking by Eq. (2) of [P]; runs of equal size spread over the whole ranked list; re-ranking of the chosen
            concepts by another measure and random control levels [S]
Differs:    [P] does not state how gaps are rounded: run i of k starts at floor(i (n - size) / (k - 1)). Ties are broken
            by id. The corpus of the information content is fixed (`corpus_information`), so that levels do not depend
            on the synsets of the user's copy
Expected:   5,146 eligible concepts give 5 levels of 1,000 and 146 in the four gaps; 15 control levels
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from unseen.concepts.information import InformationContent, corpus_information
from unseen.concepts.similarity import SimilarityFunction, nearest_seen
from unseen.concepts.taxonomy import Taxonomy
from unseen.core.errors import DataError, TaxonomyError
from unseen.core.guard import guarded

FORMAT = "unseen-levels/1"
_COMMAND = "unseen cog levels"


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
        """Mean over the concepts; NaN if no similarity is known."""
        known = [c.similarity for c in self.concepts if c.similarity is not None]
        return float(np.mean(known)) if known else float("nan")


@dataclass(frozen=True)
class Levels:
    """A list of levels and the concepts between them.

    Attributes:
        levels: from the nearest to the farthest.
        gaps: concepts that fell between two levels, one tuple per gap.
        measure: the measure that ranked them.
        details: further information, as JSON values.
    """

    levels: tuple[Level, ...]
    gaps: tuple[tuple[RankedConcept, ...], ...] = ()
    measure: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def ids(self) -> tuple[str, ...]:
        """All concepts of all levels."""
        return tuple(concept for level in self.levels for concept in level.ids)

    def save(self, path: str | PathLike[str]) -> None:
        """Write a JSON file; the same levels give the same bytes."""
        content = {
            "format": FORMAT,
            "measure": self.measure,
            "columns": ["id", "similarity", "nearest"],
            "levels": [{"name": level.name, "concepts": [*map(astuple, level.concepts)]} for level in self.levels],
            "gaps": [[*map(astuple, gap)] for gap in self.gaps],
            "details": self.details,
        }
        try:
            Path(path).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise DataError(f"cannot write the levels {path}: {error.strerror}.") from None

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Levels:
        """Read a file that `save` wrote."""

        def ranked(rows: Iterable[Sequence[Any]]) -> tuple[RankedConcept, ...]:
            return tuple(RankedConcept(*row) for row in rows)

        with guarded(path, "levels", advice="It is damaged. Make it again with: unseen cog levels"):
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            if not isinstance(content, dict) or content.get("format") != FORMAT:
                raise DataError(
                    f"{path} is not a levels file: its format must be {FORMAT!r}. Make one with: {_COMMAND}"
                )
            levels = tuple(Level(level["name"], ranked(level["concepts"])) for level in content["levels"])
            return cls(levels, tuple(map(ranked, content["gaps"])), content["measure"], content["details"])


def level_starts(count: int, levels: int, size: int) -> list[int]:
    """Return where each run begins in a ranked list of `count`: the first at its start, the last at its end."""
    if levels < 1 or size < 1:
        raise DataError(f"levels and their size must be at least 1, not {levels} of {size}.")
    if levels * size > count:
        raise DataError(
            f"{levels} levels of {size:,} need {levels * size:,} concepts, and {count:,} are eligible. Use "
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
    ic: InformationContent | None = None,
) -> Levels:
    """Rank unseen concepts by similarity to the seen ones and cut the list into levels.

    Args:
        taxonomy: the graph.
        concepts: eligible unseen concepts.
        seen: concepts that models were trained on.
        levels, size: number of levels, and of concepts in each.
        measure: a name that `similarity_matrix` knows, or a function from two lists of ids to their matrix.
        ic: information content; by default that of the fixed corpus of ImageNet-CoG in WordNet, or of the whole of
            another taxonomy.
    """
    both = set(seen).intersection(concepts)
    if both:
        raise TaxonomyError(f"{len(both)} concepts are both seen and unseen, such as {min(both)!r}. Drop them first.")
    starts = level_starts(len(concepts), levels, size)
    ranked = _rank(taxonomy, concepts, seen, measure, ic)
    ends = [start + size for start in starts]
    return Levels(
        tuple(Level(f"L{i + 1}", ranked[a:b]) for i, (a, b) in enumerate(zip(starts, ends, strict=True))),
        tuple(ranked[a:b] for a, b in zip(ends[:-1], starts[1:], strict=True)),
        _measure_name(measure),
    )


def rerank_levels(
    base: Levels,
    taxonomy: Taxonomy,
    seen: Sequence[str],
    measure: str | SimilarityFunction,
    *,
    ic: InformationContent | None = None,
) -> Levels:
    """Return levels of the same concepts and sizes, ranked by another measure (supplement D.1).

    Information content, for measures that use it, is that of `build_levels` unless `ic` is given.
    """
    rest = iter(_rank(taxonomy, base.ids, seen, measure, ic))
    cut = tuple(Level(level.name, tuple(islice(rest, len(level.concepts)))) for level in base.levels)
    return Levels(cut, (), _measure_name(measure))


def random_levels(concepts: Sequence[str], *, draws: int = 15, size: int = 1000, seed: int = 0) -> Levels:
    """Return control levels: independent random samples of `size` unseen concepts each (15 in supplement D.1)."""
    if size > len(concepts):
        raise DataError(f"cannot sample {size:,} of {len(concepts):,} concepts. Use a smaller size.")
    pool = sorted(set(concepts))
    levels = []
    for i in range(draws):
        # One generator per level: more levels do not change the first ones.
        chosen = np.random.default_rng([seed, i]).choice(len(pool), size, replace=False)
        levels.append(Level(f"R{i + 1}", tuple(RankedConcept(pool[k]) for k in sorted(chosen.tolist()))))
    return Levels(tuple(levels), (), "random", {"seed": seed})


def _rank(
    taxonomy: Taxonomy,
    concepts: Sequence[str],
    seen: Sequence[str],
    measure: str | SimilarityFunction,
    ic: InformationContent | None,
) -> tuple[RankedConcept, ...]:
    """Return concepts from most to least similar to the seen ones."""
    found = nearest_seen(taxonomy, concepts, seen, measure, ic=ic or corpus_information(taxonomy))
    return tuple(
        RankedConcept(found.concepts[i], float(found.similarity[i]), found.nearest[i]) for i in found.ranking().tolist()
    )


def _measure_name(measure: str | SimilarityFunction) -> str:
    return measure if isinstance(measure, str) else getattr(measure, "__name__", "custom")
