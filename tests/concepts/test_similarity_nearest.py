"""Similarity to a set: Eq. (2), with the arg-max kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import unseen.concepts.similarity as module
from unseen.concepts import Taxonomy, WordNet, nearest_seen, similarity_matrix
from unseen.core.errors import TaxonomyError


def test_is_the_maximum_over_the_seen(
    random_taxonomy: Callable[[int, int], Taxonomy], monkeypatch: pytest.MonkeyPatch
) -> None:
    taxonomy = random_taxonomy(5, 80)
    ids = sorted(taxonomy.ids)
    seen, unseen = ids[:25], ids[25:]
    monkeypatch.setattr(module, "_BLOCK", 7)
    near = nearest_seen(taxonomy, unseen, seen)
    matrix = similarity_matrix(taxonomy, unseen, seen)
    np.testing.assert_allclose(near.similarity, matrix.max(axis=1))
    for row, name in zip(matrix, near.nearest, strict=True):
        # Of several equally near ones, the smallest id.
        assert name == min(s for s, v in zip(seen, row, strict=True) if v > row.max() - 1e-12)


def test_ranking_falls_and_ties_go_by_id() -> None:
    star = Taxonomy.from_edges([(c, "root") for c in "dbcae"] + [("d1", "d"), ("b1", "b")])
    near = nearest_seen(star, ["c", "e", "b1", "a"], ["b", "d"])
    assert [near.concepts[i] for i in near.ranking()] == ["b1", "a", "c", "e"]
    assert near.nearest[2] == "b"


def test_any_function_may_measure(wordnet: WordNet) -> None:
    def length(a: Sequence[str], b: Sequence[str]) -> np.ndarray:
        return -np.abs(np.array([[len(wordnet.label(x)) - len(wordnet.label(y)) for y in b] for x in a], dtype=float))

    near = nearest_seen(wordnet, ["n02123045"], ["n02121808", "n02084071"], length)
    assert near.similarity.tolist() == [-2.0] and near.nearest == ("n02084071",)


def test_nothing_seen_is_an_error(wordnet: WordNet) -> None:
    with pytest.raises(TaxonomyError, match="empty"):
        nearest_seen(wordnet, ["n02123045"], [])
