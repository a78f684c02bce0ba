"""Which sense of a word a class means: chosen by rules, with the reason.

The rules, in order:

    1. one sense is left, after proper names are dropped if the word has other senses
    2. the name states it in brackets: of `crane (bird)` the sense below bird, or else the one most similar to it
    3. the class list decides: among mammals a seal is not a stamp. All open classes are settled together by how well
       each sense fits the others (`settle`), weighted by prior knowledge: the synset has images in ImageNet-21K; the
       class name is its first name, and not a proper one; the sense is the more frequent one

The sense of greatest weight wins. Unless its weight is twice that of the next, the class is ambiguous and the user
should check it. A class is also ambiguous if a letter was changed to find a noun, and, if seen concepts are given, if
the name may mean one of them (`unseen.concepts.kinship`).

Rule 3 is a mean-field iteration. The context of a sense is its mean similarity to the other classes, each at its
expected sense under the beliefs of the previous round; a belief is proportional to (context + floor) x exp(prior). All
classes are updated at once, so that their order has no effect. In a list of fruit nearly every name is both a fruit and
the plant that bears it: no class alone is clear, but all together are. The mean is over the whole list: in one of fish
and instruments, neither sense of `bass` has much more support than the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product

import numpy as np

from unseen.concepts.class_names import ClassNameReader, How, Reading, clean
from unseen.concepts.imagenet import imagenet_21k
from unseen.concepts.kinship import SeenNames
from unseen.concepts.similarity import similarity_matrix
from unseen.concepts.wordnet import WordNet
from unseen.core.arrays import FloatArray, IntArray
from unseen.core.class_table import NOT_IN_WORDNET
from unseen.core.errors import DataError

# Log weights of a sense before the other classes are considered.
_PICTURED = 0.7
_FIRST_NAME = 0.5
_RANK = 0.25
_CAPITAL = -0.5
_INDIVIDUAL = -2.0
# The lead that it needs, as a difference of log weights: a factor of two.
_LEAD = 0.7
_LEAD_OF_RARE = 0.4
_LEAD_OF_HINT = 0.1
# Classes that give context, spread over the sorted list: more of them cost time and do not change the result.
_MOST_CONTEXT = 500
_FEWEST_OTHERS = 3
_ROUNDS = 8
# Added to every context, so that nearly nothing against nothing does not decide.
_FLOOR = 0.04


@dataclass(frozen=True)
class ClassMatch:
    """A class name and the synset it was matched to.

    Attributes:
        name: the class, in the spelling of the dataset.
        wnid: the synset, or None if WordNet has none for it.
        how: "given" by a mapping or the dataset; "exact"; "qualified" (`church_indoor`, matched to church); "spelling"
            (one letter was changed); "head" (the class is a kind of the synset); "none".
        reason: why this synset was chosen, in words.
        senses: all synsets the name may mean, the chosen one first.
        ambiguous: whether no sense leads clearly, or the name may mean a seen concept.
        seen: seen concepts that the name may mean instead, if this changes the relation to the seen concepts.
    """

    name: str
    wnid: str | None
    how: How
    reason: str
    senses: tuple[str, ...] = ()
    ambiguous: bool = False
    seen: tuple[str, ...] = ()


def match_classes(
    wordnet: WordNet,
    names: Sequence[str],
    *,
    mapping: Mapping[str, str] | None = None,
    wnids: Sequence[str | None] = (),
    seen: Sequence[str] = (),
) -> list[ClassMatch]:
    """Match class names to synsets.

    Args:
        wordnet: the nouns.
        names: class names, in the spelling of the dataset.
        mapping: class name to wnid, as the user decided; "-" for a class that WordNet does not have.
        wnids: ids that the dataset provides, one per name, None if it has none.
        seen: wnids that models were trained on: a class that may be one of them, and was matched otherwise, is
            ambiguous.
    """
    settled = _provided(wordnet, names, mapping or {}, wnids)
    reader = ClassNameReader(wordnet, names)
    seen_names = SeenNames(wordnet, reader, seen) if len(seen) else None
    readings = {i: reader.read(name) for i, name in enumerate(names) if i not in settled}
    if seen_names is not None:
        readings = {i: _with_longer(reading, seen_names) for i, reading in readings.items()}
    for i, reading in readings.items():
        match = _without_context(reader, names[i], reading)
        if match is not None:
            settled[i] = match
    open_readings = {i: reading for i, reading in readings.items() if i not in settled}
    settled |= _by_context(reader, names, open_readings, settled)
    if seen_names is not None:
        settled |= _mark_doubts(names, readings, settled, seen_names)
    return [settled[i] for i in range(len(names))]


def _provided(
    wordnet: WordNet, names: Sequence[str], mapping: Mapping[str, str], wnids: Sequence[str | None]
) -> dict[int, ClassMatch]:
    listed = set(names)
    unknown = [name for name in mapping if name not in listed]
    if unknown:
        raise DataError(
            f"the mapping names {len(unknown)} classes that are not in the list, such as {unknown[0]!r}. Use the "
            "spelling of the class list."
        )
    found: dict[int, ClassMatch] = {}
    for i, name in enumerate(names):
        from_dataset = wnids[i] if wnids else None
        wnid, source = (mapping[name], "mapping") if name in mapping else (from_dataset, "dataset")
        if wnid == NOT_IN_WORDNET:
            found[i] = ClassMatch(name, None, "given", "settled by the mapping: not in WordNet")
        elif wnid is not None:
            if wnid not in wordnet:
                raise DataError(f"class {name!r}: the {source} has {wnid!r}, which is no noun of WordNet 3.0.")
            reason = "settled by the mapping" if name in mapping else "the dataset names the synset"
            found[i] = ClassMatch(name, wnid, "given", reason, (wnid,))
    return found


def _with_longer(reading: Reading, seen_names: SeenNames) -> Reading:
    """Add seen concepts to a name whose senses are all proper names: Labrador may mean Labrador retriever."""
    if reading.how != "exact" or _kinds(seen_names.wordnet, reading.senses):
        return reading
    return replace(reading, senses=tuple(dict.fromkeys([*reading.senses, *seen_names.longer(reading.phrase)])))


def _without_context(reader: ClassNameReader, name: str, reading: Reading) -> ClassMatch | None:
    """Apply rules 1 and 2; return None if they do not decide."""
    wordnet, senses = reader.wordnet, reading.senses
    if not senses:
        return ClassMatch(name, None, "none", "WordNet has no noun for it, nor for a part of it", ambiguous=True)
    if len(senses) == 1:
        if (broader := _broader(reader, reading)) is not None:
            reason = f"only sense; but it may mean any {wordnet.label(broader)!r}"
            wider = replace(reading, senses=(senses[0], broader))
            return _match(wordnet, name, wider, senses[0], reason, ambiguous=True)
        return _match(wordnet, name, reading, senses[0], "only sense")
    if reading.hint and (chosen := _hinted(wordnet, senses, reader.lookup(reading.hint))):
        return _match(wordnet, name, reading, chosen, f"the sense that {reading.hint!r} points to")
    if _kinds(wordnet, senses) == [senses[0]]:
        return _match(wordnet, name, reading, senses[0], "only sense that is not a proper name")
    return None


def _broader(reader: ClassNameReader, reading: Reading) -> str | None:
    """Return the concept above the only sense of a name that the name may mean as well, or None.

    A compound of two names of the concept above is likely to be a third one: WordNet has
    `motorbike` as a name of the minibike only, and above it the motorcycle, or bike.
    """
    wordnet, chosen = reader.wordnet, reading.senses[0]
    forms = [form for form in reader.forms(reading.phrase) if " " not in form]
    if clean(wordnet.label(chosen)) in forms:
        return None
    for above in wordnet.parents(chosen):
        names = [clean(lemma) for lemma in wordnet.lemmas(above)]
        for form, tail in product(forms, names):
            stem = form.removesuffix(tail) if form.endswith(tail) else ""
            if len(stem) > 2 and any(name.startswith(stem) for name in names if name != tail):
                return above
    return None


def _hinted(wordnet: WordNet, senses: Sequence[str], hints: Sequence[str]) -> str | None:
    """Return the one sense below a hint, or else the one clearly most similar to a hint."""
    below = [s for s in senses if set(hints).intersection({s, *wordnet.ancestors(s)})]
    if len(below) == 1:
        return below[0]
    if not hints:
        return None
    fit = similarity_matrix(wordnet, senses, hints, ic=wordnet.information).max(axis=1)
    order = np.argsort(-fit, kind="stable")
    return senses[order[0]] if fit[order[0]] - fit[order[1]] >= _LEAD_OF_HINT else None


def _kinds(wordnet: WordNet, senses: Sequence[str]) -> list[str]:
    individual = wordnet.is_instance[wordnet.index(senses)]
    return [sense for sense, proper in zip(senses, individual, strict=True) if not proper]


def _match(
    wordnet: WordNet, name: str, reading: Reading, chosen: str, reason: str, *, ambiguous: bool = False
) -> ClassMatch:
    if reading.how == "qualified":
        reason = f"read as {reading.phrase!r}: {reason}"
    elif reading.how == "spelling":
        reason, ambiguous = f"read as {reading.phrase!r}, spelt otherwise: {reason}", True
    elif reading.how == "head":
        reason = f"a kind of {wordnet.label(chosen)!r}: {reason}"
        ambiguous = ambiguous or reading.loose
    ordered = (chosen, *(s for s in reading.senses if s != chosen))
    return ClassMatch(name, chosen, reading.how, reason, ordered, ambiguous)


def _by_context(
    reader: ClassNameReader,
    names: Sequence[str],
    readings: Mapping[int, Reading],
    settled: Mapping[int, ClassMatch],
) -> dict[int, ClassMatch]:
    """Apply rule 3 to the classes that are still open."""
    wordnet = reader.wordnet
    candidates: dict[int, tuple[str, ...]] = {i: (m.wnid,) for i, m in settled.items() if m.wnid is not None}
    candidates |= {i: reading.senses for i, reading in readings.items()}
    found: dict[int, ClassMatch] = {}
    for chosen, block in _blocks(names, readings, candidates) if readings else ():
        senses = [sense for i in block for sense in candidates[i]]
        owner = np.repeat(np.arange(len(block)), [len(candidates[i]) for i in block])
        prior = np.concatenate([_prior(reader, readings[i]) if i in readings else np.zeros(1) for i in block])
        beliefs = settle(similarity_matrix(wordnet, senses, senses, ic=wordnet.information), owner, prior)
        for k, i in enumerate(block):
            if i in chosen:
                own = Beliefs(beliefs.weight[owner == k], beliefs.context[owner == k])
                found[i] = _choose(wordnet, names[i], readings[i], own)
    return found


def _blocks(
    names: Sequence[str], readings: Mapping[int, Reading], candidates: Iterable[int]
) -> Iterator[tuple[set[int], list[int]]]:
    """Yield blocks of (open classes to choose for, classes that give context); one block, unless the list is long."""
    every = sorted(candidates, key=lambda i: (names[i], i))
    if len(every) <= 2 * _MOST_CONTEXT:
        yield set(readings), every
        return
    context = _spread(every)
    open_ones = [i for i in every if i in readings]
    for start in range(0, len(open_ones), _MOST_CONTEXT):
        chunk = open_ones[start : start + _MOST_CONTEXT]
        yield set(chunk), sorted({*context, *chunk}, key=lambda i: (names[i], i))


def _spread(items: Sequence[int]) -> list[int]:
    """Return at most `_MOST_CONTEXT` of a sorted list, evenly spread."""
    return list(items[:: max(1, -(-len(items) // _MOST_CONTEXT))])


def _prior(reader: ClassNameReader, reading: Reading) -> FloatArray:
    """Return the log weight of each sense before the other classes are considered."""
    forms = {form.replace(" ", "") for part in reading.phrase.split(" or ") for form in reader.forms(part)}
    wordnet, senses = reader.wordnet, reading.senses
    weight = -_RANK * np.log1p(np.arange(len(senses)))
    weight += _INDIVIDUAL * wordnet.is_instance[wordnet.index(senses)]
    for k, sense in enumerate(senses):
        weight[k] += _PICTURED * (sense in _pictured())
        weight[k] += _FIRST_NAME * (clean(wordnet.label(sense)).replace(" ", "") in forms)
        weight[k] += _CAPITAL * all(form[0].isupper() for form in reader.written(sense, forms))
    return weight


def _choose(wordnet: WordNet, name: str, reading: Reading, beliefs: Beliefs) -> ClassMatch:
    """Return the sense of greatest weight, ambiguous unless it leads."""
    senses, weight, context = reading.senses, beliefs.weight, beliefs.context
    order = np.argsort(-weight, kind="stable")
    best = int(order[0])
    lead = float(weight[best] - weight[order[1]]) if len(order) > 1 else np.inf
    rest = np.delete(context, best)
    # Only the other classes may rule out a more frequent sense, not a lack of pictures.
    frequent = float(np.log(context[:best] + _FLOOR).max(initial=-np.inf))
    if lead < _LEAD or np.log(context[best] + _FLOOR) - frequent < _LEAD_OF_RARE:
        reason = f"the most likely of {len(senses)} senses, but not clearly"
        return _match(wordnet, name, reading, senses[best], reason, ambiguous=True)
    if context[best] > rest.max(initial=0.0):
        reason = f"fits the other classes best ({context[best]:.2f}, next {rest.max():.2f})"
    else:
        reason = "the usual sense, and the other classes do not contradict it"
    return _match(wordnet, name, reading, senses[best], reason)


def _mark_doubts(
    names: Sequence[str],
    readings: Mapping[int, Reading],
    settled: Mapping[int, ClassMatch],
    seen_names: SeenNames,
) -> dict[int, ClassMatch]:
    """Return the classes that may be a seen concept, marked as ambiguous."""
    wordnet = seen_names.wordnet
    context = _spread(sorted((i for i, m in settled.items() if m.wnid is not None), key=lambda i: (names[i], i)))
    found: dict[int, ClassMatch] = {}
    for i, reading in readings.items():
        match = settled[i]
        if match.wnid is None or match.how == "given" or reading.hint:
            continue
        anchors = [w for k in context if k != i and (w := settled[k].wnid) is not None]
        outweighed = partial(_outweighed, wordnet, match.wnid, anchors)
        doubts = seen_names.doubts(match.name, reading, match.wnid, match.how, outweighed)
        if doubts:
            wnid, why = next(iter(doubts.items()))
            reason = f"{match.reason}; but {why} is {wordnet.label(wnid)!r}, which is seen"
            found[i] = replace(match, reason=reason, ambiguous=True, seen=tuple(doubts))
    return found


def _outweighed(wordnet: WordNet, chosen: str, anchors: Sequence[str], other: str) -> bool:
    """Return whether the other classes clearly support the chosen synset against another one."""
    if len(anchors) < _FEWEST_OTHERS:
        return False
    fit = similarity_matrix(wordnet, [chosen, other], anchors, ic=wordnet.information).mean(axis=1)
    return bool(np.log(fit[0] + _FLOOR) - np.log(fit[1] + _FLOOR) >= _LEAD)


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Beliefs of the classes in their m senses.

    Attributes:
        weight: (m,) log weight of each sense, comparable within a class.
        context: (m,) mean similarity of each sense to the other classes.
    """

    weight: FloatArray
    context: FloatArray


def settle(similarity: FloatArray, owner: IntArray, prior: FloatArray) -> Beliefs:
    """Return the beliefs of all classes in their senses; the priors if there are too few other classes.

    Args:
        similarity: (m, m) similarity of every sense with every other, in [0, 1].
        owner: (m,) the class of each sense, ascending from 0 without gaps.
        prior: (m,) log weight of each sense before the other classes are considered.
    """
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    classes = len(starts)
    weight, context = prior, np.zeros(len(owner))
    if classes - 1 < _FEWEST_OTHERS:
        return Beliefs(weight.copy(), context)
    for _ in range(_ROUNDS):
        raised = np.exp(weight - np.maximum.reduceat(weight, starts)[owner])
        belief = raised / np.add.reduceat(raised, starts)[owner]
        toward = np.add.reduceat(similarity * belief, starts, axis=1)  # (m, c): to each class at its expected sense
        toward[np.arange(len(owner)), owner] = 0.0  # a class is not its own context
        # Rounded, so that the result does not depend on the order of addition.
        context = np.round(toward.sum(axis=1) / (classes - 1), 9)
        weight = prior + np.log(context + _FLOOR)
    return Beliefs(weight, context)


@cache
def _pictured() -> frozenset[str]:
    return frozenset(imagenet_21k())
