"""Similarities of concepts on the graph of a taxonomy, for pairs, for matrices, and to a set of seen concepts.

Papers:     Sariyildiz et al., ICCV 2021 [P], Eq. (1) Lin and Eq. (2) similarity to a set;
            Resnik 1995; Jiang & Conrath 1997; Wu & Palmer, ACL 1994 [W]
Shapes:     a, b lists of ids; matrices (len(a), len(b)) float64
Definitions: IC information content, S(x, y) the common subsumers, d(x, y) edges on the shortest path through a common
            subsumer:
                resnik            max IC over S(x, y), called IC(LCS)
                lin               2 IC(LCS) / (IC(x) + IC(y))                             Eq. (1) of [P]
                jiang-conrath     1 / (IC(x) + IC(y) - 2 IC(LCS)); infinite if that is 1/0; 0 if x or y is the root
                wu-palmer         2 e / (2 e + d(x, s) + d(y, s)), s of greatest shortest depth in S(x, y), e = 1 + its
                                  longest depth
                similarity to a set: the greatest similarity to any seen concept          Eq. (2) of [P]
Differs:    these are NLTK's conventions, to 1e-9. One addition: lin is 1 where NLTK divides 0 by 0 (two concepts
            without information, such as the root and itself). Among equally similar seen concepts the smallest id is
            the nearest. Wu-Palmer: a graph has several depths per concept, and [W] has a tree. As in NLTK, among
            subsumers of equal depth the first concept itself precedes the others, then `Taxonomy.sort_rank` decides;
            the first rule makes the measure asymmetric for a few pairs
Kernel:     every measure needs the best common subsumer of every pair of two lists. The subsumers are written to the
            table of pairs in ascending order, each to the block of the concepts below it, so that the best remains
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from unseen.concepts.information import InformationContent
from unseen.concepts.taxonomy import Taxonomy
from unseen.concepts.text import text_similarity_matrix
from unseen.core.arrays import BoolArray, FloatArray, IntArray
from unseen.core.errors import TaxonomyError, UnknownNameError

#: From two lists of ids to the matrix of their similarities.
SimilarityFunction = Callable[[Sequence[str], Sequence[str]], FloatArray]

#: Similarities are compared after rounding: differences below this are rounding errors of the logarithm, which differ
#: between machines.
DECIMALS = 12
_BLOCK = 4_096


@dataclass(frozen=True, eq=False)
class Pairs:
    """Two lists of concept numbers of one taxonomy."""

    taxonomy: Taxonomy
    a: IntArray
    b: IntArray

    def best_common(self, value: FloatArray) -> IntArray:
        """Return (len(a), len(b)) the common subsumer of each pair with the greatest `value`, one per concept."""
        below_a, below_b = (self.taxonomy.closure(nodes).below() for nodes in (self.a, self.b))
        common = np.asarray(sorted(below_a.keys() & below_b.keys()), np.int64)
        best = np.empty((len(self.a), len(self.b)), np.int64)
        for node in common[np.argsort(value[common], kind="stable")].tolist():
            best[np.ix_(below_a[node], below_b[node])] = node
        return best


def subsumes(taxonomy: Taxonomy, a: IntArray, b: IntArray) -> BoolArray:
    """Return (len(a), len(b)) whether a is b or an ancestor of b."""
    closure, (rows, place) = taxonomy.closure(b), np.unique(a, return_inverse=True)
    known = np.isin(closure.node, rows)
    table = np.zeros((len(rows), len(b)), np.bool_)
    table[np.searchsorted(rows, closure.node[known]), closure.item[known]] = True
    return table[place]


def _resnik(pairs: Pairs, ic: FloatArray) -> FloatArray:
    return ic[pairs.best_common(ic)]


def _lin(pairs: Pairs, ic: FloatArray) -> FloatArray:
    shared = 2.0 * _resnik(pairs, ic)
    total = ic[pairs.a][:, None] + ic[pairs.b][None, :]
    return np.divide(shared, total, out=np.ones_like(shared), where=total > 0)  # Eq. (1)


def _jiang_conrath(pairs: Pairs, ic: FloatArray) -> FloatArray:
    own_a, own_b = ic[pairs.a][:, None], ic[pairs.b][None, :]
    distance = own_a + own_b - 2.0 * _resnik(pairs, ic)
    with np.errstate(divide="ignore"):
        result = np.where(distance == 0.0, np.inf, 1.0 / distance)
    result[np.broadcast_to((own_a == 0.0) | (own_b == 0.0), result.shape)] = 0.0
    result[pairs.a[:, None] == pairs.b[None, :]] = np.inf
    return result


def _wu_palmer(pairs: Pairs, _ic: FloatArray) -> FloatArray:
    subsumer = _deepest_subsumer(pairs)
    edges = _edges(pairs.taxonomy, pairs.a, subsumer) + _edges(pairs.taxonomy, pairs.b, subsumer.T).T
    depth = 1.0 + pairs.taxonomy.max_depth[subsumer]
    return np.asarray(2.0 * depth / (edges + 2.0 * depth))  # 2 N3 / (N1 + N2 + 2 N3)


def _deepest_subsumer(pairs: Pairs) -> IntArray:
    taxonomy = pairs.taxonomy
    # By depth, then by rank.
    best = pairs.best_common(taxonomy.min_depth - taxonomy.sort_rank / len(taxonomy))
    as_deep = taxonomy.min_depth[best] == taxonomy.min_depth[pairs.a][:, None]
    return np.where(as_deep & subsumes(taxonomy, pairs.a, pairs.b), pairs.a[:, None], best)


def _edges(taxonomy: Taxonomy, concepts: IntArray, subsumer: IntArray) -> IntArray:
    """Return the edges from concept i to `subsumer[i, j]` on the shortest path over *any* common subsumer.

    Usually this is the path up. In a graph with short cuts, a path over a concept above both can be shorter.
    """
    nodes = np.union1d(concepts, subsumer)
    closure = taxonomy.closure(nodes)
    steps = [*zip(closure.node.tolist(), closure.distance.tolist(), strict=True)]
    above = {node: dict(steps[closure.start[k] : closure.start[k + 1]]) for k, node in enumerate(nodes.tolist())}
    edges = np.empty_like(subsumer)
    for row, concept in enumerate(concepts.tolist()):
        own, (ends, place) = above[concept], np.unique(subsumer[row], return_inverse=True)
        shortest = [min(own[node] + step for node, step in above[end].items()) for end in ends.tolist()]
        edges[row] = np.asarray(shortest, np.int64)[place]
    return edges


#: The formula of every measure, of pairs and of information content (which measures of the graph alone ignore).
MEASURES: dict[str, Callable[[Pairs, FloatArray], FloatArray]] = {
    "lin": _lin,
    "jiang-conrath": _jiang_conrath,
    "resnik": _resnik,
    "wu-palmer": _wu_palmer,
}
_ON_INFORMATION = ("lin", "jiang-conrath", "resnik")


def similarity_matrix(
    taxonomy: Taxonomy,
    a: Sequence[str],
    b: Sequence[str],
    measure: str = "lin",
    *,
    ic: InformationContent | None = None,
) -> FloatArray:
    """Return the similarity of every concept of `a` with every concept of `b`.

    Args:
        taxonomy: the graph.
        a, b: ids, which may repeat.
        measure: "lin", "jiang-conrath", "resnik", "wu-palmer"; or "text", which compares
            names and descriptions with the default word vectors (see `unseen.concepts.text` for other vectors).
        ic: information content; by default that of the whole taxonomy. Measures of the graph alone do not use it.

    Returns:
        (len(a), len(b)) float64.
    """
    if measure == "text":
        return text_similarity_matrix(taxonomy, a, b)
    if measure not in MEASURES:
        raise UnknownNameError("similarity", measure, [*MEASURES, "text"])
    index_a, index_b = taxonomy.index(a), taxonomy.index(b)
    content = _information(taxonomy, ic, index_a, index_b) if measure in _ON_INFORMATION else np.empty(0)
    return MEASURES[measure](Pairs(taxonomy, index_a, index_b), content)


def _information(taxonomy: Taxonomy, ic: InformationContent | None, *indices: IntArray) -> FloatArray:
    """Return the information content of all concepts.

    Raises:
        TaxonomyError: it belongs to another taxonomy, or its corpus lacks one of the indexed concepts.
    """
    content = ic if ic is not None else taxonomy.information
    if content.taxonomy is not taxonomy:
        raise TaxonomyError("the information content was computed on another taxonomy. Compute it on this one.")
    index = np.concatenate(indices)
    outside = index[np.isinf(content.values[index])]
    if len(outside):
        raise TaxonomyError(
            f"{taxonomy.ids[int(outside[0])]!r} is outside the corpus of the information content"
            f" ({len(outside)} such). Add these concepts to the corpus, or use the whole taxonomy (ic=None)."
        )
    return content.values


@dataclass(frozen=True, eq=False)
class Nearest:
    """The most similar seen concept of each of a list of concepts.

    Attributes:
        concepts: their ids.
        similarity: similarity to the nearest seen concept, Eq. (2).
        nearest: id of that concept.
    """

    concepts: tuple[str, ...]
    similarity: FloatArray
    nearest: tuple[str, ...]

    def ranking(self) -> IntArray:
        """Return positions from most to least similar; equal similarities in the order of the ids."""
        return np.lexsort((np.array(self.concepts, dtype=np.str_), -np.round(self.similarity, DECIMALS)))


def nearest_seen(
    taxonomy: Taxonomy,
    concepts: Sequence[str],
    seen: Sequence[str],
    measure: str | SimilarityFunction = "lin",
    *,
    ic: InformationContent | None = None,
) -> Nearest:
    """Return the nearest seen concept of every concept.

    Args:
        taxonomy: the graph.
        concepts: ids to compare.
        seen: ids of the seen concepts.
        measure: a name that `similarity_matrix` knows, or a function from two lists of ids to their matrix.
        ic: information content for measures that take it; by default that of the whole taxonomy.
    """
    if not seen:
        raise TaxonomyError("the list of seen concepts is empty, so no concept can be near it.")
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
