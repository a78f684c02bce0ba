"""Label noise across levels: images that a classifier of other concepts is sure of.

Paper:      Sariyildiz et al., ICCV 2021, supplement A.3
Implements: a classifier of one domain is applied to the test images of another, whose concepts it does not know;
            predictions above 0.99 are listed, for a person to look at: some show a concept that nobody labelled
Expected:   about 2.7 % of the images with ResNet-50 on ImageNet-CoG
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unseen.benchmarks.cog.domains import SEEN, DomainRecipe, make_domains
from unseen.benchmarks.cog.protocol import restrict
from unseen.benchmarks.workbench import SplitRows, Workbench

THRESHOLD = 0.99

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Suspect:
    """An image that a classifier of other concepts is sure of."""

    image: str
    true: str
    predicted: str
    confidence: float


@dataclass(frozen=True)
class NoiseReport:
    """What the classifier of one domain says of the images of another.

    Attributes:
        images: test images that were looked at.
        share: of them, with a confidence above the threshold.
        suspects: those, surest first.
    """

    classifier: str
    domain: str
    images: int
    share: float
    suspects: tuple[Suspect, ...]


def label_noise(
    bench: Workbench,
    model: str,
    dataset: str,
    *,
    recipe: DomainRecipe | None = None,
    threshold: float = THRESHOLD,
    seed: int = 22,
) -> list[NoiseReport]:
    """Classifiers of every level on images of seen concepts, and the classifier of the seen on every level's images."""
    loaded = bench.dataset(dataset)
    domains = make_domains(loaded, recipe or DomainRecipe()).domains
    parts = {split: bench.split(model, dataset, split) for split in ("train", "test")}
    labels = parts["test"].labels
    names = np.array(loaded.split("test").names, dtype=object)[parts["test"].index]
    classes = np.array(loaded.class_names, dtype=object)
    reports = []
    for level in [name for name in domains if name != SEEN]:
        for learnt, shown in ((level, SEEN), (SEEN, level)):
            confidence, predicted = _confidence(parts, domains[learnt].labels, domains[shown].labels, seed)
            rows = np.flatnonzero(np.isin(labels, domains[shown].labels))
            sure = np.flatnonzero(confidence > threshold)
            sure = sure[np.argsort(-confidence[sure], kind="stable")]
            suspects = tuple(
                Suspect(
                    str(names[rows[i]]),
                    str(classes[labels[rows[i]]]),
                    str(classes[domains[learnt].labels[predicted[i]]]),
                    float(confidence[i]),
                )
                for i in sure
            )
            reports.append(NoiseReport(learnt, shown, len(rows), len(sure) / max(len(rows), 1), suspects))
    return reports


def _confidence(
    parts: dict[str, SplitRows], learnt: IntArray, shown: IntArray, seed: int
) -> tuple[npt.NDArray[np.float64], IntArray]:
    """Greatest class probability and its class, of a probe of `learnt` classes on test images of `shown` classes."""
    from unseen.probes import LinearProbe

    probe = LinearProbe(seed=seed)
    train = restrict(parts["train"], learnt)
    probe.fit(train.features, train.labels)
    probabilities = probe.predict_proba(restrict(parts["test"], shown).features)
    return probabilities.max(1), probabilities.argmax(1)
