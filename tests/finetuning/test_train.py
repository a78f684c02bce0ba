"""Fine-tuning: it learns, it resumes exactly, it leaves the caller's module alone."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.background import start_call

from unseen.backbones import load_backbone
from unseen.backbones.backbone import Backbone, state_digest
from unseen.core.errors import CheckpointError, DataError, UsageError
from unseen.core.run_record import Dropped
from unseen.data import Dataset, Split, load_dataset
from unseen.finetuning.data import TrainingBatches, micro_batches
from unseen.finetuning.train import FinetuneOptions, FinetuneResult, finetune
from unseen.finetuning.trainer import own_device
from unseen.finetuning.views import EvalView, TrainView, inception_box
from unseen.probes.sgd import BatchOrder


@pytest.fixture(scope="module")
def backbone() -> Backbone:
    return load_backbone("random:test_efficientnet?size=32")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, make_folder: Callable[..., Path]) -> Dataset:
    folder = make_folder(tmp_path_factory.mktemp("images"), classes=3, per_class=16)
    return load_dataset(f"folder:{folder}?test=0.25")


def tune(backbone: Backbone, data: Dataset, **changes: object) -> FinetuneResult:
    arguments: dict[str, object] = {
        "classes": 3,
        "steps": 6,
        "learning_rate": 0.05,
        "batch_size": 8,
        "seed": 1,
        "options": FinetuneOptions(checkpoint_seconds=0, device="cpu"),
    }
    return finetune(backbone, data.split("train"), data.split("test"), **(arguments | changes))  # type: ignore[arg-type]


def same(first: FinetuneResult, second: FinetuneResult) -> bool:
    return (
        np.array_equal(first.predictions, second.predictions)
        and state_digest(first.module) == state_digest(second.module)
        and torch.equal(first.head.weight, second.head.weight)
        and first.history == second.history
    )


def test_it_learns_where_there_is_something_to_learn(backbone: Backbone, data: Dataset) -> None:
    result = tune(backbone, data, steps=40, learning_rate=0.1, batch_size=16)
    assert result.top1 >= 0.75
    assert result.history[0][2] > result.history[-1][2]
    assert result.history[0][2] == pytest.approx(np.log(3), rel=1e-5)  # a zero head says 1/3 to every class
    assert result.history[-1][0] == 40


def test_the_callers_module_and_random_state_are_untouched(backbone: Backbone, data: Dataset) -> None:
    before, state = state_digest(backbone.module), torch.get_rng_state()
    training = backbone.module.training
    tune(backbone, data, steps=2)
    assert state_digest(backbone.module) == before
    assert torch.equal(torch.get_rng_state(), state)
    assert backbone.module.training == training
    assert all(p.grad is None for p in backbone.module.parameters())


def test_same_seed_same_weights_other_seed_others(backbone: Backbone, data: Dataset) -> None:
    first = tune(backbone, data)
    assert same(first, tune(backbone, data))
    assert not same(first, tune(backbone, data, seed=2))


def test_accumulation_gives_the_gradient_of_the_whole_batch(backbone: Backbone, data: Dataset) -> None:
    # Batch norm would tell the parts apart, so it is frozen with everything else but the head.
    frozen = FinetuneOptions(adaptation="linear", device="cpu")
    whole = tune(backbone, data, options=frozen)
    parts = tune(backbone, data, options=replace(frozen, micro_batch=3))
    assert torch.allclose(whole.head.weight, parts.head.weight, atol=1e-6)


def test_frozen_modules_do_not_move(backbone: Backbone, data: Dataset) -> None:
    result = tune(backbone, data, options=FinetuneOptions(adaptation="linear", device="cpu"))
    assert state_digest(result.module) == backbone.weights
    assert result.head.weight.abs().max() > 0


class Killed(Exception):
    """Stands for whatever ends a process."""


@pytest.mark.parametrize("last", [1, 2, 3, 5])
def test_an_interrupted_run_resumes_with_the_same_numbers(
    backbone: Backbone, data: Dataset, tmp_path: Path, last: int
) -> None:
    options = FinetuneOptions(checkpoint_seconds=0, device="cpu", train_view=TrainView("pad-crop", flip=True))

    def die(done: int, _steps: int, _loss: float) -> None:
        if done == last:
            raise Killed

    path = tmp_path / "state.pt"
    with pytest.raises(Killed):
        tune(backbone, data, options=options, checkpoint=path, progress=die)
    resumed = tune(backbone, data, options=options, checkpoint=path)
    assert resumed.resumed_at == last
    assert same(resumed, tune(backbone, data, options=options))
    assert tune(backbone, data, options=options, checkpoint=path).resumed_at == 6  # done: only evaluated again


def train_and_die(folder: str, path: Path, threads: int) -> None:
    """Train in a process that ends itself by `kill -9` after three steps."""
    torch.set_num_threads(threads)  # sums differ in their last bits with the number of threads

    def die(done: int, _steps: int, _loss: float) -> None:
        if done == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    data = load_dataset(f"folder:{folder}?test=0.25")
    tune(load_backbone("random:test_efficientnet?size=32"), data, checkpoint=path, progress=die)


@pytest.mark.slow
def test_kill_nine_in_another_process_then_resume(backbone: Backbone, data: Dataset, tmp_path: Path) -> None:
    folder, path = data.id.removeprefix("folder:").partition("?")[0], tmp_path / "state.pt"
    process = start_call(train_and_die, folder, path, torch.get_num_threads()).process
    process.join(300)
    assert process.exitcode == -signal.SIGKILL
    resumed = tune(backbone, data, checkpoint=path)
    assert 2 <= resumed.resumed_at <= 4
    assert same(resumed, tune(backbone, data))


def test_a_checkpoint_of_another_training_is_refused(backbone: Backbone, data: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    tune(backbone, data, checkpoint=path)
    with pytest.raises(CheckpointError, match="another training"):
        tune(backbone, data, checkpoint=path, seed=9)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(CheckpointError, match="Remove it"):
        tune(backbone, data, checkpoint=path)


def test_unreadable_images_are_dropped_and_recorded(backbone: Backbone, data: Dataset) -> None:
    def broken(split: Split, position: int) -> Split:
        def open_one(i: int) -> object:
            if i == position:
                raise DataError("a broken file")
            return split.open(i)

        return Split(split.names, split.labels, open_one, fingerprint="broken")  # type: ignore[arg-type]

    result = finetune(
        backbone,
        broken(data.split("train"), 4),
        broken(data.split("test"), 2),
        classes=3,
        steps=5,
        learning_rate=0.01,
        batch_size=8,
        seed=0,
        options=FinetuneOptions(device="cpu"),
    )
    names = {split: data.split(split).names for split in ("train", "test")}
    assert result.dropped == (
        Dropped("image", names["train"][4], "a broken file", "train"),
        Dropped("image", names["test"][2], "a broken file", "test"),
    )
    assert result.predictions[2] == -1
    assert (np.delete(result.predictions, 2) >= 0).all()


def test_weight_decay_is_decoupled_and_shrinks(backbone: Backbone, data: Dataset) -> None:
    def norm(result: FinetuneResult) -> float:
        return float(sum(p.detach().square().sum() for p in result.module.parameters()))

    plain = tune(backbone, data, steps=3)
    decayed = tune(backbone, data, steps=3, options=FinetuneOptions(weight_decay=2.0, device="cpu"))
    assert norm(decayed) < norm(plain)
    adam = tune(backbone, data, options=FinetuneOptions(optimizer="adam", device="cpu"), learning_rate=1e-3)
    assert adam.history[-1][2] < np.log(3)


@pytest.mark.parametrize(("count", "batch"), [(7, 3), (7, 20), (50, 16)])
def test_counts_are_the_batches_counted(count: int, batch: int) -> None:
    order = BatchOrder(count, batch, 5)
    counts = order.counts(600)
    for step in (0, 1, 2, 255, 256, 257, 599):
        assert counts[step].tolist() == np.bincount(order.positions(step), minlength=count).tolist()


def test_every_epoch_shows_every_image_once(data: Dataset) -> None:
    train = data.split("train")
    batches = TrainingBatches(train, TrainView(), size=32, batch_size=5, seed=3)
    stream = np.concatenate([batches.order.positions(step) for step in range(2 * len(train))])
    for epoch in range(4):
        assert sorted(stream[epoch * len(train) : (epoch + 1) * len(train)]) == list(range(len(train)))
    assert not np.array_equal(stream[: len(train)], stream[len(train) : 2 * len(train)])


@pytest.mark.parametrize("crop", ["resize", "resize-crop", "shortest-crop", "inception", "pad-crop"])
def test_every_training_view_has_the_networks_size(data: Dataset, crop: str) -> None:
    view = TrainView(crop, flip=True, colour=True)  # type: ignore[arg-type]
    image = data.split("train").open(0).resize((70, 45))
    shown = view.finish(view.base(image, 32), 32, np.random.default_rng(0))
    assert shown.shape == (32, 32, 3)
    assert np.array_equal(shown, view.finish(view.base(image, 32), 32, np.random.default_rng(0)))


def test_evaluation_views(data: Dataset) -> None:
    image = data.split("train").open(0).resize((90, 45))
    assert EvalView().apply(image, 32).shape == (32, 32, 3)
    assert EvalView(48).apply(image, 32).shape == (48, 48, 3)
    shown = EvalView(40, resize=48).apply(image, 32)
    assert shown.shape == (40, 40, 3)
    plain = np.asarray(image.convert("RGB").resize((96, 48), Image.Resampling.BILINEAR))
    assert np.array_equal(shown, plain[4:44, 28:68])
    with pytest.raises(UsageError, match="no more than there are"):
        EvalView(48, resize=40)


def test_inception_boxes_lie_inside_the_image() -> None:
    rng = np.random.default_rng(0)
    for size in [(100, 60), (10, 400), (3, 3)] * 50:
        left, top, right, bottom = inception_box(size, rng)
        assert 0 <= left < right <= size[0] + 1e-9
        assert 0 <= top < bottom <= size[1] + 1e-9


def test_micro_batches_cover_the_batch_evenly() -> None:
    for count in range(1, 40):
        parts = micro_batches(count, 7)
        sizes = [part.stop - part.start for part in parts]
        assert sum(sizes) == count
        assert max(sizes) <= 7
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"learning_rate": 0.0}, "positive learning rate"), ({"classes": 1}, "two classes"), ({"steps": 0}, "one step")],
)
def test_bad_arguments_are_explained(
    backbone: Backbone, data: Dataset, changes: dict[str, float], message: str
) -> None:
    with pytest.raises((UsageError, DataError), match=message):
        tune(backbone, data, **changes)


def test_workers_on_several_gpus_take_one_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unseen.finetuning.trainer.best_device", lambda: "cuda")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    process = multiprocessing.current_process()
    found = []
    for identity in ((), (1,), (2,), (6,)):
        monkeypatch.setattr(process, "_identity", identity)
        found.append([str(own_device(wanted)) for wanted in ("auto", "cuda:3", "cpu")])
    assert found == [[name, "cuda:3", "cpu"] for name in ("cuda", "cuda:0", "cuda:1", "cuda:1")]
