"""The expected accuracy: a cross-validated linear probe.

Paper:      Hastie, Tibshirani & Friedman, "The Elements of Statistical Learning", 2nd ed., 7.10 (cross-validation)
Shapes:     X (n, d) features; y (n,) classes, (n,) values or (n, t) labels in {0, 1}
Implements: per image whether the `logistic` probe of `unseen.probes` gets it right when its fold is left out; from
            LARGEST multiplications on, ridge regression onto class indicators, which takes seconds for 2,500 classes.
            For values 1 - (y - found)^2 / var(y), whose mean is R^2, and for several labels the precision at every
            right label averaged over the image's own, both by ridge (`unseen.ranking.ridge`)
Differs:    an image is judged at the penalty that the images of the other folds choose, by fits that each left its own
            fold out: choosing by the image itself promised up to 3 points too much (200 images, 13 penalties), a
            search of its own for every fold would cost five times as much
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unseen.core.errors import DataError
from unseen.ranking.cards import FEATURES, LBFGS_STEPS, ScoreCard, Sizes
from unseen.ranking.inputs import FloatArray, check_features
from unseen.ranking.ridge import class_hits

#: n x d x classes from which ridge regression takes the place of the logistic one.
LARGEST = 1 << 33
_FOLDS, _PENALTIES = 5, 13
_DEFAULT = 10.0**-4.5  # penalty


def left_out_hits(features: npt.ArrayLike, labels: npt.ArrayLike, *, seed: int = 0) -> FloatArray:
    """Return 1 for images that a probe fitted without them classifies correctly, else 0; NaN if never held out."""
    rows, known = check_features(features, labels)
    if known.counts.max() < 2:
        raise DataError("no class has two images, so cross-validation is impossible. Add images, or use fewer classes.")
    if rows.size * known.classes >= LARGEST:
        return class_hits(rows, known, seed=seed)
    from unseen.probes.evaluate import labelled
    from unseen.probes.rows import FeatureSet
    from unseen.probes.sampling import choose_penalty, draw_folds, draw_rows
    from unseen.probes.solvers import Settings, solve
    from unseen.probes.workers import Workers

    data = labelled(FeatureSet(np.asarray(features), "features"), known.index)
    with Workers() as workers:
        (fit,) = solve("logistic", data, draw_rows(known.index, seed=seed), workers, Settings(power=1.0))
    estimate = fit.estimate
    assert estimate is not None and estimate.rows is not None and estimate.correct is not None
    folds = draw_folds(known.index, seed)[0][estimate.rows]
    penalties = [float(trial.parameters["regularization"]) for trial in fit.trials]
    hits = np.full(len(rows), np.nan)
    for fold in np.unique(folds):
        held = folds == fold
        others = ~held if not held.all() else held  # one fold alone: its images are many enough for one choice
        chosen = choose_penalty(estimate.correct[:, others], penalties, _DEFAULT)
        hits[estimate.rows[held]] = estimate.correct[chosen, held]
    return hits


def expected_accuracy(features: npt.ArrayLike, labels: npt.ArrayLike, *, seed: int = 0) -> float:
    """Return the expected accuracy of a linear head on other images like these."""
    return float(np.nanmean(left_out_hits(features, labels, seed=seed)))


def _cost(s: Sizes) -> float:
    return 4 * _FOLDS * 0.8 * s.n * min(s.n, s.d) * s.c * LBFGS_STEPS + 2 * s.n * s.d * min(s.n, s.d)


CARD = ScoreCard(
    "probe",
    "Linear probe, cross-validated",
    FEATURES,
    expected_accuracy,
    _cost,
    parts=left_out_hits,
    seeded=True,
    notes="the expected accuracy of the answer",
)
