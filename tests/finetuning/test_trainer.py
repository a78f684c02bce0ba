"""The start from a linear probe: it is the frozen probe, it resumes, and on photographs it does not fall behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from unseen.backbones import load_backbone
from unseen.backbones.backbone import Backbone, state_digest
from unseen.core.errors import UnknownNameError, UsageError
from unseen.data import Dataset, Split, load_dataset
from unseen.data.subset import select
from unseen.finetuning.train import FinetuneOptions, FinetuneResult, finetune
from unseen.finetuning.trainer import UnitLinear, probe_head
from unseen.finetuning.views import EvalView
from unseen.probes.estimators import LinearProbe


@pytest.fixture(scope="module")
def backbone() -> Backbone:
    return load_backbone("random:test_efficientnet?size=32")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, make_folder: Callable[..., Path]) -> Dataset:
    folder = make_folder(tmp_path_factory.mktemp("images"), classes=3, per_class=16)
    return load_dataset(f"folder:{folder}?test=0.25")


def tune(backbone: Backbone, data: Dataset, *, steps: int, **changes: object) -> FinetuneResult:
    arguments: dict[str, object] = {"learning_rate": 0.01, "batch_size": 8, "seed": 1, "classes": 3}
    arguments["options"] = FinetuneOptions(start="probe", checkpoint_seconds=0, device="cpu")
    return finetune(backbone, data.split("train"), data.split("test"), steps=steps, **(arguments | changes))  # type: ignore[arg-type]


def features_of(backbone: Backbone, split: Split) -> np.ndarray:
    """Frozen features by a plain loop."""
    side = backbone.preprocessing.size
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (backbone.preprocessing.mean, backbone.preprocessing.std))
    rows = []
    for i in range(len(split)):
        pixels = torch.tensor(EvalView().apply(split.open(i), side)).permute(2, 0, 1)
        with torch.inference_mode():
            rows.append(backbone.forward(backbone.module, ((pixels.float() / 255 - mean) / std)[None])[0][0].numpy())
    return np.stack(rows)


def test_without_a_step_it_is_the_frozen_probe(backbone: Backbone, data: Dataset) -> None:
    train, test = data.split("train"), data.split("test")
    probe = LinearProbe(seed=1).fit(features_of(backbone, train), train.labels)
    found = tune(backbone, data, steps=0)
    assert np.array_equal(found.predictions, probe.predict(features_of(backbone, test)))
    assert state_digest(found.module) == backbone.weights
    assert found.history == ()


def test_only_a_probe_can_do_without_a_step(backbone: Backbone, data: Dataset) -> None:
    with pytest.raises(UsageError, match="one step"):
        tune(backbone, data, steps=0, options=FinetuneOptions(device="cpu"))
    with pytest.raises(UnknownNameError, match="prob"):
        FinetuneOptions(start="prob")  # type: ignore[arg-type]


def test_statistics_of_batch_norm_stay_and_all_else_learns(backbone: Backbone, data: Dataset) -> None:
    found = tune(backbone, data, steps=3)
    before, after = backbone.module.state_dict(), found.module.state_dict()
    statistics = [name for name in before if "running" in name]
    assert statistics
    assert all(torch.equal(before[name], after[name]) for name in statistics)
    assert any(not torch.equal(before[name], after[name]) for name in before if name.endswith("bn1.weight"))
    zero = tune(backbone, data, steps=3, options=FinetuneOptions(device="cpu"))
    assert any(not torch.equal(before[n], zero.module.state_dict()[n]) for n in statistics)


def test_it_resumes_without_fitting_again(backbone: Backbone, data: Dataset, tmp_path: Path) -> None:
    def die(done: int, _steps: int, _loss: float) -> None:
        if done == 3:
            raise KeyboardInterrupt

    path = tmp_path / "state.pt"
    with pytest.raises(KeyboardInterrupt):
        tune(backbone, data, steps=5, checkpoint=path, progress=die)
    resumed, whole = tune(backbone, data, steps=5, checkpoint=path), tune(backbone, data, steps=5)
    assert resumed.resumed_at == 3
    assert state_digest(resumed.module) == state_digest(whole.module)
    assert torch.equal(resumed.head.weight, whole.head.weight)


def test_a_class_without_images_starts_out_unlikely() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 2], 20)
    rows = (rng.normal(0, 0.1, (40, 4)) + np.eye(4)[labels]).astype(np.float32)
    head = probe_head(rows, labels, 4, seed=0)
    assert isinstance(head, UnitLinear)
    scores = head(torch.from_numpy(rows)).detach().numpy()
    assert np.array_equal(scores.argmax(axis=1), labels)
    assert scores[:, [1, 3]].max() < scores[:, [0, 2]].min()
    alone = probe_head(rows[:20], labels[:20], 2, seed=0)
    assert alone.weight.abs().max() == 0


@pytest.mark.slow
def test_on_photographs_it_reaches_at_least_the_frozen_probe(golden_data: Path) -> None:
    photos = load_dataset(f"folder:{golden_data / 'photos' / 'caltech101' / 'images'}?test=0.5")
    chosen = select(photos, classes=20, per_class=5)
    lite = load_backbone("packaged:efficientnet-lite0?size=96")
    run = {"classes": 20, "batch_size": 16, "seed": 0}
    options = FinetuneOptions(start="probe", device="cpu")
    train, test = chosen.split("train"), select(photos, classes=20, per_class=10).split("test")
    frozen, tuned = (
        finetune(lite, train, test, steps=steps, learning_rate=0.01, options=options, **run)  # type: ignore[arg-type]
        for steps in (0, 15)
    )
    assert tuned.history[0][2] > tuned.history[-1][2]
    assert tuned.top1 >= frozen.top1
