"""Small image folders for the tests of the data room."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from PIL import Image

MakeFolder = Callable[[Mapping[str, int]], Path]


@pytest.fixture
def make_folder(tmp_path: Path) -> MakeFolder:
    """Writes so many images, each of its own colour, into each folder below a root, and gives the root."""

    def make(counts: Mapping[str, int]) -> Path:
        root = tmp_path / "images"
        colour = 0
        for folder, count in counts.items():
            (root / folder).mkdir(parents=True, exist_ok=True)
            for i in range(count):
                colour += 1
                pixel = (colour % 256, colour // 256, 7)
                Image.new("RGB", (4, 4), pixel).save(root / folder / f"{i:03d}.png")
        return root

    return make


def _load_imagenet_tree() -> ModuleType:
    path = Path(__file__).parents[1] / "imagenet_tree.py"
    spec = spec_from_file_location("imagenet_tree", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules.setdefault("imagenet_tree", module_from_spec(spec))  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def imagenet_tree() -> ModuleType:
    """The module that writes small ImageNets: `imagenet_tree.make_imagenet(path, layout)`."""
    return _load_imagenet_tree()


@pytest.fixture(scope="session")
def small_imagenets(imagenet_tree: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """One small ImageNet in each of its three layouts; to be read, not changed."""
    base = tmp_path_factory.mktemp("imagenet")
    return {
        layout: imagenet_tree.make_imagenet(base / layout.replace(" ", "-"), layout)
        for layout in ("folders", "tars", "one tar")
    }
