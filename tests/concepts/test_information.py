"""Information content: the paper's definition."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unseen.concepts import Taxonomy, WordNet, imagenet_21k, information_content
from unseen.core.errors import TaxonomyError


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.integers(2, 30), chosen=st.integers(1, 10))
def test_equals_a_naive_count(
    random_taxonomy: Callable[[int, int], Taxonomy], seed: int, size: int, chosen: int
) -> None:
    taxonomy = random_taxonomy(seed, size)
    given_ones = sorted(taxonomy.ids)[:: max(1, size // chosen)]
    corpus = set(given_ones).union(*(taxonomy.ancestors(c) for c in given_ones))
    ic = information_content(taxonomy, given_ones)
    assert ic.total == len(corpus)
    for concept in taxonomy.ids:
        under = len(corpus.intersection({concept, *taxonomy.descendants(concept)}))
        expected = -math.log(under / len(corpus)) if under else math.inf
        assert ic[concept] == pytest.approx(expected, abs=1e-12)


def test_descendants_count_once() -> None:
    """d hangs from b and from c; the root a still has four concepts under it, not five."""
    diamond = Taxonomy.from_edges([("b", "a"), ("c", "a"), ("d", "b"), ("d", "c")])
    ic = information_content(diamond)
    assert ic.weight[diamond.index(["a"])[0]] == 4
    assert ic["b"] == pytest.approx(math.log(2))


def test_imagenet_corpus(wordnet: WordNet) -> None:
    ic = information_content(wordnet, imagenet_21k())
    assert ic["n00001740"] == 0.0 and not np.signbit(ic.values[0])
    assert ic.total == 23_546
    assert math.isinf(ic[wordnet.find("happiness")])
    for concept in ("n02123045", "n02121808"):
        assert all(ic[parent] < ic[concept] for parent in wordnet.parents(concept))


def test_bad_corpora() -> None:
    chain = Taxonomy.from_edges([("b", "a")])
    with pytest.raises(TaxonomyError, match="empty"):
        information_content(chain, [])
    with pytest.raises(TaxonomyError, match="not a concept"):
        information_content(chain, ["c"])
