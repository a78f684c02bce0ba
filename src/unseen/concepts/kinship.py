"""The relation of a class to the seen concepts, and the seen concepts that its name may mean.

A leak audit must not clear a class by mistake. If another synset was chosen for a class, these seen concepts speak
against "unseen":

    senses      another sense of the name, or of its singular or plural, is seen
    synonyms    a seen concept has another name of the chosen synset (roosters are also called cocks)
    longer      the name of a seen concept begins or ends with the class name (Labrador, of Labrador retriever)
    parts       of a name matched by its head, the other part is seen (`cougar_paw`)
    kinds       the class is only known to be a kind of something, of which some kinds are seen

The last three are guesses: they are dropped if the other classes of the list clearly support the chosen sense (among
scenes a house is no house finch).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from unseen.concepts.class_names import ClassNameReader, How, Reading, clean
from unseen.concepts.similarity import similarity_matrix
from unseen.concepts.taxonomy import Taxonomy
from unseen.concepts.wordnet import WordNet

# Least similarity of two synsets that share a word to count as synonyms: a cock is a bird or a faucet.
_ALIKE = 0.4


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


class SeenNames:
    """Find the seen concepts that class names may mean.

    Args:
        wordnet: the nouns.
        reader: the reader of the class list.
        seen: wnids that models were trained on.
    """

    def __init__(self, wordnet: WordNet, reader: ClassNameReader, seen: Sequence[str]) -> None:
        self.wordnet, self.reader = wordnet, reader
        self.kinship = Kinship(wordnet, seen)
        self._longer: dict[str, list[str]] = {}
        for wnid in dict.fromkeys(seen):
            for lemma in wordnet.lemmas(wnid):
                words = clean(lemma).split()
                for i in range(1, len(words)):
                    for part in (" ".join(words[:i]), " ".join(words[i:])):
                        self._longer.setdefault(part, []).append(wnid)

    def longer(self, phrase: str) -> list[str]:
        """Return seen concepts with a name that begins or ends with a phrase, in the singular or the plural."""
        return list(dict.fromkeys(w for form in self.reader.forms(phrase) for w in self._longer.get(form, ())))

    def doubts(
        self, name: str, reading: Reading, chosen: str, how: How, outweighed: Callable[[str], bool]
    ) -> dict[str, str]:
        """Return the seen concepts that a class may mean and the reason for each, the most likely first.

        Args:
            name: the class.
            reading: the reading of its name.
            chosen: the synset that was chosen.
            how: the step that found it.
            outweighed: returns whether the other classes clearly support the chosen synset against a wnid.
        """
        relation, _ = self.kinship.of(chosen, narrower=how == "head")
        if relation is Relation.SEEN:
            return {}
        found = [(wnid, "another sense") for wnid in self._seen(reading.senses)]
        found += [(wnid, "the singular or plural") for wnid in self._seen(self.reader.lookup_all(reading.phrase))]
        if relation is Relation.UNSEEN:
            found += [(wnid, "another name") for wnid in self._synonyms(chosen)]
            guesses = [(wnid, "a longer name") for wnid in self.longer(reading.phrase)]
            if how == "head":
                words = clean(name).split()
                for end in range(len(words) - 1, 0, -1):
                    part = self._seen(self.reader.lookup(" ".join(words[:end])))
                    guesses += [(wnid, "a part of the name") for wnid in part]
                below = self.kinship.seen.intersection(self.wordnet.descendants(chosen))
                guesses += [(wnid, "a kind of it") for wnid in sorted(below)]
            found += [guess for guess in guesses if not outweighed(guess[0])]
        first: dict[str, str] = {}
        for wnid, why in found:
            if wnid != chosen:  # a class below a seen concept is reported as such
                first.setdefault(wnid, why)
        return first

    def _seen(self, senses: Sequence[str]) -> list[str]:
        return [sense for sense in senses if sense in self.kinship.seen]

    def _synonyms(self, chosen: str) -> list[str]:
        others = {s for lemma in self.wordnet.lemmas(chosen) for s in self.wordnet.senses(lemma)} - {chosen}
        near = sorted(self.kinship.seen.intersection(others))
        if not near:
            return []
        alike = similarity_matrix(self.wordnet, [chosen], near, ic=self.wordnet.information)[0]
        return [wnid for wnid, value in zip(near, alike, strict=True) if value >= _ALIKE]
