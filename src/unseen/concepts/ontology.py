"""Taxonomies from files and graphs: anybody's ontology.

An edge list has one edge per row, child first, then parent:

    CSV, TSV    two columns; a first row of "child,parent" (any case, either order) is a header
    JSON        a list of pairs [["cat", "feline"], ...], or an object from child to parent(s) {"cat": ["feline"], ...}
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from unseen.concepts.taxonomy import Taxonomy
from unseen.core.errors import TaxonomyError
from unseen.core.guard import reader

_SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}


@reader("an ontology", error=TaxonomyError)
def read_taxonomy(path: str | PathLike[str], *, root: str | None = None) -> Taxonomy:
    """Read a taxonomy from an edge list.

    Args:
        path: a .csv, .tsv, .txt (tab-separated) or .json file.
        root: an id to hang every parentless concept from; without it, several roots are an error.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in {*_SEPARATORS, ".json"}:
        raise TaxonomyError(f"{path}: an ontology is read from .csv, .tsv, .txt or .json, not from {suffix!r}.")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TaxonomyError(f"cannot read the ontology {path}: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise TaxonomyError(f"{path} is not UTF-8 text (byte {error.start}). Save it as UTF-8.") from None
    edges = list(_json_edges(path, text) if suffix == ".json" else _row_edges(path, text, _SEPARATORS[suffix]))
    if not edges:
        raise TaxonomyError(f"{path} has no edges. It needs one child and one parent per row.")
    return Taxonomy.from_edges(edges, root=root)


def taxonomy_from_networkx(graph: Any, *, towards: str = "parent", root: str | None = None) -> Taxonomy:
    """Take over a NetworkX directed graph.

    Args:
        graph: a `networkx.DiGraph`; its nodes become ids by `str`.
        towards: "parent" if an edge (u, v) says that u is a v, "child" if it says that v is a u.
        root: an id to hang every parentless concept from; without it, several roots are an error.
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
