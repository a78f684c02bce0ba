"""Read class names as datasets write them: `043.Yellow_bellied_Flycatcher`, `blue+whale`, `tvmonitor`, `Bat (animal)`.

A name is cleaned of numbers and separators and looked up among the lemmas of WordNet: unchanged, in the singular or
plural (`binocular`), with other gaps (`diningtable`, `Wilson_Warbler` for Wilson's warbler), without words for how,
where or which part was photographed (`church_indoor`, `crocodile_head`), or with one letter changed (`water_lilly`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Literal

from unseen.concepts.wordnet import WordNet

How = Literal["given", "exact", "qualified", "spelling", "head", "related", "none"]

# Where a thing was photographed.
_PLACE_WORDS = "indoor indoors outdoor outdoors interior exterior natural artificial cultivated wild urban rural"
PLACES = frozenset(_PLACE_WORDS.split())
# Which part or side of it, or how. They count at the end of a name only.
_VIEW_WORDS = """head body face side front back rear top bottom left right view closeup easy hard male female adult
juvenile young photo photos image images picture pictures frontal profile cropped other others misc"""
VIEWS = frozenset(_VIEW_WORDS.split())
_NUMBER = re.compile(r"^\d+[\s._:-]+(?=\D)")
_WORD = re.compile(r"[0-9a-z]+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_HINT = re.compile(r"^(.*?)\s*[(\[](.+)[)\]]\s*$")
_SHORTEST_MISSPELT = 5
#: No lemma has a longer word.
_LONGEST_MISSPELT = 60
_LETTER_FOLDER = re.compile(r"^/?([a-z])/(\1.*)$")
_ALTERNATIVES = re.compile(r",|/| or ")
#: Letters of a name that is looked up; lemmas are shorter, and the variants of a name take the square of its length.
_LONGEST_NAME = 300
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def clean(name: str) -> str:
    """Return lower-case words with single spaces, without leading numbers, separators, apostrophes and accents."""
    text = name
    if not name.isascii():
        text = "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    text = _CAMEL.sub(" ", _NUMBER.sub("", text.strip()))
    text = text.replace("'", "").replace("’", "").lower()
    return " ".join(_WORD.findall(text))


def split_name(name: str) -> tuple[list[str], str]:
    """Return the cleaned phrases of a name, the whole first, then its alternatives; and the hint in brackets.

    `/a/abbey` and `/c/church/indoor` are names in folders by their first letter.
    """
    if len(name) > _LONGEST_NAME:
        return [], ""
    folder = _LETTER_FOLDER.match(name)
    if folder:
        name = folder[2].replace("/", " ")
    hinted = _HINT.match(name)
    text, hint = (hinted[1], clean(hinted[2])) if hinted and clean(hinted[1]) else (name, "")
    phrases = dict.fromkeys(clean(part) for part in (text, *_ALTERNATIVES.split(text)))
    return [phrase for phrase in phrases if phrase], hint


def _squeeze(phrase: str) -> str:
    return phrase.replace(" ", "")


class ClassNameReader:
    """Read class names with the lemmas of WordNet.

    Args:
        wordnet: the nouns.
    """

    def __init__(self, wordnet: WordNet) -> None:
        self.wordnet = wordnet
        self._spaced, self._squeezed = _lemma_keys(wordnet)

    def lookup(self, phrase: str) -> tuple[str, ...]:
        """Return the senses of a cleaned phrase, by the first form of it that is a lemma; empty if none is."""
        for _, written, joined in self._spellings(phrase):
            # A barndoor is a flap on a lamp, a barn door is not: use both, the written form first.
            if senses := tuple(dict.fromkeys([*self._senses(written), *self._senses(joined)])):
                return senses
        return ()

    def forms(self, phrase: str) -> list[str]:
        """Return a cleaned phrase unchanged, in the singular and in the plural."""
        *before, last = phrase.split() or [""]
        ends = [last, *self.wordnet.base_forms(last), *self.wordnet.plural_forms(last)]
        return [" ".join([*before, end]) for end in dict.fromkeys(ends)]

    def lemmas(self, phrase: str) -> Iterator[tuple[str, bool]]:
        """Yield the lemmas of a phrase in all its forms, and whether one is written the same way."""
        for spelling, written, joined in self._spellings(phrase):
            yield from ((lemma, spelling == phrase) for lemma in written)
            yield from ((lemma, False) for lemma in joined)

    def _spellings(self, phrase: str) -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
        """Yield the spellings of a phrase, the closest first, with lemmas of the same words and with other gaps."""
        for form in self.forms(phrase):
            for spelling in dict.fromkeys((form, form.replace("gray", "grey"), form.replace("grey", "gray"))):
                written = self.spaced(spelling)
                joined = self._squeezed.get(_squeeze(spelling), ())
                yield spelling, written, [lemma for lemma in joined if lemma not in written]

    def spaced(self, phrase: str) -> Sequence[str]:
        """Return the lemmas that are written with the words of a phrase."""
        return self._spaced.get(phrase, ())

    def _senses(self, lemmas: Sequence[str]) -> tuple[str, ...]:
        """Return the senses of several lemmas, all first senses before all second ones."""
        found = sorted({pair[:2] for lemma in lemmas for pair in self.wordnet.lemma_index[lemma]})
        return tuple(dict.fromkeys(self.wordnet.ids[i] for _, i in found))

    @staticmethod
    def without_qualifiers(words: list[str]) -> list[str]:
        """Return a name without views at its end, and without places at its start and all after the next place."""
        left = list(words)
        while len(left) > 1 and left[-1] in VIEWS:
            left.pop()
        while len(left) > 1 and left[0] in PLACES:
            left.pop(0)
        return left[: next((i for i, word in enumerate(left) if word in PLACES), len(left))]

    def misspelt(self, phrase: str) -> tuple[str, ...]:
        """Return the senses of lemmas in which one word differs by one letter: added, removed, changed or swapped."""
        words = phrase.split()
        near: set[str] = set()
        for k, word in enumerate(words):
            if _SHORTEST_MISSPELT <= len(word) <= _LONGEST_MISSPELT and word.isalpha():
                near.update(" ".join([*words[:k], other, *words[k + 1 :]]) for other in _one_letter_away(word))
        lemmas = sorted({lemma for key in near for lemma in self._spaced.get(key, ())})
        return tuple(sense for sense in self._senses(lemmas) if not self._is_individual(sense))

    def kinds(self, phrase: str) -> tuple[str, ...]:
        """Return the senses of a phrase without proper names: nothing is a kind of Asia."""
        found = []
        for sense in self.lookup(phrase):
            written = [name for name in self.wordnet.lemmas(sense) if _squeeze(clean(name)) == _squeeze(phrase)]
            if not self._is_individual(sense) and not (written and written[0][0].isupper()):
                found.append(sense)
        return tuple(found)

    def _is_individual(self, sense: str) -> bool:
        return bool(self.wordnet.is_instance[self.wordnet.index([sense])[0]])


def _one_letter_away(word: str) -> set[str]:
    cuts = [(word[:i], word[i:]) for i in range(len(word) + 1)]
    near = {a + b[1:] for a, b in cuts if b} | {a + b[1] + b[0] + b[2:] for a, b in cuts if len(b) > 1}
    return (near | {a + letter + b[skip:] for a, b in cuts for letter in _LETTERS for skip in (0, 1)}) - {word}


@cache
def _lemma_keys(wordnet: WordNet) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Map cleaned lemmas to lemmas, with gaps and without; `Wilson's warbler` is also found without its s."""
    spaced: dict[str, list[str]] = {}
    squeezed: dict[str, list[str]] = {}
    for lemma in wordnet.lemma_index:
        plain = lemma.replace("_", " ").replace("-", " ").replace(".", "")
        for key in sorted({plain.replace("'", ""), plain.replace("'s", "")}) if "'" in plain else (plain,):
            spaced.setdefault(" ".join(key.split()), []).append(lemma)
    for key, lemmas in spaced.items():
        squeezed.setdefault(_squeeze(key), []).extend(lemmas)
    return spaced, squeezed
