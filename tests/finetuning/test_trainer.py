"""The start from a linear probe: it is the frozen probe, it resumes, and on photographs it does not fall behind."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from unseen.backbones import load_backbone
from unseen.backbones.backbone import Backbone, state_digest
from unseen.core.errors import OutOfMemoryError, UnknownNameError, UsageError
from unseen.core.extras import visible_device
from unseen.data import Dataset, Split, load_dataset
from unseen.data.subset import select
from unseen.finetuning.data import TrainingBatches
from unseen.finetuning.train import FinetuneOptions, FinetuneResult, finetune
from unseen.finetuning.trainer import Trainer, UnitLinear, _precision, feeders, is_out_of_memory, probe_head
from unseen.finetuning.views import EvalView, TrainView
from unseen.probes.estimators import LinearProbe
from unseen.probes.solvers import StepSchedule
from unseen.run.executor import environment


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


def features_of(backbone: Backbone, split: Split, batch: int = 1) -> np.ndarray:
    """Frozen features by a plain loop."""
    side = backbone.preprocessing.size
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (backbone.preprocessing.mean, backbone.preprocessing.std))
    rows = []
    for start in range(0, len(split), batch):
        images = range(start, min(start + batch, len(split)))
        pixels = torch.stack([torch.tensor(EvalView().apply(split.open(i), side)).permute(2, 0, 1) for i in images])
        with torch.inference_mode():
            rows.append(backbone.forward(backbone.module, (pixels.float() / 255 - mean) / std)[0].numpy())
    return np.concatenate(rows)


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


def interrupt(last: int, *arguments: Any, **named: Any) -> None:
    """Train, and interrupt the training after some steps."""

    def die(done: int, _steps: int, _loss: float) -> None:
        if done == last:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(*arguments, progress=die, **named)


def test_it_resumes_without_fitting_again(backbone: Backbone, data: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    interrupt(3, backbone, data, steps=5, checkpoint=path)
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


def loss_of(backbone: Backbone, result: FinetuneResult, split: Split) -> float:
    """The mean loss of a trained network over all images of a split, by a plain loop."""
    tuned = replace(backbone, module=result.module.eval())
    with torch.inference_mode():
        scores = result.head(torch.from_numpy(features_of(tuned, split, batch=8)))
    return float(torch.nn.functional.cross_entropy(scores, torch.from_numpy(split.labels)))


@pytest.mark.slow
def test_on_photographs_it_reaches_at_least_the_frozen_probe(golden_data: Path) -> None:
    # Losses of `history` are of single batches: two of them are of different images, so the loss of all is compared.
    photos = load_dataset(f"folder:{golden_data / 'photos' / 'caltech101' / 'images'}?test=0.5")
    train = select(photos, classes=20, per_class=5).split("train")
    val = select(photos, classes=20, per_class=10).split("test")
    lite = load_backbone("packaged:efficientnet-lite0?size=96")

    def run(steps: int, rate: float) -> FinetuneResult:
        options = FinetuneOptions(start="probe", device="cpu")
        common = {"classes": 20, "batch_size": 16, "seed": 0, "options": options}
        return finetune(lite, train, val, steps=steps, learning_rate=rate, **common)  # type: ignore[arg-type]

    frozen = run(0, 0.01)
    before = {split: loss_of(lite, frozen, images) for split, images in (("train", train), ("val", val))}
    for rate in (0.1, 0.03, 0.01):
        tuned = run(15, rate)
        assert tuned.top1 >= frozen.top1, rate
        assert loss_of(lite, tuned, train) < before["train"], rate
        assert loss_of(lite, tuned, val) < before["val"], rate


# ---- memory, divergence, precision, devices --------------------------------------------------------------------------


def with_memory_for(backbone: Backbone, images: int) -> tuple[Backbone, list[int]]:
    """The backbone on a device with memory for some images, and the sizes of its forward passes."""
    seen: list[int] = []

    def forward(module: torch.nn.Module, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        if len(pixels) > images:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        seen.append(len(pixels))
        return backbone.forward(module, pixels)

    return replace(backbone, forward=forward), seen


@pytest.mark.parametrize("images", [5, 1])
def test_the_micro_batch_is_halved_when_memory_runs_out(data: Dataset, images: int) -> None:
    vit = load_backbone("random:test_vit?size=32")
    limited, seen = with_memory_for(vit, images)
    options = FinetuneOptions(device="cpu")
    whole, parts = (tune(each, data, steps=3, options=options) for each in (vit, limited))
    assert (whole.micro_batch, parts.micro_batch) == (8, 4 if images == 5 else 1)
    assert max(seen) <= images
    assert np.array_equal(whole.predictions, parts.predictions)
    assert torch.allclose(whole.head.weight, parts.head.weight, atol=1e-6)
    assert [point[2] for point in parts.history] == pytest.approx([point[2] for point in whole.history], rel=1e-5)


def test_too_little_memory_for_one_image_is_an_error_with_advice(backbone: Backbone, data: Dataset) -> None:
    def forward(module: torch.nn.Module, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        if module.training:
            raise RuntimeError("[enforce fail at alloc_cpu.cpp] can't allocate memory")
        return backbone.forward(module, pixels)

    with pytest.raises(OutOfMemoryError, match="also with one image"):
        tune(replace(backbone, forward=forward), data, steps=1, options=FinetuneOptions(device="cpu"))


@pytest.mark.parametrize(
    "text",
    [
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "MPS backend out of memory (MPS allocated: 9 GB)",
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes",
    ],
)
def test_messages_of_allocators_without_an_exception_class(text: str) -> None:
    assert is_out_of_memory(RuntimeError(text))


def test_other_errors_of_a_forward_pass_are_not_taken_for_memory(backbone: Backbone, data: Dataset) -> None:
    def forward(module: torch.nn.Module, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        if len(pixels) > 1:
            raise RuntimeError("shapes differ")
        return backbone.forward(module, pixels)

    with pytest.raises(RuntimeError, match="shapes differ"):
        tune(replace(backbone, forward=forward), data, steps=1, options=FinetuneOptions(device="cpu"))


def test_a_training_whose_loss_is_not_finite_ends(backbone: Backbone, data: Dataset, tmp_path: Path) -> None:
    options = FinetuneOptions(device="cpu", checkpoint_seconds=0)
    run = {"learning_rate": 1e30, "options": options, "checkpoint": tmp_path / "state.pt"}
    found = tune(backbone, data, steps=40, **run)
    assert 0 < found.diverged_at < 40
    assert found.history[-1][0] == found.diverged_at
    assert not np.isfinite(found.history[-1][2])
    again = tune(backbone, data, steps=40, **run)
    assert (again.resumed_at, again.diverged_at) == (found.diverged_at, found.diverged_at)


def test_a_training_from_a_probe_that_diverges_ends(backbone: Backbone, data: Dataset) -> None:
    unguarded = FinetuneOptions(start="probe", device="cpu", clip=0.0, backbone_rate=1.0)
    wild = tune(backbone, data, steps=40, learning_rate=3.0, options=unguarded)
    assert 0 < wild.diverged_at < 40
    assert np.mean([point[2] for point in wild.history[-5:]]) > wild.history[0][2] + 0.5 * np.log(3)
    for seed in (0, 1, 2):
        options = FinetuneOptions(start="probe", device="cpu")
        tame = tune(backbone, data, steps=40, learning_rate=0.1, seed=seed, options=options)
        assert tame.diverged_at == 0
        assert tame.history[-1][2] < tame.history[0][2] + 0.05


def test_clipping_and_the_rate_of_the_network_equal_a_plain_loop(data: Dataset) -> None:
    vit = load_backbone("random:test_vit?size=32")
    options = FinetuneOptions(device="cpu", clip=0.1, backbone_rate=0.25, warmup=0, weight_decay=0.0)
    found = tune(vit, data, steps=4, learning_rate=0.5, options=options)
    module, head = copy.deepcopy(vit.module).train(), torch.nn.Linear(vit.feature_dim, 3)
    for values in head.parameters():
        torch.nn.init.zeros_(values)
    groups = [{"params": list(module.parameters()), "lr": 0.125}, {"params": list(head.parameters()), "lr": 0.5}]
    optimizer = torch.optim.SGD(groups, momentum=0.9)
    factors = [StepSchedule(4, 0).factor(step) for step in range(4)]
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (vit.preprocessing.mean, vit.preprocessing.std))
    batches = TrainingBatches(data.split("train"), TrainView(), size=32, batch_size=8, seed=1)
    for factor, batch in zip(factors, batches.ahead(0, 4), strict=True):
        optimizer.param_groups[0]["lr"], optimizer.param_groups[1]["lr"] = 0.125 * factor, 0.5 * factor
        pixels = (torch.tensor(batch.pixels).permute(0, 3, 1, 2).float() / 255 - mean) / std
        loss = torch.nn.functional.cross_entropy(head(vit.forward(module, pixels)[0]), torch.tensor(batch.labels))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([*module.parameters(), *head.parameters()], 0.1)
        optimizer.step()
    assert torch.allclose(found.head.weight, head.weight, atol=1e-6)
    after = found.module.state_dict()
    assert all(torch.allclose(after[name], value, atol=1e-6) for name, value in module.state_dict().items())


def test_half_precision_on_the_cpu(data: Dataset) -> None:
    vit = load_backbone("random:test_vit?size=32")
    losses = {}
    for precision in ("auto", "fp32", "bf16", "fp16"):
        options = FinetuneOptions(device="cpu", precision=precision)  # type: ignore[arg-type]
        found = tune(vit, data, steps=8, learning_rate=0.002, options=options)
        losses[precision] = [point[2] for point in found.history]
    assert losses["auto"] == losses["fp32"]
    for precision in ("bf16", "fp16"):
        assert losses[precision] != losses["fp32"]
        # The scaler of fp16 skips the first steps until its scale fits.
        assert losses[precision][-1] == pytest.approx(losses["fp32"][-1], abs=0.1)


@pytest.mark.parametrize(("native", "expected"), [(True, (torch.bfloat16, False)), (False, (torch.float16, True))])
def test_emulated_bf16_is_not_used(
    monkeypatch: pytest.MonkeyPatch, native: bool, expected: tuple[torch.dtype, bool]
) -> None:
    asked = []
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext(asked.append(device)))
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation or native)
    made: dict[str, object] = {}
    monkeypatch.setattr(torch, "autocast", lambda kind, dtype: made.update(kind=kind, dtype=dtype))
    autocast, scaled = _precision(torch.device("cuda:1"), "auto")
    autocast()
    assert (made["kind"], made["dtype"], scaled) == ("cuda", *expected)
    assert asked == [torch.device("cuda:1")]


def test_feeders_are_limited_by_the_share_of_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = torch.device("cuda")
    for own, threads, expected in ((64, 64, 8), (4, 64, 4), (64, 2, 2)):
        monkeypatch.setattr("unseen.finetuning.trainer.cores", lambda own=own: own)
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert feeders(gpu) == expected
    assert feeders(torch.device("cpu")) == 0


def test_a_device_of_the_machine_in_a_worker_that_sees_another(monkeypatch: pytest.MonkeyPatch) -> None:
    assert visible_device("cuda:3") == "cuda:3"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2,5,7")
    for name, value in environment(1, 4).items():
        monkeypatch.setenv(name, value)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "2"
    assert [visible_device(name) for name in ("auto", "cpu", "cuda", "cuda:9")] == ["auto", "cpu", "cuda", "cuda:9"]
    assert (visible_device("cuda:3"), os.environ["CUDA_VISIBLE_DEVICES"]) == ("cuda:0", "7")


def test_checkpoints_are_written_by_time(backbone: Backbone, data: Dataset, tmp_path: Path) -> None:
    for seconds, expected in ((1000.0, False), (0.0, True)):
        path = tmp_path / f"{seconds}.pt"
        options = FinetuneOptions(device="cpu", checkpoint_seconds=seconds)
        interrupt(3, backbone, data, steps=5, checkpoint=path, options=options)
        assert path.exists() == expected


def test_a_checkpoint_of_a_host_with_gpus_resumes_without(backbone: Backbone, data: Dataset, tmp_path: Path) -> None:
    options, path = FinetuneOptions(device="cpu", checkpoint_seconds=0), tmp_path / "state.pt"
    interrupt(2, backbone, data, steps=5, checkpoint=path, options=options)
    state = torch.load(path, weights_only=True)
    torch.save({**state, "random_cuda": [torch.zeros(16, dtype=torch.uint8)] * 8}, path)
    resumed, whole = (tune(backbone, data, steps=5, options=options, checkpoint=each) for each in (path, None))
    assert resumed.resumed_at == 2
    assert torch.equal(resumed.head.weight, whole.head.weight)


@pytest.mark.slow
def test_on_photographs_every_rate_of_the_grid_is_stable_and_matches_the_frozen_probe(golden_data: Path) -> None:
    photos = load_dataset(f"folder:{golden_data / 'photos' / 'caltech101' / 'images'}?test=0.5")
    train = select(photos, classes=10, per_class=8).split("train")
    val = select(photos, classes=10, per_class=10).split("test")
    lite = load_backbone("packaged:efficientnet-lite0?size=96")

    def run(rate: float, seed: int, steps: int) -> FinetuneResult:
        options = FinetuneOptions(start="probe", device="cpu")
        common = {"classes": 10, "batch_size": 16, "options": options}
        return finetune(lite, train, val, steps=steps, learning_rate=rate, seed=seed, **common)  # type: ignore[arg-type]

    frozen = run(0.01, 0, 0).top1
    for rate in (0.1, 0.03, 0.01):
        for seed in (0, 1):
            found = run(rate, seed, 30)
            assert found.diverged_at == 0
            assert found.top1 >= frozen, (rate, seed)


def test_a_step_does_not_wait_for_the_device(
    backbone: Backbone, data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values of tensors are read at the points of the history alone."""
    read: list[str] = []
    for name in ("item", "__float__", "__bool__", "__int__"):
        true = getattr(torch.Tensor, name)
        monkeypatch.setattr(torch.Tensor, name, lambda self, true=true, name=name: read.append(name) or true(self))
    monkeypatch.setattr("unseen.finetuning.trainer._HISTORY_POINTS", 3)
    steps: list[int] = []
    options = FinetuneOptions(device="cpu", clip=1.0)
    found = tune(backbone, data, steps=9, options=options, progress=lambda done, *_: steps.append(len(read)))
    assert [after - before for before, after in pairwise(steps)] == [0, 1, 0, 0, 1, 0, 0, 1]
    assert len(found.history) == 3


def test_copies_to_a_gpu_are_pinned_and_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: made.append("pinned") or self)
    monkeypatch.setattr(torch.Tensor, "to", lambda self, *where, **how: made.append((*where, how)) or self)
    for device in ("cpu", "cuda"):
        Trainer._move(SimpleNamespace(device=torch.device(device)), np.zeros(3, np.uint8))  # type: ignore[arg-type]
    waiting = {"non_blocking": True}
    assert made == [(torch.device("cpu"), waiting), "pinned", (torch.device("cuda"), waiting)]
