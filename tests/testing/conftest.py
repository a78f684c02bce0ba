"""What all probes hold to: scikit-learn classifiers that choose their hyper-parameters, by seed."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.base import clone, is_classifier

from unseen.core.arrays import Float32Array
from unseen.testing.claims import claim, refuses


@pytest.fixture(scope="session")
def check_probe() -> Callable[[Any], None]:
    """The contract of a probe."""
    return _check_probe


def _check_probe(probe: Any) -> None:
    """Check a probe, given as an estimator that is not fitted yet.

    `sklearn.utils.estimator_checks.check_estimator` looks at the rules of scikit-learn one by one; this looks at what
    an evaluation relies on.
    """
    what = type(probe).__name__
    claim(is_classifier(probe), f"{what} is no scikit-learn classifier")
    features, labels = _clusters(120)
    test, wanted = _clusters(200, seed=1)
    features.flags.writeable = labels.flags.writeable = False
    before = probe.get_params()
    fitted = clone(probe).fit(features, labels)
    claim(clone(probe).get_params() == before, f"{what}: a clone has other parameters")
    found = fitted.predict(test)
    claim(float((found == wanted).mean()) > 0.9, f"{what}: classes that lie far apart are not separated")
    again = clone(probe).fit(features, labels)
    claim(np.array_equal(again.predict_proba(test), fitted.predict_proba(test)), f"{what}: two fits differ")
    probabilities = fitted.predict_proba(test)
    claim(np.allclose(probabilities.sum(axis=1), 1), f"{what}: probabilities do not sum to 1")
    claim(list(fitted.classes_) == sorted(set(labels.tolist())), f"{what}: classes_ are not the sorted labels")
    thawed = pickle.loads(pickle.dumps(fitted))
    claim(np.array_equal(thawed.predict(test), found), f"{what}: it does not survive a pickle")
    claim(hasattr(fitted, "trials_") and hasattr(fitted, "best_params_"), f"{what}: it has no trials_ and best_params_")
    shuffled = clone(probe).fit(features, labels[np.random.default_rng(0).permutation(len(labels))])
    chance = float((shuffled.predict(test) == wanted).mean())
    claim(chance < 0.7, f"{what}: {chance:.0%} are right after training on shuffled labels; a third are by chance")
    refuses(f"{what}: NaN", lambda: clone(probe).fit(np.where(features > 1, np.nan, features), labels))
    refuses(f"{what}: features of another width", lambda: fitted.predict(test[:, :-1]))


def _clusters(count: int, seed: int = 0) -> tuple[Float32Array, npt.NDArray[np.str_]]:
    """Return three classes around fixed directions, with names."""
    generator = np.random.default_rng(seed)
    index = np.arange(count) % 3
    centres = 4 * np.cos(np.outer(np.arange(1, 4), np.arange(1, 17)))
    rows = centres[index] + generator.normal(size=(count, 16))
    return rows.astype(np.float32), np.array(["ape", "bee", "cat"])[index]
