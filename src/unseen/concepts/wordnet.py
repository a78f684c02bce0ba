"""WordNet 3.0 nouns, from the table that ships inside the package.

Source:     WordNet 3.0, Copyright 2006 by Princeton University; its licence is beside the table
Shapes:     82,115 synsets by offset; 75,850 hypernym and 8,577 instance-hypernym edges
Names:      a wnid such as "n02123045" is the letter n and the byte offset of the synset in `data.noun`; a name such as
            "tabby.n.01" is the first lemma of the synset and the number of this sense of the lemma
Expected:   loading the arrays takes under 0.2 s; the first look-up by lemma takes about as long

The is-a graph of `Taxonomy` joins both kinds of edge, as ImageNet and NLTK do; `is_instance` distinguishes them.
"""

from __future__ import annotations

import lzma
from functools import cache, cached_property
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from unseen.concepts.taxonomy import Taxonomy
from unseen.core.arrays import BoolArray, IntArray
from unseen.core.errors import TaxonomyError, closest

# Noun endings and what they become, as in WordNet's own morphological processor (morphy(7WN)).
_ENDINGS = (
    ("s", ""),
    ("ses", "s"),
    ("ves", "f"),
    ("xes", "x"),
    ("zes", "z"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("men", "man"),
    ("ies", "y"),
)


class WordNet(Taxonomy):
    """The noun taxonomy with its words; `load_wordnet` returns it."""

    def __init__(self, table: dict[str, npt.NDArray[np.generic]]) -> None:
        offsets = np.cumsum(table["offset_steps"], dtype=np.int64).tolist()
        counts = [table[name].astype(np.int64) for name in ("hypernym_counts", "instance_counts")]
        self._instance_counts = counts[1]
        self._lemma_bytes = table["lemmas"].tobytes()
        self._sense_numbers = table["sense_numbers"].astype(np.int64)
        #: Lexicographer file of each synset, such as 5 for animals and 13 for food (lexnames(5WN)).
        self.lexicographer = table["lexicographer"]
        self._uses = table["uses"]
        self._irregular_bytes = table["irregular_plurals"].tobytes()
        start = np.concatenate([np.zeros(1, np.int64), np.cumsum(sum(counts))])
        # Both kinds in one row per synset, hypernyms first.
        owner = np.concatenate([np.repeat(np.arange(len(offsets)), each) for each in counts])
        parents = np.concatenate([table["hypernyms"], table["instance_hypernyms"]]).astype(np.int64)
        parents = parents[np.argsort(owner, kind="stable")]
        super().__init__([f"n{offset:08d}" for offset in offsets], start, parents)

    @cached_property
    def is_instance(self) -> BoolArray:
        """Mask over all synsets: whether one is an individual (a person, a place), not a kind."""
        return np.asarray(self._instance_counts > 0)

    def lemmas(self, concept: str) -> list[str]:
        """Return the words of the synset in order, with spaces for underscores."""
        return self._lemma_rows[int(self.index([concept])[0])].replace("_", " ").split("\t")

    def label(self, concept: str) -> str:
        """Return the first lemma, for tables and messages."""
        return self.lemmas(concept)[0]

    def definition(self, concept: str) -> str:
        """Return the definition of the synset, without WordNet's examples."""
        return self._definitions[int(self.index([concept])[0])]

    def name(self, concept: str) -> str:
        """Return lemma, part of speech and sense number, such as `tiger_cat.n.02`."""
        return self._names[int(self.index([concept])[0])]

    def senses(self, word: str) -> list[str]:
        """Return the synsets that have `word` as a lemma, the most frequent sense first.

        Case is ignored, and a space is the same as an underscore.
        """
        return [wnid for wnid, _ in self.lemma_senses("_".join(word.lower().split()))]

    def lemma_senses(self, lemma: str) -> list[tuple[str, int]]:
        """Return the synsets of a key of `lemma_index` in order, and how often each was tagged in texts."""
        # A synset may have one lemma in two spellings (sun, Sun).
        uses = {i: count for _, i, count in sorted(self.lemma_index.get(lemma, ()))}
        return [(self.ids[i], count) for i, count in uses.items()]

    def base_forms(self, word: str) -> list[str]:
        """Return the lemmas of WordNet that `word` may be the plural of, without `word` itself."""
        key = "_".join(word.lower().split())
        forms = list(self._irregular.get(key, ()))
        forms += [key[: -len(a)] + b for a, b in _ENDINGS if key.endswith(a) and len(key) > len(a)]
        return [form.replace("_", " ") for form in dict.fromkeys(forms) if form != key and form in self.lemma_index]

    def plural_forms(self, word: str) -> list[str]:
        """Return the lemmas of WordNet that `word` may be the singular of, as binocular is of binoculars."""
        key = "_".join(word.lower().split())
        forms = [key[: len(key) - len(b)] + a for a, b in _ENDINGS if key.endswith(b) and len(key) > len(b)]
        forms += self._irregular_plurals.get(key, ())
        # By its endings alone any word could be a plural's base: the lemma must lead back to it.
        found = [form for form in dict.fromkeys(forms) if form != key and form in self.lemma_index]
        return [form.replace("_", " ") for form in found if not form.endswith("ss")]

    def find(self, query: str) -> str:
        """Return the synset of a wnid, a name (`tabby.n.01`) or a lemma.

        Of a lemma with several senses this is the most frequent one; `senses` returns all.
        """
        if query in self:
            return query
        lemma, _, number = query.rpartition(".n.")
        if lemma and number.isdigit():
            hits = [s for s in self.senses(lemma) if self.name(s) == f"{lemma.lower()}.n.{int(number):02d}"]
        else:
            hits = self.senses(query)
        if hits:
            return hits[0]
        near = closest(query, (lemma.replace("_", " ") for lemma in self.lemma_index))
        advice = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise TaxonomyError(f"WordNet 3.0 has no noun {query!r}.{advice} Give a wnid, a name or a lemma.")

    @cached_property
    def sort_rank(self) -> IntArray:
        """Place of each synset in the alphabetical order of the names, which decides ties as in NLTK."""
        keys = self._names
        rank = np.empty(len(keys), dtype=np.int64)
        rank[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
        return rank

    @cached_property
    def _lemma_rows(self) -> list[str]:
        return self._lemma_bytes.decode("ascii").split("\n")

    @cached_property
    def _names(self) -> list[str]:
        counts = np.array([row.count("\t") + 1 for row in self._lemma_rows], dtype=np.int64)
        numbers = self._sense_numbers[np.cumsum(counts) - counts].tolist()
        firsts = (row.partition("\t")[0].lower() for row in self._lemma_rows)
        return [f"{lemma}.n.{number:02d}" for lemma, number in zip(firsts, numbers, strict=True)]

    @cached_property
    def lemma_index(self) -> dict[str, list[tuple[int, int, int]]]:
        """Lower-case lemma (underscores for spaces) to sense number, synset and uses in texts, in no fixed order."""
        index: dict[str, list[tuple[int, int, int]]] = {}
        numbers = zip(self._sense_numbers.tolist(), self._uses.tolist(), strict=True)
        for i, row in enumerate(self._lemma_rows):
            for lemma in row.lower().split("\t"):
                number, uses = next(numbers)
                index.setdefault(lemma, []).append((number, i, uses))
        return index

    @cached_property
    def _irregular(self) -> dict[str, list[str]]:
        rows = (line.split(" ") for line in self._irregular_bytes.decode("ascii").split("\n"))
        return {plural: singulars for plural, *singulars in rows}

    @cached_property
    def _irregular_plurals(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for plural, singulars in self._irregular.items():
            for singular in singulars:
                found.setdefault(singular, []).append(plural)
        return found

    @cached_property
    def _definitions(self) -> list[str]:
        packed = (files("unseen.concepts") / "wordnet30_definitions.txt.xz").read_bytes()
        return lzma.decompress(packed).decode("ascii").split("\n")


@cache
def load_wordnet() -> WordNet:
    """Return the WordNet 3.0 nouns, cached."""
    with (files("unseen.concepts") / "wordnet30.npz").open("rb") as stream, np.load(stream) as table:
        return WordNet({name: table[name] for name in table.files})
