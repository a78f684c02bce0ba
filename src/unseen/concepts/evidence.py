"""Evidence for and against each synset that a class name may mean.

Candidates of a name, from its alternatives (`cardboard box / carton`, `hog, pig`) and its hint in brackets:

    exact, form     lemmas with the same words; the singular, the plural, the same letters with other gaps
    qualified       without words for how, where or which part was photographed (`church_indoor`)
    spelling        lemmas that differ by one letter
    ending, start   lemmas that are a part of the name (a Caspian tern is a tern)
    words           seen concepts whose names share words or the beginnings of words with the name
    below, near     seen concepts below a candidate, or most similar to it by Lin
    synonym         seen concepts that share another name with a candidate (roosters are also called cocks)
    gloss           seen concepts whose definition has the name, or whose name is in the definition of a candidate
    hint            the senses of the hint

Each candidate has a row of `FEATURES`, and each class one more row for "none of these". Some features depend on what is
believed about the other classes of the list; `ListEvidence.update` computes these from beliefs:

    list_category   log ratio of the share of its lexicographer file (food, animal) in the list to that in ImageNet-21K
    list_mean       log of the mean Lin similarity to the other classes, each at its expected sense
    list_near       log of the mean of exp(8 (similarity - 1)): how many other classes are close
    list_proper, list_person, list_genus
                    log share of such senses in the list, for a proper name, a person, a biological group
    seen_share      log odds of the share of seen concepts in the list, for a seen sense; `related_share` for a seen
                    concept that does not have the name
    taken           the belief that another class of the list means this synset

A synset whose definition marks it as offensive is never a candidate.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import cast

import numpy as np

from unseen.concepts.class_names import PLACES, VIEWS, ClassNameReader, How, clean, split_name
from unseen.concepts.imagenet import image_counts
from unseen.concepts.similarity import similarity_matrix
from unseen.concepts.wordnet import WordNet
from unseen.core.arrays import BoolArray, FloatArray, IntArray

# fmt: off
FEATURES = (
    "exact", "form", "qualified", "spelling", "ending", "start", "covered", "words", "same_words", "below", "near",
    "gloss", "synonym", "hint", "rank", "frequency", "senses", "first", "pictured", "capital", "below_hint",
    "hint_in_name", "hint_in_gloss", "near_hint", "longer_names", "abstract", "list_category", "list_mean", "list_near",
    "list_proper", "list_person", "list_genus", "seen", "seen_share", "related", "related_share", "taken", "none",
    "none_of_parts", "none_of_one",
)
# fmt: on
COLUMN = {name: k for k, name in enumerate(FEATURES)}
#: Candidates with one of these have the name itself.
NAMED = ("exact", "form", "qualified", "spelling")

_PERSON, _BIOLOGICAL_GROUP = "n00007846", "n07992450"
_PERSON_FILE = 18
# Lexicographer files of what can be photographed: animal, artifact, body, food, location, object, person, plant,
# substance and shape.
_CONCRETE = (5, 6, 8, 13, 15, 17, 18, 19, 20, 25, 27)
_FILES = 32
_OFFENSIVE = re.compile(r"\b(slur|offensive|derogatory|disparag\w+|obscene|vulgar)\b")
_STOP_WORDS = """a an the of or and in on to for with by as from that which is are used at it its be into usually having
has one very large small made some any other their them this than often such most not who can when was were etc
especially resembling various two e g form forms type kind like consisting"""
_STOP = frozenset(_STOP_WORDS.split())
_ENDINGS = (("ing", ""), ("ies", "y"), ("es", ""), ("s", ""))
# Added to mean similarities, so that nearly nothing against nothing does not decide; and typical logarithms of both,
# which lists with too few other classes have.
_FLOOR, _FLOOR_NEAR = 0.04, 0.0005
_TYPICAL = (-1.8, -5.8)
_FEWEST_OTHERS = 3
# Classes of ImageNet-21K that the shares of lexicographer files start from.
_USUAL = 13.0
_CLOSE = 8.0
_ALIKE = 0.4
# Share of the other classes that support a proper name, a person or a biological group.
_SUPPORT = 0.1
_MOST_TAILS = 200
_MOST_BELOW = 20
_MOST_NEAR = 10


def _stem(word: str) -> str:
    for ending, other in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)] + other
    return word


def _stems(text: str) -> list[str]:
    """Return the stems of the words of a text, without frequent words."""
    return [_stem(word) for word in clean(text).split() if word not in _STOP]


class Glosses:
    """Words of names and definitions of WordNet."""

    def __init__(self, wordnet: WordNet) -> None:
        self.wordnet = wordnet
        self._names: dict[str, frozenset[str]] = {}
        self._definitions: dict[str, frozenset[str]] = {}

    def of_names(self, wnid: str) -> frozenset[str]:
        if wnid not in self._names:
            self._names[wnid] = frozenset(_stems(" ".join(self.wordnet.lemmas(wnid))))
        return self._names[wnid]

    def of_definition(self, wnid: str) -> frozenset[str]:
        if wnid not in self._definitions:
            self._definitions[wnid] = frozenset(_stems(self.wordnet.definition(wnid)))
        return self._definitions[wnid]

    @cached_property
    def weight(self) -> Callable[[str], float]:
        """The inverse document frequency of a stem over all definitions."""
        found: Counter[str] = Counter()
        for wnid in self.wordnet.ids:
            found.update(self.of_definition(wnid))
        total = len(self.wordnet)
        return lambda stem: math.log(total / (1 + found[stem]))

    @cached_property
    def tails(self) -> dict[str, list[int]]:
        """Words at the end of a longer lemma to the synsets that have one."""
        found: dict[str, list[int]] = {}
        for i, wnid in enumerate(self.wordnet.ids):
            for lemma in self.wordnet.lemmas(wnid):
                words = lemma.lower().replace("-", " ").split()
                for k in range(1, len(words)):
                    found.setdefault(" ".join(words[k:]), []).append(i)
        return found

    @cached_property
    def below(self) -> Callable[[str], frozenset[int]]:
        """Return the numbers of a synset and of all below it."""

        @cache
        def numbers(root: str) -> frozenset[int]:
            return frozenset(self.wordnet.index([root, *self.wordnet.descendants(root)]).tolist())

        return numbers


@cache
def glosses(wordnet: WordNet) -> Glosses:
    """Return the words of a WordNet, cached."""
    return Glosses(wordnet)


class SeenConcepts:
    """Search among seen concepts: by words of their names, by their definitions, by similarity."""

    def __init__(self, wordnet: WordNet, seen: Sequence[str]) -> None:
        self.wordnet, self.wnids = wordnet, list(dict.fromkeys(seen))
        self.members = frozenset(self.wnids)
        self.index = wordnet.index(self.wnids)
        self.lemmas = [(k, clean(lemma)) for k, wnid in enumerate(self.wnids) for lemma in wordnet.lemmas(wnid)]
        self._by_stem: dict[str, list[int]] = {}
        for number, (_, lemma) in enumerate(self.lemmas):
            for stem in {_stem(word) for word in lemma.split()}:
                self._by_stem.setdefault(stem, []).append(number)
        self._by_gloss: dict[str, set[int]] = {}
        for k, wnid in enumerate(self.wnids):
            for stem in glosses(wordnet).of_definition(wnid):
                self._by_gloss.setdefault(stem, set()).add(k)
        self._similar: dict[str, FloatArray] = {}

    def _weight(self, stem: str) -> float:
        return math.log(1 + len(self.lemmas) / (1 + len(self._by_stem.get(stem, ()))))

    def by_words(self, phrase: str) -> dict[str, float]:
        """Return seen concepts whose names share words with a phrase: the weighted Dice coefficient, 8 at most."""
        stems = {_stem(word) for word in phrase.split() if word not in _STOP}
        shared: dict[int, dict[str, float]] = {}
        for stem in stems:
            for other, numbers in self._by_stem.items() if len(stem) > 3 else [(stem, self._by_stem.get(stem, []))]:
                if other != stem and not (len(other) > 3 and (other.startswith(stem) or stem.startswith(other))):
                    continue
                likeness = min(len(other), len(stem)) / max(len(other), len(stem)) * self._weight(other)
                for number in numbers:
                    best = shared.setdefault(number, {})
                    best[stem] = max(best.get(stem, 0.0), likeness)
        total = sum(map(self._weight, stems))
        found: dict[str, float] = {}
        for number, parts in shared.items():
            k, lemma = self.lemmas[number]
            own = sum(self._weight(stem) for stem in {_stem(word) for word in lemma.split()})
            found[self.wnids[k]] = max(found.get(self.wnids[k], 0.0), 2 * sum(parts.values()) / (total + own))
        best_first = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:8]
        return {wnid: value for wnid, value in best_first if value >= 0.2}

    def by_gloss(self, phrase: str) -> list[str]:
        """Return seen concepts whose definition has all words of a phrase, if there are few."""
        stems = set(_stems(phrase))
        found = set.intersection(*(self._by_gloss.get(stem, set()) for stem in stems)) if stems else set()
        return [self.wnids[k] for k in sorted(found)] if len(found) <= 6 else []

    def named_in(self, definition: str) -> list[str]:
        """Return seen concepts whose name is in a definition."""
        text = f" {clean(definition)} "
        return [self.wnids[k] for k, lemma in self.lemmas if len(lemma) > 2 and f" {lemma} " in text]

    def below(self, wnid: str) -> dict[str, int]:
        """Return seen concepts up to three edges below a synset, and the number of edges; the closest first."""
        steps = self.wordnet.distances(self.wordnet.index([wnid]), self.wordnet.child_rows, limit=3)[self.index]
        order = sorted((int(steps[k]), self.wnids[k]) for k in np.flatnonzero(steps > 0))
        return {other: step for step, other in order[:_MOST_BELOW]}

    def near(self, wnids: Sequence[str], count: int) -> Iterable[tuple[str, float]]:
        """Yield the seen concepts that are most similar to each synset, and the similarity."""
        new = [wnid for wnid in wnids if wnid not in self._similar]
        if new:
            table = similarity_matrix(self.wordnet, new, self.wnids, ic=self.wordnet.information)
            self._similar |= dict(zip(new, table, strict=True))
        for wnid in wnids:
            row = self._similar[wnid]
            for k in np.argsort(-row, kind="stable")[:count].tolist():
                if row[k] >= 0.5 and self.wnids[k] != wnid:
                    yield self.wnids[k], float(row[k])

    def synonyms(self, wnid: str) -> list[str]:
        """Return seen concepts that share a name with a synset and are alike: a cock is a bird or a faucet."""
        others = {w for lemma in self.wordnet.lemmas(wnid) for w in self.wordnet.senses(lemma)} - {wnid}
        near = sorted(others & self.members)
        alike = similarity_matrix(self.wordnet, [wnid], near, ic=self.wordnet.information)[0] if near else ()
        return [other for other, value in zip(near, alike, strict=True) if value >= _ALIKE]


class _Candidates(dict[str, FloatArray]):
    """Synsets of one name with their features."""

    def add(self, wnid: str, **values: float) -> FloatArray:
        row = self.setdefault(wnid, np.zeros(len(FEATURES)))
        for name, value in values.items():
            row[COLUMN[name]] = max(row[COLUMN[name]], value)
        return row

    def having(self, *names: str) -> list[str]:
        return [wnid for wnid, row in self.items() if any(row[COLUMN[name]] for name in names)]


class CandidateFinder:
    """Find the candidates of class names and the features that do not depend on other classes.

    Args:
        reader: the reader of the class list.
        seen: wnids that models were trained on; may be empty.
    """

    def __init__(self, reader: ClassNameReader, seen: Sequence[str] = ()) -> None:
        self.reader, self.wordnet, self.words = reader, reader.wordnet, glosses(reader.wordnet)
        self.seen = SeenConcepts(reader.wordnet, seen) if len(seen) else None

    def find(self, name: str) -> _Candidates:
        """Return the candidates of a name."""
        found = _Candidates()
        alternatives, hint = split_name(name)
        for phrase in alternatives:
            self._add_named(found, phrase)
        for wnid in self.reader.lookup(hint) if hint else ():
            found.add(wnid, hint=1.0)
        phrase = alternatives[0] if alternatives else ""
        if self.seen is not None:
            self._add_seen(found, phrase, hint, self.seen)
        for wnid in [wnid for wnid in found if _OFFENSIVE.search(self.wordnet.definition(wnid))]:
            del found[wnid]
        self._describe(found, phrase)
        self._count_longer_names(found, phrase)
        if hint and found:
            self._apply_hint(found, hint)
        return found

    def _add_named(self, found: _Candidates, phrase: str) -> None:
        lemmas = list(self.reader.lemmas(phrase))
        for lemma, same in lemmas:
            self._add_lemma(found, lemma, exact=float(same), form=float(not same))
        if lemmas:
            return
        words = phrase.split()
        without = self.reader.without_qualifiers(words)
        if without != words and (senses := self.reader.lookup(" ".join(without))):
            for wnid in senses:
                found.add(wnid, qualified=1.0)
            return
        for wnid in self.reader.misspelt(phrase):
            found.add(wnid, spelling=1.0)
        if len(words) == 1:
            endings = (self.reader.kinds(phrase[i:]) for i in range(2, len(phrase) - 2))
            for wnid in next(filter(None, endings), ()):
                found.add(wnid, ending=0.3)
        self._add_parts(found, words)

    def _add_parts(self, found: _Candidates, words: Sequence[str]) -> None:
        """Add the longest parts of a name that are lemmas."""
        covered: list[tuple[int, int]] = []
        for length in range(len(words) - 1, 0, -1):
            for start in range(len(words) - length + 1):
                stop = start + length
                part = " ".join(words[start:stop])
                ignored = length == 1 and (len(part) < 3 or part in PLACES or part in VIEWS or part in _STOP)
                if ignored or any(a <= start and stop <= b for a, b in covered):
                    continue
                if kinds := self.reader.kinds(part):
                    covered.append((start, stop))
                    place = {"ending": length / len(words)} if stop == len(words) else {"start": length / len(words)}
                    for lemma in self.reader.spaced(part):
                        self._add_lemma(found, lemma, only=kinds, **place)
                    for wnid in kinds:
                        found.add(wnid, **place)

    def _add_lemma(self, found: _Candidates, lemma: str, only: Sequence[str] | None = None, **values: float) -> None:
        """Add the senses of a lemma: rank, share of its uses in the sense-tagged corpus, number of senses."""
        senses = self.wordnet.lemma_senses(lemma)
        total = sum(uses for _, uses in senses)
        for rank, (wnid, uses) in enumerate(senses):
            if only is not None and wnid not in only:
                continue
            row = found.add(wnid, **values)
            share = math.log((uses + 0.5) / (total + 0.5 * len(senses)))
            for name, value in (("frequency", share), ("rank", -math.log1p(rank))):
                row[COLUMN[name]] = max(row[COLUMN[name]], value) if row[COLUMN["senses"]] else value
            row[COLUMN["senses"]] = math.log1p(len(senses))

    def _add_seen(self, found: _Candidates, phrase: str, hint: str, seen: SeenConcepts) -> None:
        shared = seen.by_words(phrase)
        for wnid, value in seen.by_words(hint).items() if hint else ():
            shared[wnid] = max(shared.get(wnid, 0.0), 0.8 * value)
        for wnid, value in sorted(shared.items(), key=lambda pair: (-pair[1], pair[0]))[:8]:
            found.add(wnid, words=value, same_words=float(value >= 0.6))
        for wnid in seen.by_gloss(phrase):
            found.add(wnid, gloss=1.0)
        proper = self.wordnet.is_instance
        anchors = [w for w in found.having("exact", "form", "qualified", "ending") if not proper[self._number(w)]][:12]
        named = [w for w in anchors if w in found.having("exact", "form", "qualified")]
        for anchor in anchors:
            for wnid, steps in seen.below(anchor).items():
                found.add(wnid, below=1 / steps)
        for anchor in named:
            for wnid in seen.named_in(self.wordnet.definition(anchor)):
                found.add(wnid, gloss=1.0)
        for wnids, count in ((named, _MOST_NEAR), ([w for w in anchors if w not in named], 4)):
            for wnid, value in seen.near(wnids, count):
                found.add(wnid, near=value)
        for anchor in named:
            for wnid in seen.synonyms(anchor):
                found.add(wnid, synonym=1.0)
        for wnid in found.having("exact", "form", "qualified"):
            for name in ("words", "same_words", "below", "near", "gloss", "synonym"):
                found[wnid][COLUMN[name]] = 0.0

    def _number(self, wnid: str) -> int:
        return int(self.wordnet.index([wnid])[0])

    def _describe(self, found: _Candidates, phrase: str) -> None:
        forms = {form.replace(" ", "") for form in self.reader.forms(phrase)}
        weights = {stem: self.words.weight(stem) for stem in set(_stems(phrase))}
        counts, files = image_counts(), self.wordnet.lexicographer
        for wnid, row in found.items():
            written = self.reader.written(wnid, forms)
            known = self.words.of_names(wnid) | self.words.of_definition(wnid)
            row[COLUMN["form"]] *= 1 - row[COLUMN["exact"]]
            row[COLUMN["covered"]] = sum(v for stem, v in weights.items() if stem in known) / (
                sum(weights.values()) or 1
            )
            row[COLUMN["first"]] = clean(self.wordnet.label(wnid)).replace(" ", "") in forms
            row[COLUMN["capital"]] = bool(written) and all(lemma[0].isupper() for lemma in written)
            row[COLUMN["pictured"]] = math.log1p(counts.get(wnid, 0)) / 7.3
            row[COLUMN["abstract"]] = int(files[self._number(wnid)]) not in _CONCRETE

    def _count_longer_names(self, found: _Candidates, phrase: str) -> None:
        """Count the longer names that end with the phrase below each candidate: many frogs are below the animal."""
        named = found.having("exact", "form", "qualified")
        longer = sorted({i for form in self.reader.forms(phrase) for i in self.words.tails.get(form, ())})
        if len(named) < 2 or not longer:
            return
        longer = longer[:: len(longer) // _MOST_TAILS + 1]
        above = Counter(self.wordnet.closure(np.asarray(longer)).node.tolist())
        for wnid in named:
            number = self._number(wnid)
            found[wnid][COLUMN["longer_names"]] = math.log1p(above[number] - (number in longer))

    def _apply_hint(self, found: _Candidates, hint: str) -> None:
        stems = set(_stems(hint))
        phrases = [hint, *reversed([word for word in hint.split() if word not in _STOP])]
        senses = next(filter(None, map(self.reader.lookup, phrases)), ())
        rank = {sense: 1 / (1 + k) for k, sense in reversed(list(enumerate(senses)))}
        for wnid, row in found.items():
            names = self.words.of_names(wnid).union(*map(self.words.of_names, self.wordnet.parents(wnid)))
            above = {wnid, *self.wordnet.ancestors(wnid)}
            row[COLUMN["below_hint"]] = max((value for sense, value in rank.items() if sense in above), default=0.0)
            row[COLUMN["hint_in_name"]] = len(stems & names) / max(1, len(stems))
            row[COLUMN["hint_in_gloss"]] = len(stems & self.words.of_definition(wnid)) / max(1, len(stems))
        parts = dict.fromkeys(
            w for word in (hint, *hint.split()) if word not in _STOP for w in self.reader.lookup(word)[:4]
        )
        if parts:
            fit = similarity_matrix(self.wordnet, list(found), list(parts), ic=self.wordnet.information).max(axis=1)
            for row, value in zip(found.values(), fit / max(float(fit.max()), 1e-9), strict=True):
                row[COLUMN["near_hint"]] = value


@dataclass(frozen=True, eq=False)
class Context:
    """What is believed about the classes of a list: the columns that give context, and shares in the list.

    Attributes:
        columns: (m,) synsets, the belief in each, the class of each, and how directly it has the name (2 by its name, 1
            without qualifiers, 0 by a part of it).
        files: (32,) expected number of classes per lexicographer file.
        flags: (3,) expected number of proper names, persons and biological groups.
        seen: expected number of seen classes.
        classes: number of classes.
    """

    columns: tuple[list[str], FloatArray, IntArray, IntArray]
    files: FloatArray
    flags: FloatArray
    seen: float
    classes: int


class ListEvidence:
    """The features of the candidates of a list of classes, in one table.

    Args:
        finder: finds candidates.
        names: the classes.
        settled: classes with a known synset, by position.

    Attributes:
        wnids: candidate of each row; None for the row "none of these" of a class.
        owner: class of each row, ascending.
        table: (rows, features).
    """

    def __init__(self, finder: CandidateFinder, names: Sequence[str], settled: dict[int, str | None]) -> None:
        self.wordnet, self.count = finder.wordnet, len(names)
        self.wnids: list[str | None] = []
        owner: list[int] = []
        rows: list[FloatArray] = []
        for k, name in enumerate(names):
            if k in settled:
                found = _Candidates()
                if settled[k] is not None:
                    found.add(cast(str, settled[k]), exact=1.0)
            else:
                found = finder.find(name)
            none = np.zeros(len(FEATURES))
            none[COLUMN["none"]], none[COLUMN["none_of_parts"]] = 1, not found.having("exact", "form", "qualified")
            none[COLUMN["none_of_one"]] = len(found.having("exact")) == 1 == len(found.having("exact", "form"))
            items: list[tuple[str | None, FloatArray]] = [*found.items()]
            items += [(None, none)] if k not in settled or not found else []
            self.wnids += [wnid for wnid, _ in items]
            owner += [k] * len(items)
            rows += [row for _, row in items]
        self.owner, self.table = np.asarray(owner, np.int64), np.asarray(rows)
        self.starts = np.flatnonzero(np.diff(self.owner, prepend=-1))
        self.real = np.asarray([row for row, wnid in enumerate(self.wnids) if wnid is not None], np.int64)
        numbers = self.wordnet.index([cast(str, self.wnids[row]) for row in self.real])
        seen = finder.seen.members if finder.seen is not None else frozenset()
        self.seen = np.asarray([wnid in seen for wnid in self.wnids], np.bool_)
        self._files = self.wordnet.lexicographer[numbers].astype(np.int64)
        self._flags = np.zeros((len(self.wnids), 3))
        self._flags[self.real, 0] = self.wordnet.is_instance[numbers]
        for k, root in enumerate((_PERSON, _BIOLOGICAL_GROUP), start=1):
            below = finder.words.below(root)
            self._flags[self.real, k] = [number in below for number in numbers.tolist()]
        self._named = self._has(*NAMED)
        self._gives_context = (self._has("exact", "form", "qualified") | (self.column("ending") >= 0.3))[self.real]
        self._direct = 2 * self._has("exact", "form") + (self.column("qualified") > 0)
        self._similar: tuple[Context, FloatArray, IntArray] | None = None

    def column(self, name: str) -> FloatArray:
        return self.table[:, COLUMN[name]]

    def _has(self, *names: str) -> BoolArray:
        return np.asarray(np.max([self.column(name) for name in names], axis=0) > 0)

    def beliefs(self, weights: FloatArray) -> FloatArray:
        """Return the probability of every row, by class: a conditional logit."""
        score = np.round(self.table @ weights, 9)
        raised = np.exp(score - np.maximum.reduceat(score, self.starts)[self.owner])
        return raised / np.add.reduceat(raised, self.starts)[self.owner]

    def context(self, beliefs: FloatArray) -> Context:
        """Return what the list says, given beliefs."""
        rows = self.real[self._gives_context]
        files = np.bincount(self._files, beliefs[self.real], _FILES)
        columns = ([cast(str, self.wnids[row]) for row in rows], beliefs[rows], self.owner[rows], self._direct[rows])
        return Context(
            columns, np.asarray(files, np.float64), beliefs @ self._flags, float(beliefs @ self.seen), self.count
        )

    def update(self, context: Context, beliefs: FloatArray | None) -> None:
        """Compute the features that depend on the list.

        Args:
            context: of this list, or of a part of a longer list.
            beliefs: of the rows, if the context is of this list: a class is not its own context.
        """
        own = np.zeros(len(self.wnids)) if beliefs is None else beliefs
        self._update_similarity(context, beliefs is not None)
        others = max(1, context.classes - (beliefs is not None))
        files = self._own_sums(np.eye(_FILES)[self._files], own[self.real], self.real)
        usual = _usual_share(self.wordnet)[self._files]
        share = context.files[self._files] - files[np.arange(len(self.real)), self._files] + _USUAL * usual
        share /= max(context.files.sum() - 1, 0) + _USUAL
        self.table[self.real, COLUMN["list_category"]] = np.log(share / usual)
        flags = (context.flags - self._own_sums(self._flags, own, np.arange(len(self.wnids))) + 0.1) / (others + 2)
        for k, name in enumerate(("list_proper", "list_person", "list_genus")):
            self.table[:, COLUMN[name]] = self._flags[:, k] * np.log(np.clip(flags[:, k], 1e-4, 1))
        seen = (context.seen - self._own_sums(self.seen[:, None], own, np.arange(len(self.wnids)))[:, 0] + 0.5) / (
            others + 1
        )
        odds = np.log(np.clip(seen, 0.01, 0.99) / (1 - np.clip(seen, 0.01, 0.99)))
        for flag, name in ((self.seen & self._named, "seen"), (self.seen & ~self._named, "related")):
            self.table[:, COLUMN[name]] = flag
            self.table[:, COLUMN[f"{name}_share"]] = flag * odds
        self._update_taken(context, own)

    def _own_sums(self, values: FloatArray | BoolArray, beliefs: FloatArray, rows: IntArray) -> FloatArray:
        """Return the expected value of the class of each row."""
        sums = np.zeros((self.count, values.shape[1]))
        np.add.at(sums, self.owner[rows], values * beliefs[:, None])
        return sums[self.owner[rows]]

    def _update_similarity(self, context: Context, is_own: bool) -> None:
        wnids, belief, classes, _ = context.columns
        others = len(set(classes.tolist())) - is_own
        if others < _FEWEST_OTHERS:
            self.table[:, [COLUMN["list_mean"], COLUMN["list_near"]]] = 0.0
            return
        unique = sorted(set(wnids))
        rows = sorted({cast(str, self.wnids[row]) for row in self.real})
        if self._similar is None or self._similar[0].columns[0] != wnids:
            table = similarity_matrix(self.wordnet, rows, unique, ic=self.wordnet.information)
            place = {wnid: k for k, wnid in enumerate(rows)}
            where = np.asarray([place[cast(str, self.wnids[row])] for row in self.real], np.int64)
            self._similar = (context, table, where)
        _, table, where = self._similar
        column = {wnid: k for k, wnid in enumerate(unique)}
        columns = np.asarray([column[wnid] for wnid in wnids], np.int64)
        weight = np.bincount(columns, belief, len(unique))
        values = np.stack([table @ weight, np.exp(_CLOSE * (table - 1)) @ weight])[:, where]
        if is_own:
            # Subtract what a class contributes itself.
            mine: dict[int, list[int]] = {}
            for k, owner in enumerate(classes.tolist()):
                mine.setdefault(owner, []).append(k)
            for at, row in enumerate(self.real.tolist()):
                if own := mine.get(int(self.owner[row])):
                    similar = table[where[at], columns[own]]
                    values[:, at] -= (belief[own] @ similar, belief[own] @ np.exp(_CLOSE * (similar - 1)))
        values = np.log(np.maximum(values, 0) / others + np.asarray([[_FLOOR], [_FLOOR_NEAR]]))
        self.table[self.real, COLUMN["list_mean"]] = values[0] - _TYPICAL[0]
        self.table[self.real, COLUMN["list_near"]] = values[1] - _TYPICAL[1]

    def _update_taken(self, context: Context, own: FloatArray) -> None:
        best: dict[str, list[tuple[float, int, int]]] = {}
        for wnid, belief, owner, direct in zip(*context.columns, strict=True):
            best.setdefault(wnid, []).append((float(belief), int(owner), int(direct)))
        is_own = bool(own.any())
        for row in self.real.tolist():
            claims = best.get(cast(str, self.wnids[row]), ())
            # `crocodile_head` does not take the synset of `crocodile`.
            others = [b for b, k, d in claims if d >= self._direct[row] and not (is_own and k == self.owner[row])]
            self.table[row, COLUMN["taken"]] = max(others, default=0.0)

    def is_unsupported(self, row: int) -> bool:
        """Return whether an unseen row is a proper name, a person or a biological group, and few others are."""
        shares = self.table[row, [COLUMN[name] for name in ("list_proper", "list_person", "list_genus")]]
        return bool(not self.seen[row] and (shares < math.log(_SUPPORT)).any())

    def is_unsupported_person(self, row: int) -> bool:
        """Return whether a row is a person in a list of other things."""
        return bool(self._flags[row, 1]) and self.is_unsupported(row)

    def how(self, row: int) -> How:
        """Return the step that found a row."""
        found = [name for name in NAMED if self.table[row, COLUMN[name]]]
        if found:
            return cast(How, "exact" if found[0] == "form" else found[0])
        if self.wnids[row] is None:
            return "none"
        is_head = self.table[row, COLUMN["ending"]] or self.table[row, COLUMN["start"]]
        same = self.seen[row] and self.table[row, COLUMN["same_words"]]
        return "head" if is_head and not same else "related"


@cache
def _usual_share(wordnet: WordNet) -> FloatArray:
    """Return the share of each lexicographer file in ImageNet-21K; every other synset counts as 1/50 of one in it."""
    counts = image_counts()
    weight = np.where([wnid in counts for wnid in wordnet.ids], 1.02, 0.02)
    total = np.bincount(wordnet.lexicographer.astype(np.int64), weight, _FILES) + 0.5
    return cast(FloatArray, total / total.sum())
