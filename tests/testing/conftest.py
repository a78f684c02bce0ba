"""What all probes hold to (scikit-learn classifiers that choose their hyper-parameters, by seed), and all engines."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.base import clone, is_classifier

from unseen.core.arrays import Float32Array
from unseen.run.executor import Engine
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
    claim(is_classifier(probe), f"{what} is not a scikit-learn classifier")
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


@pytest.fixture(scope="session")
def check_engine() -> Callable[[Callable[[], AbstractContextManager[Engine]]], None]:
    """The contract of an engine."""
    return _check_engine


def _check_engine(make: Callable[[], AbstractContextManager[Engine]]) -> None:
    """Check an engine; workers import `math.sqrt` by its name, and -1 is the item that fails."""
    with make() as engine:
        found = sorted(engine.map(math.sqrt, [0, 1, 4, 9]))
        claim(found == [0, 1, 2, 3], f"the roots are {found}: every item gives one result")
        claim(list(engine.map(math.sqrt, [4, 4])) == [2, 2], "equal items are two pieces of work, not one")
        claim(list(engine.map(math.sqrt, [])) == [], "no items give no results")
        message = refuses("an item that fails", lambda: list(engine.map(math.sqrt, [1, -1])), ValueError)
        claim("math domain error" in message, f"an exception came back with another message: {message}")
        claim(list(engine.map(math.sqrt, [4])) == [2], "the engine works after a failure")
        claim(engine.slots >= 1, f"{engine.slots} items are at work side by side")
        claim(isinstance(engine.shares(Path.cwd()), bool), "whether workers see a folder is a yes or a no")
        consumed: list[int] = []

        def lazily() -> Iterator[int]:
            for number in range(200):
                consumed.append(number)
                yield number

        results = engine.map(math.sqrt, lazily(), lost=lambda item, _reason: -item, needs={"GPU": 1})
        next(results)
        claim(len(consumed) < 200, "items are consumed when a worker is free, not all at once")
        claim(len(list(results)) == 199, "every item gives one result, also where they come one by one")
