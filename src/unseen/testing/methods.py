"""Contract suite of zero-shot methods: scikit-learn's rules, no leak from unseen classes, better than chance."""

from __future__ import annotations

import pickle

import numpy as np
from sklearn.base import clone

from unseen.testing.claims import claim, refuses
from unseen.zeroshot.method import FloatArray, IntArray, ZeroShotMethod

_SEEN, _UNSEEN = 20, 5


def check_zeroshot_method(kind: type[ZeroShotMethod] | ZeroShotMethod) -> None:
    """Check a method.

    Args:
        kind: its class, or an instance with parameters under which it learns from 20 classes of 20 images.
    """
    method = kind() if isinstance(kind, type) else clone(kind)
    what = type(method).__name__
    claim(isinstance(method, ZeroShotMethod), f"{what} is no ZeroShotMethod")
    images, labels, embeddings = _problem()
    train = labels < _SEEN
    unseen, candidates = images[~train], embeddings[_SEEN:]
    before = method.get_params()
    claim(clone(method).get_params() == before, f"{what}: a clone has other parameters")
    refuses_unfitted(method, unseen, candidates)
    claim(method.fit(images[train], labels[train], embeddings) is method, f"{what}: fit() does not return the method")
    claim(method.get_params() == before, f"{what}: fit() changes its parameters")
    scores = method.scores(unseen, candidates)
    claim(scores.shape == (len(unseen), _UNSEEN), f"{what}: scores have the shape {scores.shape}")
    claim(bool(np.isfinite(scores).all()), f"{what}: scores are not finite")
    claim(np.array_equal(method.predict(unseen, candidates), scores.argmax(1)), f"{what}: predict is not the arg-max")
    thawed = pickle.loads(pickle.dumps(method))  # noqa: S301 - our own bytes
    claim(np.array_equal(thawed.scores(unseen, candidates), scores), f"{what}: it does not survive a pickle")
    again = clone(method).fit(images[train], labels[train], embeddings).scores(unseen, candidates)
    claim(np.allclose(again, scores), f"{what}: two fits give other scores")
    spoiled = embeddings.copy()
    spoiled[_SEEN:] = 17.0
    blind = clone(method).fit(images[train], labels[train], spoiled).scores(unseen, candidates)
    claim(np.array_equal(blind, again), f"{what}: embeddings of unseen classes leak into fit()")
    right = float((scores.argmax(1) + _SEEN == labels[~train]).mean())
    claim(right > 1.5 / _UNSEEN, f"{what}: {right:.0%} of unseen images are right, chance is {1 / _UNSEEN:.0%}")
    refuses(f"{what}: features of another width", lambda: method.scores(unseen[:, :-1], candidates))
    refuses(f"{what}: embeddings of another width", lambda: method.scores(unseen, candidates[:, :-1]))
    refuses(f"{what}: labels without embeddings", lambda: clone(method).fit(images, labels + 1, embeddings))


def refuses_unfitted(method: ZeroShotMethod, images: FloatArray, candidates: FloatArray) -> None:
    """Check that a method that is not fitted raises an error."""
    from sklearn.exceptions import NotFittedError

    try:
        method.scores(images, candidates)
    except NotFittedError:
        return
    raise AssertionError(f"{type(method).__name__}: scores() before fit() must raise NotFittedError")


def _problem() -> tuple[FloatArray, IntArray, FloatArray]:
    """Return images, labels and embeddings: features are a fixed linear map of the embeddings, and noise."""
    generator = np.random.default_rng(3)
    classes = _SEEN + _UNSEEN
    embeddings = generator.uniform(size=(classes, 12))
    labels = np.repeat(np.arange(classes), 20)
    images = embeddings[labels] @ generator.normal(size=(12, 24)) + 0.3 * generator.normal(size=(len(labels), 24))
    return images, labels, embeddings
