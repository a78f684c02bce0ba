"""Fixtures of the feature store's tests."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from unseen.features import FeatureStore

SCRIPT = Path(__file__).parent / "store_process.py"


@pytest.fixture(scope="session")
def store_process() -> ModuleType:
    """The module `store_process.py`: sample data, and the script that subprocesses run."""
    spec = importlib.util.spec_from_file_location("store_process", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["store_process"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def store(tmp_path: Path) -> FeatureStore:
    return FeatureStore(tmp_path / "home" / "features")


@pytest.fixture
def without_flushing(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that do not depend on flushing, which takes most of their time."""
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


class World:
    """A backbone whose layers give the brightness of an image times a number, with a record of the requested layers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from unseen.core.records import Preprocessing
        from unseen.features import extraction

        self.factors = {"pooled": 1, "logits": 10, "deep": 100}
        self.made: list[tuple[str, ...]] = []
        self.settings: dict[str, Any] = {}
        self.name = "torch"
        self.backbone: Any = SimpleNamespace(
            id="m",
            weights="w",
            module=object(),
            preprocessing=Preprocessing(size=2, resize=2),
            transform=None,
            notes=("a note",),
        )
        monkeypatch.setattr(extraction, "make_runtime", self._make)
        monkeypatch.setattr(extraction, "expected_runtime", lambda *_, **settings: self.name)
        monkeypatch.setattr(extraction, "best_device", lambda: "the best")
        monkeypatch.setattr(extraction, "_RUNTIMES", [])

    def _make(self, backbone: object, layers: Sequence[str], **settings: Any) -> Any:
        self.made.append(tuple(layers))
        self.settings = settings
        factors = [self.factors[layer] for layer in layers]

        class Runtime:
            name, precision, note = self.name, settings["precision"], "as told"

            def __call__(self, pixels: np.ndarray) -> tuple[np.ndarray, ...]:
                light = pixels[:, 0, 0, :1].astype(np.float32)
                return tuple(factor * light for factor in factors)

        return Runtime()

    def dataset(self, places: Sequence[int], name: str = "d") -> Any:
        """Images whose brightness is their place in the whole."""
        from unseen.data import Split

        images = Split(
            [f"{i}.png" for i in places],
            np.array(places, np.int64) % 3,
            lambda i: Image.new("RGB", (2, 2), (places[i],) * 3),
            content_key=lambda i: bytes([places[i]]),
        )
        return SimpleNamespace(features_id=name, split=lambda _name: images)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)
