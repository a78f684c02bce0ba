"""The concept domains of a CoG: the seen concepts, the levels of unseen ones, and random control levels.

Paper:      Sariyildiz et al., ICCV 2021, sections 3.1 to 3.3 [P]; supplement A and D [S]
Implements: any dataset whose classes have ids in an ontology becomes a CoG: eligible unseen classes are ranked by
            their similarity to the seen list (Eq. 2 of [P]) and cut into levels of equal size; or the levels are those
            of a file. ImageNet-CoG itself is such a dataset: a domain is a set of classes of any origin
Differs:    a dataset has only some of the seen concepts; similarity is measured to the whole seen list, which is what
            the model was trained on. All domains have one size, the seen one by a seeded sample, because accuracies
            over different numbers of classes are not comparable. A class with too few images stays in its level
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from unseen.benchmarks.cog.details import DomainDetails
from unseen.concepts import (
    MEASURES,
    Level,
    Levels,
    Taxonomy,
    WordNet,
    build_levels,
    filters_for,
    list_unknown,
    load_wordnet,
    match_names,
    random_levels,
    read_class_list,
    read_seen,
    read_taxonomy,
    rerank_levels,
    run_funnel,
    text_measure,
)
from unseen.concepts.levels import RankedConcept
from unseen.concepts.similarity import SimilarityFunction
from unseen.core.arrays import IntArray
from unseen.core.errors import DataError, UnknownNameError, UsageError
from unseen.core.identity import Natural, Positive, digest, file_behind, option, parameters_of
from unseen.core.run_record import RunRecord, dropped
from unseen.data import Dataset
from unseen.data.sources.imagenet.cog import read_levels
from unseen.data.sources.imagenet.tree import some
from unseen.reports.wording import listed

SEEN = "seen"
#: Prefix of the names of random control levels.
CONTROL = "R"

_LEVEL_NAME = re.compile(r"L\d+")


@dataclass(frozen=True)
class Concept:
    """One class of a domain.

    Attributes:
        label: its class index in the dataset.
        similarity: similarity to the nearest seen concept; 1 for a seen one, None for a control.
        nearest: name of that concept.
    """

    label: int
    id: str
    name: str
    similarity: float | None
    nearest: str | None


@dataclass(frozen=True)
class Domain:
    """A set of classes that a classifier is trained on: "seen", "L1" ..., or a control "R1" ..."""

    name: str
    concepts: tuple[Concept, ...]

    @property
    def labels(self) -> IntArray:
        """Class indices of the dataset, ascending: the position of one is its label within the domain."""
        return np.array(sorted(concept.label for concept in self.concepts), np.int64)

    @property
    def mean_similarity(self) -> float | None:
        """Mean similarity of the concepts; None for controls."""
        known = [c.similarity for c in self.concepts if c.similarity is not None]
        return float(np.mean(known)) if known else None


@dataclass(frozen=True)
class DomainRecipe:
    """Options that define the domains."""

    seen: str = option("imagenet-1k", file=True, help="Training classes of the models: imagenet-1k, or a file of ids.")
    levels: Positive | str = option(5, file=True, help="Number of levels, or a file made by `unseen cog levels`.")
    size: Natural = option(0, rare=True, help="Classes per domain; 0 means as many as all domains can have.")
    measure: str = option("lin", rare=True, help="Measure that ranks the unseen classes: lin, wu-palmer, text ...")
    rerank: str = option("", rare=True, help="Another measure that ranks the chosen classes again (supplement D).")
    vectors: str = option(
        "", file=True, rare=True, help="Word vectors for text: a word2vec, GloVe or Wikipedia2Vec file."
    )
    controls: Natural = option(
        0,
        neutral="the sample of a control does not depend on how many follow it",
        rare=True,
        help="Random control levels (15 in supplement D).",
    )
    ontology: str = option("", file=True, help="Your own edge list; WordNet by default.")
    drop_unknown: bool = option(
        False, rare=True, help="Drop classes and seen concepts that the ontology lacks; otherwise they are an error."
    )
    draw_seed: int = option(0, rare=True, help="Seed of the samples of seen classes and controls.")

    def __post_init__(self) -> None:
        if isinstance(self.levels, str) and self.levels.isdecimal():  # a command line has texts only
            object.__setattr__(self, "levels", int(self.levels))
        if isinstance(self.levels, str) and not Path(self.levels).is_file():
            raise UsageError(f"levels must be a number (int) or a file of levels; there is no file {self.levels!r}.")

    def idle(self) -> Collection[str]:
        """Return `drop_unknown` if it is off: cells from before it existed keep their ids."""
        return () if self.drop_unknown else ("drop_unknown",)

    def domain_names(self) -> list[str]:
        """Return the domains in order."""
        if isinstance(self.levels, int):
            unseen = [f"L{i + 1}" for i in range(self.levels)]
        else:
            unseen = [level.name for level in _read_levels(self.levels).levels]
        return [SEEN, *unseen, *(f"{CONTROL}{i + 1}" for i in range(self.controls))]

    def refuse_unused(self, *names: str) -> None:
        """Raise if one of these options, which would change nothing, is set."""
        for field in fields(DomainRecipe):
            value = getattr(self, field.name)
            if field.name in names and value != field.default:
                raise UsageError(f"{field.name} = {value!r} would change nothing here: {_UNUSED[field.name]}.")


_UNUSED = {
    "size": "levels of a file are used unchanged; give a number of levels to build new ones",
    "measure": "levels of a file are used unchanged; rerank ranks their concepts again",
    "vectors": "they are for the measure text; set measure or rerank to it",
}


@dataclass(frozen=True)
class Domains:
    """The domains of one dataset.

    Attributes:
        account: the seen list and the measure.
        record: number of classes of the dataset and in domains, and why each of the others is in no domain.
    """

    domains: dict[str, Domain]
    account: DomainDetails
    record: RunRecord


def check_domains(dataset: Dataset, recipe: DomainRecipe) -> None:
    """Raise if the domains cannot be made or an option would be ignored, before features are extracted."""
    for measure in filter(None, (recipe.measure, recipe.rerank)):
        if measure not in (*MEASURES, "text"):
            raise UnknownNameError("measure", measure, [*MEASURES, "text"])
    if "text" not in (recipe.measure, recipe.rerank):
        recipe.refuse_unused("vectors")
    if isinstance(recipe.levels, str):
        recipe.refuse_unused("size", "measure")
    domains = make_domains(dataset, recipe).domains.values()
    used = sorted({concept.label for domain in domains for concept in domain.concepts})
    for split, what in (("train", "training"), ("test", "test")):
        counts = np.bincount(dataset.split(split).labels, minlength=len(dataset.class_names))
        if empty := [dataset.class_names[label] for label in used if not counts[label]]:
            raise DataError(
                f"{len(empty):,} of {len(used):,} classes of {dataset.id!r} have no {what} image: {some(empty)}. CoG "
                "trains and tests on every class, so each needs two images or more. Add images, or remove the classes."
            )


def make_domains(dataset: Dataset, recipe: DomainRecipe) -> Domains:
    """Cut the classes of a dataset into seen ones and levels; cached by dataset, options and content of files.

    Raises:
        DataError: the classes have no ids, or too few are seen or unseen.
    """
    return _make_domains(dataset, recipe, digest(parameters_of(recipe)))


@lru_cache(maxsize=8)
def _make_domains(dataset: Dataset, recipe: DomainRecipe, _content: str) -> Domains:
    taxonomy = read_taxonomy(Path(recipe.ontology)) if recipe.ontology else load_wordnet()
    ids, reasons = _class_ids(dataset, taxonomy, recipe)
    own = sorted(set(ids) - {""})
    seen_name, seen, ignored = read_seen_concepts(recipe.seen, taxonomy, drop_unknown=recipe.drop_unknown)
    known = sorted(set(own).intersection(seen))
    measure = read_measure(recipe.measure, taxonomy, recipe.vectors)
    if isinstance(recipe.levels, str):
        levels = _read_own_levels(recipe.levels, dataset.id, own, seen)
        size = min(len(level.concepts) for level in levels.levels)
        why = dict.fromkeys(ids, f"in no level of {Path(recipe.levels).name}")
    else:
        eligible = run_funnel(taxonomy, own, filters_for(taxonomy, own, seen))
        size = recipe.size or min(len(eligible.concepts) // recipe.levels, len(known))
        if size < 2:
            raise DataError(
                f"{dataset.id!r} has {len(known)} classes in {seen_name} and {len(eligible.concepts)} eligible unseen "
                f"ones: too few for a seen set and {recipe.levels} levels of two classes or more."
            )
        levels = build_levels(taxonomy, eligible.concepts, seen, levels=recipe.levels, size=size, measure=measure)
        why = dict.fromkeys(ids, f"cut: every domain has {size:,} classes")
        why |= {concept: f"not eligible as an unseen concept: {name}" for concept, name in eligible.reasons.items()}
    why |= dict.fromkeys(known, f"a seen concept that was not sampled: every domain has {size:,} classes")
    levels = _complete(levels, taxonomy, seen, recipe, size)
    sampled = Level(SEEN, tuple(RankedConcept(i, 1.0, i) for i in _sample(known, size, recipe.draw_seed)))
    domains = {
        level.name: Domain(level.name, _concepts(dataset, taxonomy, ids, level.concepts))
        for level in (sampled, *levels.levels)
    }
    record = _record(dataset, domains, reasons | {label: why[i] for label, i in enumerate(ids) if i}, ids)
    notes = (f"{len(ignored):,} seen concepts are not in the ontology: {some(ignored)}",) if ignored else ()
    account = DomainDetails(seen_name, levels.measure)
    return Domains(domains, account, replace(record, notes=notes))


def _concepts(
    dataset: Dataset, taxonomy: Taxonomy, ids: Sequence[str], ranked: Sequence[RankedConcept]
) -> tuple[Concept, ...]:
    """Return the classes of the dataset that have some ids; `ids` has the id of each class."""
    labels = {identifier: label for label, identifier in enumerate(ids) if identifier}
    name = taxonomy.label if isinstance(taxonomy, WordNet) else str
    return tuple(
        Concept(label, c.id, dataset.class_names[label], c.similarity, name(c.nearest) if c.nearest else None)
        for c in ranked
        for label in [labels[c.id]]
    )


def _record(
    dataset: Dataset, domains: Mapping[str, Domain], reasons: Mapping[int, str], ids: Sequence[str]
) -> RunRecord:
    """Return the record of the classes that are in a domain, and of those that are not.

    Args:
        reasons: why each class would be in no domain, by its index.
        ids: id of each class, "" if it has none.
    """
    used = {concept.label for domain in domains.values() for concept in domain.concepts}
    holders = {ids[label]: dataset.class_names[label] for label in used}
    lost = {
        name: f"{holders[ids[label]]!r} has the same id {ids[label]}" if ids[label] in holders else reasons[label]
        for label, name in enumerate(dataset.class_names)
        if label not in used
    }
    return RunRecord(classes_given=len(ids), classes_used=len(used), dropped=dropped("class", lost))


def _class_ids(dataset: Dataset, taxonomy: Taxonomy, recipe: DomainRecipe) -> tuple[list[str], dict[int, str]]:
    """Return one id per class, "" for a class without one, and by class index the reason why it has none.

    Raises:
        DataError: no class has an id; a class has a WordNet id that WordNet lacks, or is not in the ontology of the
            user, unless the options drop such classes.
    """
    names, wnids = dataset.class_names, dataset.wnids or [None] * len(dataset.class_names)
    wordnet = isinstance(taxonomy, WordNet)
    # An ontology of the user has the names of classes, or their WordNet ids.
    own = {} if wordnet else match_names(names, taxonomy.ids)
    ids = [
        own.get(name) or (wnid if wnid and wnid in taxonomy else "") for name, wnid in zip(names, wnids, strict=True)
    ]
    reasons = {
        label: (f"WordNet has no {wnid}" if wnid else "no WordNet id") if wordnet else "not in the ontology"
        for label, (identifier, wnid) in enumerate(zip(ids, wnids, strict=True))
        if not identifier
    }
    if not any(ids):
        raise DataError(
            f"no class of {dataset.id!r} has an id in the ontology. Give its classes WordNet ids "
            f"(folder:PATH?wnids=FILE, lines of class<TAB>wnid; `unseen cog run PATH` and `unseen audit PATH "
            f"--write-mapping FILE` propose them), or your own ontology."
        )
    unknown = [label for label, reason in reasons.items() if reason != "no WordNet id"]
    if unknown and not recipe.drop_unknown:
        lost = [names[label] for label in unknown]
        with_ids = [f"{names[label]!r} has {wnids[label]}" for label in unknown]
        words = listed(with_ids, 5) if wordnet else list_unknown(lost, taxonomy.ids)
        raise DataError(
            f"{len(unknown):,} of {len(names):,} classes of {dataset.id!r} are not in "
            f"{'WordNet' if wordnet else Path(recipe.ontology).name}: {words}. Correct them, or use --drop-unknown."
        )
    return ids, reasons


def read_seen_concepts(
    seen: str, taxonomy: Taxonomy, *, drop_unknown: bool = False
) -> tuple[str, list[str], list[str]]:
    """Return the name of the seen list, its ids in the taxonomy, and its entries that the taxonomy lacks.

    Raises:
        DataError: the ontology of the user lacks an entry, unless such entries are dropped.
    """
    if isinstance(taxonomy, WordNet):
        return *read_seen(seen, taxonomy), []
    found = match_names(read_class_list(seen), taxonomy.ids)
    unknown = [name for name, own in found.items() if own is None]
    if unknown and not drop_unknown:
        raise DataError(
            f"{len(unknown):,} of {len(found):,} seen concepts of {seen} are not in the ontology: "
            f"{list_unknown(unknown, taxonomy.ids)}. Correct them; `unseen cog run --drop-unknown` drops them."
        )
    return Path(seen).name, list(dict.fromkeys(own for own in found.values() if own is not None)), unknown


def read_measure(name: str, taxonomy: Taxonomy, vectors: str | Path | None) -> str | SimilarityFunction:
    """Return a measure; `text` with the word vectors of a file if there is one."""
    return text_measure(taxonomy, vectors) if name == "text" and vectors else name


def _complete(levels: Levels, taxonomy: Taxonomy, seen: Sequence[str], recipe: DomainRecipe, size: int) -> Levels:
    """Return the levels with all similarities, ranked again by `rerank` if it is set, then the controls."""
    found = levels
    if recipe.rerank:
        found = rerank_levels(levels, taxonomy, seen, read_measure(recipe.rerank, taxonomy, recipe.vectors))
    elif any(concept.similarity is None for level in levels.levels for concept in level.concepts):
        # A file of ids alone, such as that of the authors.
        ranked = rerank_levels(levels, taxonomy, seen, recipe.measure)
        near = {concept.id: concept for level in ranked.levels for concept in level.concepts}
        similar = tuple(Level(level.name, tuple(near[i] for i in level.ids)) for level in levels.levels)
        found = replace(levels, levels=similar, measure=recipe.measure)
    controls = random_levels(levels.ids, draws=recipe.controls, size=size, seed=recipe.draw_seed)
    return replace(found, levels=(*found.levels, *controls.levels))


def _sample(ids: Sequence[str], size: int, seed: int) -> list[str]:
    """Return a seeded sample of seen classes, so that all domains have one size."""
    if len(ids) < size:
        raise DataError(f"domains of {size} classes need as many seen ones; the dataset has {len(ids)}.")
    chosen = np.random.default_rng([seed, 1]).choice(len(ids), size, replace=False)
    return [ids[i] for i in sorted(chosen.tolist())]


def _read_own_levels(file: str, dataset: str, own: Collection[str], seen: Collection[str]) -> Levels:
    """Return the levels of a file, with the ids of the classes of the dataset (`own`).

    Raises:
        DataError: the dataset has no class for a concept, a concept is seen, or a level has fewer than two concepts.
    """
    levels = _read_levels(file)
    known = match_names(levels.ids, own)
    if missing := sorted(name for name, found in known.items() if found is None):
        raise DataError(
            f"{len(missing):,} of the {len(known):,} concepts of {file} are not classes of {dataset!r}: "
            f"{list_unknown(missing, own)}. Correct them, or make levels of the classes in a folder: unseen cog levels "
            "--images FOLDER"
        )
    named = []
    for level in levels.levels:
        concepts = tuple(replace(concept, id=known[concept.id] or concept.id) for concept in level.concepts)
        ids = {concept.id for concept in concepts}
        if len(ids) < len(concepts):
            raise DataError(f"{file} lists a concept of the level {level.name} twice.")
        if both := sorted(ids.intersection(seen)):
            raise DataError(f"{file}: {both[0]} of the level {level.name} is one of the seen concepts.")
        if len(concepts) < 2:
            raise DataError(f"{file}: the level {level.name} has fewer than two concepts; a classifier needs two.")
        named.append(Level(level.name, concepts))
    return replace(levels, levels=tuple(named))


def _read_levels(file: str) -> Levels:
    """Read a file; rename its levels to L1, L2 and so on unless their names have this form."""
    path = file_behind(file)
    if path is None:
        raise DataError(f"levels {file!r} are neither a number nor a file. Make one: unseen cog levels --output FILE")
    try:
        found = Levels.load(path)
    except DataError:  # another format, without similarities
        plain = read_levels(path)
        found = Levels(tuple(Level(name.upper(), tuple(map(RankedConcept, ids))) for name, ids in plain.items()))
    if not all(_LEVEL_NAME.fullmatch(level.name) for level in found.levels):
        named = tuple(Level(f"L{i}", level.concepts) for i, level in enumerate(found.levels, start=1))
        found = replace(found, levels=named)
    return found
