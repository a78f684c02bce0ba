"""Generalization levels: groups of unseen concepts, increasingly distant from the seen ones.

Paper:      Sariyildiz et al., ICCV 2021, section 3.3 and Fig. 2 [P], supplement D.1 [S]
Implements: ranking by Eq. (2) of [P]; runs of equal size spread over the whole ranked list; re-ranking of the chosen
            concepts by another measure and random control levels [S]
Differs:    [P] does not state how gaps are rounded: run i of k starts at floor(i (n - size) / (k - 1)). Ties are broken
            by id. The corpus of the information content is fixed (`corpus_information`), so that levels do not depend
            on the synsets of the user's copy
Expected:   5,146 eligible concepts give 5 levels of 1,000 and 146 in the four gaps; 15 control levels
Files:      the authors' `cog_levels_mapping_file.pkl` is a list (or a dictionary by position) of five lists of wnids;
            their `cog_concepts_split_file.pkl` maps a wnid to a dictionary with "train" and "test", each an array of
            file names relative to the folder of images. Both are read without running code
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from unseen.concepts.information import InformationContent, corpus_information, information_content
from unseen.concepts.similarity import SimilarityFunction, nearest_seen
from unseen.concepts.taxonomy import Taxonomy
from unseen.core.errors import DataError, TaxonomyError
from unseen.core.guard import guarded, reader
from unseen.core.names import is_wnid
from unseen.core.pickles import load_plain_pickle

FORMAT = "unseen-levels/1"


@dataclass(frozen=True)
class RankedConcept:
    """An unseen concept with its similarity to the seen ones and the seen one it is nearest to."""

    id: str
    similarity: float | None = None
    nearest: str | None = None


@dataclass(frozen=True)
class Level:
    """One generalization level: concepts from most to least similar."""

    name: str
    concepts: tuple[RankedConcept, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(concept.id for concept in self.concepts)

    @property
    def mean_similarity(self) -> float:
        """Mean over the concepts; NaN if no similarity is known."""
        known = [c.similarity for c in self.concepts if c.similarity is not None]
        return float(np.mean(known)) if known else float("nan")


@dataclass(frozen=True)
class Levels:
    """A list of levels and the concepts between them.

    Attributes:
        levels: from the nearest to the farthest.
        gaps: concepts that fell between two levels, one tuple per gap.
        measure: the measure that ranked them.
        details: further information, as JSON values.
    """

    levels: tuple[Level, ...]
    gaps: tuple[tuple[RankedConcept, ...], ...] = ()
    measure: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def ids(self) -> tuple[str, ...]:
        """All concepts of all levels."""
        return tuple(concept for level in self.levels for concept in level.ids)

    def __getitem__(self, name: str) -> Level:
        for level in self.levels:
            if level.name.lower() == name.lower():
                return level
        raise DataError(f"there is no level {name!r}. There are: {', '.join(level.name for level in self.levels)}.")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""

        def rows(concepts: Sequence[RankedConcept]) -> list[list[Any]]:
            return [[c.id, c.similarity, c.nearest] for c in concepts]

        return {
            "format": FORMAT,
            "measure": self.measure,
            "columns": ["id", "similarity", "nearest"],
            "levels": [{"name": level.name, "concepts": rows(level.concepts)} for level in self.levels],
            "gaps": [rows(gap) for gap in self.gaps],
            "details": self.details,
        }

    @classmethod
    def from_dict(cls, content: Any) -> Levels:
        """Return the levels of `to_dict`."""
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise DataError(f"not a levels file: its format must be {FORMAT!r}. Make one with: unseen cog levels")

        def ranked(rows: Iterable[Sequence[Any]]) -> tuple[RankedConcept, ...]:
            return tuple(RankedConcept(*row) for row in rows)

        with guarded("a damaged file", "levels", advice="Make it again with: unseen cog levels"):
            levels = tuple(Level(level["name"], ranked(level["concepts"])) for level in content["levels"])
            return cls(levels, tuple(map(ranked, content["gaps"])), content["measure"], content["details"])

    def save(self, path: str | PathLike[str]) -> None:
        """Write a JSON file; the same levels give the same bytes."""
        try:
            Path(path).write_text(json.dumps(self.to_dict(), indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise DataError(f"cannot write the levels {path}: {error.strerror}.") from None

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Levels:
        """Read a file that `save` wrote."""
        with guarded(path, "levels", advice="Make them with: unseen cog levels"):
            return cls.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))


def level_starts(count: int, levels: int, size: int) -> list[int]:
    """Return where each run begins in a ranked list of `count`: the first at its start, the last at its end."""
    if levels < 1 or size < 1:
        raise DataError(f"levels and their size must be at least 1, not {levels} of {size}.")
    if levels * size > count:
        raise DataError(
            f"{levels} levels of {size:,} need {levels * size:,} concepts, and {count:,} are eligible. Use "
            f"fewer or smaller levels (at most {count // levels:,} each), or loosen the filters."
        )
    return [i * (count - size) // max(levels - 1, 1) for i in range(levels)]


def build_levels(
    taxonomy: Taxonomy,
    concepts: Sequence[str],
    seen: Sequence[str],
    *,
    levels: int = 5,
    size: int = 1000,
    measure: str | SimilarityFunction = "lin",
    corpus: Sequence[str] | None = None,
    ic: InformationContent | None = None,
) -> Levels:
    """Rank unseen concepts by similarity to the seen ones and cut the list into levels.

    Args:
        taxonomy: the graph.
        concepts: eligible unseen concepts.
        seen: concepts that models were trained on.
        levels, size: number of levels, and of concepts in each.
        measure: a name that `similarity_matrix` knows, or a function from two lists of ids to their matrix.
        corpus: concepts to compute information content from, with `concepts` and `seen`; by default the fixed corpus
            of ImageNet-CoG in WordNet, or the whole of another taxonomy.
        ic: information content; takes precedence over `corpus`.
    """
    both = set(seen).intersection(concepts)
    if both:
        raise TaxonomyError(f"{len(both)} concepts are both seen and unseen, such as {min(both)!r}. Drop them first.")
    starts = level_starts(len(concepts), levels, size)
    if ic is None and corpus is not None:
        ic = information_content(taxonomy, [*corpus, *concepts, *seen])
    ranked = _rank(taxonomy, concepts, seen, measure, ic)
    ends = [start + size for start in starts]
    return Levels(
        tuple(Level(f"L{i + 1}", ranked[a:b]) for i, (a, b) in enumerate(zip(starts, ends, strict=True))),
        tuple(ranked[a:b] for a, b in zip(ends[:-1], starts[1:], strict=True)),
        _measure_name(measure),
    )


def rerank_levels(
    base: Levels,
    taxonomy: Taxonomy,
    seen: Sequence[str],
    measure: str | SimilarityFunction,
    *,
    ic: InformationContent | None = None,
) -> Levels:
    """Return levels of the same concepts and sizes, ranked by another measure (supplement D.1).

    Information content, for measures that use it, is that of `build_levels` unless `ic` is given.
    """
    ranked = _rank(taxonomy, base.ids, seen, measure, ic)
    rest = iter(ranked)
    cut = tuple(Level(level.name, tuple(islice(rest, len(level.concepts)))) for level in base.levels)
    return Levels(cut, (), _measure_name(measure))


def random_levels(concepts: Sequence[str], *, draws: int = 15, size: int = 1000, seed: int = 0) -> Levels:
    """Return control levels: independent random samples of `size` unseen concepts each (15 in supplement D.1)."""
    if size > len(concepts):
        raise DataError(f"cannot sample {size:,} of {len(concepts):,} concepts. Use a smaller size.")
    pool = sorted(set(concepts))
    levels = []
    for i in range(draws):
        # One generator per level: more levels do not change the first ones.
        chosen = np.random.default_rng([seed, i]).choice(len(pool), size, replace=False)
        levels.append(Level(f"R{i + 1}", tuple(RankedConcept(pool[k]) for k in sorted(chosen.tolist()))))
    return Levels(tuple(levels), (), "random", {"seed": seed})


def _rank(
    taxonomy: Taxonomy,
    concepts: Sequence[str],
    seen: Sequence[str],
    measure: str | SimilarityFunction,
    ic: InformationContent | None,
) -> tuple[RankedConcept, ...]:
    """Return concepts from most to least similar to the seen ones."""
    found = nearest_seen(taxonomy, concepts, seen, measure, ic=ic or corpus_information(taxonomy))
    return tuple(
        RankedConcept(found.concepts[i], float(found.similarity[i]), found.nearest[i]) for i in found.ranking().tolist()
    )


def _measure_name(measure: str | SimilarityFunction) -> str:
    return measure if isinstance(measure, str) else getattr(measure, "__name__", "custom")


@dataclass(frozen=True)
class ConceptImages:
    """Image files of one concept, sorted, relative to the folder of images."""

    train: tuple[str, ...]
    test: tuple[str, ...]


@reader("published levels")
def read_published_levels(path: str | PathLike[str]) -> Levels:
    """Read `cog_levels_mapping_file.pkl`; concepts keep its order and have no similarities."""
    content = load_plain_pickle(path)
    if isinstance(content, Mapping):
        if len(set(map(type, content))) > 1:
            raise DataError(f"{path}: the levels have keys of several kinds. A list of levels is expected.")
        content = [content[key] for key in sorted(content)]
    if not isinstance(content, (list, tuple)) or not content:
        raise DataError(f"{path}: expected a list of levels, found {type(content).__name__}.")
    levels = tuple(Level(f"L{i}", tuple(_concepts(path, i, row))) for i, row in enumerate(content, start=1))
    twice = [name for name, times in Counter(c for level in levels for c in level.ids).items() if times > 1]
    if twice:
        raise DataError(f"{path}: {twice[0]} occurs twice. Levels are disjoint.")
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


def _concepts(path: str | PathLike[str], number: int, row: object) -> Iterable[RankedConcept]:
    values = row.tolist() if isinstance(row, np.ndarray) else row
    if not isinstance(values, (list, tuple, set, frozenset)):
        raise DataError(f"{path}: level {number} is a {type(row).__name__}, not a list of wnids.")
    # A set has no fixed order.
    for value in sorted(values) if isinstance(values, (set, frozenset)) else values:
        if not isinstance(value, str) or not is_wnid(value):
            raise DataError(f"{path}: level {number} contains {value!r}, which is not a wnid such as n02123045.")
        yield RankedConcept(value)


def _files(path: str | PathLike[str], wnid: str, names: object) -> tuple[str, ...]:
    values = names.tolist() if isinstance(names, np.ndarray) else names
    if not isinstance(values, (list, tuple)) or not all(isinstance(name, str) for name in values):
        raise DataError(f"{path}: the images of {wnid} are not a list of file names.")
    # Some names start with a slash although they are relative; a name that leaves the folder is refused.
    relative = sorted(name.lstrip("/\\") for name in values)
    if any(".." in name.replace("\\", "/").split("/") for name in relative):
        raise DataError(f"{path}: an image of {wnid} lies outside the folder of images.")
    return tuple(relative)
