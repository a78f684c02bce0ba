"""The zero-shot test splits of ImageNet: near by hops, most or least populated, all.

Paper:      Xian et al., "Zero-shot learning: a comprehensive evaluation of the good, the bad and the ugly", TPAMI 2018,
            section 5.2 [P]
Implements: classes 2 and 3 hops from ImageNet-1K; the 500, 1K, 5K most and least populated; all with an image
Differs:    [P] counts hops in ImageNet's release tree. Its lists are public as files; measured on WordNet, their
            "2 hops" are one edge away in the undirected is-a graph (1,548 of 1,549) and their "3 hops" two edges or
            one (5,982 of 7,860); the rest are children of the root of the release tree and cannot be derived from
            WordNet. So a split here is a distance in edges, and a published list is read from its file
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from os import PathLike
from pathlib import Path

import numpy as np

from unseen.concepts.mapping import read_class_list
from unseen.concepts.taxonomy import IntArray, Taxonomy, expand
from unseen.core.errors import DataError, UnknownNameError
from unseen.core.guard import reader

POPULATED = {"500": 500, "1k": 1_000, "5k": 5_000}


def graph_distance(taxonomy: Taxonomy, sources: Sequence[str], *, limit: int | None = None) -> IntArray:
    """Return the edges from each concept to the nearest source, in both directions; -1 beyond `limit`."""
    distance = np.full(len(taxonomy), -1, dtype=np.int64)
    child_start, child_index = taxonomy.child_rows
    frontier, step = np.unique(taxonomy.index(sources)), 0
    while len(frontier) and (limit is None or step <= limit):
        distance[frontier] = step
        above = expand(frontier, taxonomy.parent_start, taxonomy.parent_index)[1]
        below = expand(frontier, child_start, child_index)[1]
        beyond = np.concatenate([above, below])
        frontier, step = np.unique(beyond[distance[beyond] < 0]), step + 1
    return distance


def within_edges(taxonomy: Taxonomy, concepts: Sequence[str], seen: Sequence[str], edges: int) -> list[str]:
    """Return the unseen concepts at most `edges` edges away from a seen one, in order."""
    distance = graph_distance(taxonomy, seen, limit=edges)[taxonomy.index(concepts)]
    return [c for c, d in zip(concepts, distance.tolist(), strict=True) if d > 0]


def imagenet_zeroshot_split(name: str, taxonomy: Taxonomy, counts: Mapping[str, int], seen: Sequence[str]) -> list[str]:
    """Return a test split by its name.

    Args:
        name: "2-hops" or "3-hops" (one edge, at most two edges: see the header), "most-500", "most-1k", "most-5k",
            "least-500", "least-1k", "least-5k", "all".
        taxonomy: WordNet.
        counts: images per concept of the release.
        seen: the training concepts, ImageNet-1K.
    """
    if name == "all":
        return sorted(c for c, n in counts.items() if n > 0 and c not in set(seen))
    if name in ("2-hops", "3-hops"):
        candidates = sorted(set(counts).difference(seen))
        return within_edges(taxonomy, candidates, seen, int(name[0]) - 1)
    kind, _, size = name.partition("-")
    if kind in ("most", "least") and size in POPULATED:
        return _by_population(counts, POPULATED[size], set(seen), sign=-1 if kind == "most" else 1)
    known = ["all", "2-hops", "3-hops", *(f"{k}-{s}" for k in ("most", "least") for s in POPULATED)]
    raise UnknownNameError("zero-shot split", name, known)


@reader("a split")
def read_split(path: str | PathLike[str], name: str | None = None) -> list[str]:
    """Read a split: a class list (see `unseen.concepts.mapping`), or a JSON object from split name to classes.

    Args:
        name: the split of a JSON object; not needed if it has only one.
    """
    path = Path(path)
    if path.suffix != ".json":
        return read_class_list(path)
    content = json.loads(path.read_text(encoding="utf-8-sig"))
    if isinstance(content, dict):
        if name is None and len(content) == 1:
            (name,) = content
        if name is None or name not in content:
            wrong = "one list of classes is needed" if name is None else f"{name!r} is not one of them"
            raise DataError(f"{path} has the splits {', '.join(content)}; {wrong}.")
        content = content[name]
    if not isinstance(content, list) or not all(isinstance(concept, str) for concept in content):
        raise DataError(f"{path}: a split is a list of class names or WordNet ids.")
    return content


def _by_population(counts: Mapping[str, int], count: int, without: Collection[str], sign: int) -> list[str]:
    """Return the concepts with the most images (sign -1) or the fewest (1), at least one; ties are broken by id."""
    candidates = [c for c, n in counts.items() if n > 0 and c not in without]
    if count > len(candidates):
        raise DataError(f"{count:,} concepts were requested, and {len(candidates):,} unseen ones have an image.")
    return sorted(candidates, key=lambda c: (sign * counts[c], c))[:count]
