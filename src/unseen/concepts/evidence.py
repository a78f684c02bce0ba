"""Evidence for and against each synset that a class name may mean.

Candidates of a name, from its alternatives (`cardboard box / carton`, `hog, pig`) and its hint in brackets:

    exact, form     lemmas with the same words; the singular, the plural, the same letters with other gaps
    qualified       without words for how, where or which part was photographed (`church_indoor`)
    spelling        lemmas that differ by one letter
    ending, start   lemmas that are a part of the name (a Caspian tern is a tern)
    words           seen concepts whose names share words or the beginnings of words with the name
    below           seen concepts below a candidate
    synonym         seen concepts that share another name with a candidate (roosters are also called cocks)

Further candidates are the senses of the hint, and the seen concepts that are most similar to a candidate by Lin.

Each candidate has a row of `FEATURES`, and each class one more row for "none of these". Some features depend on what is
believed about the other classes of the list; `ListEvidence.update` computes these from beliefs:

    list_category   log ratio of the share of its lexicographer file (food, animal) in the list to that in ImageNet-21K
    list_mean       log of the mean Lin similarity to the other classes, each at its expected sense
    list_proper, list_person, list_genus
                    log share of such senses in the list, for a proper name, a person, a biological group
    seen_share      log odds of the share of seen concepts in the list, for a seen sense; `related_share` for a seen
                    concept with another name
    taken           the belief that another class of the list means this synset

A synset whose definition marks it as offensive is never a candidate.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import cast

import numpy as np

from unseen.concepts.class_names import PLACES, VIEWS, ClassNameReader, How, clean, split_name
from unseen.concepts.imagenet import image_counts
from unseen.concepts.similarity import similarity_matrix
from unseen.concepts.wordnet import WordNet
from unseen.core.arrays import BoolArray, FloatArray, IntArray

_FEATURE_NAMES = """exact form qualified spelling ending start covered words same_words below synonym frequency senses
first pictured below_hint hint_in_name longer_names abstract list_category list_mean list_proper list_person list_genus
seen seen_share related_share taken none none_of_parts"""
FEATURES = tuple(_FEATURE_NAMES.split())
COLUMN = {name: k for k, name in enumerate(FEATURES)}
#: Candidates with one of these have the name itself.
NAMED = ("exact", "form", "qualified", "spelling")
_WORD_FOR_WORD = NAMED[:3]

_PERSON, _BIOLOGICAL_GROUP = "n00007846", "n07992450"
# Lexicographer files of what can be photographed: animal, artifact, body, food, location, object, person, plant,
# substance and shape.
_CONCRETE = (5, 6, 8, 13, 15, 17, 18, 19, 20, 25, 27)
_FILES = 32
_SHARES = ("list_proper", "list_person", "list_genus")
_OFFENSIVE = re.compile(r"\b(slur|offensive|derogatory|disparag\w+|obscene|vulgar)\b")
_STOP_WORDS = """a an the of or and in on to for with by as from that which is are used at it its be into usually having
has one very large small made some any other their them this than often such most not who can when was were etc
especially resembling various two e g form forms type kind like consisting"""
_STOP = frozenset(_STOP_WORDS.split())
_ENDINGS = (("ing", ""), ("ies", "y"), ("es", ""), ("s", ""))
# Added to mean similarities, so that nearly nothing against nothing does not decide; and the typical logarithm, which
# lists with too few other classes have.
_FLOOR, _TYPICAL = 0.04, -1.8
_FEWEST_OTHERS = 3
# Classes of ImageNet-21K that the shares of lexicographer files start from.
_USUAL = 13.0
_ALIKE, _NEAR = 0.4, 0.5
# Share of the other classes that support a proper name, a person or a biological group.
_SUPPORT = 0.1
_MOST_TAILS = 200
_MOST_BELOW, _MOST_NEAR, _MOST_ANCHORS = 20, 10, 12


@cache
def _stem(word: str) -> str:
    for ending, other in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)] + other
    return word


def _stems(text: str) -> list[str]:
    """Return the stems of the words of a text, without frequent words."""
    return [_stem(word) for word in clean(text).split() if word not in _STOP]


@cache
def name_stems(wordnet: WordNet, wnid: str) -> frozenset[str]:
    """Return the stems of the names of a synset."""
    return frozenset(_stems(" ".join(wordnet.lemmas(wnid))))


@cache
def definition_stems(wordnet: WordNet, wnid: str) -> frozenset[str]:
    """Return the stems of the definition of a synset."""
    return frozenset(_stems(wordnet.definition(wnid)))


@cache
def _definitions_with(wordnet: WordNet) -> Counter[str]:
    """Return the number of definitions with each stem."""
    return Counter(stem for wnid in wordnet.ids for stem in definition_stems(wordnet, wnid))


@cache
def _tails(wordnet: WordNet) -> dict[str, list[int]]:
    """Return the words at the end of longer lemmas, with the synsets that have one."""
    found: dict[str, list[int]] = {}
    for i, wnid in enumerate(wordnet.ids):
        for lemma in wordnet.lemmas(wnid):
            words = lemma.lower().replace("-", " ").split()
            for k in range(1, len(words)):
                found.setdefault(" ".join(words[k:]), []).append(i)
    return found


@cache
def _below(wordnet: WordNet, root: str) -> frozenset[int]:
    """Return the numbers of a synset and of all below it."""
    return frozenset(wordnet.index([root, *wordnet.descendants(root)]).tolist())


class SeenConcepts:
    """Search among seen concepts: by words of their names, by edges, by shared names."""

    def __init__(self, wordnet: WordNet, seen: Sequence[str]) -> None:
        self.wordnet, self.wnids = wordnet, list(dict.fromkeys(seen))
        self.members = frozenset(self.wnids)
        self.leaks = self.members | wordnet.descendants(self.wnids)
        self.kin = self.leaks | wordnet.ancestors(self.wnids)
        self.index = wordnet.index(self.wnids)
        self._names = [
            (wnid, {_stem(word) for word in clean(lemma).split()})
            for wnid in self.wnids
            for lemma in wordnet.lemmas(wnid)
        ]
        self._frequency = Counter(stem for _, stems in self._names for stem in stems)

    def _weight(self, stem: str) -> float:
        return math.log(1 + len(self._names) / (1 + self._frequency[stem]))

    def _alike(self, stem: str) -> dict[str, float]:
        """Return the weights of the stems that are equal to a stem, or begin alike."""

        def begin_alike(other: str) -> bool:
            return min(len(stem), len(other)) > 3 and (other.startswith(stem) or stem.startswith(other))

        alike = [other for other in self._frequency if other == stem or begin_alike(other)]
        return {o: min(len(o), len(stem)) / max(len(o), len(stem)) * self._weight(o) for o in alike}

    def by_words(self, phrase: str) -> dict[str, float]:
        """Return seen concepts whose names share words with a phrase: the weighted Dice coefficient, 8 at most."""
        stems = {_stem(word) for word in phrase.split() if word not in _STOP}
        total, alike = sum(map(self._weight, stems)), [self._alike(stem) for stem in stems]
        found: dict[str, float] = {}
        for wnid, own in self._names:
            if shared := sum(max((each.get(stem, 0.0) for stem in own), default=0.0) for each in alike):
                value = 2 * shared / (total + sum(map(self._weight, own)))
                found[wnid] = max(found.get(wnid, 0.0), value)
        best_first = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:8]
        return {wnid: value for wnid, value in best_first if value >= 0.2}

    def below(self, wnid: str) -> dict[str, int]:
        """Return seen concepts up to three edges below a synset, and the number of edges; the closest first."""
        steps = self.wordnet.distances(self.wordnet.index([wnid]), self.wordnet.child_rows, limit=3)[self.index]
        order = sorted((int(steps[k]), self.wnids[k]) for k in np.flatnonzero(steps > 0))
        return {other: step for step, other in order[:_MOST_BELOW]}

    def near(self, wnids: Sequence[str]) -> list[str]:
        """Return the seen concepts that are most similar to each synset."""
        table = similarity_matrix(self.wordnet, wnids, self.wnids, ic=self.wordnet.information)
        order = np.argsort(-table, axis=1, kind="stable")[:, :_MOST_NEAR]
        return [self.wnids[k] for row, best in zip(table, order, strict=True) for k in best if row[k] >= _NEAR]

    def synonyms(self, wnid: str) -> list[str]:
        """Return seen concepts that share a name with a synset and are alike: a cock is a bird or a faucet."""
        others = {w for lemma in self.wordnet.lemmas(wnid) for w in self.wordnet.senses(lemma)} - {wnid}
        near = sorted(others & self.members)
        alike = similarity_matrix(self.wordnet, [wnid], near, ic=self.wordnet.information)[0] if near else ()
        return [other for other, value in zip(near, alike, strict=True) if value >= _ALIKE]


class _Candidates(dict[str, defaultdict[str, float]]):
    """Synsets of one name with their features."""

    def add(self, wnid: str, **values: float) -> defaultdict[str, float]:
        row = self.setdefault(wnid, defaultdict(float))
        for name, value in values.items():
            row[name] = max(row[name], value)
        return row

    def having(self, *names: str) -> list[str]:
        return [wnid for wnid, row in self.items() if any(row[name] for name in names)]


class CandidateFinder:
    """Find the candidates of class names and the features that do not depend on other classes.

    Args:
        reader: the reader of the class list.
        seen: wnids that models were trained on; may be empty.
    """

    def __init__(self, reader: ClassNameReader, seen: Sequence[str] = ()) -> None:
        self.reader, self.wordnet = reader, reader.wordnet
        self.seen = SeenConcepts(reader.wordnet, seen)

    def find(self, name: str) -> _Candidates:
        """Return the candidates of a name."""
        found = _Candidates()
        alternatives, hint = split_name(name)
        for phrase in alternatives:
            self._add_named(found, phrase)
        for wnid in self.reader.lookup(hint) if hint else ():
            found.add(wnid)
        phrase = alternatives[0] if alternatives else ""
        self._add_seen(found, phrase, hint)
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
        shorter = list(self.reader.lemmas(" ".join(without))) if without != words else []
        for lemma, _ in shorter:
            self._add_lemma(found, lemma, qualified=1.0)
        if shorter:
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
        """Add the senses of a lemma: the share of its uses in the sense-tagged corpus, and the number of senses."""
        senses = self.wordnet.lemma_senses(lemma)
        total = sum(uses for _, uses in senses)
        for wnid, uses in senses:
            if only is None or wnid in only:
                row = found.add(wnid, **values)
                share = math.log((uses + 0.5) / (total + 0.5 * len(senses)))
                known = row["senses"] > 0
                row["frequency"] = max(row["frequency"], share) if known else share
                row["senses"] = math.log1p(len(senses))

    def _add_seen(self, found: _Candidates, phrase: str, hint: str) -> None:
        seen = self.seen
        shared = seen.by_words(phrase)
        for wnid, value in seen.by_words(hint).items() if hint else ():
            shared[wnid] = max(shared.get(wnid, 0.0), 0.8 * value)
        for wnid, value in sorted(shared.items(), key=lambda pair: (-pair[1], pair[0]))[:8]:
            found.add(wnid, words=value, same_words=float(value >= 0.6))
        proper = self.wordnet.is_instance
        named = found.having(*_WORD_FOR_WORD)
        anchors = [w for w in found.having(*_WORD_FOR_WORD, "ending") if not proper[self._number(w)]][:_MOST_ANCHORS]
        for wnid in seen.near(anchors):
            found.add(wnid)
        for anchor in anchors:
            for wnid, steps in seen.below(anchor).items():
                found.add(wnid, below=1 / steps)
            for wnid in seen.synonyms(anchor) if anchor in named else ():
                found.add(wnid, synonym=1.0)
        for wnid in named:
            for name in ("words", "same_words", "below", "synonym"):
                found[wnid][name] = 0.0

    def _number(self, wnid: str) -> int:
        return int(self.wordnet.index([wnid])[0])

    def _describe(self, found: _Candidates, phrase: str) -> None:
        forms = {form.replace(" ", "") for form in self.reader.forms(phrase)}
        definitions = _definitions_with(self.wordnet)
        weights = {stem: math.log(len(self.wordnet) / (1 + definitions[stem])) for stem in set(_stems(phrase))}
        counts, files = image_counts(), self.wordnet.lexicographer
        for wnid, row in found.items():
            known = name_stems(self.wordnet, wnid) | definition_stems(self.wordnet, wnid)
            row["form"] *= 1 - row["exact"]
            covered = sum(weight for stem, weight in weights.items() if stem in known)
            row["covered"] = covered / (sum(weights.values()) or 1)
            row["first"] = clean(self.wordnet.label(wnid)).replace(" ", "") in forms
            row["pictured"] = math.log1p(counts.get(wnid, 0)) / 7.3
            row["abstract"] = int(files[self._number(wnid)]) not in _CONCRETE

    def _count_longer_names(self, found: _Candidates, phrase: str) -> None:
        """Count the longer names that end with the phrase below each candidate: many frogs are below the animal."""
        named = found.having(*_WORD_FOR_WORD)
        longer = sorted({i for form in self.reader.forms(phrase) for i in _tails(self.wordnet).get(form, ())})
        if len(named) < 2 or not longer:
            return
        longer = longer[:: len(longer) // _MOST_TAILS + 1]
        above = Counter(self.wordnet.closure(np.asarray(longer)).node.tolist())
        for wnid in named:
            number = self._number(wnid)
            found[wnid]["longer_names"] = math.log1p(above[number] - (number in longer))

    def _apply_hint(self, found: _Candidates, hint: str) -> None:
        stems = set(_stems(hint))
        phrases = [hint, *reversed([word for word in hint.split() if word not in _STOP])]
        senses = next(filter(None, map(self.reader.lookup, phrases)), ())
        rank = {sense: 1 / (1 + k) for k, sense in reversed(list(enumerate(senses)))}
        for wnid, row in found.items():
            names = {s for one in (wnid, *self.wordnet.parents(wnid)) for s in name_stems(self.wordnet, one)}
            above = {wnid, *self.wordnet.ancestors(wnid)}
            row["below_hint"] = max((value for sense, value in rank.items() if sense in above), default=0.0)
            row["hint_in_name"] = len(stems & names) / max(1, len(stems))


@dataclass(frozen=True, eq=False)
class Context:
    """What is believed about the classes of a list: candidates that give context, and how many classes of each kind.

    Attributes:
        wnids, belief, owner: (m,) synsets, the belief in each, and its class.
        direct: (m,) how directly it has the name: 2 by its name, 1 without qualifiers, 0 by a part of it.
        kinds: (36,) expected number of classes of each kind (see `ListEvidence.kinds`).
        classes: number of classes.
    """

    wnids: list[str]
    belief: FloatArray
    owner: IntArray
    direct: IntArray
    kinds: FloatArray
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
        kinds: (rows, 36) whether each candidate belongs to each lexicographer file (32); is a proper name, a person, a
            biological group; is seen.
        images: (rows,) evidence from images; 0 without.
        seen, leaks, kin: whether each candidate is a seen concept; is one or below one; or above one.
    """

    def __init__(self, finder: CandidateFinder, names: Sequence[str], settled: dict[int, str | None]) -> None:
        self.wordnet, self.count = finder.wordnet, len(names)
        self.wnids: list[str | None] = []
        owner: list[int] = []
        rows: list[Mapping[str, float]] = []
        for k, name in enumerate(names):
            found = _Candidates() if k in settled else finder.find(name)
            if known := settled.get(k):
                found.add(known, exact=1.0)
            none = {"none": 1.0, "none_of_parts": float(not found.having(*_WORD_FOR_WORD))}
            items: list[tuple[str | None, Mapping[str, float]]] = [*found.items()]
            items += [(None, none)] if k not in settled or not found else []
            self.wnids += [wnid for wnid, _ in items]
            owner += [k] * len(items)
            rows += [row for _, row in items]
        self.owner = np.asarray(owner, np.int64)
        self.table = np.asarray([[row.get(name, 0.0) for name in FEATURES] for row in rows], np.float64)
        self.images = np.zeros(len(owner))
        self.starts = np.flatnonzero(np.diff(self.owner, prepend=-1))
        self.real = np.asarray([row for row, wnid in enumerate(self.wnids) if wnid is not None], np.int64)
        numbers = self.wordnet.index([cast(str, self.wnids[row]) for row in self.real])
        groups = finder.seen.members, finder.seen.leaks, finder.seen.kin
        member = np.asarray([[wnid in group for group in groups] for wnid in self.wnids], np.bool_)
        self.seen, self.leaks, self.kin = member.T
        self._files = self.wordnet.lexicographer[numbers].astype(np.int64)
        self.kinds = np.zeros((len(self.wnids), _FILES + 4))
        self.kinds[self.real, self._files] = 1
        self.kinds[self.real, _FILES] = self.wordnet.is_instance[numbers]
        for k, root in enumerate((_PERSON, _BIOLOGICAL_GROUP), start=_FILES + 1):
            self.kinds[self.real, k] = [number in _below(self.wordnet, root) for number in numbers.tolist()]
        self.kinds[:, -1] = self.seen
        self._gives_context = (self._has(*_WORD_FOR_WORD) | (self.column("ending") >= 0.3))[self.real]
        self._direct = 2 * self._has("exact", "form") + (self.column("qualified") > 0)
        self._similar: tuple[list[str], FloatArray] = ([], np.empty(0))

    def column(self, name: str) -> FloatArray:
        return self.table[:, COLUMN[name]]

    def _has(self, *names: str) -> BoolArray:
        return np.asarray(np.max([self.column(name) for name in names], axis=0) > 0)

    def beliefs(self, weights: FloatArray) -> FloatArray:
        """Return the probability of every row, by class: a conditional logit."""
        score = np.round(self.table @ weights + self.images, 9)
        raised = np.exp(score - np.maximum.reduceat(score, self.starts)[self.owner])
        return raised / np.add.reduceat(raised, self.starts)[self.owner]

    def context(self, beliefs: FloatArray) -> Context:
        """Return what the list says, given beliefs."""
        rows = self.real[self._gives_context]
        wnids = [cast(str, self.wnids[row]) for row in rows]
        return Context(wnids, beliefs[rows], self.owner[rows], self._direct[rows], beliefs @ self.kinds, self.count)

    def update(self, context: Context, beliefs: FloatArray | None) -> None:
        """Compute the features that depend on the list.

        Args:
            context: of this list, or of a part of a longer list.
            beliefs: of the rows, if the context is of this list: a class is not its own context.
        """
        others, kinds = context.classes, np.broadcast_to(context.kinds, self.kinds.shape)
        if beliefs is not None:
            others = max(1, others - 1)
            kinds = kinds - np.add.reduceat(self.kinds * beliefs[:, None], self.starts)[self.owner]
        usual = _usual_share(self.wordnet)[self._files]
        share = kinds[self.real, self._files] + _USUAL * usual
        share /= max(context.kinds[:_FILES].sum() - 1, 0) + _USUAL
        self.table[self.real, COLUMN["list_category"]] = np.log(share / usual)
        for k, name in enumerate(_SHARES, start=_FILES):
            share = np.clip((kinds[:, k] + 0.1) / (others + 2), 1e-4, 1)
            self.table[:, COLUMN[name]] = self.kinds[:, k] * np.log(share)
        share = np.clip((kinds[:, -1] + 0.5) / (others + 1), 0.01, 0.99)
        named = self._has(*NAMED)
        self.table[:, COLUMN["seen"]] = self.seen & named
        self.table[:, COLUMN["seen_share"]] = (self.seen & named) * np.log(share / (1 - share))
        self.table[:, COLUMN["related_share"]] = (self.seen & ~named) * np.log(share / (1 - share))
        self._update_similarity(context, beliefs is not None)
        self._update_taken(context, beliefs is not None)

    def _update_similarity(self, context: Context, is_own: bool) -> None:
        from scipy.sparse import csr_array  # not when the package is imported

        others = len(set(context.owner.tolist())) - is_own
        if others < _FEWEST_OTHERS:
            self.table[:, COLUMN["list_mean"]] = 0.0
            return
        rows, row = np.unique([cast(str, self.wnids[row]) for row in self.real], return_inverse=True)
        unique, column = np.unique(context.wnids, return_inverse=True)
        if self._similar[0] != context.wnids:
            table = similarity_matrix(self.wordnet, rows.tolist(), unique.tolist(), ic=self.wordnet.information)
            self._similar = context.wnids, table
        belief = csr_array((context.belief, (column, context.owner)), (len(unique), context.classes))
        by_class = np.asarray(self._similar[1] @ belief)
        sums = by_class.sum(axis=1)[row]
        if is_own:  # subtract what a class contributes itself
            sums -= by_class[row, self.owner[self.real]]
        self.table[self.real, COLUMN["list_mean"]] = np.log(np.maximum(sums, 0) / others + _FLOOR) - _TYPICAL

    def _update_taken(self, context: Context, is_own: bool) -> None:
        claims: dict[str, list[tuple[float, int, int]]] = {}
        for wnid, belief, owner, direct in zip(
            context.wnids, context.belief.tolist(), context.owner.tolist(), context.direct.tolist(), strict=True
        ):
            claims.setdefault(wnid, []).append((belief, owner, direct))
        for row in self.real.tolist():
            # `crocodile_head` does not take the synset of `crocodile`.
            others = [
                belief
                for belief, owner, direct in claims.get(cast(str, self.wnids[row]), ())
                if direct >= self._direct[row] and not (is_own and owner == self.owner[row])
            ]
            self.table[row, COLUMN["taken"]] = max(others, default=0.0)

    def is_unsupported(self, row: int) -> bool:
        """Return whether an unseen row is a proper name, a person or a biological group, and few others are."""
        shares = self.table[row, [COLUMN[name] for name in _SHARES]]
        return bool(not self.seen[row] and (shares < math.log(_SUPPORT)).any())

    def is_unsupported_person(self, row: int) -> bool:
        """Return whether a row is a person in a list of other things."""
        return bool(self.kinds[row, _FILES + 1]) and self.is_unsupported(row)

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
