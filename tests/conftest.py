"""Fixtures for every room: small real images on disk, and a small real model that needs no download."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

#: timm's own test network: 0.4 M parameters, random weights drawn from seed 0.
SMALL_MODEL = "random:test_efficientnet?size=64"


@pytest.fixture(scope="session")
def small_model() -> str:
    return SMALL_MODEL


@pytest.fixture(scope="session")
def load_tool() -> Callable[[str], ModuleType]:
    """A script of the folder `tools`, by its name, as a module."""

    def load(name: str) -> ModuleType:
        spec = spec_from_file_location(name, Path(__file__).parents[1] / "tools" / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="session")
def golden_data() -> Path:
    """The folder of real data that is not in the repository."""
    folder = os.environ.get("UNSEEN_GOLDEN_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("UNSEEN_GOLDEN_DATA is not set to a folder: real data is not there to compare with")
    return Path(folder)


def draw_image(label: int, number: int, size: int = 48) -> Image.Image:
    """A picture that a colour-blind model could tell from other classes: stripes whose pitch is the class."""
    rng = np.random.default_rng(1000 * label + number)
    wave = np.sin(np.arange(size) / (1.0 + label) + rng.uniform(0, 0.6))
    picture = np.stack(
        [np.outer(np.ones(size), wave), np.outer(wave, np.ones(size)), rng.normal(0, 0.2, (size, size))], 2
    )
    return Image.fromarray(np.uint8(np.clip(127 + 90 * picture, 0, 255)))


@pytest.fixture(scope="session")
def make_folder() -> Callable[..., Path]:
    """Writes a labelled folder: `make_folder(path, classes=3, per_class=8)`."""

    def make(path: Path, *, classes: int = 3, per_class: int = 8) -> Path:
        for label in range(classes):
            (path / f"class{label}").mkdir(parents=True, exist_ok=True)
            for number in range(per_class):
                draw_image(label, number).save(path / f"class{label}" / f"{number:03d}.png")
        return path

    return make


@pytest.fixture
def images(tmp_path: Path, make_folder: Callable[..., Path]) -> Path:
    """A folder of 3 classes with 8 images each."""
    return make_folder(tmp_path / "images")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of the test's own."""
    monkeypatch.setenv("UNSEEN_HOME", str(tmp_path / "home"))
    return tmp_path / "home"
