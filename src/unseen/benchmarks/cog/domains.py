"""The concept domains of a CoG: the seen concepts, the levels of unseen ones, and random control levels.

Paper:      Sariyildiz et al., ICCV 2021, sections 3.1 to 3.3 [P]; supplement A and D [S]
Implements: any dataset whose classes have ids in an ontology becomes a CoG: eligible unseen classes are ranked by
            their similarity to the seen list (Eq. 2 of [P]) and cut into levels of equal size
Differs:    a dataset holds only some of the seen concepts; similarity is taken to the whole seen list, which is what
            the model was trained on. All domains are cut to one size, the seen one by a seeded draw, because accuracy
            over more classes is not comparable. A class that stands under its level's size for want of images stays
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unseen.concepts import (
    MEASURES,
    Levels,
    Taxonomy,
    WordNet,
    build_levels,
    cog_discarded,
    cog_filters,
    imagenet_21k,
    information_content,
    load_wordnet,
    nearest_seen,
    random_levels,
    read_class_list,
    read_seen,
    read_taxonomy,
    rerank_levels,
    run_funnel,
)
from unseen.concepts.eligibility import PERSON
from unseen.core.errors import DataError, UnknownNameError
from unseen.core.identity import option
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
    levels: Positive = option(5, help="How many levels of unseen concepts.")
    size: Natural = option(0, help="Classes per domain; 0 means as many as all domains can have.")
    measure: str = option("lin", help="What ranks the unseen classes: lin, wu-palmer, text ...")
    rerank: str = option("", help="Another measure that orders the chosen classes anew (supplement D).")
    controls: Natural = option(
        0, neutral="a control's draw does not depend on how many follow it", help="Random control levels (15 in D)."
    )
    ontology: str = option("", file=True, help="An edge list of your own; WordNet by default.")
    draw_seed: int = option(0, help="Of the draws of seen classes and controls.")

    @property
    def recipe(self) -> DomainRecipe:
        """The recipe alone, of a benchmark whose options include one."""
        return DomainRecipe(**{f.name: getattr(self, f.name) for f in fields(DomainRecipe)})

    def domain_names(self, dataset: str) -> list[str]:
        """The domains of a dataset, in order: one, where it is a level of ImageNet-CoG itself."""
        if (given := given_domain(dataset)) is not None:
            return [given]
        unseen = [f"L{i + 1}" for i in range(self.levels)]
        return [SEEN, *unseen, *(f"{CONTROL}{i + 1}" for i in range(self.controls))]


@dataclass(frozen=True)
class Domains:
    """The domains of one dataset, with the account of how its classes came to be in them."""

    domains: dict[str, Domain]
    account: dict[str, Any] = field(default_factory=dict)


def check_ids(dataset: Dataset, recipe: DomainRecipe) -> None:
    """Raise where no domain can be made: a measure or a seen list that is not there, classes without ids."""
    for measure in filter(None, (recipe.measure, recipe.rerank)):
        if measure not in (*MEASURES, "text"):
            raise UnknownNameError("measure", measure, [*MEASURES, "text"])
    if given_domain(dataset.id) is None:
        taxonomy = _taxonomy(recipe)
        _seen(recipe.seen, taxonomy)
        _class_ids(dataset, taxonomy)


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
    own = set(ids) - {""}
    eligible, steps = _eligible(taxonomy, sorted(own), seen)
    size = recipe.size or min(len(eligible) // recipe.levels, len(own.intersection(seen)))
    if size < 2:
        raise DataError(
            f"{dataset.id!r} has {len(own.intersection(seen))} classes in {seen_name} and {len(eligible)} eligible "
            f"unseen ones: too few for a seen set and {recipe.levels} levels of two classes or more."
        )
    levels = _levels(taxonomy, eligible, seen, recipe, size)
    by_id = {identifier: label for identifier, label in zip(ids, range(len(ids)), strict=True) if identifier}
    describe = _Describer(dataset, taxonomy, by_id)
    drawn = _draw(sorted(own.intersection(seen)), size, recipe.draw_seed)
    domains = {SEEN: Domain(SEEN, tuple(describe(identifier, 1.0, identifier) for identifier in drawn))}
    for level in levels.levels:
        domains[level.name] = Domain(level.name, tuple(describe(c.id, c.similarity, c.nearest) for c in level.concepts))
    account = {"seen": seen_name, "classes": len(ids), "size": size, "measure": levels.measure, "funnel": steps}
    return Domains(domains, account)


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
    names = dataset.wnids if isinstance(taxonomy, WordNet) else dataset.class_names
    ids = [name if name and name in taxonomy else "" for name in names]
    if not any(ids):
        raise DataError(
            f"no class of {dataset.id!r} has an id in the ontology. Give its classes WordNet ids "
            f"(folder:PATH?wnids=FILE, lines of class<TAB>wnid; `unseen audit` proposes them), or your own ontology."
        )
    return ids


def _seen(seen: str, taxonomy: Taxonomy) -> tuple[str, list[str]]:
    if isinstance(taxonomy, WordNet):
        return read_seen(seen, taxonomy)
    return Path(seen).name, [name for name in read_class_list(seen) if name in taxonomy]


def _eligible(taxonomy: Taxonomy, own: Sequence[str], seen: Sequence[str]) -> tuple[list[str], list[dict[str, Any]]]:
    """Unseen classes that may enter a level, by the paper's filters, and how many each filter dropped."""
    wordnet = isinstance(taxonomy, WordNet)
    filters = cog_filters(own, seen, subtrees=(PERSON,) if wordnet else (), discard=cog_discarded() if wordnet else ())
    funnel = run_funnel(taxonomy, own, filters)
    return list(funnel.concepts), [{"filter": s.name, "dropped": s.dropped, "left": s.left} for s in funnel.steps]


def _levels(
    taxonomy: Taxonomy, eligible: Sequence[str], seen: Sequence[str], recipe: DomainRecipe, size: int
) -> Levels:
    corpus = [*imagenet_21k(), *eligible, *seen] if isinstance(taxonomy, WordNet) else None
    ic = information_content(taxonomy, corpus) if corpus else None
    made = build_levels(taxonomy, eligible, seen, levels=recipe.levels, size=size, measure=recipe.measure, ic=ic)
    if recipe.rerank:
        made = rerank_levels(made, taxonomy, seen, recipe.rerank, ic=ic)
    if recipe.controls:
        controls = random_levels(made.ids, draws=recipe.controls, size=size, seed=recipe.draw_seed)
        made = Levels((*made.levels, *controls.levels), made.gaps, made.measure, made.details)
    return made


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
    ic = information_content(taxonomy, [*imagenet_21k(), *ids, *seen])
    found = nearest_seen(taxonomy, ids, seen, recipe.measure, ic=ic)
    rows = zip(ids, found.similarity, found.nearest, strict=True)
    describe = _Describer(dataset, taxonomy, {identifier: label for label, identifier in enumerate(ids)})
    domain = Domain(name, tuple(describe(identifier, float(s), nearest) for identifier, s, nearest in rows))
    return Domains({name: domain}, {"seen": seen_name, "classes": len(ids), "measure": recipe.measure})
