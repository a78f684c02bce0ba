"""How fast a model goes, by a clock that only the model moves."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from unseen.core.errors import DataError
from unseen.core.records import Preprocessing
from unseen.data import Split
from unseen.features import extraction
from unseen.features.extraction import measure_speed

#: Of the model below.
RATE = 64
BACKBONE: Any = SimpleNamespace(preprocessing=Preprocessing(size=4, resize=4), transform=None)


class World:
    """A model that takes a 64th of a second for each image, and what it was given."""

    precision, note = "fp32", ""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str = "torch") -> None:
        self.name, self.now = name, 0.5
        self.batches: list[int] = []
        self.opened: set[int] = set()
        self.made: dict[str, Any] = {}
        self._lock = threading.Lock()
        monkeypatch.setattr(extraction, "time", SimpleNamespace(perf_counter=lambda: self.now))
        monkeypatch.setattr(extraction, "make_runtime", self._make)

    def _make(self, backbone: object, **settings: Any) -> World:
        self.made = settings
        return self

    def __call__(self, pixels: np.ndarray) -> tuple[np.ndarray, ...]:
        with self._lock:
            self.batches.append(len(pixels))
            self.now += len(pixels) / RATE
        return (np.zeros((len(pixels), 2), np.float32),)

    def images(self, count: int) -> Split:
        def give(i: int) -> Image.Image:
            self.opened.add(i)
            return Image.new("RGB", (4, 4))

        return Split([f"{i}.png" for i in range(count)], np.zeros(count, np.int64), give, fingerprint="f")


def test_images_per_second_after_a_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    assert measure_speed(BACKBONE, world.images(200)) == RATE
    # Half a second to warm up, then four: the images are gone through again where they are few.
    assert world.batches == [128, 128, 72, 128]
    assert world.opened == {*range(200)}


def test_a_short_measurement_has_a_short_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    assert measure_speed(BACKBONE, world.images(8), seconds=0.2) == RATE
    assert world.batches == [8] * 4, "two of an eighth of a second each, twice"


def test_on_the_processor_batches_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, "onnx")
    measure_speed(BACKBONE, world.images(20), seconds=0.5)
    assert {*world.batches} == {8, 4}


def test_what_was_asked_for_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(monkeypatch)
    measure_speed(BACKBONE, world.images(4), seconds=0.1, device="mps", precision="fp16", graphs=tmp_path)
    assert world.made == {"device": "mps", "precision": "fp16", "cache": tmp_path}


def test_nothing_to_measure_with(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="no image"):
        measure_speed(BACKBONE, World(monkeypatch).images(0))
