"""Similarities of concepts on the graph of a taxonomy, for pairs, for matrices, and to a set of seen concepts.

Papers:     Sariyildiz et al., ICCV 2021 [P], Eq. (1) Lin and Eq. (2) similarity to a set;
            Resnik 1995; Jiang & Conrath 1997; Wu & Palmer, ACL 1994 [W]; Leacock & Chodorow 1998
Shapes:     a, b lists of ids; matrices (len(a), len(b)) float64
Definitions: IC information content, S(x, y) the common subsumers, d(x, y) edges on the shortest path through a common
            subsumer, D edges on the longest path from any concept to the root:
                resnik            max IC over S(x, y), called IC(LCS)
                lin               2 IC(LCS) / (IC(x) + IC(y))                             Eq. (1) of [P]
                jiang-conrath     1 / (IC(x) + IC(y) - 2 IC(LCS)); infinite if that is 1/0; 0 if x or y is the root
                path              1 / (1 + d)
                leacock-chodorow  -log((1 + d) / 2D)
                wu-palmer         2 e / (2 e + d(x, s) + d(y, s)), s of greatest shortest depth in S(x, y), e = 1 + its
                                  longest depth
                similarity to a set: the greatest similarity to any seen concept          Eq. (2) of [P]
Differs:    these are NLTK's conventions, to 1e-9. One addition: lin is 1 where NLTK divides 0 by 0 (two concepts
            without information, such as the root and itself). Among equally similar seen concepts the smallest id is
            the nearest. Wu-Palmer: a graph has several depths per concept, and [W] has a tree. As in NLTK, among
            subsumers of equal depth the first concept itself precedes the others, then `Taxonomy.sort_rank` decides;
            the first rule makes the measure asymmetric for a few pairs
Kernel:     every measure needs the best common subsumer of every pair of two lists. For concept c and column j, let
            best(c, j) be the best value over the subsumers that c shares with b_j. It obeys

                best(c, j) = better of  value(c, j) if c subsumes b_j  and  best(p, j) (+ step) over the parents p of c

            so one pass down the graph, parents before children, fills a whole table: every concept's row costs as many
            vector operations as it has parents. For 5,146 x 1,000 concepts of WordNet these are 7 million cells instead
            of 70 million common subsumers
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from unseen.concepts.information import InformationContent
from unseen.concepts.taxonomy import Closure, Taxonomy, expand
from unseen.concepts.text import text_similarity_matrix
from unseen.core.arrays import BoolArray, FloatArray, IntArray
from unseen.core.errors import TaxonomyError, UnknownNameError

#: From two lists of ids to the matrix of their similarities.
SimilarityFunction = Callable[[Sequence[str], Sequence[str]], FloatArray]

#: Similarities are compared after rounding: differences below this are rounding errors of the logarithm, which differ
#: between machines.
DECIMALS = 12
_BLOCK = 4_096
# Cells of one table of the kernel: 8 MB of float64, which fit the cache.
_BLOCK_CELLS = 1_000_000
_BLOCK_ROWS = 8_192


Number = TypeVar("Number", np.int64, np.float64)
Cell = TypeVar("Cell", np.int64, np.float64, np.bool_)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Two lists of concept numbers of one taxonomy, and the tables that the measures share."""

    taxonomy: Taxonomy
    a: IntArray
    b: IntArray

    @cached_property
    def rows(self) -> IntArray:
        """All subsumers of `a`, parents before children: the rows of the table."""
        nodes = np.flatnonzero(self.taxonomy.subsumers(self.a))
        return nodes[np.argsort(self.taxonomy.max_depth[nodes], kind="stable")]

    @cached_property
    def row_of(self) -> IntArray:
        """Row of each concept of the taxonomy, or -1."""
        place = np.full(len(self.taxonomy), -1, dtype=np.int64)
        place[self.rows] = np.arange(len(self.rows))
        return place

    @cached_property
    def closure_a(self) -> Closure:
        return self.taxonomy.closure(self.a)

    @cached_property
    def closure_b(self) -> Closure:
        return self.taxonomy.closure(self.b)

    def greatest_common(self, value: npt.NDArray[Number], nothing: float) -> npt.NDArray[Number]:
        """Return (len(a), len(b)) the greatest `value` over the common subsumers of each pair.

        Args:
            value: one number per concept of the taxonomy.
            nothing: the value of a pair without a common subsumer; less than every value.
        """
        table = self._table(value[self.closure_b.node], nothing)
        for row, above in self._edges_by_depth():
            table[row] = np.maximum(table[row], table[above])
        return table[self.row_of[self.a]]

    def shortest_path(self) -> IntArray:
        """Return (len(a), len(b)) edges on the shortest path from a up to a common subsumer and down to b."""
        far = np.iinfo(np.int64).max // 2
        table = self._table(self.closure_b.distance, far)
        for row, above in self._edges_by_depth():
            table[row] = np.minimum(table[row], table[above] + 1)
        return table[self.row_of[self.a]]

    def subsumes(self) -> BoolArray:
        """Return (len(a), len(b)) whether a is b or an ancestor of b."""
        return self._table(np.ones(len(self.closure_b.node), np.bool_), False)[self.row_of[self.a]]

    def _table(self, values: npt.NDArray[Cell], nothing: float) -> npt.NDArray[Cell]:
        """Return one row per subsumer of `a` and one column per concept of `b`.

        Args:
            values: the value of each pair of `closure_b`.
            nothing: the value where a row does not subsume a column.
        """
        table = np.full((len(self.rows), len(self.b)), nothing, dtype=values.dtype)
        row = self.row_of[self.closure_b.node]
        known = row >= 0
        table[row[known], self.closure_b.item[known]] = values[known]
        return table

    def _edges_by_depth(self) -> list[tuple[IntArray, IntArray]]:
        """Return edges as (rows, rows of their parents), in groups to process one after the other.

        Within a group no row occurs twice and every parent is finished, so that the group is one array operation.
        """
        source, parent = expand(self.rows, self.taxonomy.parent_start, self.taxonomy.parent_index)
        first = np.concatenate([[True], source[1:] != source[:-1]]) if len(source) else np.zeros(0, dtype=np.bool_)
        nth = np.arange(len(source)) - np.maximum.accumulate(np.where(first, np.arange(len(source)), 0))
        depth = self.taxonomy.max_depth[self.rows[source]]
        order = np.lexsort((nth, depth))
        cuts = np.flatnonzero((np.diff(depth[order]) != 0) | (np.diff(nth[order]) != 0)) + 1
        return [(source[group], self.row_of[parent[group]]) for group in np.split(order, cuts) if len(group)]


def linked_distance(taxonomy: Taxonomy, closure: Closure) -> IntArray:
    """Return for every (concept, subsumer) pair of a closure the edges on the shortest path over *any* common subsumer.

    Usually this is the path up. In a graph with short cuts, a path over a concept above both can be shorter.
    """
    upper = taxonomy.closure(nodes := np.unique(closure.node))
    # Every path from a concept over y, a subsumer of its subsumer x: the pair (x, y) of `upper` under (concept, x).
    place = np.searchsorted(nodes, closure.node)
    pair, entry = expand(place, upper.start, np.arange(len(upper.node), dtype=np.int64))
    size = len(taxonomy)
    keys = closure.item * size + closure.node
    way_up = closure.distance[np.searchsorted(keys, closure.item[pair] * size + upper.node[entry])]
    shortest = closure.distance.copy()
    np.minimum.at(shortest, pair, way_up + upper.distance[entry])
    return shortest


def _resnik(pairs: Pairs, ic: FloatArray) -> FloatArray:
    return pairs.greatest_common(ic, -np.inf)


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


def _path(pairs: Pairs, _ic: FloatArray) -> FloatArray:
    return np.asarray(1.0 / (1.0 + pairs.shortest_path()))


def _leacock_chodorow(pairs: Pairs, _ic: FloatArray) -> FloatArray:
    if pairs.taxonomy.height == 0:
        raise TaxonomyError("Leacock-Chodorow similarity needs a taxonomy with at least one edge.")
    return np.asarray(-np.log((1.0 + pairs.shortest_path()) / (2.0 * pairs.taxonomy.height)))


def _wu_palmer(pairs: Pairs, _ic: FloatArray) -> FloatArray:
    subsumer = _deepest_subsumer(pairs)
    columns = np.unique(subsumer)
    column = np.searchsorted(columns, subsumer)
    edges = np.take_along_axis(_distances(pairs.taxonomy, pairs.closure_a, len(pairs.a), columns), column, axis=1)
    edges = edges + np.take_along_axis(
        _distances(pairs.taxonomy, pairs.closure_b, len(pairs.b), columns).T, column, axis=0
    )
    depth = 1.0 + pairs.taxonomy.max_depth[subsumer]
    return np.asarray(2.0 * depth / (edges + 2.0 * depth))  # 2 N3 / (N1 + N2 + 2 N3)


def _deepest_subsumer(pairs: Pairs) -> IntArray:
    taxonomy, size = pairs.taxonomy, len(pairs.taxonomy)
    # One integer orders the subsumers by depth, then by rank, and divmod recovers both.
    key = taxonomy.min_depth * size + (size - 1 - taxonomy.sort_rank)
    best = pairs.greatest_common(key, -1)
    by_rank = np.empty(size, dtype=np.int64)
    by_rank[taxonomy.sort_rank] = np.arange(size)
    itself = pairs.subsumes() & (best // size == taxonomy.min_depth[pairs.a][:, None])
    return np.where(itself, pairs.a[:, None], by_rank[size - 1 - best % size])


def _distances(taxonomy: Taxonomy, closure: Closure, count: int, columns: IntArray) -> IntArray:
    """Return (count, len(columns)) edges from each concept of a closure to those of its subsumers in `columns`."""
    place = np.searchsorted(columns, closure.node)
    known = columns[np.minimum(place, len(columns) - 1)] == closure.node
    table = np.zeros((count, len(columns)), dtype=np.int64)
    table[closure.item[known], place[known]] = linked_distance(taxonomy, closure)[known]
    return table


#: The formula of every measure, of pairs and of information content (which measures of the graph alone ignore).
MEASURES: dict[str, Callable[[Pairs, FloatArray], FloatArray]] = {
    "lin": _lin,
    "jiang-conrath": _jiang_conrath,
    "resnik": _resnik,
    "wu-palmer": _wu_palmer,
    "path": _path,
    "leacock-chodorow": _leacock_chodorow,
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
        measure: "lin", "jiang-conrath", "resnik", "wu-palmer", "path", "leacock-chodorow"; or "text", which compares
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
    result = np.empty((len(index_a), len(index_b)))
    for top in range(0, len(index_a), _BLOCK_ROWS):
        rows = slice(top, top + _BLOCK_ROWS)
        width = max(1, _BLOCK_CELLS // max(1, int(taxonomy.subsumers(index_a[rows]).sum())))
        for left in range(0, len(index_b), width):
            columns = slice(left, left + width)
            pairs = Pairs(taxonomy, index_a[rows], index_b[columns])
            result[rows, columns] = MEASURES[measure](pairs, content)
    return result


def pair_similarity(
    taxonomy: Taxonomy, x: str, y: str, measure: str = "lin", *, ic: InformationContent | None = None
) -> float:
    """Return the similarity of two concepts; the arguments are those of `similarity_matrix`."""
    return float(similarity_matrix(taxonomy, [x], [y], measure, ic=ic)[0, 0])


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
