"""The corpus that information content is taken from: of ImageNet-CoG, always the same one.

Paper:      Sariyildiz et al., ICCV 2021, supplement A.2 (the corpus) and E (the release of 2021) [S]
Implements: in WordNet the corpus is the 21,841 synsets of the Fall 2011 release and all their ancestors, whatever lies
            on the disk: the Winter 2021 release lacks most of the `person` sub-tree, and [S] says that the benchmark
            is the same
Differs:    ImageNet-1K belongs to it too, which adds one synset, n04399382 (teddy). A synset outside the corpus, as a
            dataset of one's own may have, does not change it: it counts as one concept, or half as much as its rarest
            parent where that is less, so that what is below has more information than what is above
Expected:   23,547 concepts
"""

from __future__ import annotations

from functools import cache

import numpy as np

from unseen.concepts.imagenet import imagenet_1k, imagenet_21k
from unseen.concepts.information import FloatArray, InformationContent, information_content
from unseen.concepts.taxonomy import Taxonomy
from unseen.concepts.wordnet import WordNet


def corpus_information(taxonomy: Taxonomy) -> InformationContent:
    """Information content as ImageNet-CoG takes it: of WordNet over the pinned corpus, else over the whole taxonomy."""
    return _pinned(taxonomy) if isinstance(taxonomy, WordNet) else taxonomy.information


@cache
def _pinned(wordnet: WordNet) -> InformationContent:
    corpus = information_content(wordnet, [*imagenet_21k(), *imagenet_1k()])
    weight = _with_outsiders(wordnet, corpus.weight)
    # -log p(c), section 3.3; the root has the whole corpus under it: 0, and not -0.
    values = np.where(weight >= corpus.total, 0.0, -np.log(weight / corpus.total))
    return InformationContent(wordnet, values, weight, corpus.total)


def _with_outsiders(taxonomy: Taxonomy, weight: FloatArray) -> FloatArray:
    """Weights in which concepts outside the corpus, which have none, get one; the others keep theirs."""
    result = weight.astype(np.float64)
    outside = np.flatnonzero(weight == 0)
    # From the top down, so that the weights of parents are known.
    for node in outside[np.argsort(taxonomy.max_depth[outside], kind="stable")].tolist():
        above = taxonomy.parent_index[taxonomy.parent_start[node] : taxonomy.parent_start[node + 1]]
        result[node] = min(1.0, 0.5 * float(result[above].min()))
    return result
