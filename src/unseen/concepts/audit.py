"""Leak audit: classes of a dataset that are in the training set of a model, or related to its classes.

Paper:      Xian et al., TPAMI 2018, section 5.2: test classes of a zero-shot split must not be among the classes that
            the features were trained on [P]
Implements: the check of [P] for any class list and any seen set
Differs:    [P] compares names, this audit synsets. A class that is not a seen synset can still be above seen ones
            (`horse`: sorrel horses are in the training set) or below one (`supermarket` is a grocery store); both are
            reported. Similarities are Lin's over all nouns of WordNet, so that they do not depend on the class list
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from unseen.concepts.image_evidence import Answers
from unseen.concepts.senses import UNSEEN_FROM, ClassMatch, match_classes
from unseen.concepts.similarity import nearest_seen
from unseen.concepts.taxonomy import Taxonomy
from unseen.concepts.wordnet import WordNet, load_wordnet
from unseen.core.errors import DataError

#: Share of the classes that must be matched for a statement about the list.
LEAST_MATCHED = 0.5


class Relation(StrEnum):
    """Relation of a class to the seen concepts; the strongest that holds."""

    SEEN = "seen"
    DESCENDANT = "descendant of seen"
    ANCESTOR = "ancestor of seen"
    UNSEEN = "unseen"
    UNKNOWN = "not matched"


class Kinship:
    """Relations of concepts to the seen ones."""

    def __init__(self, taxonomy: Taxonomy, seen: Sequence[str]) -> None:
        self.seen = frozenset(seen)
        self._taxonomy = taxonomy
        self._above_seen = taxonomy.ancestors(seen)

    def of(self, concept: str, *, narrower: bool = False) -> tuple[Relation, tuple[str, ...]]:
        """Return the relation of a concept, and the seen concepts that it refers to.

        Args:
            narrower: whether the class is a kind of the concept, not the concept itself: it can be below a seen one,
                and a seen one below the concept implies nothing.
        """
        above = self.seen.intersection(self._taxonomy.ancestors(concept))
        if narrower:
            above |= self.seen.intersection({concept})
            return (Relation.DESCENDANT, tuple(sorted(above))) if above else (Relation.UNSEEN, ())
        if concept in self.seen:
            return Relation.SEEN, (concept,)
        if above:
            return Relation.DESCENDANT, tuple(sorted(above))
        if concept in self._above_seen:
            return Relation.ANCESTOR, tuple(sorted(self.seen.intersection(self._taxonomy.descendants(concept))))
        return Relation.UNSEEN, ()


@dataclass(frozen=True)
class Sense:
    """A synset that a class name may mean."""

    wnid: str
    lemmas: tuple[str, ...]
    definition: str
    relation: Relation


@dataclass(frozen=True)
class AuditRow:
    """The verdict on one class.

    Attributes:
        match: the synset, how it was found and why.
        relation: relation of the class to the seen concepts; of an open class "unseen" only if that has a probability
            of 95 %.
        kin: wnids of the seen concepts that the relation refers to; of a seen class itself.
        nearest, similarity: the seen concept that is most similar to the synset; None without a synset.
        senses: every synset that the name may mean, the chosen one first.
        looks_like: another seen concept that a classifier answers for images of the class, and the share of its answer.
    """

    match: ClassMatch
    relation: Relation
    kin: tuple[str, ...]
    nearest: str | None
    similarity: float | None
    senses: tuple[Sense, ...]
    looks_like: tuple[str, float] | None = None

    @property
    def other_sense_seen(self) -> Sense | None:
        """A seen concept that the class may be, if its synset is not one."""
        if self.relation is Relation.SEEN:
            return None
        return next((s for s in self.senses if s.wnid in self.match.seen), None)

    @property
    def verdict_in_doubt(self) -> bool:
        """Whether the class is ambiguous and another sense of it has another relation to the seen concepts."""
        return self.match.ambiguous and any(sense.relation is not self.relation for sense in self.senses)

    @property
    def flagged(self) -> bool:
        """Whether a leak is possible: the class is related to a seen concept, looks like one, or may mean one."""
        kin = self.relation in (Relation.SEEN, Relation.DESCENDANT, Relation.ANCESTOR)
        return kin or self.other_sense_seen is not None or self.looks_like is not None


@dataclass(frozen=True)
class Audit:
    """The verdict on a class list.

    Attributes:
        rows: one per class, in order.
        seen_name: name of the seen set, such as ImageNet-1K.
        seen_size: number of seen concepts.
        noun: word for the classes, such as "test classes".
    """

    rows: tuple[AuditRow, ...]
    seen_name: str
    seen_size: int
    noun: str = "classes"

    @property
    def counts(self) -> dict[Relation, int]:
        found = Counter(row.relation for row in self.rows)
        return {relation: found[relation] for relation in Relation}

    @property
    def flagged(self) -> list[AuditRow]:
        return [row for row in self.rows if row.flagged]

    @property
    def summary(self) -> str:
        """The counts in words, and how reliable they are."""
        count = self.counts
        seen, total = count[Relation.SEEN], len(self.rows)
        matched = total - count[Relation.UNKNOWN]
        if matched < LEAST_MATCHED * total:
            return (
                f"No statement about {self.seen_name}: {matched} of {total} {self.noun} were matched to WordNet "
                f"({100 * matched / total:.0f} %; a statement needs {100 * LEAST_MATCHED:.0f} %)."
            )
        base = f"{total} {self.noun}" if matched == total else f"the {matched} matched out of {total} {self.noun}"
        parts = [f"{seen} of {base} {'is' if seen == 1 else 'are'} in {self.seen_name}"]
        kin = [
            f"{count[relation]} {'is' if count[relation] == 1 else 'are'} {side} one of its classes"
            for relation, side in ((Relation.ANCESTOR, "above"), (Relation.DESCENDANT, "below"))
            if count[relation]
        ]
        if kin:
            parts.append("of the others " + " and ".join(kin))
        sentence = "; ".join(parts) + "."
        loose = sum(row.match.how == "head" for row in self.rows if row.relation is Relation.DESCENDANT)
        if loose:
            sentence += f" {loose} of the latter by a part of {'its' if loose == 1 else 'their'} name only."
        doubts = sum(row.verdict_in_doubt for row in self.rows)
        if doubts:
            sentence += f" {doubts} {'verdict rests' if doubts == 1 else 'verdicts rest'} on an ambiguous name."
        return sentence

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "format": "unseen-audit/1",
            "seen": {"name": self.seen_name, "concepts": self.seen_size},
            "summary": self.summary,
            "counts": {relation.value: count for relation, count in self.counts.items()},
            "classes": [
                {
                    "class": row.match.name,
                    "wnid": row.match.wnid,
                    "how": row.match.how,
                    "reason": row.match.reason,
                    "probability": row.match.probability,
                    "ambiguous": row.match.ambiguous,
                    "relation": row.relation.value,
                    "flagged": row.flagged,
                    "kin": list(row.kin),
                    "nearest": row.nearest,
                    "similarity": row.similarity,
                    "looks_like": row.looks_like and {"wnid": row.looks_like[0], "share": row.looks_like[1]},
                    "senses": [asdict(sense) | {"relation": sense.relation.value} for sense in row.senses],
                }
                for row in self.rows
            ],
        }


def audit_classes(
    names: Sequence[str],
    seen: Sequence[str],
    *,
    mapping: Mapping[str, str] | None = None,
    wnids: Sequence[str | None] = (),
    answers: Answers | None = None,
    seen_name: str = "the seen set",
    noun: str = "classes",
    wordnet: WordNet | None = None,
) -> Audit:
    """Audit a class list against the concepts that a model was trained on.

    Args:
        names: class names, in the spelling of the dataset.
        seen: wnids that the model was trained on.
        mapping: class name to wnid, as the user decided; "-" for a class that WordNet does not have.
        wnids: ids that the dataset provides, one per name, None if it has none.
        answers: of a classifier for images of the classes.
        seen_name, noun: words of the summary for the seen set and the classes.
        wordnet: by default the one in the package.
    """
    if not names:
        raise DataError("the class list is empty. It needs one class per line.")
    wordnet = wordnet or load_wordnet()
    wordnet.index(seen)  # raises if an id is unknown
    matches = match_classes(wordnet, names, mapping=mapping, wnids=wnids, seen=seen, answers=answers)
    kinship = Kinship(wordnet, seen)
    matched = [m.wnid for m in matches if m.wnid is not None]
    near = nearest_seen(wordnet, matched, seen, ic=wordnet.information)
    nearest = dict(zip(matched, zip(near.nearest, near.similarity.tolist(), strict=True), strict=True))
    rows = []
    for k, match in enumerate(matches):
        kin = {wnid: kinship.of(wnid, narrower=False) for wnid in match.seen}
        kin |= {wnid: kinship.of(wnid, narrower=match.how == "head") for wnid in match.senses}
        senses = tuple(
            Sense(wnid, tuple(wordnet.lemmas(wnid)), wordnet.definition(wnid), kin[wnid][0])
            for wnid in dict.fromkeys([*match.senses, *match.seen])
        )
        alike = answers.looks_like(k) if answers is not None else None
        if match.wnid is None:
            rows.append(AuditRow(match, Relation.UNKNOWN, (), None, None, senses, alike))
            continue
        relation, kindred = kin[match.wnid]
        unsupported = match.how == "head" or (match.ambiguous and match.unseen < UNSEEN_FROM and not match.seen)
        if relation is Relation.UNSEEN and unsupported:
            relation = Relation.UNKNOWN  # "unseen" is a claim, which an open name does not support
        alike = None if alike is not None and alike[0] in kindred else alike
        rows.append(AuditRow(match, relation, kindred, *nearest[match.wnid], senses, alike))
    return Audit(tuple(rows), seen_name, len(set(seen)), noun)
