"""Information content of concepts, and the fixed corpus that ImageNet-CoG computes it from.

Papers:     Sariyildiz et al., "Concept generalization in visual representation learning", ICCV 2021, section 3.3 [P],
            supplement A.2 (the corpus) and E (the release of 2021) [S]
Shapes:     values (n,) over all concepts of a taxonomy, in nats
Implements: IC(c) = -log p(c), with p(c) as in the text below Eq. (1) of [P]
            In WordNet the corpus is the 21,841 synsets of the Fall 2011 release and all their ancestors, for any data:
            the Winter 2021 release lacks most of the `person` sub-tree, and [S] states that the benchmark is the same
Differs:    the taxonomy is a graph with several paths upwards, so each descendant counts once. ImageNet-1K belongs to
            the corpus too, which adds one synset, n04399382 (teddy). A synset outside the corpus, in the user's own
            dataset, does not change it: its weight is one concept, or half of its rarest parent if that is less, so
            that a concept has more information than its ancestors
Expected:   23,547 concepts in the corpus

[P]: p(c) is the number of concepts under c, c included, over the number of concepts in the corpus; the corpus is a list
of concepts and all their ancestors.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np

from unseen.concepts.imagenet import imagenet_1k, imagenet_21k
from unseen.concepts.taxonomy import Taxonomy
from unseen.concepts.wordnet import WordNet
from unseen.core.arrays import FloatArray
from unseen.core.errors import TaxonomyError


@dataclass(frozen=True, eq=False)
class InformationContent:
    """Information content over a taxonomy.

    Attributes:
        values: nats per concept; infinite for a concept outside the corpus.
        weight: number of concepts of the corpus under each concept.
        total: weight of the whole corpus, which is that of the root.
    """

    taxonomy: Taxonomy
    values: FloatArray
    weight: FloatArray
    total: float

    def __getitem__(self, concept: str) -> float:
        """Return the information content of one concept."""
        return float(self.values[self.taxonomy.index([concept])[0]])


def information_content(taxonomy: Taxonomy, concepts: Iterable[str] | None = None) -> InformationContent:
    """Compute the information content of every concept of a taxonomy.

    Args:
        taxonomy: the graph.
        concepts: the corpus: these concepts and all their ancestors. By default the whole taxonomy.
    """
    own = (
        np.ones(len(taxonomy)) if concepts is None else taxonomy.subsumers(taxonomy.index(concepts)).astype(np.float64)
    )
    holders = np.flatnonzero(own)
    if not len(holders):
        raise TaxonomyError("information content needs a corpus: the list of concepts is empty.")
    closure = taxonomy.closure(holders)
    weight = np.bincount(closure.node, minlength=len(taxonomy)).astype(np.float64)
    total = float(len(holders))
    with np.errstate(divide="ignore"):
        # -log p(c), section 3.3; a concept above the whole corpus, such as the root, gets 0 and not -0.
        values = np.where(weight >= total, 0.0, -np.log(weight / total))
    return InformationContent(taxonomy, values, weight, total)


def corpus_information(taxonomy: Taxonomy) -> InformationContent:
    """Return the information content over the fixed corpus in WordNet, or over the whole of another taxonomy."""
    return _pinned(taxonomy) if isinstance(taxonomy, WordNet) else taxonomy.information


@cache
def _pinned(wordnet: WordNet) -> InformationContent:
    corpus = information_content(wordnet, [*imagenet_21k(), *imagenet_1k()])
    weight = corpus.weight.copy()
    outside = np.flatnonzero(weight == 0)
    # A concept outside the corpus has a weight of its own; parents before children.
    for node in outside[np.argsort(wordnet.max_depth[outside], kind="stable")].tolist():
        above = wordnet.parent_index[wordnet.parent_start[node] : wordnet.parent_start[node + 1]]
        weight[node] = min(1.0, 0.5 * float(weight[above].min()))
    values = np.where(weight >= corpus.total, 0.0, -np.log(weight / corpus.total))
    return InformationContent(wordnet, values, weight, corpus.total)
