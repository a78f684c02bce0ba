"""Which sense of a word a class means: chosen by rules, with the reason kept.

The rules, in order:

    1. one sense is left, once proper names are set aside where the word has other senses
    2. the name says it in brackets: of `crane (bird)` the sense below bird, or else the one most similar to it
    3. the class list says it: among mammals a seal is not a stamp. All open classes are settled together by how well
       each sense fits the others (`unseen.concepts.context`), weighed with what is usual: the synset has images in
       ImageNet-21K; the class name is its first name, and not a proper one; the sense is the more frequent one

The sense of greatest weight is taken. Unless it leads the next by a factor of two, the class is ambiguous: a person
should look at it. So it is where a letter was changed to find a noun, and, if seen concepts are given, where the name
may mean one of them after all (`unseen.concepts.doubts`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product

import numpy as np

from unseen.concepts.class_names import ClassNameReader, How, Reading, clean
from unseen.concepts.context import FLOOR, Beliefs, FloatArray, IntArray, settle
from unseen.concepts.doubts import SeenNames
from unseen.concepts.imagenet import imagenet_21k
from unseen.concepts.similarity import similarity_matrix
from unseen.concepts.wordnet import WordNet
from unseen.core.errors import DataError

NOT_IN_WORDNET = "-"
# Log weights. What a sense has for itself before the other classes are asked ...
_PICTURED = 0.7
_FIRST_NAME = 0.5
_RANK = 0.25
_CAPITAL = -0.5
_INDIVIDUAL = -2.0
# ... and how far it must lead: a factor of two.
_LEAD = 0.7
_LEAD_OF_RARE = 0.4
_LEAD_OF_HINT = 0.1
# Classes that are asked for context, spread over the sorted list: with more, the answer stays and the cost grows.
_MOST_CONTEXT = 500
_FEWEST_OTHERS = 3


@dataclass(frozen=True)
class ClassMatch:
    """A class name and the synset it was matched to.

    Attributes:
        name: the class, as the dataset writes it.
        wnid: the synset, or None if WordNet has none for it.
        how: "given" by a mapping or the dataset; "exact"; "qualified" (`church_indoor`, matched to church); "spelling"
            (one letter was changed); "head" (the class is a kind of the synset); "none".
        reason: why this synset, in words.
        senses: all synsets the name may mean, the chosen one first.
        ambiguous: open: no sense leads clearly, or a seen concept may be meant after all.
        seen: seen concepts that the name may mean instead, where it matters.
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
        names: class names, as the dataset writes them.
        mapping: class name to wnid, settled by a person; "-" for a class that WordNet does not have.
        wnids: what the dataset itself says, one per name, None where it says nothing.
        seen: wnids trained on: a class that may be one of them, and was matched otherwise, is ambiguous.
    """
    settled = _given(wordnet, names, mapping or {}, wnids)
    reader = ClassNameReader(wordnet, names)
    seen_names = SeenNames(wordnet, reader, seen) if len(seen) else None
    readings = {i: reader.read(name) for i, name in enumerate(names) if i not in settled}
    if seen_names is not None:
        readings = {i: _with_longer(wordnet, reading, seen_names) for i, reading in readings.items()}
    for i, reading in readings.items():
        match = _without_context(wordnet, reader, names[i], reading)
        if match is not None:
            settled[i] = match
    open_readings = {i: reading for i, reading in readings.items() if i not in settled}
    settled |= _by_context(reader, names, open_readings, settled)
    if seen_names is not None:
        settled |= _doubted(wordnet, names, readings, settled, seen_names)
    return [settled[i] for i in range(len(names))]


def _given(
    wordnet: WordNet, names: Sequence[str], mapping: Mapping[str, str], wnids: Sequence[str | None]
) -> dict[int, ClassMatch]:
    listed = set(names)
    unknown = [name for name in mapping if name not in listed]
    if unknown:
        raise DataError(
            f"the mapping names {len(unknown)} classes that are not in the list, such as {unknown[0]!r}. Write the "
            "names as the class list does."
        )
    given: dict[int, ClassMatch] = {}
    for i, name in enumerate(names):
        from_dataset = wnids[i] if wnids else None
        wnid, source = (mapping[name], "mapping") if name in mapping else (from_dataset, "dataset")
        if wnid == NOT_IN_WORDNET:
            given[i] = ClassMatch(name, None, "given", "settled by the mapping: not in WordNet")
        elif wnid is not None:
            if wnid not in wordnet:
                raise DataError(f"class {name!r}: the {source} has {wnid!r}, which is no noun of WordNet 3.0.")
            reason = "settled by the mapping" if name in mapping else "the dataset names the synset"
            given[i] = ClassMatch(name, wnid, "given", reason, (wnid,))
    return given


def _with_longer(wordnet: WordNet, reading: Reading, seen_names: SeenNames) -> Reading:
    """A name whose senses are all proper names may be short for a seen concept: Labrador, for Labrador retriever."""
    if reading.how != "exact" or _kinds(wordnet, reading.senses):
        return reading
    return replace(reading, senses=tuple(dict.fromkeys([*reading.senses, *seen_names.longer(reading.phrase)])))


def _without_context(wordnet: WordNet, reader: ClassNameReader, name: str, reading: Reading) -> ClassMatch | None:
    """Rules 1 and 2, or None if they do not decide."""
    if not reading.senses:
        return ClassMatch(name, None, "none", "WordNet has no noun for it, nor for a part of it", ambiguous=True)
    senses = reading.senses
    if len(senses) == 1:
        if (broader := _broader(wordnet, reader, reading, senses[0])) is not None:
            reason = f"only sense; but it may mean any {wordnet.label(broader)!r}"
            wider = replace(reading, senses=(senses[0], broader))
            return _match(wordnet, name, wider, senses[0], reason, ambiguous=True)
        return _match(wordnet, name, reading, senses[0], "only sense")
    if reading.hint and (chosen := _hinted(wordnet, senses, reader.lookup(reading.hint))):
        return _match(wordnet, name, reading, chosen, f"the sense that {reading.hint!r} points to")
    kinds = _kinds(wordnet, senses)
    if kinds == [senses[0]]:
        return _match(wordnet, name, reading, senses[0], "only sense that is not a proper name")
    return None


def _broader(wordnet: WordNet, reader: ClassNameReader, reading: Reading, chosen: str) -> str | None:
    """The concept above a synset that the name may mean as well, or None.

    A compound that is put together from two names of the concept above is likely to be a third one: WordNet has
    `motorbike` as a name of the minibike only, and above it the motorcycle, or bike.
    """
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
    """The one sense below a hint, or else the one clearly most similar to a hint."""
    below = [s for s in senses if set(hints).intersection({s, *wordnet.ancestors(s)})]
    if len(below) == 1:
        return below[0]
    if not hints:
        return None
    fit = similarity_matrix(wordnet, senses, hints, ic=wordnet.information).max(axis=1)
    order = np.argsort(-fit, kind="stable")
    return senses[order[0]] if fit[order[0]] - fit[order[1]] >= _LEAD_OF_HINT else None


def _kinds(wordnet: WordNet, senses: Sequence[str]) -> list[str]:
    return [
        s for s, individual in zip(senses, wordnet.is_instance[wordnet.index(senses)], strict=True) if not individual
    ]


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
    """Rule 3 for the classes that are still open."""
    if not readings:
        return {}
    wordnet = reader.wordnet
    options = {i: list(reading.senses) for i, reading in readings.items()}
    fixed = {i: [m.wnid] for i, m in settled.items() if m.wnid is not None}
    found: dict[int, ClassMatch] = {}
    for asked, block in _blocks(names, options, fixed):
        senses = [sense for i in block for sense in (options.get(i) or fixed[i])]
        owner = np.array([k for k, i in enumerate(block) for _ in (options.get(i) or fixed[i])], np.int64)
        prior = np.concatenate(
            [_prior(reader, options[i], readings[i]) if i in options else np.zeros(1) for i in block]
        )
        similar = similarity_matrix(wordnet, senses, senses, ic=wordnet.information)
        beliefs = settle(similar, owner, prior, fewest=_FEWEST_OTHERS)
        for k, i in enumerate(block):
            if i in asked:
                found[i] = _choose(wordnet, names[i], readings[i], options[i], beliefs, np.flatnonzero(owner == k))
    return found


def _blocks(
    names: Sequence[str], options: Mapping[int, object], fixed: Mapping[int, object]
) -> Iterator[tuple[set[int], list[int]]]:
    """(open classes to choose for, classes to look at) by block; one block, unless the list is long."""
    every = sorted([*options, *fixed], key=lambda i: (names[i], i))
    if len(every) <= 2 * _MOST_CONTEXT:
        yield set(options), every
        return
    context = _spread(every)
    asked = [i for i in every if i in options]
    for start in range(0, len(asked), _MOST_CONTEXT):
        chunk = asked[start : start + _MOST_CONTEXT]
        yield set(chunk), sorted({*context, *chunk}, key=lambda i: (names[i], i))


def _spread(items: Sequence[int]) -> list[int]:
    """At most `_MOST_CONTEXT` of a sorted list, evenly spread."""
    step = max(1, -(-len(items) // _MOST_CONTEXT))
    return list(items[::step])


def _prior(reader: ClassNameReader, senses: Sequence[str], reading: Reading) -> FloatArray:
    """Log weight of each sense before the other classes are asked."""
    forms = {form.replace(" ", "") for part in reading.phrase.split(" or ") for form in reader.forms(part)}
    wordnet, weight = reader.wordnet, np.empty(len(senses))
    for k, sense in enumerate(senses):
        weight[k] = -_RANK * np.log1p(k)
        weight[k] += _PICTURED * (sense in _pictured())
        weight[k] += _FIRST_NAME * (clean(wordnet.label(sense)).replace(" ", "") in forms)
        weight[k] += _CAPITAL * all(form[0].isupper() for form in reader.written(sense, forms))
        weight[k] += _INDIVIDUAL * bool(wordnet.is_instance[wordnet.index([sense])[0]])
    return weight


def _choose(
    wordnet: WordNet, name: str, reading: Reading, senses: Sequence[str], beliefs: Beliefs, rows: IntArray
) -> ClassMatch:
    """The sense of greatest weight, and whether it leads."""
    weight, context = beliefs.weight[rows], beliefs.context[rows]
    order = np.argsort(-weight, kind="stable")
    best = int(order[0])
    lead = float(weight[best] - weight[order[1]]) if len(order) > 1 else np.inf
    rest = np.delete(context, best)
    # A more frequent sense is set aside by the other classes alone, not because it has no pictures.
    frequent = float(np.log(context[:best] + FLOOR).max(initial=-np.inf))
    if lead < _LEAD or np.log(context[best] + FLOOR) - frequent < _LEAD_OF_RARE:
        reason = f"the most likely of {len(senses)} senses, but not clearly"
        return _match(wordnet, name, reading, senses[best], reason, ambiguous=True)
    if context[best] > rest.max(initial=0.0):
        reason = f"fits the other classes best ({context[best]:.2f}, next {rest.max():.2f})"
    else:
        reason = "the usual sense, and the other classes do not speak against it"
    return _match(wordnet, name, reading, senses[best], reason)


def _doubted(
    wordnet: WordNet,
    names: Sequence[str],
    readings: Mapping[int, Reading],
    settled: Mapping[int, ClassMatch],
    seen_names: SeenNames,
) -> dict[int, ClassMatch]:
    """The classes that may be a seen concept after all, marked."""
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
            first = doubts[0]
            reason = f"{match.reason}; but {first.why} is {wordnet.label(first.wnid)!r}, which is seen"
            found[i] = replace(match, reason=reason, ambiguous=True, seen=tuple(d.wnid for d in doubts))
    return found


def _outweighed(wordnet: WordNet, chosen: str, anchors: Sequence[str], other: str) -> bool:
    """Whether the other classes speak clearly for the chosen synset, against another one."""
    if len(anchors) < _FEWEST_OTHERS:
        return False
    fit = similarity_matrix(wordnet, [chosen, other], anchors, ic=wordnet.information).mean(axis=1)
    return bool(np.log(fit[0] + FLOOR) - np.log(fit[1] + FLOOR) >= _LEAD)


@cache
def _pictured() -> frozenset[str]:
    return frozenset(imagenet_21k())
