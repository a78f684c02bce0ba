"""The one kernel behind every graph similarity: the best common subsumer of every pair of two lists.

For concept c and column j, let best(c, j) be the best value over the subsumers that c shares with b_j. It obeys

    best(c, j) = better of  value(c, j) if c subsumes b_j   and   best(p, j) (+ step) over the parents p of c

so one pass down the graph, parents before children, fills a whole table: every concept's row costs as many vector
operations as it has parents. For 5,146 x 1,000 concepts of WordNet these are 7 million cells instead of 70 million
common subsumers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from unseen.concepts.taxonomy import BoolArray, Closure, IntArray, Taxonomy, expand

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
