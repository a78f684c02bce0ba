"""Feeding by processes: the same batches for any number of them, a bounded cache, errors from workers."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unseen.backbones import load_backbone
from unseen.backbones.backbone import state_digest
from unseen.core.errors import DataError, UnavailableError
from unseen.data import Dataset, Split, load_dataset
from unseen.finetuning.data import TrainingBatches, evaluation_batches
from unseen.finetuning.train import FinetuneOptions, finetune
from unseen.finetuning.views import EvalView, TrainView

#: (n, batches) of pixels, as many as a test asks for.
Taken = list[np.ndarray]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, make_folder: Callable[..., Path]) -> Dataset:
    folder = make_folder(tmp_path_factory.mktemp("images"), classes=3, per_class=12)
    return load_dataset(f"folder:{folder}?test=0.25")


class Counted:
    """A split that counts how often images are opened, in this process."""

    def __init__(self, split: Split, broken: int = -1) -> None:
        self.opened: list[int] = []

        def open_one(i: int) -> object:
            self.opened.append(i)
            if i == broken:
                raise DataError("a broken file")
            return split.open(i)

        self.split = Split(split.names, split.labels, open_one, fingerprint="counted")  # type: ignore[arg-type]


def take(split: Split, view: TrainView, steps: range, workers: int, cache_bytes: int = 1 << 20) -> Taken:
    batches = TrainingBatches(split, view, size=32, batch_size=10, seed=3, workers=workers)
    batches.cache_bytes = cache_bytes
    return [batch.pixels.copy() for batch in batches.ahead(steps.start, steps.stop)]


@pytest.mark.parametrize("crop", ["resize", "shortest-crop", "inception"])
@pytest.mark.parametrize("cache_bytes", [0, 20_000, 1 << 20])
def test_batches_are_the_same_for_any_number_of_workers(data: Dataset, crop: str, cache_bytes: int) -> None:
    view = TrainView(crop, flip=True)  # type: ignore[arg-type]
    train = data.split("train")
    alone = take(train, view, range(9), 0)
    assert len(alone) == 9
    for workers in (1, 3):
        several = take(train, view, range(9), workers, cache_bytes)
        assert all(np.array_equal(a, b) for a, b in zip(alone, several, strict=True))
    later = take(train, view, range(5, 9), 2, cache_bytes)
    assert all(np.array_equal(a, b) for a, b in zip(alone[5:], later, strict=True))


def test_an_image_by_hand(data: Dataset) -> None:
    train, view = data.split("train"), TrainView("resize-crop", flip=True, colour=True)
    batches = TrainingBatches(train, view, size=32, batch_size=10, seed=3, workers=2)
    second = [batch.pixels.copy() for batch in batches.ahead(0, 2)][1]
    position = int(batches.order.positions(1)[4])
    expected = view.finish(view.base(train.open(position), 32), 32, np.random.default_rng([3, 1, 1, 4]))
    assert np.array_equal(second[4], expected)


@pytest.mark.parametrize(("images", "fewest", "most"), [(100, 27, 27), (5, 162, 172), (0, 200, 200)])
def test_images_that_fit_the_cache_are_decoded_once(data: Dataset, images: int, fewest: int, most: int) -> None:
    counted = Counted(data.split("train"))
    assert len(counted.split) == 27
    take(counted.split, TrainView(), range(20), 0, cache_bytes=images * 32 * 32 * 3)  # 200 images are shown
    assert fewest <= len(counted.opened) <= most


@pytest.mark.parametrize("workers", [0, 2])
def test_unreadable_images_are_skipped_and_recorded(data: Dataset, workers: int) -> None:
    split = Counted(data.split("train"), broken=4).split
    batches = TrainingBatches(split, TrainView(), size=32, batch_size=9, seed=0, workers=workers)
    shown = [batch.positions.tolist() for batch in batches.ahead(0, 3)]
    assert sorted(chain.from_iterable(shown)) == [i for i in range(27) if i != 4]
    assert batches.unreadable == {4: "a broken file"}
    with pytest.raises(DataError, match="no training image of step 0"):
        list(TrainingBatches(split.take([4]), TrainView(), size=32, batch_size=2, seed=0, workers=workers).ahead(0, 1))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_disk_that_fails_is_no_broken_image(data: Dataset, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unseen.core.guard.WAITS", (0.0,))
    train = data.split("train")

    def failing(i: int) -> Image.Image:
        raise OSError(errno.EIO, "Input/output error")

    split = Split(train.names, train.labels, failing, fingerprint="failing")
    with pytest.raises(UnavailableError, match="input/output error"):
        list(TrainingBatches(split, TrainView(), size=32, batch_size=2, seed=0, workers=workers).ahead(0, 1))


@pytest.mark.parametrize("workers", [0, 2])
def test_evaluation_shows_every_image_in_order(data: Dataset, workers: int) -> None:
    test, view = data.split("test"), EvalView(24, resize=28)
    fed = evaluation_batches(test, lambda image: view.apply(image, 32), side=24, batch_size=4, workers=workers)
    found = [(batch.positions.tolist(), batch.pixels.copy()) for batch in fed]
    assert list(chain.from_iterable(positions for positions, _ in found)) == list(range(len(test)))
    by_hand = np.stack([view.apply(test.open(i), 32) for i in range(len(test))])
    assert np.array_equal(np.concatenate([pixels for _, pixels in found]), by_hand)


def test_a_training_is_the_same_with_workers_and_they_end_with_it(data: Dataset) -> None:
    backbone = load_backbone("random:test_efficientnet?size=32")
    before = set(multiprocessing.active_children())
    results = [
        finetune(
            backbone,
            data.split("train"),
            data.split("test"),
            classes=3,
            steps=4,
            learning_rate=0.05,
            batch_size=8,
            seed=1,
            options=FinetuneOptions(device="cpu", workers=workers, train_view=TrainView("inception")),
        )
        for workers in (0, 2)
    ]
    assert state_digest(results[0].module) == state_digest(results[1].module)
    assert np.array_equal(results[0].predictions, results[1].predictions)
    assert set(multiprocessing.active_children()) == before


def test_a_worker_that_is_killed_ends_the_training_with_a_reason(data: Dataset) -> None:
    batches = TrainingBatches(data.split("train"), TrainView(), size=32, batch_size=8, seed=0, workers=1).ahead(0, 1000)
    before = set(multiprocessing.active_children())
    next(batches)
    (worker,) = set(multiprocessing.active_children()) - before
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="DataLoader worker"):
        list(batches)


def test_an_error_of_the_view_is_raised_here(data: Dataset) -> None:
    def wrong(_image: object) -> np.ndarray:
        raise ZeroDivisionError("of the view")

    with pytest.raises(ZeroDivisionError, match="of the view"):
        list(evaluation_batches(data.split("test"), wrong, side=8, batch_size=4, workers=2))
