"""Small image folders for the tests of the data room."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

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
