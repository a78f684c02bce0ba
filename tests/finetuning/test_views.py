"""Evaluation on larger images: transformers resample their position embedding, other networks do not change."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from unseen.backbones import load_backbone
from unseen.backbones.backbone import Backbone, state_digest
from unseen.data import load_dataset
from unseen.finetuning.train import FinetuneOptions, finetune
from unseen.finetuning.views import EvalView, at_size, nearest_size


@pytest.fixture(scope="module")
def transformer() -> Backbone:
    return load_backbone("random:test_vit3")


def test_a_transformer_resamples_its_positions_in_a_copy(transformer: Backbone) -> None:
    own = transformer.preprocessing.size
    assert own == 160
    with pytest.raises(AssertionError):
        transformer.module(torch.zeros(1, 3, 224, 224))
    larger = at_size(transformer.module, 224)
    assert larger(torch.zeros(1, 3, 224, 224)).shape[0] == 1
    assert larger.pos_embed.shape[1] - larger.num_prefix_tokens == (224 // 16) ** 2  # type: ignore[union-attr, operator]
    assert state_digest(transformer.module) == transformer.weights
    same = at_size(transformer.module, own)
    assert torch.equal(same.pos_embed, transformer.module.pos_embed)  # type: ignore[arg-type]


def test_sizes_that_patches_do_not_cover(transformer: Backbone) -> None:
    assert [nearest_size(transformer.module, size) for size in (160, 229, 234, 3)] == [160, 224, 240, 16]
    convolutional = load_backbone("random:test_resnet?size=32").module
    assert nearest_size(convolutional, 229) == 229
    assert at_size(convolutional, 229) is convolutional


def test_evaluation_on_larger_images_leaves_the_training_alone(transformer: Backbone) -> None:
    data = load_dataset("procedural:sprites-location?train=16&val=8&test=8")
    found = [
        finetune(
            transformer,
            data.split("train"),
            data.split("test"),
            classes=16,
            steps=2,
            learning_rate=0.01,
            batch_size=4,
            seed=0,
            options=FinetuneOptions(device="cpu", eval_view=view),
        )
        for view in (EvalView(), EvalView(229, resize=251))
    ]
    assert state_digest(found[0].module) == state_digest(found[1].module)
    assert all(np.isin(each.predictions, np.arange(16)).all() for each in found)
