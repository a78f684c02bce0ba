"""What fine-tuning will take: a measured rate, and memory counted rather than guessed."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from unseen.backbones.backbone import Backbone
from unseen.core.records import ModelCard, Preprocessing
from unseen.data import load_dataset
from unseen.finetuning.cost import TrainingRate, measure_training, training_rate
from unseen.finetuning.trainer import FinetuneOptions


@pytest.fixture
def plain() -> Backbone:
    """One convolution and a mean: what it keeps for the way back can be counted by hand."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(3, 8, 1, bias=False)

    def forward(module: nn.Module, images: torch.Tensor) -> tuple[torch.Tensor, None]:
        return module.first(images).mean(dim=(2, 3)), None  # type: ignore[operator]

    preprocessing = Preprocessing(size=16, resize=16, mean=(0.0,) * 3, std=(1.0,) * 3)
    return Backbone(ModelCard(id="plain", name="plain"), Net().eval(), forward, preprocessing)


def test_what_is_kept_of_an_image_is_counted(plain: Backbone) -> None:
    data = load_dataset("procedural:sprites-location?train=32&val=8&test=8")
    options = FinetuneOptions(device="cpu", cache_bytes=0)
    rate = measure_training(plain, data.split("train"), classes=16, options=options, seconds=0.05)
    assert rate.per_second > 0
    assert rate.weights == 3 * 8 * 4
    # The convolution keeps its input, the head its features, the loss its log-probabilities and the labels.
    counted = 16 * 16 * 3 * 4 + 8 * 4 + 16 * 4 + 8
    assert counted <= rate.kept <= counted * 1.1
    assert training_rate(plain, data.split("train"), classes=16, options=options) is training_rate(
        plain, data.split("test"), classes=16, options=options
    )


def test_the_model_of_the_cost() -> None:
    rate = TrainingRate(per_second=10.0, kept=1000, weights=400)
    assert rate.seconds(100, looked_at=30) == pytest.approx(11)
    options = FinetuneOptions(cache_bytes=500)
    side = 10  # 300 bytes of pixels; four batches of them are in memory
    assert rate.memory(8, options, side=side, images=1) == 4 * 400 + 8 * 1000 + 4 * 8 * 300 + 300
    assert rate.memory(8, options, side=side, images=9) == 4 * 400 + 8 * 1000 + 4 * 8 * 300 + 500
    small = FinetuneOptions(cache_bytes=0, micro_batch=2, optimizer="adam")
    assert rate.memory(8, small, side=side, images=9) == 5 * 400 + 2 * 1000 + 4 * 8 * 300
    assert (rate.checkpoint(), rate.checkpoint("adam")) == (800, 1200)
