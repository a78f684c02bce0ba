"""Contract suites of methods.

Zero-shot methods: scikit-learn's rules, no leak from unseen classes, better than chance. Adaptations: what they train,
and that an interrupted training resumes with the same numbers.
"""

from __future__ import annotations

import copy
import pickle
import tempfile
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from unseen.backbones import load_backbone
from unseen.backbones.backbone import Backbone, state_digest
from unseen.data import load_dataset
from unseen.finetuning import ADAPTATIONS, Adaptation
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
    refuses(f"{what}: scores() before fit()", lambda: method.scores(unseen, candidates), NotFittedError)
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


def _problem() -> tuple[FloatArray, IntArray, FloatArray]:
    """Return images, labels and embeddings: features are a fixed linear map of the embeddings, and noise."""
    generator = np.random.default_rng(3)
    classes = _SEEN + _UNSEEN
    embeddings = generator.uniform(size=(classes, 12))
    labels = np.repeat(np.arange(classes), 20)
    images = embeddings[labels] @ generator.normal(size=(12, 24)) + 0.3 * generator.normal(size=(len(labels), 24))
    return images, labels, embeddings


_DATA = "procedural:sprites-location?train=24&val=8&test=16"
_CLASSES = 16


def check_adaptation(adaptation: Adaptation, model: str = "random:test_vit?size=32") -> None:
    """Check an adaptation: its card, what it trains, and that an interrupted training resumes with the same numbers.

    Args:
        adaptation: to check; it is registered if its id is unknown.
        model: a small network that it can be applied to.
    """
    claim(isinstance(adaptation, Adaptation), f"{type(adaptation).__name__} was given, not an Adaptation")
    claim(bool(adaptation.id and adaptation.name and adaptation.trains), "an adaptation needs id, name and trains")
    claim(bool(adaptation.size) == bool(adaptation.unit), f"{adaptation.id}: a size needs a unit, and no other does")
    claim(adaptation.version >= 1, f"{adaptation.id}: versions count from 1")
    claim(pickle.loads(pickle.dumps(adaptation)) == adaptation, f"{adaptation.id}: it cannot be pickled")  # noqa: S301 - our own
    if adaptation.id not in ADAPTATIONS:
        ADAPTATIONS.add(adaptation.id, adaptation)
    backbone = load_backbone(model)
    before = state_digest(backbone.module)
    _check_parameters(adaptation, backbone)
    _check_training(adaptation, backbone)
    claim(state_digest(backbone.module) == before, f"{adaptation.id}: it changes the network of the caller")


def _check_parameters(adaptation: Adaptation, backbone: Backbone) -> None:
    """Check that values of the network stay, and that a copy of the state fills a second network."""
    import torch

    from unseen.finetuning.adaptations import prepare

    networks = [copy.deepcopy(backbone.module) for _ in range(2)]
    for network in networks:
        torch.manual_seed(0)
        prepare(backbone, network, adaptation.id)
    old, new = list(backbone.module.state_dict().values()), networks[0].state_dict()
    kept = sum(any(a.shape == b.shape and torch.equal(a, b) for b in new.values()) for a in old)
    claim(kept == len(old), f"{adaptation.id}: {len(old) - kept} of {len(old)} tensors of the network are changed")
    claim(state_digest(networks[0]) == state_digest(networks[1]), f"{adaptation.id}: one seed gives two networks")
    networks[1].load_state_dict(new)


def _check_training(adaptation: Adaptation, backbone: Backbone) -> None:
    import torch

    from unseen.finetuning.train import FinetuneOptions, FinetuneResult, finetune

    data = load_dataset(_DATA)

    def train(checkpoint: Path | None = None, last: int = 0) -> FinetuneResult:
        def stop(done: int, _steps: int, _loss: float) -> None:
            if done == last:
                raise KeyboardInterrupt

        options = FinetuneOptions(
            adaptation=adaptation.id, optimizer="adamw", schedule="cosine", device="cpu", checkpoint_seconds=0
        )
        return finetune(
            backbone,
            data.split("train"),
            data.split("test"),
            classes=_CLASSES,
            steps=4,
            learning_rate=0.01,
            batch_size=8,
            seed=0,
            checkpoint=checkpoint,
            progress=stop,
            options=options,
        )

    whole, full = train(), sum(p.numel() for p in backbone.module.parameters())
    head = _CLASSES * (backbone.feature_dim + 1)
    claim(head <= whole.trainable <= full + head, f"{adaptation.id}: {whole.trainable} parameters are trained")
    claim(bool(np.isfinite(whole.history[-1][2])), f"{adaptation.id}: its loss is not finite")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.pt"
        try:
            train(path, 2)
        except KeyboardInterrupt:
            resumed = train(path)
        claim(resumed.resumed_at == 2, f"{adaptation.id}: the interrupted training did not resume")
    same = whole.history == resumed.history and state_digest(whole.module) == state_digest(resumed.module)
    claim(same and torch.equal(whole.head.weight, resumed.head.weight), f"{adaptation.id}: a resumed training differs")
