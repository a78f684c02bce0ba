"""Information content of concepts: how much it says that something is an instance of a concept.

Papers:     Sariyildiz et al., "Concept generalization in visual representation learning", ICCV 2021, section 3.3 [P];
            Resnik, "Using information content to evaluate semantic similarity in a taxonomy", IJCAI 1995 [R]
Shapes:     values (n,) over all concepts of a taxonomy, in nats
Implements: IC(c) = -log p(c), with p(c) as in the text below Eq. (1) of [P], or from frequencies as in [R]
Differs:    nothing; the taxonomy is a graph with several ways up, so each descendant is counted once

[P]: p(c) is the number of concepts under c, c included, over the number of concepts in the corpus; the corpus is a list
of concepts and all their ancestors. [R]: p(c) is the summed frequency of the concepts under c over that of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unseen.concepts.taxonomy import Taxonomy
from unseen.core.errors import TaxonomyError

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class InformationContent:
    """Information content over a taxonomy.

    Attributes:
        taxonomy: what it was computed on.
        values: nats per concept; infinite for a concept that the corpus does not hold.
        weight: mass under each concept: how many concepts of the corpus, or how much frequency.
        total: mass of the whole corpus; the root has all of it.
    """

    taxonomy: Taxonomy
    values: FloatArray
    weight: FloatArray
    total: float

    def of(self, concept: str) -> float:
        """Information content of one concept."""
        return float(self.values[self.taxonomy.index([concept])[0]])

    def __getitem__(self, concept: str) -> float:
        return self.of(concept)


def information_content(
    taxonomy: Taxonomy,
    concepts: Iterable[str] | None = None,
    *,
    frequencies: Mapping[str, float] | None = None,
) -> InformationContent:
    """Information content of every concept of a taxonomy.

    Args:
        taxonomy: the graph.
        concepts: the corpus: these concepts and all their ancestors. By default the whole taxonomy.
        frequencies: how often each concept occurs in a text corpus, say. Excludes `concepts`.
    """
    if frequencies is not None:
        if concepts is not None:
            raise TaxonomyError("give either a list of concepts or frequencies to take information content from.")
        own = _frequencies(taxonomy, frequencies)
    else:
        own = np.ones(len(taxonomy))
        if concepts is not None:
            own = taxonomy.subsumers(taxonomy.index(concepts)).astype(np.float64)
    holders = np.flatnonzero(own)
    if not len(holders):
        raise TaxonomyError("information content needs a corpus: the list of concepts or frequencies is empty.")
    closure = taxonomy.closure(holders)
    mass = own[holders][closure.item]
    weight = np.bincount(closure.node, weights=mass, minlength=len(taxonomy)).astype(np.float64)
    total = float(own.sum())
    with np.errstate(divide="ignore"):
        # -log p(c), section 3.3; the root, and whatever else holds the whole corpus, gets 0 and not -0.
        values = np.where(weight >= total, 0.0, -np.log(weight / total))
    return InformationContent(taxonomy, values, weight, total)


def _frequencies(taxonomy: Taxonomy, frequencies: Mapping[str, float]) -> FloatArray:
    own = np.zeros(len(taxonomy))
    own[taxonomy.index(frequencies)] = list(frequencies.values())
    if not np.isfinite(own).all() or (own < 0).any():
        bad = taxonomy.ids[int(np.flatnonzero(~np.isfinite(own) | (own < 0))[0])]
        raise TaxonomyError(f"the frequency of {bad!r} is {frequencies[bad]}. It must be a number, 0 or more.")
    return own
