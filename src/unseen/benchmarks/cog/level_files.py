"""Levels that a file says: of ImageNet-CoG, of its authors, or of an ontology of one's own."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

from unseen.concepts.levels import FORMAT, Level, Levels, RankedConcept
from unseen.core.errors import DataError
from unseen.core.identity import file_behind, file_digest
from unseen.data.sources.imagenet.cog import read_levels
from unseen.data.sources.imagenet.tree import some

_NAME = re.compile(r"[LR]\d+")


def level_names(levels: int | str) -> list[str]:
    """The names of the levels that an option asks for."""
    if isinstance(levels, int):
        return [f"L{i + 1}" for i in range(levels)]
    return [level.name for level in _read(levels).levels]


def read_level_file(path: Path, dataset: str, own: Collection[str], seen: Collection[str]) -> Levels:
    """The levels of a file, all of whose concepts the dataset has.

    Args:
        dataset: its name, for messages.
        own: ids of the dataset's classes.
        seen: ids of the seen concepts.

    Raises:
        DataError: a concept has no images in the dataset, or is a seen one; a level has fewer than two concepts.
    """
    levels = _read(str(path))
    if missing := sorted(set(levels.ids).difference(own)):
        raise DataError(
            f"{len(missing):,} of the {len(set(levels.ids)):,} concepts of {path} are no class of {dataset!r}: "
            f"{some(missing)}. Make levels of what is there: unseen cog levels --images FOLDER"
        )
    if both := sorted(set(levels.ids).intersection(seen)):
        raise DataError(f"{len(both):,} concepts of {path} are seen concepts, such as {both[0]}: they are no level.")
    if small := [level.name for level in levels.levels if len(level.concepts) < 2]:
        raise DataError(f"{path}: the level {small[0]} has fewer than two concepts; a classifier needs two.")
    return levels


def _read(text: str) -> Levels:
    path = file_behind(text)
    if path is None:
        raise DataError(f"levels {text!r} are neither a number nor a file. Make a file: unseen cog levels --out FILE")
    return _parsed(path, file_digest(path))


@lru_cache(maxsize=8)
def _parsed(path: Path, _content: str) -> Levels:
    """What is in the file, levels called L1, L2 ... and controls R1, R2 ..., whatever it calls them."""
    if path.suffix == ".json" and f'"{FORMAT}"' in path.read_text(encoding="utf-8", errors="replace")[:200]:
        found = Levels.load(path)
    else:
        plain = read_levels(path)
        found = Levels(tuple(Level(name.upper(), tuple(map(RankedConcept, ids))) for name, ids in plain.items()))
    if not all(_NAME.fullmatch(level.name) for level in found.levels):
        named = tuple(Level(f"L{i}", level.concepts) for i, level in enumerate(found.levels, start=1))
        found = Levels(named, found.gaps, found.measure, found.details)
    return found
