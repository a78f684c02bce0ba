"""The authors' own ImageNet-CoG lists, read without trusting them.

Source:     `cog_levels_mapping_file.pkl`, the concepts of each level, and `cog_concepts_split_file.pkl`, the image
            files of each concept, as published by the authors of ImageNet-CoG
Layout:     the first is a list (or a dictionary by position) of five lists of wnids; the second maps a wnid to a
            dictionary with "train" and "test", each an array of file names relative to the folder of images
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from unseen.concepts.levels import Level, Levels, RankedConcept
from unseen.core.errors import DataError
from unseen.core.guard import reader
from unseen.core.names import is_wnid
from unseen.core.safe_pickle import load_plain_pickle


@dataclass(frozen=True)
class ConceptImages:
    """Image files of one concept, sorted, relative to the folder of images."""

    train: tuple[str, ...]
    test: tuple[str, ...]


@reader("published levels")
def read_published_levels(path: str | PathLike[str]) -> Levels:
    """Read `cog_levels_mapping_file.pkl`; concepts keep its order, similarities are not in it."""
    content = load_plain_pickle(path)
    if isinstance(content, Mapping):
        try:
            content = [content[key] for key in sorted(content)]
        except TypeError:
            raise DataError(f"{path}: the levels have keys of several kinds. A list of levels is expected.") from None
    if not isinstance(content, (list, tuple)) or not content:
        raise DataError(f"{path}: expected a list of levels, found {type(content).__name__}.")
    levels = tuple(Level(f"L{i}", tuple(_concepts(path, i, row))) for i, row in enumerate(content, start=1))
    twice = [name for name, times in Counter(c for level in levels for c in level.ids).items() if times > 1]
    if twice:
        raise DataError(f"{path}: {twice[0]} stands in two places. Levels are disjoint.")
    return Levels(levels, (), "published", {"source": str(path)})


@reader("a published split")
def read_published_split(path: str | PathLike[str]) -> dict[str, ConceptImages]:
    """Read `cog_concepts_split_file.pkl`: the train and test images of every concept."""
    content = load_plain_pickle(path)
    if not isinstance(content, Mapping) or not content:
        raise DataError(f"{path}: expected a dictionary by wnid, found {type(content).__name__}.")
    split = {}
    for wnid, parts in content.items():
        if not isinstance(wnid, str) or not isinstance(parts, Mapping) or not {"train", "test"} <= set(parts):
            raise DataError(f"{path}: the entry {wnid!r} is not a wnid with a 'train' and a 'test' list.")
        split[wnid] = ConceptImages(_files(path, wnid, parts["train"]), _files(path, wnid, parts["test"]))
    return split


def _concepts(path: str | PathLike[str], number: int, row: Any) -> Iterable[RankedConcept]:
    values = row.tolist() if isinstance(row, np.ndarray) else row
    if not isinstance(values, (list, tuple, set, frozenset)):
        raise DataError(f"{path}: level {number} is a {type(row).__name__}, not a list of wnids.")
    # A set has no order of its own, and a run must not depend on chance.
    for value in sorted(values) if isinstance(values, (set, frozenset)) else values:
        if not isinstance(value, str) or not is_wnid(value):
            raise DataError(f"{path}: level {number} holds {value!r}, which is not a wnid such as n02123045.")
        yield RankedConcept(value)


def _files(path: str | PathLike[str], wnid: str, names: Any) -> tuple[str, ...]:
    values = names.tolist() if isinstance(names, np.ndarray) else names
    if not isinstance(values, (list, tuple)) or not all(isinstance(name, str) for name in values):
        raise DataError(f"{path}: the images of {wnid} are not a list of file names.")
    # Some names start with a slash although they are relative; one that climbs out of the folder is not a name.
    relative = sorted(name.lstrip("/\\") for name in values)
    if any(".." in name.replace("\\", "/").split("/") for name in relative):
        raise DataError(f"{path}: an image of {wnid} lies outside the folder of images.")
    return tuple(relative)
