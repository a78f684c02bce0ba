"""Taxonomies: walks against NetworkX, and errors that name the culprit."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unseen.concepts import Taxonomy
from unseen.core.errors import TaxonomyError

EDGES = [
    ("cat", "feline"),
    ("lion", "feline"),
    ("feline", "animal"),
    ("dog", "animal"),
    ("cat", "pet"),
    ("pet", "animal"),
]


def graph_of(taxonomy: Taxonomy) -> nx.DiGraph:
    """Child to parent."""
    graph = nx.DiGraph()
    graph.add_nodes_from(taxonomy.ids)
    graph.add_edges_from((c, p) for c in taxonomy.ids for p in taxonomy.parents(c))
    return graph


def test_edges_and_walks() -> None:
    animals = Taxonomy.from_edges([*EDGES, EDGES[0]])
    assert len(animals) == 6 and "cat" in animals and "cow" not in animals
    assert animals.roots == ["animal"]
    assert animals.parents("cat") == ["feline", "pet"]
    assert animals.ancestors("cat") == {"feline", "pet", "animal"}
    assert animals.descendants("feline") == {"cat", "lion"}
    assert animals.ancestors(["cat", "feline"]) == {"feline", "pet", "animal"}
    assert animals.max_depth.max() == 2


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.integers(2, 40))
def test_walks_equal_networkx(random_taxonomy: Callable[[int, int], Taxonomy], seed: int, size: int) -> None:
    taxonomy = random_taxonomy(seed, size)
    graph = graph_of(taxonomy)
    root = taxonomy.roots[0]
    up = dict(nx.all_pairs_shortest_path_length(graph))
    longest = {root: 0}
    for node in reversed(list(nx.topological_sort(graph))):
        for child in graph.predecessors(node):
            longest[child] = max(longest.get(child, 0), longest[node] + 1)
    for i, node in enumerate(taxonomy.ids):
        assert taxonomy.ancestors(node) == nx.descendants(graph, node)
        assert taxonomy.descendants(node) == nx.ancestors(graph, node)
        assert taxonomy.min_depth[i] == up[node][root]
        assert taxonomy.max_depth[i] == longest[node]
    everything = np.arange(size)
    closure = taxonomy.closure(everything)
    got = {
        (taxonomy.ids[i], taxonomy.ids[n]): d
        for i, n, d in zip(closure.item, closure.node, closure.distance, strict=True)
    }
    assert got == {(a, b): d for a, reached in up.items() for b, d in reached.items()}
    assert closure.start[-1] == len(closure.item)


def test_a_cycle_is_named() -> None:
    with pytest.raises(TaxonomyError, match=r"cycle: feline -> cat -> feline|cycle: cat -> feline -> cat"):
        Taxonomy.from_edges([*EDGES, ("feline", "cat")])
    with pytest.raises(TaxonomyError, match="cycle: cat -> cat"):
        Taxonomy.from_edges([*EDGES, ("cat", "cat")])


def test_a_cycle_is_told_from_what_hangs_below_it() -> None:
    with pytest.raises(TaxonomyError) as error:
        Taxonomy.from_edges(
            [("kitten", "cat"), ("cat", "feline"), ("feline", "lynx"), ("lynx", "cat"), ("feline", "root")]
        )
    assert "kitten" not in str(error.value)


def test_several_roots_are_named_or_joined() -> None:
    edges = [("cat", "animal"), ("oak", "plant")]
    with pytest.raises(TaxonomyError, match=r"2 roots: 'animal', 'plant'"):
        Taxonomy.from_edges(edges)
    joined = Taxonomy.from_edges(edges, root="thing")
    assert joined.roots == ["thing"] and joined.ancestors("oak") == {"plant", "thing"}
    assert Taxonomy.from_edges(EDGES, root="animal").roots == ["animal"]


def test_an_unknown_id_is_named() -> None:
    with pytest.raises(TaxonomyError, match=r"'doge' is not a concept.*did you mean 'dog'"):
        Taxonomy.from_edges(EDGES).index(["cat", "doge"])


def test_an_empty_list_is_an_error() -> None:
    with pytest.raises(TaxonomyError, match="at least one"):
        Taxonomy.from_edges([])


def test_a_long_chain_needs_no_recursion() -> None:
    chain = Taxonomy.from_edges((str(i + 1), str(i)) for i in range(5_000))
    assert chain.max_depth.max() == 5_000 and len(chain.ancestors("5000")) == 5_000
