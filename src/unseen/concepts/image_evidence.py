"""Evidence from images: what a classifier of seen concepts answers for some photographs of each class.

Shapes:     c classes, a answers (seen concepts); shares (c, a): mean probability of each answer over a class's images;
            r candidates (rows of `ListEvidence`)
Implements: a noisy channel. For photographs of candidate i the classifier answers j with probability

                Q(j | i) = accuracy R(i, j) + (1 - accuracy) ((1 - noise) K(i, j) + noise P(j)),
                R(i, j): 1 / n for the n answers that are i, above i or below i
                K(i, j) proportional to exp(sharpness Lin(i, j)),   P(j): the answer for all classes of the list

            and P(j) for "none of these"; accuracy is 0 if there is no such answer. The evidence for a candidate is
            `IMAGES` sum_j shares_j log(Q(j | i) / P(j)), which its score gains. Accuracy, sharpness and noise have
            the greatest marginal likelihood of the answers, given what names say (empirical Bayes): of drawings, which
            a classifier of photographs does not know, they show that its answers say little
Expected:   docs/evidence/concepts.md
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from unseen.concepts.evidence import ListEvidence
from unseen.concepts.similarity import similarity_matrix, subsumes
from unseen.core.arrays import FloatArray

#: Independent photographs that those of a class count as: they resemble each other.
IMAGES = 1.5
#: Share of the answers from which on a class looks like a seen concept.
LOOKS_LIKE = 0.5
_ACCURACY, _SHARPNESS, _NOISE = (0.1, 0.3, 0.5, 0.7), (4.0, 8.0, 12.0), (0.1, 0.3, 0.6, 0.9)
# The commonest answers for a class; the others have the rest of the probability.
_MOST_ANSWERS = 25


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers of a classifier for some images of each class.

    Attributes:
        shares: (classes, answers) mean probability.
        wnids: the seen concept of each answer.
    """

    shares: FloatArray
    wnids: tuple[str, ...]

    def looks_like(self, k: int) -> tuple[str, float] | None:
        """Return the concept that class k looks like, and its share; None if the answers differ."""
        best = int(self.shares[k].argmax())
        share = round(float(self.shares[k, best]), 4)
        return (self.wnids[best], share) if share >= LOOKS_LIKE else None


def image_evidence(evidence: ListEvidence, beliefs: FloatArray, answers: Answers, block: list[int]) -> FloatArray:
    """Return (r,) what the images add to the score of every candidate.

    Args:
        beliefs: (r,) by names alone.
        answers: of all classes of the list.
        block: the classes of `evidence`.
    """
    wordnet, owner = evidence.wordnet, evidence.owner[evidence.real]
    usual = (answers.shares.mean(axis=0) + 1 / len(answers.wnids)) / 2
    shares = answers.shares[block]
    top = np.argsort(-shares, axis=1, kind="stable")[:, :_MOST_ANSWERS]
    share = np.take_along_axis(shares, top, axis=1)
    unique, place = np.unique([str(evidence.wnids[row]) for row in evidence.real], return_inverse=True)
    cells = place[:, None], top[owner]
    similar = similarity_matrix(wordnet, unique.tolist(), answers.wnids, ic=wordnet.information)
    answered, candidates = wordnet.index(answers.wnids), wordnet.index(unique.tolist())
    covers = subsumes(wordnet, answered, candidates).T | subsumes(wordnet, candidates, answered)
    count = covers.sum(axis=1)[place, None]
    known, right = count > 0, covers[cells] / np.maximum(count, 1)
    best, found = -np.inf, np.zeros(len(evidence.wnids))
    for sharpness in _SHARPNESS:
        spread = np.exp(sharpness * similar)
        near = (spread / spread.sum(axis=1, keepdims=True))[cells]
        for accuracy, noise in product(_ACCURACY, _NOISE):
            chance = (1 - accuracy * known) * ((1 - noise) * near + noise * usual[cells[1]]) + accuracy * right
            gain = np.zeros(len(found))
            gain[evidence.real] = (share[owner] * np.log(chance / usual[cells[1]])).sum(axis=1)
            likelihood = float(np.log(np.add.reduceat(beliefs * np.exp(gain), evidence.starts)).sum())
            if likelihood > best:
                best, found = likelihood, gain
    return IMAGES * found
