"""A taxonomy: concepts joined by is-a edges, a directed acyclic graph under one root.

Shapes:     n concepts, numbered in the order of `ids`; e edges. Edges are stored in compressed rows: the parents of
            concept i are `parent_index[parent_start[i]:parent_start[i + 1]]`.
Terms:      an ancestor or a descendant of a concept is another concept; a *subsumer* of a concept is the concept
            itself or one of its ancestors.

All walks are breadth-first over whole frontiers of NumPy arrays, so that a hundred thousand concepts take
milliseconds and no recursion limit applies.

An edge list in a file has one edge per row, child first, then parent:

    CSV, TSV    two columns; a first row of "child,parent" (any case, either order) is a header
    JSON        a list of pairs [["cat", "feline"], ...], or an object from child to parent(s) {"cat": ["feline"], ...}
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


class Taxonomy:
    """Concepts and their is-a edges.

    Args:
        ids: one name per concept, all different.
        parent_start, parent_index: the edges in compressed rows.
        validate: check that the graph is acyclic and has one root; switch off only for a graph known to be valid.
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
            root: an id to become the parent of every parentless concept. Without it, several roots are an error.
        """
        pairs = [(str(child), str(parent)) for child, parent in edges]
        names = [str(c) for c in concepts] if concepts is not None else [name for pair in pairs for name in pair]
        parents: dict[str, dict[str, None]] = {name: {} for name in names}
        for child, parent in pairs:
            for name, other in ((child, parent), (parent, child)):
                if name not in parents:
                    raise TaxonomyError(
                        f"the edge {child!r} -> {parent!r} names the unknown concept {name!r}"
                        f"{_did_you_mean(name, parents, other)}. Add it to the concepts, or drop the edge."
                    )
            parents[child][parent] = None
        if root is not None:
            parents.setdefault(root, {})
            for name, above in parents.items():
                if not above and name != root:
                    above[root] = None
        index = {name: i for i, name in enumerate(parents)}
        counts = np.array([len(above) for above in parents.values()], dtype=np.int64)
        flat = np.array([index[name] for above in parents.values() for name in above], dtype=np.int64)
        return cls(tuple(index), _starts(counts), flat)

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, concept: object) -> bool:
        return concept in self._position

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def index(self, concepts: Iterable[str]) -> IntArray:
        """Return the numbers of the concepts; an unknown id is an error that suggests similar ones."""
        try:
            return np.array([self._position[c] for c in concepts], dtype=np.int64)
        except KeyError as error:
            name = str(error.args[0])
            raise TaxonomyError(
                f"{name!r} is not a concept of this taxonomy of {len(self):,}{_did_you_mean(name, self.ids)}."
            ) from None

    def names(self, indices: IntArray) -> list[str]:
        """Return the ids of the numbered concepts."""
        return [self.ids[i] for i in indices.tolist()]

    def parents(self, concept: str) -> list[str]:
        """Return the concepts one edge above."""
        return self.names(expand(self.index([concept]), *self.parent_rows)[1])

    def children(self, concept: str) -> list[str]:
        """Return the concepts one edge below."""
        return self.names(expand(self.index([concept]), *self.child_rows)[1])

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
        """Edges on the longest path from each concept to the root; -1 for a concept on or below a cycle."""
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
    def height(self) -> int:
        """Edges on the longest path from any concept to the root."""
        return int(self.max_depth.max(initial=0))

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
                "a common root (root=...)."
            )

    def _find_cycle(self) -> list[str]:
        """Return one cycle, child to parent, its first concept repeated at the end."""
        stuck = self.max_depth < 0
        # A concept below a cycle is stuck too, but every stuck concept has a stuck parent: go up until one repeats.
        node, seen = int(np.flatnonzero(stuck)[0]), dict[int, int]()
        while node not in seen:
            seen[node] = len(seen)
            above = expand(np.array([node]), *self.parent_rows)[1]
            node = int(above[stuck[above]][0])
        cycle = list(seen)[seen[node] :]
        return [self.ids[i] for i in [*cycle, node]]


def expand(nodes: IntArray, start: IntArray, index: IntArray) -> tuple[IntArray, IntArray]:
    """Follow every edge out of `nodes`: (position in `nodes`, neighbour), one entry per edge."""
    first, counts = start[nodes], start[nodes + 1] - start[nodes]
    source = np.repeat(np.arange(len(nodes), dtype=np.int64), counts)
    within = np.arange(len(source), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    return source, index[first[source] + within]


def _starts(counts: IntArray) -> IntArray:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])


def _did_you_mean(name: str, known: Iterable[str], *without: str) -> str:
    hits = closest(name, (k for k in known if k not in without), count=2)
    return f" (did you mean {' or '.join(repr(h) for h in hits)}?)" if hits else ""


@reader("an ontology", error=TaxonomyError)
def read_taxonomy(path: str | PathLike[str], *, root: str | None = None) -> Taxonomy:
    """Read a taxonomy from an edge list.

    Args:
        path: a .csv, .tsv, .txt (tab-separated) or .json file.
        root: an id to become the parent of every parentless concept; without it, several roots are an error.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in {*_SEPARATORS, ".json"}:
        raise TaxonomyError(f"{path}: an ontology is read from .csv, .tsv, .txt or .json, not from {suffix!r}.")
    text = path.read_text(encoding="utf-8-sig")
    edges = list(_json_edges(path, text) if suffix == ".json" else _row_edges(path, text, _SEPARATORS[suffix]))
    if not edges:
        raise TaxonomyError(f"{path} has no edges. It needs one child and one parent per row.")
    return Taxonomy.from_edges(edges, root=root)


def taxonomy_from_networkx(graph: Any, *, towards: str = "parent", root: str | None = None) -> Taxonomy:
    """Convert a NetworkX directed graph.

    Args:
        graph: a `networkx.DiGraph`; its nodes become ids by `str`.
        towards: "parent" if an edge (u, v) means that u is a v, "child" if it means that v is a u.
        root: an id to become the parent of every parentless concept; without it, several roots are an error.
    """
    if towards not in ("parent", "child"):
        raise TaxonomyError(f"edges lead towards 'parent' or 'child', not {towards!r}.")
    if not graph.is_directed():
        raise TaxonomyError("the graph is undirected: which end of an edge is the parent? Use networkx.DiGraph.")
    edges = [(str(u), str(v)) if towards == "parent" else (str(v), str(u)) for u, v in graph.edges()]
    return Taxonomy.from_edges(edges, concepts=[str(node) for node in graph.nodes()], root=root)


def _row_edges(path: Path, text: str, separator: str) -> Iterator[tuple[str, str]]:
    child, parent = 0, 1
    for number, row in enumerate(csv.reader(text.splitlines(), delimiter=separator), start=1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or cells[0].startswith("#"):
            continue
        if len(cells) != 2 or not all(cells):
            raise TaxonomyError(
                f"{path}, line {number}: expected a child and a parent with a {'tab' if separator != ',' else 'comma'} "
                f"between them, found {len(cells)} column(s): {separator.join(cells)[:60]!r}."
            )
        if number == 1 and {cell.lower() for cell in cells} == {"child", "parent"}:
            child, parent = (0, 1) if cells[0].lower() == "child" else (1, 0)
            continue
        yield cells[child], cells[parent]


def _json_edges(path: Path, text: str) -> Iterator[tuple[str, str]]:
    content = json.loads(text)
    if isinstance(content, dict):
        for child, parents in content.items():
            for parent in [parents] if isinstance(parents, str) else parents or []:
                yield child, str(parent)
        return
    if not isinstance(content, list):
        raise TaxonomyError(f"{path}: expected a list of [child, parent] pairs or an object, found {type(content)}.")
    for number, pair in enumerate(content):
        if not (isinstance(pair, list) and len(pair) == 2):
            raise TaxonomyError(f"{path}: entry {number} is not a [child, parent] pair: {json.dumps(pair)[:60]}.")
        yield str(pair[0]), str(pair[1])
