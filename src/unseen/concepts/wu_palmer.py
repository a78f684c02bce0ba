"""Wu-Palmer similarity: how deep two concepts' deepest common subsumer lies.

Paper:      Wu & Palmer, "Verbs semantics and lexical selection", ACL 1994 [P]
Shapes:     (len(a), len(b)) float64
Implements: 2 N3 / (N1 + N2 + 2 N3) of [P], N3 the nodes from the root to the subsumer, N1, N2 the edges below it
Differs:    a graph has several depths per concept, and [P] has a tree. As NLTK does: the subsumer is the one of
            greatest *shortest* depth; N3 counts its *longest* depth; N1 and N2 are shortest ways over any common
            subsumer. Among subsumers of equal depth the first concept itself comes first, then `Taxonomy.sort_rank`
            decides. The first of these rules makes the measure unsymmetric for a few pairs
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unseen.concepts.subsumption import Pairs, linked_distance
from unseen.concepts.taxonomy import Closure, IntArray, Taxonomy


def wu_palmer(pairs: Pairs) -> npt.NDArray[np.float64]:
    """Wu-Palmer similarity of every pair."""
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
    # One integer orders the subsumers by depth, then by rank, and can be taken apart again.
    key = taxonomy.min_depth * size + (size - 1 - taxonomy.sort_rank)
    best = pairs.greatest_common(key, -1)
    by_rank = np.empty(size, dtype=np.int64)
    by_rank[taxonomy.sort_rank] = np.arange(size)
    itself = pairs.subsumes() & (best // size == taxonomy.min_depth[pairs.a][:, None])
    return np.where(itself, pairs.a[:, None], by_rank[size - 1 - best % size])


def _distances(taxonomy: Taxonomy, closure: Closure, count: int, columns: IntArray) -> IntArray:
    """(count, len(columns)) edges from each concept of a closure to those of its subsumers that stand in `columns`."""
    place = np.searchsorted(columns, closure.node)
    kept = columns[np.minimum(place, len(columns) - 1)] == closure.node
    table = np.zeros((count, len(columns)), dtype=np.int64)
    table[closure.item[kept], place[kept]] = linked_distance(taxonomy, closure)[kept]
    return table
