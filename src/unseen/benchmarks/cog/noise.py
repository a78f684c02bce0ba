"""Labels that are probably wrong: images that held-out classifiers and nearest neighbours both give to another concept.

Paper:      Sariyildiz et al., ICCV 2021, supplement A.3: how many images show a concept that is not their label?
Implements: a classifier of all concepts that was fitted without the image (five folds) predicts every image; its
            probabilities are calibrated by one temperature (Guo et al., "On calibration of modern neural networks",
            2017). An image is listed if the probability of another concept is high, most of its nearest neighbours
            have that label, and none has its own. Concepts that look alike are confused too, but then the neighbours
            have both labels
Differs:    A.3 applies the classifier of one level to images of another, whose concepts it does not know, and counts
            confidences above 0.99. A softmax has to choose one of its own concepts: among few of them it is sure of
            nearly anything (flamingo is emu, 1.0000), so this alone lists nothing here. `overconfident_shares` computes
            the share that the paper states (2.7 % with ResNet-50)
Expected:   docs/cog.md has precision and recall on photographs with 2 % of the labels flipped
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from unseen.benchmarks.cog.domains import SEEN, DomainRecipe, make_domains
from unseen.benchmarks.workbench import Workbench
from unseen.core.arrays import Float32Array, FloatArray, IntArray
from unseen.core.errors import DataError

#: Least calibrated probability of another concept, and least share of the neighbours that have its label. Chosen on
#: every second class of Caltech-101; docs/cog.md has the figures of the other half.
CONFIDENCE = 0.7
AGREEMENT = 0.7
NEIGHBOURS = 10
FOLDS = 5

_SEED = 22
_SURE = 0.99
_BLOCK = 2_048


@dataclass(frozen=True, eq=False)
class Evidence:
    """Evidence for another label, image by image.

    Attributes:
        suggested: (n,) the most probable class except the label.
        confidence: (n,) calibrated probability of that class, from a classifier that was fitted without the image.
        own: (n,) calibrated probability of the label.
        agreement: (n,) share of the nearest neighbours that have the suggested label.
        kin: (n,) share of the nearest neighbours that have the image's own label.
        temperature: divisor of the scores that calibrates them.
        accuracy: share of images whose most probable class is the label.
    """

    suggested: IntArray
    confidence: FloatArray
    own: FloatArray
    agreement: FloatArray
    kin: FloatArray
    temperature: float
    accuracy: float

    def listed(self, confidence: float = CONFIDENCE, agreement: float = AGREEMENT) -> IntArray:
        """Return the images whose label both kinds of evidence contradict, those with the most evidence first."""
        bad = (self.confidence >= confidence) & (self.agreement >= agreement) & (self.kin == 0)
        order = np.lexsort((-self.confidence, -self.agreement))
        return np.asarray(order[bad[order]], np.int64)


def weigh_labels(features: Float32Array, labels: IntArray) -> Evidence:
    """Compare each image's label with the predictions of a held-out classifier and with its nearest neighbours.

    Args:
        features: (n, d).
        labels: (n,) classes, counted from 0.

    Raises:
        DataError: a class has fewer images than there are folds, so that some classifier would not know it.
    """
    from scipy.special import softmax

    counts = np.bincount(labels)
    if counts.min() < FOLDS:
        raise DataError(
            f"class {int(counts.argmin())} has {int(counts.min())} images; to judge every image by a classifier that "
            f"has not seen it, each class needs {FOLDS} or more."
        )
    rows = np.asarray(features, np.float32)
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    scores = _held_out_scores(rows, labels)
    temperature = _temperature(scores, labels)
    probabilities = softmax(scores / temperature, axis=1)
    every = np.arange(len(labels))
    others = probabilities.copy()
    others[every, labels] = -1.0
    suggested = others.argmax(1)
    near = labels[nearest(rows, min(NEIGHBOURS, len(rows) - 1))]
    return Evidence(
        suggested=suggested,
        confidence=others[every, suggested],
        own=probabilities[every, labels],
        agreement=(near == suggested[:, None]).mean(1),
        kin=(near == labels[:, None]).mean(1),
        temperature=temperature,
        accuracy=float((probabilities.argmax(1) == labels).mean()),
    )


def nearest(rows: Float32Array, count: int) -> IntArray:
    """Return (n, count) the other rows with the greatest products, block by block."""
    from unseen.ranking.scores.knn import nearest_others  # imports scipy

    chunks = [range(start, min(start + _BLOCK, len(rows))) for start in range(0, len(rows), _BLOCK)]
    return np.concatenate([nearest_others(rows, chunk, count)[1] for chunk in chunks])


def _held_out_scores(rows: Float32Array, labels: IntArray) -> FloatArray:
    """Return (n, c) logarithms of probabilities, each row from a ridge classifier that was fitted without it."""
    from unseen.probes import RidgeProbe  # imports torch

    order = np.random.default_rng(_SEED).permutation(len(labels))
    fold = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        members = order[labels[order] == label]
        fold[members] = np.arange(len(members)) % FOLDS
    scores = np.empty((len(labels), int(labels.max()) + 1))
    for number in range(FOLDS):
        out = fold == number
        probe = RidgeProbe(seed=_SEED).fit(rows[~out], labels[~out])
        scores[out] = np.log(np.maximum(probe.predict_proba(rows[out]), 1e-12))
    return scores


def _temperature(scores: FloatArray, labels: IntArray) -> float:
    """Return the temperature with the least log-loss."""
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    every = np.arange(len(labels))

    def loss(log_temperature: float) -> float:
        return -float(log_softmax(scores / np.exp(log_temperature), axis=1)[every, labels].mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-5.0, 3.0), method="bounded").x))


@dataclass(frozen=True)
class Suspect:
    """An image whose label is probably wrong, or which shows a second concept.

    Attributes:
        labelled, suggested: names of concepts.
        labelled_domain, suggested_domain: "seen", "L1" ..., or "" for a class that is in none.
        confidence: calibrated probability of the suggested concept; `own` that of the label.
        agreement: share of the nearest neighbours that have the suggested label.
    """

    image: str
    split: str
    labelled: str
    suggested: str
    labelled_domain: str
    suggested_domain: str
    confidence: float
    own: float
    agreement: float


@dataclass(frozen=True)
class NoiseReport:
    """Findings among the images of a dataset.

    Attributes:
        images, classes: how many were judged; classes with fewer images than folds are skipped.
        skipped: images of such classes.
        accuracy: of the held-out classifiers.
        temperature: of the calibration.
        suspects: those with the most evidence first.
        overconfident: see `overconfident_shares`.
    """

    images: int
    classes: int
    skipped: int
    accuracy: float
    temperature: float
    suspects: tuple[Suspect, ...]
    overconfident: dict[str, float]


def label_noise(
    bench: Workbench,
    model: str,
    dataset: str,
    recipe: DomainRecipe,
    *,
    confidence: float = CONFIDENCE,
    agreement: float = AGREEMENT,
) -> NoiseReport:
    """List the images of a dataset whose labels the evidence contradicts, with the domains that they belong to."""
    loaded = bench.dataset(dataset)
    domains = {name: d for name, d in make_domains(loaded, recipe).domains.items() if not name.startswith("R")}
    home = {concept.label: name for name, domain in domains.items() for concept in domain.concepts}
    parts = bench.splits(model, dataset)
    features = np.concatenate([np.asarray(part.features[:], np.float32) for part in parts.values()])
    labels = np.concatenate([part.labels for part in parts.values()])
    places = [(split, int(image)) for split, part in parts.items() for image in part.index]
    enough = np.flatnonzero(np.bincount(labels)[labels] >= FOLDS)
    known, dense = np.unique(labels[enough], return_inverse=True)
    evidence = weigh_labels(features[enough], dense)
    suspects = []
    for row in evidence.listed(confidence, agreement).tolist():
        split, image = places[enough[row]]
        own, other = int(known[dense[row]]), int(known[evidence.suggested[row]])
        suspects.append(
            Suspect(
                image=loaded.split(split).names[image],
                split=split,
                labelled=loaded.class_names[own],
                suggested=loaded.class_names[other],
                labelled_domain=home.get(own, ""),
                suggested_domain=home.get(other, ""),
                confidence=float(evidence.confidence[row]),
                own=float(evidence.own[row]),
                agreement=float(evidence.agreement[row]),
            )
        )
    return NoiseReport(
        images=len(enough),
        classes=len(known),
        skipped=len(labels) - len(enough),
        accuracy=evidence.accuracy,
        temperature=evidence.temperature,
        suspects=tuple(suspects),
        overconfident=overconfident_shares(features, labels, {name: d.labels for name, d in domains.items()}),
    )


def overconfident_shares(features: Float32Array, labels: IntArray, domains: Mapping[str, IntArray]) -> dict[str, float]:
    """Return the share of images that the classifier of other concepts is surer of than 0.99 (A.3).

    The keys are "classifier on images", both ways between the seen concepts and each level. The share is no evidence of
    a wrong label: with few classes, a softmax is sure of unknown concepts.
    """
    from unseen.probes import LinearProbe  # imports torch

    rows = {name: np.isin(labels, own) for name, own in domains.items()}
    fitted = {name: LinearProbe(seed=_SEED).fit(features[own], labels[own]) for name, own in rows.items()}
    shares = {}
    for level in domains:
        for fit, images in ((level, SEEN), (SEEN, level)) if level != SEEN else ():
            sure = fitted[fit].predict_proba(features[rows[images] & ~rows[fit]]).max(1) > _SURE
            shares[f"{fit} on {images}"] = float(sure.mean())
    return shares
