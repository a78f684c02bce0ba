"""Which synset a class means: a probability for every candidate, from the evidence of names and of the class list.

Shapes:     r candidates of all classes of a list, each with f features (`unseen.concepts.evidence`)
Implements: a conditional logit. P(candidate | class) is proportional to exp(w . features), over the candidates of the
            class and "none of these". Features that depend on the other classes use the beliefs of the round before
            (mean field, all classes at once, so that their order has no effect)
            The weights w are fitted on lists with known synsets by `bench/matching.py --fit` and stored in
            `matching.json`; no rule names a class
            Sure: classes in the order of their probability, as long as their mean probability of being wrong is at most
            `WRONG_AMONG_SURE` (Newton et al., "Detecting differential gene expression with a semiparametric
            hierarchical mixture method", Biostatistics 2004, section 4.1), and none is below `LEAST_SURE`. A class
            that is known by a part of its name only is never sure
Expected:   docs/evidence/concepts.md
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

import numpy as np

from unseen.concepts.class_names import ClassNameReader, How
from unseen.concepts.evidence import FEATURES, CandidateFinder, Context, ListEvidence
from unseen.concepts.image_evidence import Answers, image_evidence
from unseen.concepts.wordnet import WordNet
from unseen.core.arrays import FloatArray
from unseen.core.class_table import NOT_IN_WORDNET
from unseen.core.errors import DataError
from unseen.core.names import is_wnid

#: Largest mean probability of being wrong among the classes that are sure, and the least probability of each: chosen on
#: the lists of docs/evidence/concepts.md, on which the weights were fitted, so that 99 % of the sure classes are right.
WRONG_AMONG_SURE = 0.013
LEAST_SURE = 0.85
#: Share of ids in class lists that the model treats as noise: a person may choose another synset than the name has.
NOISE = 0.002
#: A class may be a seen concept if the probabilities of its seen candidates add up to this.
MAY_BE_SEEN = 0.004
#: A class that is not related to a seen concept is not sure if candidates that are seen, or below a seen concept, have
#: this probability together.
MAY_BE_LEAK = 0.03
#: "Unseen" needs this probability.
UNSEEN_FROM = 0.95
_ROUNDS = 6
# Classes that give context; those of longer lists are matched in blocks against this many of them.
_MOST_CONTEXT = 1_000
_LEAST_LISTED, _FEWEST_LISTED, _MOST_LISTED = 1e-4, 3, 20


@dataclass(frozen=True)
class ClassMatch:
    """A class name and the synset it was matched to.

    Attributes:
        name: the class, in the spelling of the dataset.
        wnid: the most probable synset, or None if WordNet has none for it.
        how: "given" by a mapping or the dataset; "exact"; "qualified" (`church_indoor`, matched to church); "spelling"
            (one letter was changed); "head" (the class is a kind of the synset); "related" (a seen concept with another
            name); "none".
        reason: why this synset was chosen, in words.
        senses: all synsets the name may mean, the chosen one first, then by probability.
        ambiguous: whether the class is not sure.
        seen: seen concepts that the name may mean instead.
        probability: of the chosen synset.
        unseen: probability that the class is one of its candidates that are not seen.
        leak: probability that the class is a seen concept or below one.
        doubted: whether a seen concept shares another name with the synset, the class may be seen or below a seen
            concept and the synset is not, or the synset is a proper name, a person or a biological group and the other
            classes are not: such a class is not sure.
    """

    name: str
    wnid: str | None
    how: How
    reason: str
    senses: tuple[str, ...] = ()
    ambiguous: bool = False
    seen: tuple[str, ...] = ()
    probability: float = 1.0
    unseen: float = 1.0
    leak: float = 0.0
    doubted: bool = False


def match_classes(
    wordnet: WordNet,
    names: Sequence[str],
    *,
    mapping: Mapping[str, str] | None = None,
    wnids: Sequence[str | None] = (),
    seen: Sequence[str] = (),
    answers: Answers | None = None,
) -> list[ClassMatch]:
    """Match class names to synsets.

    Args:
        wordnet: the nouns.
        names: class names, in the spelling of the dataset.
        mapping: class name to wnid, as the user decided; "-" for a class that WordNet does not have.
        wnids: ids that the dataset provides, one per name, None if it has none.
        seen: wnids that models were trained on: candidates also for names that differ from theirs.
        answers: of a classifier for images of the classes.
    """
    given = _provided(wordnet, names, mapping or {}, wnids)
    order = sorted(range(len(names)), key=lambda i: (names[i], i))
    step = -(-len(order) // _MOST_CONTEXT)
    others = [i for k, i in enumerate(order) if k % step]
    blocks = [order[::step], *(others[k : k + _MOST_CONTEXT] for k in range(0, len(others), _MOST_CONTEXT))]
    finder, weights = CandidateFinder(ClassNameReader(wordnet), seen), matching_weights()
    found: dict[int, ClassMatch] = {}
    context: Context | None = None
    for block in blocks:
        settled = {k: given[i].wnid for k, i in enumerate(block) if i in given}
        evidence = ListEvidence(finder, [names[i] for i in block], settled)
        beliefs, own = solve(evidence, weights, context=context)
        if answers is not None:
            evidence.images = image_evidence(evidence, beliefs, answers, block)
            beliefs, own = solve(evidence, weights, context=context)
        context = context or own
        found |= {i: _describe(evidence, beliefs, k, names[i]) for k, i in enumerate(block) if i not in given}
    certain = _sure(found)
    found |= {i: replace(found[i], ambiguous=False) for i in certain} | given
    return [found[i] for i in range(len(names))]


def solve(
    evidence: ListEvidence, weights: FloatArray, rounds: int = _ROUNDS, context: Context | None = None
) -> tuple[FloatArray, Context]:
    """Return the beliefs of a list, and the context that they give.

    Args:
        context: of a part of the list, if that decides; by default the list is its own context.
    """
    if context is not None:
        evidence.update(context, None)
        return evidence.beliefs(weights), context
    beliefs = evidence.beliefs(weights)
    for _ in range(rounds):
        evidence.update(evidence.context(beliefs), beliefs)
        beliefs = evidence.beliefs(weights)
    return beliefs, evidence.context(beliefs)


@cache
def matching_weights() -> FloatArray:
    """Return one weight per feature."""
    stored = json.loads((files("unseen.concepts") / "matching.json").read_text(encoding="utf-8"))
    return np.asarray([stored["weights"][name] for name in FEATURES])


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
        if wnid is None and is_wnid(name.strip()) and name.strip() in wordnet:
            wnid, source = name.strip(), "name"
        if wnid == NOT_IN_WORDNET:
            found[i] = ClassMatch(name, None, "given", "settled by the mapping: not in WordNet")
        elif wnid is not None:
            if wnid not in wordnet:
                raise DataError(f"class {name!r}: the {source} has {wnid!r}, which is not a noun of WordNet 3.0.")
            reason = "settled by the mapping" if name in mapping else f"the {source} gives the synset"
            found[i] = ClassMatch(name, wnid, "given", reason, (wnid,))
    return found


def _describe(evidence: ListEvidence, beliefs: FloatArray, k: int, name: str) -> ClassMatch:
    """Return the match of class k: its most probable candidate."""
    rows = np.flatnonzero(evidence.owner == k)
    rows = rows[np.argsort(-beliefs[rows], kind="stable")]
    real = [row for row in rows.tolist() if evidence.wnids[row] is not None]
    none = float(1 - beliefs[real].sum())
    chosen = next(iter(real), None)
    if chosen is not None and none > beliefs[chosen]:
        # Probably not in WordNet: a kind of something that is, if the name ends with it.
        heads = [row for row in real if evidence.column("ending")[row] and evidence.how(row) == "head"]
        named = [row for row in real if evidence.how(row) in ("exact", "qualified")]
        chosen = next(iter([*named, *heads]), None)
    real = [row for row in real if row == chosen or not evidence.is_unsupported_person(row)]
    listed = [row for k, row in enumerate(real) if k < _FEWEST_LISTED or beliefs[row] >= _LEAST_LISTED][:_MOST_LISTED]
    if chosen is not None:
        listed = [chosen, *(row for row in listed if row != chosen)]
    senses = tuple(str(evidence.wnids[row]) for row in listed)
    maybe = [row for row in real if evidence.seen[row] and row != chosen]
    if beliefs[maybe].sum() < MAY_BE_SEEN:
        # Another name of the same thing, however improbable: roosters are also called cocks.
        maybe = [row for row in maybe if evidence.column("synonym")[row]]
    seen = tuple(str(evidence.wnids[row]) for row in maybe[:_MOST_LISTED])
    clear = float(sum(beliefs[row] for row in real if not evidence.seen[row] and evidence.how(row) != "head"))
    leak = float(beliefs[rows] @ evidence.leaks[rows])
    if chosen is None:
        reason = "WordNet has no noun for it" + (", but for a part of it" if real else ", nor for a part of it")
        return ClassMatch(name, None, "none", reason, senses, True, seen, none, clear, leak)
    wordnet, wnid, how = evidence.wordnet, str(evidence.wnids[chosen]), evidence.how(chosen)
    p = (1 - NOISE) * float(beliefs[chosen])
    reason = f"{_HOW[how].format(wordnet.label(wnid))}, probability {_percent(p)}"
    rest = [(float(beliefs[row]), evidence.wnids[row]) for row in rows.tolist() if row != chosen]
    if rest and rest[0][0] >= MAY_BE_SEEN:
        other = "none of these" if rest[0][1] is None else f"{wordnet.label(rest[0][1])!r} ({rest[0][1]})"
        reason += f"; next {other} {_percent(rest[0][0])}"
    if evidence.is_unsupported(chosen):
        clear, reason = 0.0, f"{reason}; no other class is a proper name, person or biological group like it"
    shared = not evidence.seen[chosen] and any(evidence.column("synonym")[row] for row in maybe)
    shared = shared or (not evidence.kin[chosen] and leak >= MAY_BE_LEAK)
    return ClassMatch(
        name,
        wnid,
        how,
        reason,
        senses,
        True,
        seen,
        round(p, 6),
        round(clear, 6),
        round(leak, 6),
        shared or evidence.is_unsupported(chosen),
    )


_HOW = {
    "exact": "a name of {!r}",
    "qualified": "read as {!r}",
    "spelling": "read as {!r}, spelt differently",
    "head": "a kind of {!r}",
    "related": "may be another name of {!r}",
}


def _percent(value: float) -> str:
    return f"{100 * min(value, 0.999):.1f} %" if value >= 0.99 else f"{100 * value:.0f} %"


def _sure(matches: Mapping[int, ClassMatch]) -> set[int]:
    """Return the classes that are sure: the mean probability of being wrong among them is small enough."""
    able = [
        i
        for i, m in matches.items()
        if m.how in ("exact", "qualified", "related") and m.probability >= LEAST_SURE and not m.doubted
    ]
    able.sort(key=lambda i: -matches[i].probability)
    wrong = np.cumsum([1 - matches[i].probability for i in able]) / np.arange(1, len(able) + 1)
    return set(able[: int((wrong <= WRONG_AMONG_SURE).sum())])
