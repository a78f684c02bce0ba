"""A taxonomy: concepts joined by is-a edges, a directed acyclic graph under one root.

Shapes:     n concepts, numbered in the order of `ids`; e edges. Edges are stored in compressed rows: the parents of
            concept i are `parent_index[parent_start[i]:parent_start[i + 1]]`.
Terms:      an ancestor or a descendant of a concept is another concept; a *subsumer* of a concept is the concept
            itself or one of its ancestors.

All walks are breadth-first over whole frontiers of NumPy arrays, so that a hundred thousand concepts take
milliseconds and no recursion limit applies.

An edge list in a file has one edge per row, child first, then parent:

two columns, separated by commas (.csv) or tabs (.tsv, .txt); a first row of "child,parent" (any case, either order) is
a header.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unseen.core.arrays import BoolArray, IntArray
from unseen.core.errors import TaxonomyError, closest
from unseen.core.guard import reader

if TYPE_CHECKING:
    from unseen.concepts.information import InformationContent


_SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}


@dataclass(frozen=True, eq=False)
class Closure:
    """The subsumers of a list of concepts, in compressed rows.

    Attributes:
        item: position in the list, one per (concept, subsumer) pair, ascending.
        node: the subsumer, ascending within an item.
        distance: edges on the shortest path up from the concept to the subsumer; 0 for the concept itself.
        start: the pairs of item k are `start[k]:start[k + 1]`.
    """

    item: IntArray
    node: IntArray
    distance: IntArray
    start: IntArray

    def below(self) -> dict[int, IntArray]:
        """Return the items that each subsumer has below it."""
        order = np.argsort(self.node, kind="stable")
        nodes, first = np.unique(self.node[order], return_index=True)
        return dict(zip(nodes.tolist(), np.split(self.item[order], first)[1:], strict=True))


class Taxonomy:
    """Concepts and their is-a edges.

    Args:
        ids: one name per concept, all different.
        parent_start, parent_index: the edges in compressed rows.
    """

    def __init__(self, ids: Sequence[str], parent_start: IntArray, parent_index: IntArray) -> None:
        self.ids: tuple[str, ...] = tuple(ids)
        self.parent_start = parent_start
        self.parent_index = parent_index

    @classmethod
    def from_edges(cls, edges: Iterable[tuple[str, str]], *, root: str | None = None) -> Taxonomy:
        """Build a taxonomy from (child, parent) pairs.

        Args:
            edges: pairs of ids; a pair given twice counts once.
            root: an id to become the parent of every parentless concept. Without it, several roots are an error.

        Raises:
            TaxonomyError: there are no edges, a cycle, or several roots.
        """
        parents: dict[str, dict[str, None]] = {}
        for child, parent in edges:
            parents.setdefault(child, {})[parent] = None
            parents.setdefault(parent, {})
        if root is not None:
            for above in [above for name, above in parents.items() if not above and name != root]:
                above[root] = None
            parents.setdefault(root, {})
        try:
            TopologicalSorter(parents).prepare()
        except CycleError as error:
            raise TaxonomyError(
                f"the taxonomy has a cycle: {' -> '.join(reversed(error.args[1]))}. Is-a edges must lead to a root: "
                "remove one of these edges."
            ) from None
        roots = [name for name, above in parents.items() if not above]
        if not roots:
            raise TaxonomyError("a taxonomy needs at least one edge or concept; none was given.")
        if len(roots) > 1:
            shown = ", ".join(repr(name) for name in roots[:5]) + (", ..." if len(roots) > 5 else "")
            raise TaxonomyError(
                f"the taxonomy has {len(roots)} roots: {shown}. It needs one: add the missing edges, or name a common "
                "root (root=...)."
            )
        index = {name: i for i, name in enumerate(parents)}
        counts = np.array([len(above) for above in parents.values()], dtype=np.int64)
        flat = np.array([index[name] for above in parents.values() for name in above], dtype=np.int64)
        return cls(tuple(index), _starts(counts), flat)

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, concept: object) -> bool:
        return concept in self._position

    def index(self, concepts: Iterable[str]) -> IntArray:
        """Return the numbers of the concepts; an unknown id is an error that suggests similar ones."""
        try:
            return np.array([self._position[c] for c in concepts], dtype=np.int64)
        except KeyError as error:
            name = str(error.args[0])
            near = closest(name, self.ids, count=2)
            advice = f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""
            raise TaxonomyError(f"{name!r} is not a concept of this taxonomy of {len(self):,}{advice}.") from None

    def names(self, indices: IntArray) -> list[str]:
        """Return the ids of the numbered concepts."""
        return [self.ids[i] for i in indices.tolist()]

    def parents(self, concept: str) -> list[str]:
        """Return the concepts one edge above."""
        return self.names(expand(self.index([concept]), *self.parent_rows)[1])

    def ancestors(self, concepts: str | Iterable[str]) -> set[str]:
        """Return every concept above any of `concepts`; one of these is included only if it is above another."""
        return self._strictly(concepts, self.parent_rows)

    def descendants(self, concepts: str | Iterable[str]) -> set[str]:
        """Return every concept below any of `concepts`; one of these is included only if it is below another."""
        return self._strictly(concepts, self.child_rows)

    def subsumers(self, indices: IntArray) -> BoolArray:
        """Return a mask over all concepts: the given ones and everything above them."""
        return self.distances(indices, self.parent_rows) >= 0

    def distances(self, indices: IntArray, *rows: tuple[IntArray, IntArray], limit: int | None = None) -> IntArray:
        """Return the edges from the nearest of some concepts to every concept; -1 if it is out of reach.

        Args:
            rows: the edges to follow: `parent_rows`, `child_rows` or both.
            limit: the largest distance.
        """
        distance = np.full(len(self), -1, dtype=np.int64)
        frontier, step = np.unique(indices), 0
        while len(frontier) and (limit is None or step <= limit):
            distance[frontier] = step
            beyond = np.concatenate([expand(frontier, *each)[1] for each in rows])
            frontier, step = np.unique(beyond[distance[beyond] < 0]), step + 1
        return distance

    def closure(self, indices: IntArray) -> Closure:
        """Return the subsumers of each of the given concepts, with the shortest distance upwards."""
        item, node = np.arange(len(indices), dtype=np.int64), np.asarray(indices, dtype=np.int64)
        keys, steps = [item * len(self) + node], [np.zeros(len(node), dtype=np.int64)]
        while len(node):
            source, node = expand(node, self.parent_start, self.parent_index)
            # Two paths of one length lead to one pair; paths of different length are merged at the end.
            key = np.unique(item[source] * len(self) + node)
            item, node = np.divmod(key, len(self))
            keys.append(key)
            steps.append(np.full(len(key), len(steps), dtype=np.int64))
        # The first of equal keys is the one with the fewest steps, because steps grow along the list.
        unique, first = np.unique(np.concatenate(keys), return_index=True)
        item, node = np.divmod(unique, len(self))
        counts = np.bincount(item, minlength=len(indices)).astype(np.int64)
        return Closure(item, node, np.concatenate(steps)[first], _starts(counts))

    @cached_property
    def roots(self) -> list[str]:
        """Concepts without a parent."""
        return self.names(np.flatnonzero(np.diff(self.parent_start) == 0))

    @property
    def parent_rows(self) -> tuple[IntArray, IntArray]:
        """The edges from children to parents, in compressed rows: (start, index)."""
        return self.parent_start, self.parent_index

    @cached_property
    def child_rows(self) -> tuple[IntArray, IntArray]:
        """The edges from parents to children, in compressed rows: (start, index)."""
        child = np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.parent_start))
        order = np.argsort(self.parent_index, kind="stable")
        counts = np.bincount(self.parent_index, minlength=len(self)).astype(np.int64)
        return _starts(counts), child[order]

    @cached_property
    def max_depth(self) -> IntArray:
        """Edges on the longest path from each concept to the root."""
        waiting = np.diff(self.parent_start).astype(np.int64)
        depth = np.full(len(self), -1, dtype=np.int64)
        frontier, level = np.flatnonzero(waiting == 0), 0
        while len(frontier):
            depth[frontier] = level
            touched, arrivals = np.unique(expand(frontier, *self.child_rows)[1], return_counts=True)
            waiting[touched] -= arrivals
            frontier, level = touched[waiting[touched] == 0], level + 1
        return depth

    @cached_property
    def min_depth(self) -> IntArray:
        """Edges on the shortest path from each concept to the root."""
        return self.distances(np.flatnonzero(np.diff(self.parent_start) == 0), self.child_rows)

    @cached_property
    def information(self) -> InformationContent:
        """Information content with the whole taxonomy as the corpus, cached."""
        from unseen.concepts.information import information_content  # it imports this module

        return information_content(self)

    @cached_property
    def sort_rank(self) -> IntArray:
        """Place of each concept in a fixed order, which decides ties between subsumers; here the order of the ids."""
        rank = np.empty(len(self), dtype=np.int64)
        rank[np.argsort(np.array(self.ids, dtype=np.str_), kind="stable")] = np.arange(len(self))
        return rank

    @cached_property
    def _position(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.ids)}

    def _strictly(self, concepts: str | Iterable[str], rows: tuple[IntArray, IntArray]) -> set[str]:
        nodes = self.index([concepts] if isinstance(concepts, str) else concepts)
        return set(self.names(np.flatnonzero(self.distances(expand(nodes, *rows)[1], rows) >= 0)))


def expand(nodes: IntArray, start: IntArray, index: IntArray) -> tuple[IntArray, IntArray]:
    """Follow every edge out of `nodes`: (position in `nodes`, neighbour), one entry per edge."""
    first, counts = start[nodes], start[nodes + 1] - start[nodes]
    source = np.repeat(np.arange(len(nodes), dtype=np.int64), counts)
    within = np.arange(len(source), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    return source, index[first[source] + within]


def _starts(counts: IntArray) -> IntArray:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])


@reader("an ontology", error=TaxonomyError)
def read_taxonomy(path: str | PathLike[str], *, root: str | None = None) -> Taxonomy:
    """Read a taxonomy from an edge list.

    Args:
        path: a .csv, .tsv or .txt (tab-separated) file.
        root: an id to become the parent of every parentless concept; without it, several roots are an error.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in _SEPARATORS:
        raise TaxonomyError(f"{path}: an ontology is read from .csv, .tsv or .txt, not from {suffix!r}.")
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    edges: list[tuple[str, str]] = []
    is_reversed = False
    for number, row in enumerate(csv.reader(lines, delimiter=_SEPARATORS[suffix]), start=1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or cells[0].startswith("#"):
            continue
        if len(cells) != 2 or not all(cells):
            raise TaxonomyError(f"{path}, line {number}: expected a child and a parent, found {str(row)[:60]}.")
        if number == 1 and {cell.lower() for cell in cells} == {"child", "parent"}:
            is_reversed = cells[0].lower() == "parent"
        else:
            edges.append((cells[is_reversed], cells[not is_reversed]))
    if not edges:
        raise TaxonomyError(f"{path} has no edges. It needs one child and one parent per row.")
    return Taxonomy.from_edges(edges, root=root)
