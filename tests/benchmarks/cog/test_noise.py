"""The share of images of other concepts that a classifier is sure of."""

from __future__ import annotations

import numpy as np

from unseen.benchmarks.cog.noise import overconfident
from unseen.probes import LinearProbe


def test_a_classifier_is_sure_of_what_it_does_not_know() -> None:
    """With two classes nearly all images of other classes are 'sure'; the shares are those of a naive loop."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 30)
    features = (rng.normal(size=(4, 32))[labels] + 0.3 * rng.normal(size=(120, 32))).astype(np.float32)
    found = overconfident(features, labels, {"seen": np.array([0, 1]), "L1": np.array([2, 3])})
    shares = {pair: one.share for pair, one in found.items()}
    assert set(shares) == {"L1 on seen", "seen on L1"}
    known = LinearProbe(seed=22).fit(features[:60], labels[:60])
    assert shares["seen on L1"] == np.mean([known.predict_proba(row[None]).max() > 0.99 for row in features[60:]])
    assert max(shares.values()) > 0.3
    # Of Fig. A: the surest image of each class, the surest first.
    for pair, one in found.items():
        places, predicted, probability = zip(*one.examples, strict=True)
        assert {labels[place] for place in places} == ({0, 1} if pair == "L1 on seen" else {2, 3})
        assert set(predicted) <= ({2, 3} if pair == "L1 on seen" else {0, 1})
        assert list(probability) == sorted(probability, reverse=True)
    best = known.predict_proba(features[60:]).max(1)
    assert found["seen on L1"].examples[0][0] == 60 + best.argmax()
