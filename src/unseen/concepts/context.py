"""The senses of a whole class list at once: each class believes in its senses as far as the others bear them out.

Shapes:     m senses of c classes; owner (m,) the class of each; prior (m,) log weight of each; similarity (m, m)
Implements: a mean-field iteration. The context of a sense is its mean similarity to the other classes, each taken at
            its expected sense under the beliefs of the round before; a belief is proportional to
            (context + floor) x exp(prior). All classes are renewed at once, so that their order decides nothing
Why:        in a list of fruit nearly every name is a fruit and the plant that bears it: no class alone is settled, but
            all together are. And the mean goes over the whole list: in one that holds fish and instruments alike,
            neither sense of `bass` is borne out much better than the other, which is the truth
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_ROUNDS = 8
# What any sense gets for free: without it a context of nearly nothing against nothing would decide.
FLOOR = 0.04


@dataclass(frozen=True, eq=False)
class Beliefs:
    """What the classes came to believe.

    Attributes:
        weight: (m,) log weight of each sense, comparable within a class.
        context: (m,) mean similarity of each sense to the other classes.
    """

    weight: FloatArray
    context: FloatArray


def settle(similarity: FloatArray, owner: IntArray, prior: FloatArray, *, fewest: int = 3) -> Beliefs:
    """Beliefs of all classes in their senses.

    Args:
        similarity: of every sense with every other, in [0, 1].
        owner: the class of each sense, ascending from 0 without gaps.
        prior: log weight of each sense before the others are asked.
        fewest: with fewer other classes than this there is no context, and priors stand alone.
    """
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    classes = len(starts)
    if classes - 1 < fewest:
        return Beliefs(prior.copy(), np.zeros(len(owner)))
    weight, context = prior, np.zeros(len(owner))
    for _ in range(_ROUNDS):
        belief = _normalised(weight, owner, starts)
        toward = np.add.reduceat(similarity * belief, starts, axis=1)  # (m, c): to each class at its expected sense
        toward[np.arange(len(owner)), owner] = 0.0  # a class is no context of its own
        # Rounded, so that a lead does not hang on the order in which numbers were added.
        context = np.round(toward.sum(axis=1) / (classes - 1), 9)
        weight = prior + np.log(context + FLOOR)
    return Beliefs(weight, context)


def _normalised(weight: FloatArray, owner: IntArray, starts: IntArray) -> FloatArray:
    raised = np.exp(weight - np.maximum.reduceat(weight, starts)[owner])
    return np.asarray(raised / np.add.reduceat(raised, starts)[owner])
