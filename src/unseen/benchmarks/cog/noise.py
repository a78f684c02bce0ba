"""Images that show a concept of another domain: how sure are classifiers of concepts that they do not know?

Paper:      Sariyildiz et al., ICCV 2021, supplement A.3: how many images show a concept that is not their label?
Implements: the classifier of the seen concepts on images of every level, and the classifier of each level on images of
            the seen concepts; the share of images whose greatest probability is above 0.99; Fig. A, the images of
            both sides that the classifiers are surest of, with their label and with the predicted one
Expected:   2.7 % with ResNet-50 on ImageNet-CoG
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from unseen.benchmarks.cog.domains import CONTROL, SEEN, DomainRecipe, make_domains
from unseen.benchmarks.workbench import Workbench
from unseen.core.arrays import Float32Array, IntArray
from unseen.core.identity import Values
from unseen.reports.charts import Axis, Bars, Panels
from unseen.reports.page import thumbnail

_SEED = 22
_SURE = 0.99
_EXAMPLES = 4


@dataclass(frozen=True)
class Overconfident:
    """What the classifier of some concepts predicts for images of others.

    Attributes:
        share: share of the images whose greatest probability is above 0.99.
        examples: row, predicted class and probability of the images that it is surest of, each of another class.
    """

    share: float
    examples: tuple[tuple[int, int, float], ...]


def label_noise(
    bench: Workbench, model: str, dataset: str, recipe: DomainRecipe
) -> tuple[dict[str, Overconfident], Panels]:
    """Return the findings of `overconfident` for the domains of a dataset, and Fig. A: its examples as a chart."""
    loaded = bench.dataset(dataset)
    domains = make_domains(loaded, recipe).domains
    parts = bench.splits(model, dataset)
    features = np.concatenate([np.asarray(part.features[:], np.float32) for part in parts.values()])
    labels = np.concatenate([part.labels for part in parts.values()])
    images = [(split, place) for split, part in parts.items() for place in part.index.tolist()]
    own = {name: domain.labels for name, domain in domains.items() if not name.startswith(CONTROL)}
    found = overconfident(features, labels, own)

    def row(place: int, predicted: int, probability: float) -> Values:
        split, image = images[place]
        return {
            "name": f"{loaded.class_names[labels[place]]}, classified as {loaded.class_names[predicted]}",
            "value": probability,
            "shown": f"{probability:.3f}",
            "picture": thumbnail(loaded.split(split).open(image), 104),
        }

    axis = Axis("probability", "number", include=(0.0, 1.0), zero=True)
    charts = [
        Bars(rows=[row(*each) for each in one.examples], series="", x=axis, pictures="picture")
        for one in found.values()
    ]
    return found, Panels(charts=charts, titles=list(found))


def overconfident(
    features: Float32Array, labels: IntArray, domains: Mapping[str, IntArray]
) -> dict[str, Overconfident]:
    """Return how sure the classifier of other concepts is of images (A.3).

    The keys are "classifier on images", both ways between the seen concepts and each level. The share is no evidence of
    a wrong label: with few classes, a softmax is sure of unknown concepts.
    """
    from unseen.probes import LinearProbe  # imports torch

    rows = {name: np.isin(labels, own) for name, own in domains.items()}
    fitted = {name: LinearProbe(seed=_SEED).fit(features[own], labels[own]) for name, own in rows.items()}
    found = {}
    for level in domains:
        for fit, images in ((level, SEEN), (SEEN, level)) if level != SEEN else ():
            places = np.flatnonzero(rows[images] & ~rows[fit])
            probabilities = fitted[fit].predict_proba(features[places])
            best = probabilities.max(axis=1)
            surest = np.argsort(-best, kind="stable")
            _, first = np.unique(labels[places][surest], return_index=True)  # one image of each class
            examples = tuple(
                (int(places[k]), int(fitted[fit].classes_[probabilities[k].argmax()]), float(best[k]))
                for k in surest[np.sort(first)[:_EXAMPLES]]
            )
            found[f"{fit} on {images}"] = Overconfident(float((best > _SURE).mean()), examples)
    return found
