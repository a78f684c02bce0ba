"""Fixtures of the feature store's tests."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

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
