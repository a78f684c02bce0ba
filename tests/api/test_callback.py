"""A training run with the callback is the run without it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import unseen
from unseen.core.errors import UnseenError

SMALL = unseen.Preprocessing(size=32, resize=32)


def make_data(per_class: int = 10) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(3), per_class)
    pixels = rng.integers(0, 150, (len(labels), 32, 32, 3), dtype=np.uint8)
    pixels[np.arange(len(labels)), :, :, labels] += 60
    return pixels, labels


def train(callback: Any, epochs: int = 4) -> tuple[dict[str, torch.Tensor], list[float]]:
    """Shuffled batches, dropout, batch statistics, momentum, and draws from every generator there is."""
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002
    torch.manual_seed(3)
    pixels, labels = make_data()
    x = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
    y = torch.from_numpy(labels)
    trunk = [nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.4)]
    net = nn.Sequential(*trunk, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3))
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    drawn = []
    for epoch in range(epochs):
        net.train()
        for rows in torch.randperm(len(x)).split(8):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
            optimiser.step()
        drawn += [random.random(), float(np.random.rand())]  # noqa: NPY002
        if callback is not None:
            assert net.training
            callback(net, epoch)
            assert net.training and torch.is_grad_enabled()
    return {name: value.clone() for name, value in net.state_dict().items()}, drawn


def test_the_run_is_bit_identical(home: Path) -> None:
    without, drawn = train(None)
    callback = unseen.ProbeCallback(make_data(), every=2, preprocessing=SMALL)
    with_it, drawn_too = train(callback)
    assert drawn_too == drawn
    for name, value in without.items():
        assert torch.equal(with_it[name], value), name
    assert [row["epoch"] for row in callback.history] == [1, 3]
    assert callback.history[-1]["top1"] > 0.5
    assert {"rankme", "effective_rank", "uniformity"} <= set(callback.history[0])
    assert not (home / "features").exists(), "features of a model in training are not kept"


def test_looks_see_the_model_as_it_is_now(home: Path) -> None:
    callback = unseen.ProbeCallback(make_data(), preprocessing=SMALL, options={"solver": "ridge"})
    net = nn.Sequential(nn.Conv2d(3, 6, 3, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    first = callback(net, 0)
    with torch.no_grad():
        net[0].weight.zero_()  # a collapse
    second = callback(net, 1)
    assert first is not None and second is not None
    assert second["top1"] < first["top1"] and second["effective_rank"] < 1.01
    direct = unseen.evaluate(net, make_data(), preprocessing=SMALL, solver="ridge")
    assert direct.top1 == second["top1"]


def test_a_wrong_interval_is_refused(home: Path) -> None:
    with pytest.raises(UnseenError, match="every"):
        unseen.ProbeCallback(make_data(), every=0)


def test_what_is_logged(home: Path) -> None:
    told: list[tuple[dict[str, float], int]] = []
    callback = unseen.ProbeCallback(
        make_data(), every=3, preprocessing=SMALL, log=lambda metrics, epoch: told.append((dict(metrics), epoch))
    )
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    for epoch in range(6):
        callback(net, epoch)
    assert [epoch for _, epoch in told] == [2, 5]
    assert told[0][0]["probe/top1"] == callback.history[0]["top1"]
    assert "after epoch 5" in repr(callback)
    assert len(callback.to_pandas()) == 2


def small_net() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 6, 3, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 3))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_in_lightnings_trainer(home: Path, tmp_path: Path) -> None:
    from unseen.core.extras import ensure_torchvision

    ensure_torchvision()  # before torchmetrics imports torchvision
    lightning: Any = pytest.importorskip("pytorch_lightning")
    pixels, labels = make_data()
    x = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
    rows = torch.utils.data.TensorDataset(x, torch.from_numpy(labels))

    class Module(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = small_net()

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.net(images)

        def training_step(self, batch: Any, _number: int) -> torch.Tensor:
            return nn.functional.cross_entropy(self(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def fit(callbacks: list[Any]) -> dict[str, torch.Tensor]:
        lightning.seed_everything(0)
        module = Module()
        trainer = lightning.Trainer(
            max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False, accelerator="cpu",
            enable_model_summary=False, default_root_dir=str(tmp_path), callbacks=callbacks,
        )  # fmt: skip
        trainer.fit(module, torch.utils.data.DataLoader(rows, batch_size=8, shuffle=True))
        return module.state_dict()

    callback = unseen.ProbeCallback((pixels, labels), preprocessing=SMALL, options={"solver": "ridge"})
    with_it, without = fit([callback.for_lightning()]), fit([])
    assert [row["epoch"] for row in callback.history] == [0, 1]
    assert all(torch.equal(value, without[name]) for name, value in with_it.items())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_in_hugging_faces_trainer(home: Path, tmp_path: Path) -> None:
    from unseen.core.extras import ensure_torchvision

    ensure_torchvision()
    transformers: Any = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    pixels, labels = make_data()
    x = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
    rows = [{"pixel_values": image, "labels": int(label)} for image, label in zip(x, labels, strict=True)]
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = transformers.ViTForImageClassification(
        transformers.ViTConfig(**size, image_size=32, patch_size=16, num_labels=3)
    )
    callback = unseen.ProbeCallback((pixels, labels), preprocessing=SMALL, options={"solver": "ridge"})
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), num_train_epochs=2, report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True
    )
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=rows, callbacks=[callback.for_trainer()])
    trainer.train()
    assert [row["epoch"] for row in callback.history] == [0, 1]
    assert model.training
