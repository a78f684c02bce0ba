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
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

from unseen.concepts.mapping import read_class_list
from unseen.concepts.taxonomy import Taxonomy
from unseen.core.arrays import IntArray
from unseen.core.errors import DataError, UnknownNameError
from unseen.core.guard import reader

POPULATED = {"500": 500, "1k": 1_000, "5k": 5_000}


def graph_distance(taxonomy: Taxonomy, sources: Sequence[str], *, limit: int | None = None) -> IntArray:
    """Return the edges from each concept to the nearest source, in both directions; -1 beyond `limit`."""
    return taxonomy.distances(taxonomy.index(sources), taxonomy.parent_rows, taxonomy.child_rows, limit=limit)


def imagenet_zeroshot_split(name: str, taxonomy: Taxonomy, counts: Mapping[str, int], seen: Sequence[str]) -> list[str]:
    """Return a test split by its name.

    Args:
        name: "2-hops" or "3-hops" (one edge, at most two edges: see the header), "most-500", "most-1k", "most-5k",
            "least-500", "least-1k", "least-5k", "all".
        taxonomy: WordNet.
        counts: images per concept of the release.
        seen: the training concepts, ImageNet-1K.
    """
    unseen = sorted(set(counts).difference(seen))
    populated = [c for c in unseen if counts[c] > 0]
    if name == "all":
        return populated
    if name in ("2-hops", "3-hops"):
        distance = graph_distance(taxonomy, seen, limit=int(name[0]) - 1)[taxonomy.index(unseen)]
        return [c for c, edges in zip(unseen, distance, strict=True) if edges > 0]
    kind, _, size = name.partition("-")
    if kind in ("most", "least") and size in POPULATED:
        if POPULATED[size] > len(populated):
            raise DataError(f"{name}: {POPULATED[size]:,} concepts are needed, {len(populated):,} unseen have images.")
        sign = -1 if kind == "most" else 1
        return sorted(populated, key=lambda c: (sign * counts[c], c))[: POPULATED[size]]  # ties are broken by id
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
