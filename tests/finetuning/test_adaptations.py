"""Adaptations: each against an independent implementation, which parameters change, and the contract of all."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from unseen.backbones import load_backbone
from unseen.backbones.backbone import Backbone, pool_layer
from unseen.core.errors import UnknownNameError, UsageError
from unseen.core.records import ModelCard, Preprocessing
from unseen.data import Dataset, load_dataset
from unseen.finetuning import ADAPTATIONS, Adaptation, adaptation_cards
from unseen.finetuning.adaptations import AdaptedLinear, PromptedBlock, blocks_of, count_trainable, prepare
from unseen.finetuning.data import TrainingBatches
from unseen.finetuning.train import FinetuneOptions, FinetuneResult, finetune
from unseen.finetuning.trainer import CosineSchedule
from unseen.finetuning.views import TrainView
from unseen.testing import check_adaptation

EFFICIENT = ("lora", "adapter", "vpt", "bitfit", "partial")


@pytest.fixture(scope="module")
def vit() -> Backbone:
    return load_backbone("random:test_vit?size=32")


@pytest.fixture(scope="module")
def data() -> Dataset:
    return load_dataset("procedural:sprites-location?train=32&val=8&test=16")


def hugging_face() -> Backbone:
    """A small ViT of transformers with random weights."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        image_size=32,
        patch_size=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    module = transformers.ViTModel(config, add_pooling_layer=False).eval()

    def forward(network: nn.Module, images: Tensor) -> tuple[Tensor, Tensor | None]:
        return pool_layer(network(pixel_values=images).last_hidden_state, prefix_tokens=1), None

    return Backbone(ModelCard("hf-test"), module, forward, Preprocessing(32, 32), prefix_tokens=1)


def tune(backbone: Backbone, data: Dataset, adaptation: str, **changes: object) -> FinetuneResult:
    arguments = {"classes": 16, "steps": 5, "learning_rate": 0.01, "batch_size": 8, "seed": 3}
    arguments |= {name: changes.pop(name) for name in arguments if name in changes}  # type: ignore[misc]
    options = {"adaptation": adaptation, "optimizer": "adamw", "schedule": "cosine", "device": "cpu", "warmup": 0}
    made = FinetuneOptions(**(options | changes))  # type: ignore[arg-type]
    return finetune(backbone, data.split("train"), data.split("test"), options=made, **arguments)  # type: ignore[arg-type]


def changed(backbone: Backbone, result: FinetuneResult) -> set[str]:
    before = dict(backbone.module.named_parameters())
    return {name for name, value in result.module.named_parameters() if not torch.equal(value, before[name])}


@pytest.mark.parametrize("name", ["linear", "finetune", "scratch", *EFFICIENT])
def test_every_adaptation_fulfils_the_contract(name: str) -> None:
    check_adaptation(ADAPTATIONS.get(name))


def spoil(module: nn.Module, _size: int, _tokens: int) -> None:
    with torch.no_grad():
        next(module.parameters()).mul_(2.0)


def test_the_contract_finds_an_adaptation_that_changes_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ADAPTATIONS, "_targets", dict(ADAPTATIONS._targets))
    with pytest.raises(AssertionError, match="1 of 80 tensors of the network are changed"):
        check_adaptation(Adaptation("spoil-test", "Spoil", "everything", spoil))


def test_lora_equals_a_plain_loop_over_a_model_of_peft(vit: Backbone, data: Dataset) -> None:
    peft = pytest.importorskip("peft")
    found = tune(vit, data, "lora", weight_decay=0.1)
    torch.manual_seed(3)
    config = peft.LoraConfig(r=8, lora_alpha=8, target_modules=["qkv"], lora_dropout=0.0)
    model = peft.get_peft_model(copy.deepcopy(vit.module), config)
    head = nn.Linear(vit.feature_dim, 16)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    trained = [p for p in model.parameters() if p.requires_grad] + list(head.parameters())
    optimizer = torch.optim.AdamW(trained, lr=0.01, weight_decay=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=5)
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (vit.preprocessing.mean, vit.preprocessing.std))
    batches = TrainingBatches(data.split("train"), TrainView(), size=32, batch_size=8, seed=3)
    losses = []
    for batch in batches.ahead(0, 5):
        pixels = torch.tensor(batch.pixels).permute(0, 3, 1, 2).float() / 255
        features = vit.forward(model.base_model.model, (pixels - mean) / std)[0]
        loss = nn.functional.cross_entropy(head(features), torch.tensor(batch.labels))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    assert [point[2] for point in found.history] == pytest.approx(losses, rel=1e-4)
    theirs = {n: v for n, v in model.base_model.model.named_parameters() if "lora_" in n}
    ours = {n: v for n, v in found.module.named_parameters() if "lora_" in n}
    assert theirs.keys() == ours.keys() and len(ours) == 2 * 6
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-5) for name in ours)
    assert found.trainable == sum(p.numel() for p in trained)


def by_hand_with_adapters(blocks: nn.ModuleList, tokens: Tensor) -> Tensor:
    """The blocks of timm, with the adapter written out."""
    for block in blocks:
        tokens = tokens + block.attn(block.norm1(tokens))
        adapted = block.mlp.fc2
        hidden = adapted.layer(block.mlp.act(block.mlp.fc1(block.norm2(tokens))))
        tokens = tokens + hidden + adapted.up(nn.functional.gelu(adapted.down(hidden)))
    return tokens


def by_hand_with_prompts(blocks: nn.ModuleList, tokens: Tensor) -> Tensor:
    """VPT-deep, Eq. (5): the outputs of prompts are replaced by the prompts of the next block."""
    for wrapped in blocks:
        prompts = wrapped.prompts.expand(len(tokens), -1, -1)
        tokens = wrapped.block(torch.cat([tokens[:, :1], prompts, tokens[:, 1:]], dim=1))
        tokens = torch.cat([tokens[:, :1], tokens[:, 1 + prompts.shape[1] :]], dim=1)
    return tokens


@pytest.mark.parametrize(
    ("name", "by_hand", "kind"),
    [("adapter", by_hand_with_adapters, AdaptedLinear), ("vpt", by_hand_with_prompts, PromptedBlock)],
)
def test_blocks_equal_a_forward_pass_written_out(
    vit: Backbone, name: str, by_hand: Callable[[nn.ModuleList, Tensor], Tensor], kind: type
) -> None:
    network = copy.deepcopy(vit.module)
    prepare(vit, network, name, 4)
    torch.manual_seed(0)
    for parameter in network.parameters():
        if parameter.requires_grad:
            nn.init.normal_(parameter, std=0.1)
    images = torch.randn(3, 3, 32, 32)
    with torch.no_grad():
        tokens = network.norm_pre(network._pos_embed(network.patch_embed(images)))  # type: ignore[operator]
        expected = network.forward_head(network.norm(by_hand(network.blocks, tokens)), pre_logits=True)  # type: ignore
        found = vit.forward(network, images)[0]
        assert torch.allclose(found, expected, atol=1e-5)
        assert not torch.allclose(found, vit.forward(vit.module, images)[0], atol=1e-3)
    assert sum(isinstance(part, kind) for part in network.modules()) == 6


def test_methods_for_transformers_of_hugging_face() -> None:
    backbone, images = hugging_face(), torch.randn(2, 3, 32, 32)
    plain = backbone.forward(backbone.module, images)[0]
    expected = {"lora": 2 * 2 * 8 * (32 + 32), "adapter": 2 * (8 * 32 * 2 + 8 + 32), "vpt": 2 * 10 * 32}
    for name, count in expected.items():
        network = copy.deepcopy(backbone.module)
        prepare(backbone, network, name)
        found = backbone.forward(network, images)[0]
        assert torch.allclose(found, plain, atol=1e-6) == (name != "vpt")
        assert count_trainable(backbone, network, nn.Identity()) == count
    network = copy.deepcopy(backbone.module)
    prepare(backbone, network, "vpt", 3)
    with torch.no_grad():
        tokens = by_hand_with_prompts(network.layers, network.embeddings(images))  # type: ignore[operator, arg-type]
        assert torch.allclose(backbone.forward(network, images)[0], network.layernorm(tokens)[:, 0], atol=1e-5)  # type: ignore[operator]


def test_bitfit_changes_all_biases_and_nothing_else(vit: Backbone, data: Dataset) -> None:
    found = changed(vit, tune(vit, data, "bitfit"))
    biases = {n for n, _ in vit.module.named_parameters() if n.endswith("bias") and not n.startswith("head.")}
    assert found == biases


@pytest.mark.parametrize("count", [1, 2])
def test_partial_changes_the_last_blocks_and_the_final_norm(vit: Backbone, data: Dataset, count: int) -> None:
    found = changed(vit, tune(vit, data, "partial", adaptation_size=count))
    parts = {".".join(name.split(".")[:2]) if name.startswith("blocks") else name.split(".")[0] for name in found}
    assert parts == {f"blocks.{5 - k}" for k in range(count)} | {"norm"}


def test_linear_changes_nothing_and_finetune_everything_that_features_depend_on(vit: Backbone, data: Dataset) -> None:
    assert not changed(vit, tune(vit, data, "linear"))
    whole = tune(vit, data, "finetune")
    names = {n for n, _ in vit.module.named_parameters() if not n.startswith("head.")}
    assert changed(vit, whole) == names
    own = dict(vit.module.named_parameters())
    assert whole.trainable == sum(own[n].numel() for n in names) + 16 * (vit.feature_dim + 1)


def test_batch_norms_with_frozen_parameters_keep_their_statistics(data: Dataset) -> None:
    net = load_backbone("random:test_efficientnet?size=32")
    blocks = list(blocks_of(net.module))
    assert blocks[0] == "blocks.0.0"
    found = tune(net, data, "partial").module.state_dict()
    before = net.module.state_dict()
    moved = {name for name in before if "running_" in name and not torch.equal(before[name], found[name])}
    assert moved and all(name.startswith((blocks[-1], "conv_head", "bn2")) for name in moved)
    bitfit = tune(net, data, "bitfit").module.state_dict()
    assert all(torch.equal(before[name], bitfit[name]) for name in before if "running_" in name)


def test_each_learns_more_than_a_head_and_as_well_as_fine_tuning_with_fewer_parameters(
    vit: Backbone, data: Dataset
) -> None:
    recipe = {"steps": 60, "learning_rate": 0.003, "batch_size": 16}
    found = {name: tune(vit, data, name, **recipe) for name in ("linear", "finetune", *EFFICIENT)}
    loss = {name: float(np.mean([point[2] for point in result.history[-8:]])) for name, result in found.items()}
    assert all(loss[name] < loss["linear"] - 0.2 for name in ("finetune", *EFFICIENT)), loss
    assert all(loss[name] < loss["finetune"] + 0.2 for name in EFFICIENT), loss
    counts = {name: result.trainable for name, result in found.items()}
    assert all(counts["linear"] < counts[name] < counts["finetune"] / 3 for name in EFFICIENT)


def test_networks_without_transformer_blocks_are_refused(data: Dataset) -> None:
    net = load_backbone("random:test_resnet?size=32")
    for name in ("lora", "adapter", "vpt"):
        with pytest.raises(UsageError, match="no transformer blocks"):
            tune(net, data, name)
    with pytest.raises(UsageError, match="last 99 of"):
        tune(net, data, "partial", adaptation_size=99)
    with pytest.raises(UsageError, match="has no size"):
        tune(net, data, "bitfit", adaptation_size=2)
    with pytest.raises(UnknownNameError, match="adaptation"):
        tune(net, data, "loar")


def test_cards_list_every_adaptation_with_paper_and_size() -> None:
    cards = {card.id: card for card in adaptation_cards()}
    assert {"linear", "finetune", "scratch", *EFFICIENT} <= cards.keys()
    assert all(card.citation for card in cards.values() if card.group == "adaptation")
    assert "size: rank, 8 by default" in cards["lora"].notes
    assert replace(ADAPTATIONS.get("finetune"), id="other").method_card().id == "other"


def test_the_cosine_schedule_equals_that_of_torch() -> None:
    parameter = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
    for step in range(20):
        assert CosineSchedule(20).factor(step) == pytest.approx(scheduler.get_last_lr()[0], abs=1e-9)
        optimizer.step()
        scheduler.step()
    warm = [CosineSchedule(20, 4).factor(step) for step in range(5)]
    assert warm == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0])
    assert math.isclose(CosineSchedule(20, 4).factor(12), 0.5)
