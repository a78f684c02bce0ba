"""CLEVR: pictures and the scenes behind them. Depth is the third of an object's `pixel_coords`.

TFDS' key: the file name.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from unseen.core.errors import DataError
from unseen.data.scan import find_images
from unseen.data.sources.vtab.examples import Examples, from_files

_SPLITS = {"train": "train", "validation": "val"}


def find(root: Path) -> Path | None:
    places = (root / "CLEVR_v1.0", root / "clevr" / "CLEVR_v1.0")
    return next((p for p in places if (p / "scenes").is_dir()), None)


def read(place: Path) -> dict[str, Examples]:
    return {split: _read(place, split, short) for split, short in _SPLITS.items()}


def _read(place: Path, split: str, short: str) -> Examples:
    path = place / "scenes" / f"CLEVR_{short}_scenes.json"
    try:
        scenes = json.loads(path.read_text(encoding="utf-8"))["scenes"]
        files = _files(place, short, scenes)
        depths = [[obj["pixel_coords"][2] for obj in scene["objects"]] for scene in scenes]
        # TFDS stores them in single precision, which decides on which side of a bound a value falls.
        closest = np.array([min(values, default=np.inf) for values in depths], np.float32)
    except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise DataError(f"{path} is not a file of CLEVR scenes: {error!r}.") from error
    fields = {"objects": np.array([len(d) for d in depths]), "closest": closest}
    return from_files(place, [f"images/{short}/{file}" for file in files], fields).as_recorded(split, files)


def _files(place: Path, short: str, scenes: list[dict[str, Any]]) -> list[str]:
    """The picture of each scene: what it names, otherwise the next one by name, which is how TFDS pairs them."""
    if all("image_filename" in scene for scene in scenes):
        return [str(scene["image_filename"]) for scene in scenes]
    names = find_images(place / "images" / short, "").names
    if len(names) != len(scenes):
        raise ValueError(f"{len(scenes)} scenes that name no picture, and {len(names)} pictures")
    return names
