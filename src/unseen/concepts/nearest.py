"""Similarity of a concept to a set of seen concepts, with the seen concept that it comes from.

Paper:      Sariyildiz et al., ICCV 2021, Eq. (2): the greatest similarity to any seen concept
Shapes:     n concepts; similarity (n,) float64, nearest n ids
Differs:    nothing; among equally similar seen concepts the smallest id is named
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unseen.concepts.information import InformationContent
from unseen.concepts.similarity import similarity_matrix
from unseen.concepts.taxonomy import Taxonomy
from unseen.core.errors import TaxonomyError

FloatArray = npt.NDArray[np.float64]
SimilarityFunction = Callable[[Sequence[str], Sequence[str]], FloatArray]

# Differences below this are rounding of the logarithm, which differs between machines; similarities are compared
# after rounding so that a ranking does not.
DECIMALS = 12
_BLOCK = 4_096


@dataclass(frozen=True, eq=False)
class Nearest:
    """For each of a list of concepts, the seen concept most similar to it.

    Attributes:
        concepts: what was asked for, in that order.
        similarity: to the nearest seen concept, Eq. (2).
        nearest: id of that concept.
    """

    concepts: tuple[str, ...]
    similarity: FloatArray
    nearest: tuple[str, ...]

    def ranking(self) -> npt.NDArray[np.int64]:
        """Positions from most to least similar; equal similarities in the order of the ids."""
        return np.lexsort((np.array(self.concepts, dtype=np.str_), -np.round(self.similarity, DECIMALS)))


def nearest_seen(
    taxonomy: Taxonomy,
    concepts: Sequence[str],
    seen: Sequence[str],
    measure: str | SimilarityFunction = "lin",
    *,
    ic: InformationContent | None = None,
) -> Nearest:
    """The nearest seen concept of every concept.

    Args:
        taxonomy: the graph.
        concepts: ids to look at.
        seen: ids of the seen concepts.
        measure: a name that `similarity_matrix` knows, or a function from two lists of ids to their matrix.
        ic: information content for measures that take it; by default that of the whole taxonomy.
    """
    if not seen:
        raise TaxonomyError("the list of seen concepts is empty, so nothing can be near it.")
    ordered = sorted(set(seen))

    def matrix(block: Sequence[str]) -> FloatArray:
        if isinstance(measure, str):
            return similarity_matrix(taxonomy, block, ordered, measure, ic=ic)
        return np.asarray(measure(block, ordered), dtype=np.float64)

    best = np.empty(len(concepts))
    place = np.empty(len(concepts), dtype=np.int64)
    for start in range(0, len(concepts), _BLOCK):
        block = matrix(concepts[start : start + _BLOCK])
        rows = slice(start, start + len(block))
        place[rows] = np.round(block, DECIMALS).argmax(axis=1)
        best[rows] = block[np.arange(len(block)), place[rows]]  # Eq. (2)
    return Nearest(tuple(concepts), best, tuple(ordered[i] for i in place))
