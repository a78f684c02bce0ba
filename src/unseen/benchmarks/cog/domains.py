"""The concept domains of a CoG: the seen concepts, the levels of unseen ones, and random control levels.

Paper:      Sariyildiz et al., ICCV 2021, sections 3.1 to 3.3 [P]; supplement A and D [S]
Implements: any dataset whose classes have ids in an ontology becomes a CoG: eligible unseen classes are ranked by
            their similarity to the seen list (Eq. 2 of [P]) and cut into levels of equal size; or the levels are those
            of a file. ImageNet-CoG itself is such a dataset: a domain is a set of classes, whatever it comes from
Differs:    a dataset holds only some of the seen concepts; similarity is taken to the whole seen list, which is what
            the model was trained on. All domains are cut to one size, the seen one by a seeded draw, because accuracy
            over more classes is not comparable. A class that stands under its level's size for want of images stays
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unseen.benchmarks.cog.level_files import level_names, read_level_file
from unseen.concepts import (
    MEASURES,
    Level,
    Levels,
    Taxonomy,
    WordNet,
    build_levels,
    corpus_information,
    filters_for,
    load_wordnet,
    nearest_seen,
    random_levels,
    read_class_list,
    read_seen,
    read_taxonomy,
    rerank_levels,
    run_funnel,
    text_measure,
)
from unseen.concepts.levels import RankedConcept
from unseen.concepts.nearest import SimilarityFunction
from unseen.core.errors import DataError, UnknownNameError, UsageError
from unseen.core.identity import digest, option, parameters_of
from unseen.core.options import Natural, Positive
from unseen.data import Dataset

SEEN = "seen"
#: What the names of random control levels begin with.
CONTROL = "R"


@dataclass(frozen=True)
class Concept:
    """One class of a domain.

    Attributes:
        label: its class index in the dataset.
        similarity: to the nearest seen concept; 1 for a seen one.
        nearest: id of that concept.
    """

    label: int
    id: str
    name: str
    similarity: float | None
    nearest: str | None
    nearest_name: str | None = None


@dataclass(frozen=True)
class Domain:
    """A set of classes that a classifier is learnt on: "seen", "L1" ..., or a control "R1" ..."""

    name: str
    concepts: tuple[Concept, ...]

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """Class indices of the dataset, ascending: the position of one is its label within the domain."""
        return np.array(sorted(concept.label for concept in self.concepts), np.int64)

    @property
    def mean_similarity(self) -> float | None:
        known = [c.similarity for c in self.concepts if c.similarity is not None]
        return float(np.mean(known)) if known else None


@dataclass(frozen=True)
class DomainRecipe:
    """How domains are made."""

    seen: str = option("imagenet-1k", file=True, help="What the models were trained on: imagenet-1k, or a file of ids.")
    levels: Positive | str = option(
        5, file=True, help="How many levels of unseen concepts, or a file of them (unseen cog levels --out FILE)."
    )
    size: Natural = option(0, help="Classes per domain; 0 means as many as all domains can have.")
    measure: str = option("lin", help="What ranks the unseen classes: lin, wu-palmer, text ...")
    rerank: str = option("", help="Another measure that orders the chosen classes anew (supplement D).")
    vectors: str = option("", file=True, help="Word vectors for text: a word2vec, GloVe or Wikipedia2Vec file.")
    controls: Natural = option(
        0, neutral="a control's draw does not depend on how many follow it", help="Random control levels (15 in D)."
    )
    ontology: str = option("", file=True, help="An edge list of your own; WordNet by default.")
    draw_seed: int = option(0, help="Of the draws of seen classes and controls.")

    def __post_init__(self) -> None:
        if isinstance(self.levels, str) and self.levels.isdecimal():  # a command line has texts only
            object.__setattr__(self, "levels", int(self.levels))
        if (inherited := getattr(super(), "__post_init__", None)) is not None:
            inherited()
        if isinstance(self.levels, str) and not Path(self.levels).is_file():
            raise UsageError(f"levels must be a number (int) or a file of levels; there is no file {self.levels!r}.")

    @property
    def recipe(self) -> DomainRecipe:
        """The recipe alone, of a benchmark whose options include one."""
        return DomainRecipe(**{f.name: getattr(self, f.name) for f in fields(DomainRecipe)})

    def domain_names(self, dataset: str) -> list[str]:
        """The domains of a dataset, in order: one, where it is a level of ImageNet-CoG itself."""
        if (given := given_domain(dataset)) is not None:
            return [given]
        unseen = level_names(self.levels)
        return [SEEN, *unseen, *(f"{CONTROL}{i + 1}" for i in range(self.controls))]

    def idle_beside(self, *given: str) -> None:
        """Refuse options that would change nothing."""
        for name in given:
            default = next(f.default for f in fields(DomainRecipe) if f.name == name)
            if getattr(self, name) != default:
                raise UsageError(f"{name} = {getattr(self, name)!r} would change nothing here: {_IDLE[name]}.")


_IDLE = {
    "levels": "the dataset is one level already; name the whole, such as imagenet:cog",
    "controls": "the dataset is one level already; name the whole, such as imagenet:cog",
    "rerank": "the dataset is one level already; name the whole, such as imagenet:cog",
    "size": "a level that is given is taken as it is; ask for a number of levels to have them cut anew",
    "ontology": "the levels of ImageNet-CoG are WordNet's",
    "measure": "levels from a file are taken as they are; rerank orders their concepts anew",
    "vectors": "they are for the measure text; ask for it by measure or rerank",
}


@dataclass(frozen=True)
class Domains:
    """The domains of one dataset, with the account of how its classes came to be in them."""

    domains: dict[str, Domain]
    account: dict[str, Any] = field(default_factory=dict)


def check_domains(dataset: Dataset, recipe: DomainRecipe) -> None:
    """Raise where the domains cannot be made as asked: before anything is extracted, and no option is passed over."""
    for measure in filter(None, (recipe.measure, recipe.rerank)):
        if measure not in (*MEASURES, "text"):
            raise UnknownNameError("measure", measure, [*MEASURES, "text"])
    if "text" not in (recipe.measure, recipe.rerank):
        recipe.idle_beside("vectors")
    if given_domain(dataset.id) is not None:
        recipe.idle_beside("levels", "size", "rerank", "controls", "ontology")
    elif isinstance(recipe.levels, str):
        recipe.idle_beside("size", "measure")
    domains_of(dataset, recipe)


def domains_of(dataset: Dataset, recipe: DomainRecipe) -> Domains:
    """`make_domains`, once for a dataset and a recipe, whose files count with their content."""
    return _cached(dataset, recipe, digest(parameters_of(recipe)))


@lru_cache(maxsize=8)
def _cached(dataset: Dataset, recipe: DomainRecipe, _content: str) -> Domains:
    return make_domains(dataset, recipe)


def make_domains(dataset: Dataset, recipe: DomainRecipe) -> Domains:
    """Cut the classes of a dataset into seen ones and levels.

    Raises:
        DataError: the classes have no ids, or too few are seen or unseen.
    """
    if (given := given_domain(dataset.id)) is not None:
        return _whole(dataset, given, recipe)
    taxonomy = _taxonomy(recipe)
    ids = _class_ids(dataset, taxonomy)
    seen_name, seen = _seen(recipe.seen, taxonomy)
    known = sorted(set(ids).intersection(seen))
    account: dict[str, Any] = {"seen": seen_name, "classes": len(ids)}
    if isinstance(recipe.levels, str):
        levels = read_level_file(Path(recipe.levels), dataset.id, set(ids), seen)
        size = min(len(level.concepts) for level in levels.levels)
    else:
        eligible, account["funnel"] = _eligible(taxonomy, sorted(set(ids) - {""}), seen)
        size = recipe.size or min(len(eligible) // recipe.levels, len(known))
        if size < 2:
            raise DataError(
                f"{dataset.id!r} has {len(known)} classes in {seen_name} and {len(eligible)} eligible unseen ones: too "
                f"few for a seen set and {recipe.levels} levels of two classes or more."
            )
        measure = _measure(recipe.measure, taxonomy, recipe)
        levels = build_levels(taxonomy, eligible, seen, levels=recipe.levels, size=size, measure=measure)
    levels = _varied(levels, taxonomy, seen, recipe, size)
    describe = _Describer(dataset, taxonomy, {identifier: label for label, identifier in enumerate(ids) if identifier})
    drawn = _draw(known, size, recipe.draw_seed)
    domains = {SEEN: Domain(SEEN, tuple(describe(identifier, 1.0, identifier) for identifier in drawn))}
    for level in levels.levels:
        domains[level.name] = Domain(level.name, tuple(describe(c.id, c.similarity, c.nearest) for c in level.concepts))
    return Domains(domains, {**account, "size": size, "measure": levels.measure})


class _Describer:
    """Turns an id into a concept of the dataset."""

    def __init__(self, dataset: Dataset, taxonomy: Taxonomy, labels: dict[str, int]) -> None:
        self.dataset, self.taxonomy, self.labels = dataset, taxonomy, labels

    def __call__(self, identifier: str, similarity: float | None, nearest: str | None) -> Concept:
        label = self.labels[identifier]
        name = self.taxonomy.label(nearest) if nearest and isinstance(self.taxonomy, WordNet) else nearest
        return Concept(label, identifier, self.dataset.class_names[label], similarity, nearest, name)


def _taxonomy(recipe: DomainRecipe) -> Taxonomy:
    return read_taxonomy(Path(recipe.ontology)) if recipe.ontology else load_wordnet()


def _class_ids(dataset: Dataset, taxonomy: Taxonomy) -> list[str]:
    """One id per class; classes without one, or whose id the ontology lacks, stay out (an empty id)."""
    wnids = dataset.wnids or [None] * len(dataset.class_names)
    # An ontology of one's own speaks of classes by their names, or by their WordNet ids.
    names = [None] * len(wnids) if isinstance(taxonomy, WordNet) else dataset.class_names
    ids = [
        next((word for word in (name, wnid) if word and word in taxonomy), "")
        for name, wnid in zip(names, wnids, strict=True)
    ]
    if not any(ids):
        raise DataError(
            f"no class of {dataset.id!r} has an id in the ontology. Give its classes WordNet ids "
            f"(folder:PATH?wnids=FILE, lines of class<TAB>wnid; `unseen cog run PATH` and `unseen audit PATH "
            f"--write-mapping FILE` propose them), or your own ontology."
        )
    return ids


def _seen(seen: str, taxonomy: Taxonomy) -> tuple[str, list[str]]:
    if isinstance(taxonomy, WordNet):
        return read_seen(seen, taxonomy)
    return Path(seen).name, [name for name in read_class_list(seen) if name in taxonomy]


def _eligible(taxonomy: Taxonomy, own: Sequence[str], seen: Sequence[str]) -> tuple[list[str], list[dict[str, Any]]]:
    """Unseen classes that may enter a level, by the paper's filters, and how many each filter dropped."""
    funnel = run_funnel(taxonomy, own, filters_for(taxonomy, own, seen))
    return list(funnel.concepts), [{"filter": s.name, "dropped": s.dropped, "left": s.left} for s in funnel.steps]


def _measure(name: str, taxonomy: Taxonomy, recipe: DomainRecipe) -> str | SimilarityFunction:
    return text_measure(taxonomy, recipe.vectors) if name == "text" and recipe.vectors else name


def _varied(levels: Levels, taxonomy: Taxonomy, seen: Sequence[str], recipe: DomainRecipe, size: int) -> Levels:
    """The levels with every similarity known, in the order of `rerank` where asked for, and controls beside them."""
    ranked = [level for level in levels.levels if not level.name.startswith(CONTROL)]
    drawn = [level for level in levels.levels if level.name.startswith(CONTROL)]
    kept = Levels(tuple(ranked), levels.gaps, levels.measure, levels.details)
    if ranked and (recipe.rerank or any(c.similarity is None for level in ranked for c in level.concepts)):
        if recipe.rerank:
            kept = rerank_levels(kept, taxonomy, seen, _measure(recipe.rerank, taxonomy, recipe))
        else:
            kept = _with_similarity(kept, taxonomy, seen, recipe.measure)
    if recipe.controls:
        drawn += random_levels(levels.ids, draws=recipe.controls, size=size, seed=recipe.draw_seed).levels
    return Levels((*kept.levels, *drawn), kept.gaps, kept.measure, kept.details)


def _with_similarity(levels: Levels, taxonomy: Taxonomy, seen: Sequence[str], measure: str) -> Levels:
    """Levels whose file says which concepts they have and no more, such as the authors' own."""
    found = nearest_seen(taxonomy, levels.ids, seen, measure, ic=corpus_information(taxonomy))
    near = dict(zip(levels.ids, zip(found.similarity.tolist(), found.nearest, strict=True), strict=True))
    known = [Level(level.name, tuple(RankedConcept(i, *near[i]) for i in level.ids)) for level in levels.levels]
    return Levels(tuple(known), levels.gaps, measure, levels.details)


def _draw(ids: Sequence[str], size: int, seed: int) -> list[str]:
    """A seeded draw of seen classes, so that all domains have one size."""
    if len(ids) < size:
        raise DataError(f"domains of {size} classes need as many seen ones; the dataset has {len(ids)}.")
    chosen = np.random.default_rng([seed, 1]).choice(len(ids), size, replace=False)
    return [ids[i] for i in sorted(chosen.tolist())]


def given_domain(dataset: str) -> str | None:
    """The domain that a dataset of ImageNet-CoG is: "seen", or "L3" for imagenet:cog-l3; None for any other."""
    scheme, _, rest = dataset.partition("?")[0].partition(":")
    if scheme != "imagenet":
        return None
    if rest.startswith("in1k"):
        return SEEN
    return rest.removeprefix("cog-").upper() if rest.startswith("cog-l") else None


def _whole(dataset: Dataset, name: str, recipe: DomainRecipe) -> Domains:
    """A dataset that is one domain already: all of its classes."""
    taxonomy = load_wordnet()
    ids = _class_ids(dataset, taxonomy)
    seen_name, seen = _seen(recipe.seen, taxonomy)
    measure = _measure(recipe.measure, taxonomy, recipe)
    found = nearest_seen(taxonomy, ids, seen, measure, ic=corpus_information(taxonomy))
    rows = zip(ids, found.similarity, found.nearest, strict=True)
    describe = _Describer(dataset, taxonomy, {identifier: label for label, identifier in enumerate(ids)})
    domain = Domain(name, tuple(describe(identifier, float(s), nearest) for identifier, s, nearest in rows))
    return Domains({name: domain}, {"seen": seen_name, "classes": len(ids), "measure": recipe.measure})
