"""Similarities against naive definitions on random graphs, their properties, and the paper's example."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unseen.concepts import (
    MEASURES,
    InformationContent,
    Taxonomy,
    WordNet,
    imagenet_21k,
    information_content,
    similarity_matrix,
)
from unseen.core.errors import TaxonomyError, UnknownNameError


def pair_similarity(
    taxonomy: Taxonomy, x: str, y: str, measure: str = "lin", *, ic: InformationContent | None = None
) -> float:
    return float(similarity_matrix(taxonomy, [x], [y], measure, ic=ic)[0, 0])


class Naive:
    """Every measure by sets and dictionaries, one pair at a time, straight from its definition."""

    def __init__(self, taxonomy: Taxonomy) -> None:
        self.taxonomy = taxonomy
        total = len(taxonomy)
        self.ic = {c: -math.log((1 + len(taxonomy.descendants(c))) / total) for c in taxonomy.ids}
        self.up = {c: self._distances(c) for c in taxonomy.ids}
        root = taxonomy.roots[0]
        self.shallow = {c: self.up[c][root] for c in taxonomy.ids}
        self.deep = {c: self._deepest(c) for c in taxonomy.ids}

    def _distances(self, concept: str) -> dict[str, int]:
        found, frontier = {concept: 0}, [concept]
        while frontier:
            beyond = []
            for node in frontier:
                for parent in self.taxonomy.parents(node):
                    if parent not in found:
                        found[parent] = found[node] + 1
                        beyond.append(parent)
            frontier = beyond
        return found

    def _deepest(self, concept: str) -> int:
        return max((1 + self._deepest(p) for p in self.taxonomy.parents(concept)), default=0)

    def distance(self, x: str, y: str) -> int:
        return min(self.up[x][s] + self.up[y][s] for s in set(self.up[x]) & set(self.up[y]))

    def __call__(self, measure: str, x: str, y: str) -> float:
        shared = set(self.up[x]) & set(self.up[y])
        content = max(self.ic[s] for s in shared)
        total = self.ic[x] + self.ic[y]
        if measure == "resnik":
            return content
        if measure == "lin":
            return 2 * content / total if total > 0 else 1.0
        if measure == "jiang-conrath":
            if x == y:
                return math.inf
            if self.ic[x] == 0 or self.ic[y] == 0:
                return 0.0
            return 1 / (total - 2 * content) if abs(total - 2 * content) > 1e-12 else math.inf
        depth = max(self.shallow[s] for s in shared)
        best = sorted(s for s in shared if self.shallow[s] == depth)
        subsumer = x if x in best else best[0]
        level = self.deep[subsumer] + 1
        return 2 * level / (2 * level + self.distance(x, subsumer) + self.distance(y, subsumer))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 100_000), size=st.integers(2, 25), measure=st.sampled_from(list(MEASURES)))
def test_equals_the_naive_definition(
    random_taxonomy: Callable[[int, int], Taxonomy], seed: int, size: int, measure: str
) -> None:
    taxonomy = random_taxonomy(seed, size)
    naive = Naive(taxonomy)
    ids = list(taxonomy.ids)
    got = similarity_matrix(taxonomy, ids, ids, measure)
    expected = np.array([[naive(measure, x, y) for y in ids] for x in ids])
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 100_000), size=st.integers(2, 25))
def test_properties_of_lin(random_taxonomy: Callable[[int, int], Taxonomy], seed: int, size: int) -> None:
    taxonomy = random_taxonomy(seed, size)
    ids = list(taxonomy.ids)
    lin = similarity_matrix(taxonomy, ids, ids)
    np.testing.assert_allclose(np.diag(lin), 1.0)
    np.testing.assert_allclose(lin, lin.T)
    assert (lin >= 0).all() and (lin <= 1 + 1e-12).all()
    order = np.random.default_rng(seed).permutation(size)
    permuted = similarity_matrix(taxonomy, [ids[i] for i in order], ids)
    np.testing.assert_array_equal(permuted, lin[order])


@pytest.mark.parametrize("measure", MEASURES)
def test_pairs_equal_the_matrix(wordnet: WordNet, measure: str) -> None:
    a, b = ["n02123045", "n02084071"], ["n02121808", "n04379243", "n02123045"]
    matrix = similarity_matrix(wordnet, a, b, measure)
    assert matrix.shape == (2, 3) and matrix.dtype == np.float64
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            assert pair_similarity(wordnet, x, y, measure) == matrix[i, j]


def test_five_concepts_ever_further_from_tiger_cat(wordnet: WordNet) -> None:
    """As in Fig. 1 (a) of the paper. Its text does not name the five; these are ours, one step wider each time."""
    five = ["Angora", "cheetah", "bear", "salmon", "bookcase"]
    senses = {"Angora": "n02123917", "cheetah": "n02130308", "bear": "n02131653", "salmon": "n02534734"}
    ids = [senses.get(name, "") or wordnet.find(name) for name in five]
    ic = information_content(wordnet, imagenet_21k())
    row = similarity_matrix(wordnet, ["n02123159"], ids, ic=ic)[0]
    assert (np.diff(row) < -0.05).all() and 0 < row[-1] < row[0] < 1
    assert pair_similarity(wordnet, "n02123159", "n02123159", ic=ic) == 1.0


def test_empty_lists_give_empty_matrices(wordnet: WordNet) -> None:
    for measure in MEASURES:
        assert similarity_matrix(wordnet, [], ["n02123045"], measure).shape == (0, 1)
        assert similarity_matrix(wordnet, ["n02123045"], [], measure).shape == (1, 0)


def test_bad_requests(wordnet: WordNet) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'lin'"):
        similarity_matrix(wordnet, ["n02123045"], ["n02123045"], "linn")
    with pytest.raises(TaxonomyError, match="not a concept"):
        similarity_matrix(wordnet, ["n00000001"], ["n02123045"])
    ic = information_content(wordnet, ["n02123045"])
    with pytest.raises(TaxonomyError, match="outside the corpus"):
        similarity_matrix(wordnet, ["n04379243"], ["n02123045"], ic=ic)
    with pytest.raises(TaxonomyError, match="another taxonomy"):
        similarity_matrix(Taxonomy.from_edges([("b", "a")]), ["a"], ["b"], ic=ic)
    with pytest.raises(TaxonomyError, match="ids only"):
        similarity_matrix(Taxonomy.from_edges([("b", "a")]), ["a"], ["b"], "text")
