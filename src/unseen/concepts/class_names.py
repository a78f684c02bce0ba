"""From a class name as datasets write it to the WordNet synsets that it may mean.

Datasets write `043.Yellow_bellied_Flycatcher`, `blue+whale`, `tvmonitor`, `church_indoor`, `Bat (animal)` or
`hog, pig, grunter`. The steps, in order; the first that finds a lemma wins:

    exact       the name, cleaned of numbers and separators; its singular; the same letters with other gaps
                (`diningtable`, `Wilson_Warbler` for Wilson's warbler); several names with commas between them
    qualified   the name without a word that says how or where it was photographed: `church_indoor` is a church
    head        the name is a kind of something that WordNet has: its longest ending that is a lemma (a Caspian tern is
                a tern, a `pottedplant` a plant). In lists that put qualifiers last it may also be the beginning
                (`temple_south_asia`), so both are offered. The class is *narrower* than the synset: nothing may be
                said of what lies below the synset
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from unseen.concepts.imagenet import is_wnid
from unseen.concepts.wordnet import WordNet

How = Literal["given", "exact", "qualified", "head", "none"]

QUALIFIERS = frozenset(
    (
        "indoor",
        "indoors",
        "outdoor",
        "outdoors",
        "interior",
        "exterior",
        "natural",
        "artificial",
        "cultivated",
        "wild",
        "urban",
    )
)
_NUMBER = re.compile(r"^\d+[\s._:-]+(?=\D)")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_HINT = re.compile(r"^(.*?)\s*[(\[](.+)[)\]]\s*$")
_SHORTEST_HEAD = 3


@dataclass(frozen=True)
class Reading:
    """What a class name may mean.

    Attributes:
        how: by which step it was found.
        phrase: the words that were found, as they stand in the name.
        senses: wnids, the most frequent sense first; empty if nothing was found.
        hint: what the name says in brackets about its sense, or "".
    """

    how: How
    phrase: str
    senses: tuple[str, ...]
    hint: str = ""


def clean(name: str) -> str:
    """Lower-case words with single spaces; leading numbers, separators and apostrophes are gone."""
    text = _CAMEL.sub(" ", _NUMBER.sub("", name.strip()))
    text = text.replace("'", "").replace("’", "").lower()
    return " ".join(re.sub(r"[^0-9a-z]+", " ", text).split())


class ClassNameReader:
    """Reads class names with the lemmas of WordNet.

    Args:
        wordnet: the nouns.
        names: the whole list, whose style decides whether a name's head may stand first.
    """

    def __init__(self, wordnet: WordNet, names: Sequence[str] = ()) -> None:
        self.wordnet = wordnet
        self._spaced, self._squeezed = _lemma_keys(wordnet)
        self._head_first = any(QUALIFIERS.intersection(clean(name).split()[1:]) for name in names)

    def read(self, name: str) -> Reading:
        """The senses that a class name may have."""
        if is_wnid(name.strip()) and name.strip() in self.wordnet:
            return Reading("given", name.strip(), (name.strip(),))
        hinted = _HINT.match(name)
        if hinted and clean(hinted[1]):
            found = self.read(hinted[1])
            return Reading(found.how, found.phrase, found.senses, clean(hinted[2]))
        if "," in name and (shared := self._shared_senses(name.split(","))):
            return Reading("exact", clean(name), shared)
        phrase = clean(name)
        if senses := self.lookup(phrase):
            return Reading("exact", phrase, senses)
        return self._qualified(phrase.split()) or self._head(phrase.split()) or Reading("none", phrase, ())

    def lookup(self, phrase: str) -> tuple[str, ...]:
        """Senses of a cleaned phrase, as it is, in the singular, or with other gaps; empty if there are none."""
        for form in (phrase, *self._singulars(phrase)):
            for spelling in dict.fromkeys((form, form.replace("gray", "grey"), form.replace("grey", "gray"))):
                for index, key in ((self._spaced, spelling), (self._squeezed, spelling.replace(" ", ""))):
                    if key in index:
                        return self._senses(index[key])
        return ()

    def _senses(self, lemmas: list[str]) -> tuple[str, ...]:
        """Senses of several lemmas, all first senses before all second ones."""
        pairs = {pair for lemma in lemmas for pair in self.wordnet.lemma_index[lemma]}
        return tuple(dict.fromkeys(self.wordnet.ids[i] for _, i in sorted(pairs)))

    def _singulars(self, phrase: str) -> list[str]:
        *before, last = phrase.split() or [""]
        return [" ".join([*before, form]) for form in self.wordnet.base_forms(last)]

    def _shared_senses(self, names: list[str]) -> tuple[str, ...]:
        """Of `hog, pig, grunter`: the senses that the most of these names have."""
        votes: dict[str, int] = {}
        for name in names:
            for sense in self.lookup(clean(name)):
                votes[sense] = votes.get(sense, 0) + 1
        most = max(votes.values(), default=0)
        return tuple(sense for sense, count in votes.items() if count == most)

    def _qualified(self, words: list[str]) -> Reading | None:
        """The words before the first qualifier, or after those that the name starts with."""
        if not QUALIFIERS.intersection(words):
            return None
        while words and words[0] in QUALIFIERS:
            words = words[1:]
        cut = next((i for i, word in enumerate(words) if word in QUALIFIERS), len(words))
        phrase = " ".join(words[:cut])
        if senses := self.lookup(phrase) if phrase else ():
            return Reading("qualified", phrase, senses)
        return self._head(words[:cut])

    def _head(self, words: list[str]) -> Reading | None:
        endings = [" ".join(words[i:]) for i in range(1, len(words))]
        beginnings = [" ".join(words[:i]) for i in range(len(words) - 1, 0, -1)]
        if len(words) == 1:
            # One word without a gap, such as `pottedplant`: its longest ending that is a lemma.
            endings = [words[0][i:] for i in range(2, len(words[0]) - _SHORTEST_HEAD + 1)]
        groups = [endings, beginnings] if self._head_first else [endings]
        found = [next(((p, k) for p in group if (k := self._kinds(p))), ("", ())) for group in groups]
        senses = tuple(dict.fromkeys(sense for _, kinds in found for sense in kinds))
        return Reading("head", " or ".join(p for p, _ in found if p), senses) if senses else None

    def _kinds(self, phrase: str) -> tuple[str, ...]:
        """Senses without proper names: nothing is a kind of Asia."""
        return tuple(s for s in self.lookup(phrase) if not self._is_proper(s, phrase))

    def _is_proper(self, sense: str, phrase: str) -> bool:
        if self.wordnet.is_instance[self.wordnet.index([sense])[0]]:
            return True
        written = [lemma for lemma in self.wordnet.lemmas(sense) if clean(lemma) == phrase]
        return bool(written) and written[0][0].isupper()


@cache
def _lemma_keys(wordnet: WordNet) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Cleaned lemma to lemmas, with gaps and without. `Wilson's warbler` is also found without its s."""
    spaced: dict[str, list[str]] = {}
    squeezed: dict[str, list[str]] = {}
    for lemma in wordnet.lemma_index:
        plain = lemma.replace("_", " ").replace("-", " ").replace(".", "")
        for key in sorted({plain.replace("'", ""), plain.replace("'s", "")}) if "'" in plain else (plain,):
            spaced.setdefault(" ".join(key.split()), []).append(lemma)
    for key, lemmas in spaced.items():
        squeezed.setdefault(key.replace(" ", ""), []).extend(lemmas)
    return spaced, squeezed
