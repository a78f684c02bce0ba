"""A taxonomy: concepts joined by is-a edges, a directed acyclic graph under one root.

Shapes:     n concepts, numbered in the order of `ids`; e edges. Edges are held in compressed rows: the parents of
            concept i are `parent_index[parent_start[i]:parent_start[i + 1]]`.
Words:      an ancestor or a descendant of a concept is another concept; a *subsumer* of a concept is the concept
            itself or one of its ancestors.

All walks are breadth-first over whole frontiers of NumPy arrays, so that a hundred thousand concepts take
milliseconds and no recursion limit applies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from unseen.core.errors import TaxonomyError, closest

if TYPE_CHECKING:
    from unseen.concepts.information import InformationContent

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Closure:
    """The subsumers of a list of concepts, in compressed rows.

    Attributes:
        item: position in the list that was asked for, one per (concept, subsumer) pair, ascending.
        node: the subsumer, ascending within an item.
        distance: edges on the shortest way up from the concept to the subsumer; 0 for the concept itself.
        start: the pairs of item k are `start[k]:start[k + 1]`.
    """

    item: IntArray
    node: IntArray
    distance: IntArray
    start: IntArray


class Taxonomy:
    """Concepts and their is-a edges.

    Args:
        ids: one name per concept, all different.
        parent_start, parent_index: the edges in compressed rows.
        validate: check that the graph is acyclic and has one root; switch off only for a graph known to be sound.
    """

    def __init__(
        self, ids: Sequence[str], parent_start: IntArray, parent_index: IntArray, *, validate: bool = True
    ) -> None:
        self.ids: tuple[str, ...] = tuple(ids)
        self.parent_start = parent_start
        self.parent_index = parent_index
        if validate:
            self._validate()

    @classmethod
    def from_edges(
        cls, edges: Iterable[tuple[str, str]], *, concepts: Iterable[str] | None = None, root: str | None = None
    ) -> Taxonomy:
        """Build a taxonomy from (child, parent) pairs.

        Args:
            edges: pairs of ids; a pair given twice counts once.
            concepts: all ids that exist. If given, an edge with another id is an error; if not, the edges decide.
            root: an id to hang every parentless concept from. Without it, several roots are an error.
        """
        pairs = [(str(child), str(parent)) for child, parent in edges]
        names = [str(c) for c in concepts] if concepts is not None else [name for pair in pairs for name in pair]
        index = {name: i for i, name in enumerate(dict.fromkeys(names))}
        for child, parent in pairs:
            for name, other in ((child, parent), (parent, child)):
                if name not in index:
                    raise TaxonomyError(
                        f"the edge {child!r} -> {parent!r} names the unknown concept {name!r}"
                        f"{_did_you_mean(name, index, other)}. Add it to the concepts, or drop the edge."
                    )
        parents: list[dict[int, None]] = [{} for _ in index]
        for child, parent in pairs:
            parents[index[child]][index[parent]] = None
        if root is not None:
            top = index.setdefault(root, len(index))
            if top == len(parents):
                parents.append({})
            for i, above in enumerate(parents):
                if not above and i != top:
                    above[top] = None
        counts = np.array([len(above) for above in parents], dtype=np.int64)
        flat = np.array([p for above in parents for p in above], dtype=np.int64)
        return cls(tuple(index), _starts(counts), flat)

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, concept: object) -> bool:
        return concept in self._position

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def index(self, concepts: Iterable[str]) -> IntArray:
        """Numbers of the concepts; an unknown id is an error that offers close ones."""
        position = self._position
        try:
            return np.array([position[c] for c in concepts], dtype=np.int64)
        except KeyError as error:
            name = str(error.args[0])
            raise TaxonomyError(
                f"{name!r} is not a concept of this taxonomy of {len(self):,}{_did_you_mean(name, self.ids)}."
            ) from None

    def names(self, indices: IntArray) -> list[str]:
        """Ids of the numbered concepts."""
        return [self.ids[i] for i in indices.tolist()]

    def parents(self, concept: str) -> list[str]:
        """Concepts one edge above."""
        i = int(self.index([concept])[0])
        return self.names(self.parent_index[self.parent_start[i] : self.parent_start[i + 1]])

    def children(self, concept: str) -> list[str]:
        """Concepts one edge below."""
        i = int(self.index([concept])[0])
        start, index = self.child_rows
        return self.names(index[start[i] : start[i + 1]])

    def ancestors(self, concepts: str | Iterable[str]) -> set[str]:
        """Every concept above any of the given ones; a given one is included only if it is above another."""
        return self._strictly(concepts, self.parent_start, self.parent_index)

    def descendants(self, concepts: str | Iterable[str]) -> set[str]:
        """Every concept below any of the given ones; a given one is included only if it is below another."""
        return self._strictly(concepts, *self.child_rows)

    def subsumers(self, indices: IntArray) -> BoolArray:
        """Mask over all concepts: the given ones and everything above them."""
        return _reach(indices, self.parent_start, self.parent_index, len(self))

    def closure(self, indices: IntArray) -> Closure:
        """Subsumers of each of the given concepts, with the shortest distance upwards."""
        item, node = np.arange(len(indices), dtype=np.int64), np.asarray(indices, dtype=np.int64)
        keys, steps = [item * len(self) + node], [np.zeros(len(node), dtype=np.int64)]
        while len(node):
            source, node = expand(node, self.parent_start, self.parent_index)
            # Two ways of one length lead to one pair; ways of different length are merged at the end.
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

    @cached_property
    def child_rows(self) -> tuple[IntArray, IntArray]:
        """The edges the other way round, in compressed rows: (start, index)."""
        child = np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.parent_start))
        order = np.argsort(self.parent_index, kind="stable")
        counts = np.bincount(self.parent_index, minlength=len(self)).astype(np.int64)
        return _starts(counts), child[order]

    @cached_property
    def max_depth(self) -> IntArray:
        """Edges on the longest way from each concept to the root; -1 for a concept on or below a cycle."""
        start, index = self.child_rows
        waiting = np.diff(self.parent_start).astype(np.int64)
        depth = np.full(len(self), -1, dtype=np.int64)
        frontier, level = np.flatnonzero(waiting == 0), 0
        while len(frontier):
            depth[frontier] = level
            _, below = expand(frontier, start, index)
            touched, arrivals = np.unique(below, return_counts=True)
            waiting[touched] -= arrivals
            frontier, level = touched[waiting[touched] == 0], level + 1
        return depth

    @cached_property
    def min_depth(self) -> IntArray:
        """Edges on the shortest way from each concept to the root."""
        start, index = self.child_rows
        depth = np.full(len(self), -1, dtype=np.int64)
        frontier, level = np.flatnonzero(np.diff(self.parent_start) == 0), 0
        while len(frontier):
            depth[frontier] = level
            _, below = expand(frontier, start, index)
            frontier, level = np.unique(below[depth[below] < 0]), level + 1
        return depth

    @cached_property
    def height(self) -> int:
        """Edges on the longest way from any concept to the root."""
        return int(self.max_depth.max(initial=0))

    @cached_property
    def information(self) -> InformationContent:
        """Information content with the whole taxonomy as the corpus, kept because it is asked for often."""
        from unseen.concepts.information import information_content

        return information_content(self)

    @cached_property
    def sort_rank(self) -> IntArray:
        """Place of each concept in a fixed order, which settles ties between subsumers; here the order of the ids."""
        rank = np.empty(len(self), dtype=np.int64)
        rank[np.argsort(np.array(self.ids, dtype=np.str_), kind="stable")] = np.arange(len(self))
        return rank

    @cached_property
    def _position(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.ids)}

    def _strictly(self, concepts: str | Iterable[str], start: IntArray, index: IntArray) -> set[str]:
        given = self.index([concepts] if isinstance(concepts, str) else concepts)
        _, beyond = expand(given, start, index)
        return set(self.names(np.flatnonzero(_reach(beyond, start, index, len(self)))))

    def _validate(self) -> None:
        if not self.ids:
            raise TaxonomyError("a taxonomy needs at least one edge or concept; none was given.")
        if len(self._position) != len(self.ids):
            twice = next(name for i, name in enumerate(self.ids) if self._position[name] != i)
            raise TaxonomyError(f"the concept {twice!r} is listed twice. Give every concept one id.")
        if (self.max_depth < 0).any():
            raise TaxonomyError(
                f"the taxonomy has a cycle: {' -> '.join(self._find_cycle())}. Is-a edges must lead to a root: "
                "remove one of these edges."
            )
        if len(self.roots) > 1:
            shown = ", ".join(repr(name) for name in self.roots[:5]) + (", ..." if len(self.roots) > 5 else "")
            raise TaxonomyError(
                f"the taxonomy has {len(self.roots)} roots: {shown}. It needs one: add the missing edges, or name "
                "a common root to hang them from (root=...)."
            )

    def _find_cycle(self) -> list[str]:
        """One cycle, child to parent, its first concept repeated at the end."""
        stuck = self.max_depth < 0
        # A concept that hangs below a cycle is stuck too, but every stuck concept has a stuck parent: go up until
        # one comes round again.
        node, seen = int(np.flatnonzero(stuck)[0]), dict[int, int]()
        while node not in seen:
            seen[node] = len(seen)
            above = self.parent_index[self.parent_start[node] : self.parent_start[node + 1]]
            node = int(above[stuck[above]][0])
        cycle = list(seen)[seen[node] :]
        return [self.ids[i] for i in [*cycle, node]]


def expand(nodes: IntArray, start: IntArray, index: IntArray) -> tuple[IntArray, IntArray]:
    """Follow every edge out of `nodes`: (position in `nodes`, neighbour), one entry per edge."""
    first, counts = start[nodes], start[nodes + 1] - start[nodes]
    source = np.repeat(np.arange(len(nodes), dtype=np.int64), counts)
    within = np.arange(len(source), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    return source, index[first[source] + within]


def _reach(nodes: IntArray, start: IntArray, index: IntArray, size: int) -> BoolArray:
    reached = np.zeros(size, dtype=np.bool_)
    frontier = np.unique(nodes)
    while len(frontier):
        reached[frontier] = True
        _, beyond = expand(frontier, start, index)
        frontier = np.unique(beyond[~reached[beyond]])
    return reached


def _starts(counts: IntArray) -> IntArray:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])


def _did_you_mean(name: str, known: Iterable[str], *without: str) -> str:
    hits = closest(name, (k for k in known if k not in without), count=2)
    return f" (did you mean {' or '.join(repr(h) for h in hits)}?)" if hits else ""
