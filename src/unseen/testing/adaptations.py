"""Contract suite of adaptations."""

from __future__ import annotations

import copy
import pickle
import tempfile
from pathlib import Path

import numpy as np

from unseen.backbones import load_backbone
from unseen.backbones.backbone import Backbone, state_digest
from unseen.data import load_dataset
from unseen.finetuning import ADAPTATIONS, Adaptation
from unseen.testing.claims import claim

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
