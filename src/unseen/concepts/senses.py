"""Which sense of a word a class means: chosen by rules, with the reason kept.

The rules, in order:

    1. one sense is left, once proper names are set aside where the word has other senses
    2. the name says it in brackets: of `crane (bird)` the sense below bird, or else the one most similar to it
    3. the other classes of the list say it: among mammals a seal is not a stamp. A sense fits as well as the mean of
       its five greatest Lin similarities to the classes that are settled already; it wins if it leads by 0.1
    4. of the senses that fit about as well, the most frequent, if no other of them has images in ImageNet-21K
    5. of the senses that fit about as well, the most frequent that has images in ImageNet-21K, or of all

A class settled by rule 5 is ambiguous: a person should look at it. Rules 3 and 4 need classes settled before them, so
they are tried again, once, after the first round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from unseen.concepts.class_names import ClassNameReader, How, Reading
from unseen.concepts.imagenet import imagenet_21k
from unseen.concepts.similarity import similarity_matrix
from unseen.concepts.wordnet import WordNet
from unseen.core.errors import DataError

NOT_IN_WORDNET = "-"
_LEAD = 0.1
_CONTEXT = 5
_FEWEST_SETTLED = 3
_BLOCK = 1_024


@dataclass(frozen=True)
class ClassMatch:
    """A class name and the synset it was matched to.

    Attributes:
        name: the class, as the dataset writes it.
        wnid: the synset, or None if WordNet has none for it.
        how: "given" by a mapping or the dataset; "exact"; "qualified" (`church_indoor`, matched to church); "head" (the
            class is a kind of the synset); "none".
        reason: why this synset, in words.
        senses: all synsets the name may mean, the chosen one first.
        ambiguous: nothing but the frequency of senses spoke for this one.
    """

    name: str
    wnid: str | None
    how: How
    reason: str
    senses: tuple[str, ...] = ()
    ambiguous: bool = False


def match_classes(
    wordnet: WordNet,
    names: Sequence[str],
    *,
    mapping: Mapping[str, str] | None = None,
    wnids: Sequence[str | None] = (),
) -> list[ClassMatch]:
    """Match class names to synsets.

    Args:
        wordnet: the nouns.
        names: class names, as the dataset writes them.
        mapping: class name to wnid, settled by a person; "-" for a class that WordNet does not have.
        wnids: what the dataset itself says, one per name, None where it says nothing.
    """
    settled = _given(wordnet, names, mapping or {}, wnids)
    reader = ClassNameReader(wordnet, names)
    open_readings = {i: reader.read(name) for i, name in enumerate(names) if i not in settled}
    for i, reading in list(open_readings.items()):
        match = _without_context(wordnet, reader, names[i], reading)
        if match is not None:
            settled[i] = match
            del open_readings[i]
    for last_round in (False, True):
        found = _by_context(wordnet, names, open_readings, settled, last_round)
        settled |= found
        open_readings = {i: reading for i, reading in open_readings.items() if i not in found}
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


def _without_context(wordnet: WordNet, reader: ClassNameReader, name: str, reading: Reading) -> ClassMatch | None:
    """Rules 1 and 2, or None if they do not decide."""
    if not reading.senses:
        return ClassMatch(name, None, "none", "WordNet has no noun for it, nor for a part of it")
    senses = reading.senses
    if len(senses) == 1:
        return _match(wordnet, name, reading, senses[0], "only sense")
    if reading.hint and (chosen := _hinted(wordnet, senses, reader.lookup(reading.hint))):
        return _match(wordnet, name, reading, chosen, f"the sense that {reading.hint!r} points to")
    kinds = _kinds(wordnet, senses)
    if len(kinds) == 1:
        return _match(wordnet, name, reading, kinds[0], "only sense that is not a proper name")
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
    return senses[order[0]] if fit[order[0]] - fit[order[1]] >= _LEAD else None


def _kinds(wordnet: WordNet, senses: Sequence[str]) -> list[str]:
    return [
        s for s, individual in zip(senses, wordnet.is_instance[wordnet.index(senses)], strict=True) if not individual
    ]


def _match(
    wordnet: WordNet, name: str, reading: Reading, chosen: str, reason: str, *, ambiguous: bool = False
) -> ClassMatch:
    if reading.how == "qualified":
        reason = f"read as {reading.phrase!r}: {reason}"
    elif reading.how == "head":
        reason = f"a kind of {wordnet.label(chosen)!r}: {reason}"
    ordered = (chosen, *(s for s in reading.senses if s != chosen))
    return ClassMatch(name, chosen, reading.how, reason, ordered, ambiguous)


def _by_context(
    wordnet: WordNet,
    names: Sequence[str],
    readings: Mapping[int, Reading],
    settled: Mapping[int, ClassMatch],
    last_round: bool,
) -> dict[int, ClassMatch]:
    """Rules 3 and 4, and in the last round 5, for the classes that are still open."""
    anchors = sorted({m.wnid for m in settled.values() if m.wnid is not None and not m.ambiguous})
    options = {i: _kinds(wordnet, reading.senses) or list(reading.senses) for i, reading in readings.items()}
    fit = _fit(wordnet, sorted({sense for senses in options.values() for sense in senses}), anchors)
    found: dict[int, ClassMatch] = {}
    for i, reading in readings.items():
        chosen, reason, sure = _choose(options[i], [fit[sense] for sense in options[i]])
        if sure or last_round:
            found[i] = _match(wordnet, names[i], reading, chosen, reason, ambiguous=not sure)
    return found


def _fit(wordnet: WordNet, senses: Sequence[str], anchors: Sequence[str]) -> dict[str, float]:
    """How well each sense fits the settled classes; all 0 if too few are settled."""
    if len(anchors) < _FEWEST_SETTLED:
        return dict.fromkeys(senses, 0.0)
    fit: dict[str, float] = {}
    most = min(_CONTEXT, len(anchors))
    for start in range(0, len(senses), _BLOCK):
        block = senses[start : start + _BLOCK]
        similar = similarity_matrix(wordnet, block, anchors, ic=wordnet.information)
        greatest = np.partition(similar, -most, axis=1)[:, -most:]
        # Rounded, so that a lead does not hang on the order in which five numbers were added.
        fit.update(zip(block, np.round(greatest.mean(axis=1), 9).tolist(), strict=True))
    return fit


def _choose(senses: Sequence[str], fit: Sequence[float]) -> tuple[str, str, bool]:
    """(sense, reason, whether it is sure)."""
    best = max(fit)
    close = [s for s, value in zip(senses, fit, strict=True) if value > best - _LEAD]
    if len(close) == 1:
        rest = max(value for s, value in zip(senses, fit, strict=True) if s != close[0])
        return close[0], f"fits the other classes best ({best:.2f}, next {rest:.2f})", True
    pictured = [s for s in close if s in _pictured()]
    if pictured == close[:1]:
        return close[0], "most frequent fitting sense, and the only one in ImageNet-21K", True
    among = pictured or close
    if len(pictured) == 1:
        return among[0], f"the only fitting sense in ImageNet-21K, but not the most frequent of {len(close)}", False
    what = "fitting senses in ImageNet-21K" if pictured else "fitting senses"
    return among[0], f"most frequent of {len(among)} {what} ({len(senses)} in all)", False


@cache
def _pictured() -> frozenset[str]:
    return frozenset(imagenet_21k())
