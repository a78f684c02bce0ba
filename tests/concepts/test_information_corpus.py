"""The pinned corpus, and concepts outside it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unseen.concepts import (
    Taxonomy,
    WordNet,
    corpus_information,
    imagenet_1k,
    imagenet_21k,
    information_content,
    similarity_matrix,
)


def test_within_the_corpus_it_is_the_papers(wordnet: WordNet) -> None:
    pinned = corpus_information(wordnet)
    paper = information_content(wordnet, [*imagenet_21k(), *imagenet_1k()])
    inside = np.isfinite(paper.values)
    assert pinned.total == paper.total == inside.sum() == 23_547
    np.testing.assert_array_equal(pinned.values[inside], paper.values[inside])
    assert pinned["n00001740"] == 0.0


def test_outside_there_is_always_more_to_say_below(wordnet: WordNet) -> None:
    pinned = corpus_information(wordnet)
    paper = information_content(wordnet, [*imagenet_21k(), *imagenet_1k()])
    outside = np.flatnonzero(np.isinf(paper.values))
    assert len(outside) == len(wordnet) - 23_547 and np.isfinite(pinned.values).all()
    assert (pinned.weight[outside] <= 1.0).all()
    for node in outside[::97].tolist():
        above = wordnet.parent_index[wordnet.parent_start[node] : wordnet.parent_start[node + 1]]
        assert (pinned.values[above] < pinned.values[node]).all()
    ids = [wordnet.ids[i] for i in outside[::997].tolist()]
    matrix = similarity_matrix(wordnet, ids, ids, "lin", ic=pinned)
    np.testing.assert_allclose(np.diag(matrix), 1.0)
    assert matrix[~np.eye(len(ids), dtype=bool)].max() < 1.0


def test_another_taxonomy_is_its_own_corpus(random_taxonomy: Callable[[int, int], Taxonomy]) -> None:
    taxonomy = random_taxonomy(3, 40)
    assert corpus_information(taxonomy) is taxonomy.information
