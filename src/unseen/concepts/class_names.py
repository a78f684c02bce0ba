"""Find the WordNet synsets that the class name of a dataset may mean.

Datasets write `043.Yellow_bellied_Flycatcher`, `blue+whale`, `tvmonitor`, `church_indoor`, `Bat (animal)` or
`hog, pig, grunter`. These steps follow in order until one finds a lemma:

    exact       the name, cleaned of numbers and separators; its singular; its plural (`binocular`); the same letters
                with other gaps (`diningtable`, `Wilson_Warbler` for Wilson's warbler); several names with commas
    qualified   the name without words for how, where or which part was photographed: `church_indoor` is a church,
                `crocodile_head` a crocodile
    spelling    a lemma that differs by one letter (`water_lilly`); always ambiguous
    head        the name is a kind of something that WordNet has: its longest ending that is a lemma (a Caspian tern is
                a tern, a `pottedplant` a plant). In lists that put qualifiers last it may also be the beginning
                (`temple_south_asia`), so both are candidates. The class is *narrower* than the synset: nothing follows
                for the concepts below the synset
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from unseen.concepts.wordnet import WordNet
from unseen.core.names import is_wnid

How = Literal["given", "exact", "qualified", "spelling", "head", "none"]

# Where a thing was photographed. A list with these puts qualifiers last, so that a name may begin with its head.
# fmt: off
PLACES = frozenset((
    "indoor", "indoors", "outdoor", "outdoors", "interior", "exterior", "natural", "artificial", "cultivated",
    "wild", "urban", "rural",
))
# Which part or side of it, or how. They count at the end of a name only.
VIEWS = frozenset((
    "head", "body", "face", "side", "front", "back", "rear", "top", "bottom", "left", "right", "view", "closeup",
    "easy", "hard", "male", "female", "adult", "juvenile", "young", "photo", "photos", "image", "images",
    "picture", "pictures", "frontal", "profile", "cropped", "other", "others", "misc",
))
# fmt: on
_NUMBER = re.compile(r"^\d+[\s._:-]+(?=\D)")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_HINT = re.compile(r"^(.*?)\s*[(\[](.+)[)\]]\s*$")
_SHORTEST_HEAD = 3
_SHORTEST_MISSPELT = 5
#: Letters of a name that is looked up; lemmas are shorter, and the variants of a name take the square of its length.
_LONGEST_NAME = 300
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Reading:
    """The synsets that a class name may mean.

    Attributes:
        how: the step that found them.
        phrase: the words of the name that were found.
        senses: wnids, the most frequent sense first; empty if nothing was found.
        hint: the words in brackets of the name, or "".
        loose: whether the words were found inside a word, which may be chance (`gadwall` is no wall).
    """

    how: How
    phrase: str
    senses: tuple[str, ...]
    hint: str = ""
    loose: bool = False


def clean(name: str) -> str:
    """Return lower-case words with single spaces, without leading numbers, separators and apostrophes."""
    text = _CAMEL.sub(" ", _NUMBER.sub("", name.strip()))
    text = text.replace("'", "").replace("’", "").lower()
    return " ".join(re.sub(r"[^0-9a-z]+", " ", text).split())


class ClassNameReader:
    """Read class names with the lemmas of WordNet.

    Args:
        wordnet: the nouns.
        names: the whole list, whose style decides whether a name may begin with its head.
    """

    def __init__(self, wordnet: WordNet, names: Sequence[str] = ()) -> None:
        self.wordnet = wordnet
        self._spaced, self._squeezed = _lemma_keys(wordnet)
        self._head_first = any(PLACES.intersection(clean(name).split()[1:]) for name in names)

    def read(self, name: str) -> Reading:
        """Return the senses that a class name may have."""
        if len(name) > _LONGEST_NAME:
            return Reading("none", clean(name[:_LONGEST_NAME]), ())
        if is_wnid(name.strip()) and name.strip() in self.wordnet:
            return Reading("given", name.strip(), (name.strip(),))
        hinted = _HINT.match(name)
        if hinted and clean(hinted[1]):
            found = self.read(hinted[1])
            return replace(found, hint=clean(hinted[2]))
        if "," in name and (shared := self._shared_senses(name.split(","))):
            return Reading("exact", clean(name), shared)
        phrase = clean(name)
        if senses := self.lookup(phrase):
            return Reading("exact", phrase, senses)
        words = phrase.split()
        loosely = self._qualified(words) or self._misspelt(phrase) or self._head(words)
        return loosely or Reading("none", phrase, ())

    def lookup(self, phrase: str) -> tuple[str, ...]:
        """Return the senses of a cleaned phrase, by the first form of it that is a lemma; empty if none is."""
        return next(self._found(phrase), ())

    def lookup_all(self, phrase: str) -> tuple[str, ...]:
        """Return the senses of a cleaned phrase in all its forms: unchanged, singular, plural, with other gaps."""
        return tuple(dict.fromkeys(sense for senses in self._found(phrase) for sense in senses))

    def forms(self, phrase: str) -> list[str]:
        """Return a cleaned phrase unchanged, in the singular and in the plural."""
        *before, last = phrase.split() or [""]
        ends = [last, *self.wordnet.base_forms(last), *self.wordnet.plural_forms(last)]
        return [" ".join([*before, end]) for end in dict.fromkeys(ends)]

    def _found(self, phrase: str) -> Iterator[tuple[str, ...]]:
        """Yield the senses of every form of a phrase that is a lemma, the closest form first."""
        for form in self.forms(phrase):
            for spelling in dict.fromkeys((form, form.replace("gray", "grey"), form.replace("grey", "gray"))):
                written = self._senses(self._spaced.get(spelling, ()))
                # A barndoor is a flap on a lamp, a barn door is not: use both, the written form first.
                joined = self._senses(self._squeezed.get(spelling.replace(" ", ""), ()))
                if senses := tuple(dict.fromkeys([*written, *joined])):
                    yield senses

    def _senses(self, lemmas: Sequence[str]) -> tuple[str, ...]:
        """Return the senses of several lemmas, all first senses before all second ones."""
        pairs = {pair for lemma in lemmas for pair in self.wordnet.lemma_index[lemma]}
        return tuple(dict.fromkeys(self.wordnet.ids[i] for _, i in sorted(pairs)))

    def _shared_senses(self, names: list[str]) -> tuple[str, ...]:
        """Return the senses that most of several names have, as of `hog, pig, grunter`."""
        votes: dict[str, int] = {}
        for name in names:
            for sense in self.lookup(clean(name)):
                votes[sense] = votes.get(sense, 0) + 1
        most = max(votes.values(), default=0)
        return tuple(sense for sense, count in votes.items() if count == most)

    def _qualified(self, words: list[str]) -> Reading | None:
        """Read the name without views at its end, and without places at its start and all after the next place."""
        left = list(words)
        while len(left) > 1 and left[-1] in VIEWS:
            left.pop()
        while len(left) > 1 and left[0] in PLACES:
            left.pop(0)
        left = left[: next((i for i, word in enumerate(left) if word in PLACES), len(left))]
        if left == words or not left:
            return None
        phrase = " ".join(left)
        if senses := self.lookup(phrase):
            return Reading("qualified", phrase, senses)
        return self._misspelt(phrase) or self._head(left)

    def _misspelt(self, phrase: str) -> Reading | None:
        """Read the name as a lemma in which one word differs by one letter: added, removed, changed or swapped."""
        words = phrase.split()
        near: set[str] = set()
        for k, word in enumerate(words):
            if len(word) >= _SHORTEST_MISSPELT and word.isalpha():
                near.update(" ".join([*words[:k], other, *words[k + 1 :]]) for other in _one_letter_away(word))
        lemmas = sorted({lemma for key in near for lemma in self._spaced.get(key, ())})
        senses = tuple(sense for sense in self._senses(lemmas) if not self._is_individual(sense))
        return Reading("spelling", " or ".join(lemma.replace("_", " ") for lemma in lemmas), senses) if senses else None

    def _head(self, words: list[str]) -> Reading | None:
        endings = [" ".join(words[i:]) for i in range(1, len(words))]
        beginnings = [" ".join(words[:i]) for i in range(len(words) - 1, 0, -1)]
        if len(words) == 1:
            # Of one word, such as `pottedplant`, the longest ending that is a lemma.
            endings = [words[0][i:] for i in range(2, len(words[0]) - _SHORTEST_HEAD + 1)]
        endings = [ending for ending in endings if ending not in PLACES]  # nothing is a kind of outdoors
        groups = [endings, beginnings] if self._head_first else [endings]
        found = [next(((p, k) for p in group if (k := self._kinds(p))), ("", ())) for group in groups]
        senses = tuple(dict.fromkeys(sense for _, kinds in found for sense in kinds))
        if not senses:
            return None
        return Reading("head", " or ".join(p for p, _ in found if p), senses, loose=len(words) == 1)

    def _kinds(self, phrase: str) -> tuple[str, ...]:
        """Return the senses of a phrase without proper names: nothing is a kind of Asia."""
        form = {phrase.replace(" ", "")}
        kinds = [sense for sense in self.lookup(phrase) if not self._is_individual(sense)]
        return tuple(sense for sense in kinds if not any(name[0].isupper() for name in self.written(sense, form)[:1]))

    def written(self, sense: str, forms: Set[str]) -> list[str]:
        """Return the lemmas of a synset that match a name, in the spelling of WordNet; `forms` have no gaps."""
        return [lemma for lemma in self.wordnet.lemmas(sense) if clean(lemma).replace(" ", "") in forms]

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
        squeezed.setdefault(key.replace(" ", ""), []).extend(lemmas)
    return spaced, squeezed
