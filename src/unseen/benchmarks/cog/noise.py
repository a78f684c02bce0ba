"""Labels that are probably wrong: images that held-out classifiers and nearest neighbours both give to another concept.

Paper:      Sariyildiz et al., ICCV 2021, supplement A.3, asks how many images show a concept that nobody labelled
Implements: every image is judged by a classifier of all concepts that has not seen it (five folds), whose
            probabilities are calibrated by one temperature (Guo et al., 2017); it is listed where the probability of
            another concept is high enough, most of its nearest neighbours have that label, and none has its own:
            concepts that look alike are confused, too, but there the neighbours are of both
Differs:    A.3 applies the classifier of one level to images of another, whose concepts it does not know, and looks at
            confidences above 0.99. A softmax has to name one of its own concepts: among few of them it is sure of
            nearly anything (flamingo is emu, 1.0000), so that alone lists nothing here. `foreign_confidence` has the
            share that the paper gives (2.7 % with ResNet-50), for what it is worth
Expected:   docs/cog.md has precision and recall on photographs with 2 % of the labels flipped
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unseen.benchmarks.cog.domains import SEEN, DomainRecipe, make_domains
from unseen.benchmarks.workbench import Workbench
from unseen.core.errors import DataError

#: Least calibrated probability of another concept, and least share of the neighbours that have its label. Chosen on
#: every second class of Caltech-101; docs/cog.md has the figures of the other half.
CONFIDENCE = 0.7
AGREEMENT = 0.7
NEIGHBOURS = 10
FOLDS = 5

_SURE = 0.99
_BLOCK = 2_048

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Evidence:
    """What speaks for another label, image by image.

    Attributes:
        suggested: (n,) the likeliest class but its own.
        confidence: (n,) calibrated probability of that class, from a classifier that has not seen the image.
        own: (n,) calibrated probability of the image's own label.
        agreement: (n,) share of the nearest neighbours that have the suggested label.
        kin: (n,) share of the nearest neighbours that have the image's own label.
        temperature: what scores were divided by to calibrate them.
        accuracy: how often the likeliest class of all is the label.
    """

    suggested: IntArray
    confidence: FloatArray
    own: FloatArray
    agreement: FloatArray
    kin: FloatArray
    temperature: float
    accuracy: float

    def listed(self, confidence: float = CONFIDENCE, agreement: float = AGREEMENT) -> IntArray:
        """Images whose label both kinds of evidence speak against, those with the most first."""
        bad = (self.confidence >= confidence) & (self.agreement >= agreement) & (self.kin == 0)
        rows = np.flatnonzero(bad)
        order = np.lexsort((-self.confidence[rows], -self.agreement[rows]))
        return np.asarray(rows[order], np.int64)


def weigh_labels(
    features: Any, labels: npt.ArrayLike, *, folds: int = FOLDS, neighbours: int = NEIGHBOURS, seed: int = 22
) -> Evidence:
    """Weigh each image's label against what other images say.

    Args:
        features: (n, d).
        labels: (n,) classes, counted from 0.
        folds: classifiers; each judges the images that it has not seen.
        neighbours: how many are asked.
        seed: of the folds.

    Raises:
        DataError: a class has fewer images than there are folds, so that some classifier would not know it.
    """
    rows = np.asarray(features[:], np.float32)
    given = np.asarray(labels, np.int64)
    counts = np.bincount(given)
    if counts.min() < folds:
        raise DataError(
            f"class {int(counts.argmin())} has {int(counts.min())} images; to judge every image by a classifier that "
            f"has not seen it, each class needs {folds} or more."
        )
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    scores = _held_out_scores(rows, given, folds, seed)
    temperature = _temperature(scores, given)
    probabilities = _softmax(scores / temperature)
    every = np.arange(len(given))
    own = probabilities[every, given]
    others = probabilities.copy()
    others[every, given] = -1.0
    suggested = others.argmax(1)
    near = nearest(rows, min(neighbours, len(rows) - 1))
    agreement = (given[near] == suggested[:, None]).mean(1)
    kin = (given[near] == given[:, None]).mean(1)
    accuracy = float((probabilities.argmax(1) == given).mean())
    return Evidence(suggested, others[every, suggested], own, agreement, kin, temperature, accuracy)


def nearest(rows: npt.NDArray[np.float32], count: int) -> IntArray:
    """(n, count) the other rows with the greatest products, block by block."""
    from unseen.ranking.scores.knn import nearest_others

    chunks = [range(start, min(start + _BLOCK, len(rows))) for start in range(0, len(rows), _BLOCK)]
    return np.concatenate([nearest_others(rows, chunk, count)[1] for chunk in chunks])


def _held_out_scores(rows: npt.NDArray[np.float32], labels: IntArray, folds: int, seed: int) -> FloatArray:
    """(n, c) logarithms of probabilities, each row from a ridge classifier that was fitted without it."""
    from unseen.probes import RidgeProbe

    order = np.random.default_rng(seed).permutation(len(labels))
    fold = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        members = order[labels[order] == label]
        fold[members] = np.arange(len(members)) % folds
    scores = np.empty((len(labels), int(labels.max()) + 1))
    for number in range(folds):
        out = fold == number
        probe = RidgeProbe(seed=seed).fit(rows[~out], labels[~out])
        scores[out] = np.log(np.maximum(probe.predict_proba(rows[out]), 1e-12))
    return scores


def _temperature(scores: FloatArray, labels: IntArray) -> float:
    """The temperature with the least log-loss (Guo et al., "On calibration of modern neural networks", 2017)."""
    from scipy.optimize import minimize_scalar

    every = np.arange(len(labels))

    def loss(log_temperature: float) -> float:
        probabilities = _softmax(scores / np.exp(log_temperature))
        return -float(np.log(np.maximum(probabilities[every, labels], 1e-12)).mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-5.0, 3.0), method="bounded").x))


def _softmax(scores: FloatArray) -> FloatArray:
    shifted = np.exp(scores - scores.max(1, keepdims=True))
    return np.asarray(shifted / shifted.sum(1, keepdims=True), np.float64)


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
    """What was found among the images of a dataset.

    Attributes:
        images, classes: how many were judged; classes with fewer images than folds are left out.
        left_out: images of such classes.
        accuracy: of the classifiers on images that they had not seen.
        temperature: of the calibration.
        suspects: those with the most evidence first.
        foreign: share of images of one domain that the classifier of another is surer of than 0.99, by
            "classifier on images": what supplement A.3 counts.
    """

    images: int
    classes: int
    left_out: int
    accuracy: float
    temperature: float
    suspects: tuple[Suspect, ...]
    foreign: dict[str, float]


def label_noise(
    bench: Workbench,
    model: str,
    dataset: str,
    *,
    recipe: DomainRecipe | None = None,
    confidence: float = CONFIDENCE,
    agreement: float = AGREEMENT,
    seed: int = 22,
) -> NoiseReport:
    """List the images of a dataset whose labels the evidence speaks against, with the domains that they are from."""
    loaded = bench.dataset(dataset)
    domains = make_domains(loaded, recipe or DomainRecipe()).domains
    home = {c.label: name for name, d in domains.items() if not name.startswith("R") for c in d.concepts}
    parts = bench.splits(model, dataset)
    features = np.concatenate([np.asarray(part.features[:], np.float32) for part in parts.values()])
    labels = np.concatenate([part.labels for part in parts.values()])
    places = [(split, int(image)) for split, part in parts.items() for image in part.index]
    enough = np.flatnonzero(np.bincount(labels)[labels] >= FOLDS)
    known, dense = np.unique(labels[enough], return_inverse=True)
    evidence = weigh_labels(features[enough], dense, seed=seed)

    def suspect(row: int) -> Suspect:
        split, image = places[enough[row]]
        own, other = int(known[dense[row]]), int(known[evidence.suggested[row]])
        return Suspect(
            loaded.split(split).names[image],
            split,
            loaded.class_names[own],
            loaded.class_names[other],
            home.get(own, ""),
            home.get(other, ""),
            float(evidence.confidence[row]),
            float(evidence.own[row]),
            float(evidence.agreement[row]),
        )

    return NoiseReport(
        images=len(enough),
        classes=len(known),
        left_out=len(labels) - len(enough),
        accuracy=evidence.accuracy,
        temperature=evidence.temperature,
        suspects=tuple(suspect(row) for row in evidence.listed(confidence, agreement).tolist()),
        foreign=foreign_confidence(features, labels, {n: d.labels for n, d in domains.items()}, seed=seed),
    )


def foreign_confidence(
    features: npt.NDArray[np.float32], labels: IntArray, domains: dict[str, IntArray], *, seed: int = 22
) -> dict[str, float]:
    """Share of images that the classifier of other concepts is surer of than 0.99 (A.3), both ways between seen and Ln.

    Not evidence of a wrong label: with few classes a softmax is sure of what it has never seen.
    """
    from unseen.probes import LinearProbe

    fitted = {}
    levels = [name for name in domains if name.startswith("L")]
    for name in [SEEN, *levels]:
        rows = np.isin(labels, domains[name])
        fitted[name] = LinearProbe(seed=seed).fit(features[rows], labels[rows])
    shares = {}
    for level in levels:
        for learnt, shown in ((level, SEEN), (SEEN, level)):
            foreign = np.isin(labels, domains[shown]) & ~np.isin(labels, domains[learnt])
            sure = fitted[learnt].predict_proba(features[foreign]).max(1) > _SURE
            shares[f"{learnt} on {shown}"] = float(sure.mean())
    return shares
