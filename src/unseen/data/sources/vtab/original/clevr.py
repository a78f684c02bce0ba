"""CLEVR: pictures and the scenes behind them. Depth is the third of an object's `pixel_coords`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from unseen.core.errors import DataError
from unseen.data.sources.vtab.examples import Examples, from_files

_SPLITS = {"train": "train", "validation": "val"}


def find(root: Path) -> Path | None:
    places = (root / "CLEVR_v1.0", root / "clevr" / "CLEVR_v1.0")
    return next((p for p in places if (p / "scenes").is_dir()), None)


def read(place: Path) -> dict[str, Examples]:
    return {split: _read(place, short).shuffled() for split, short in _SPLITS.items()}


def _read(place: Path, short: str) -> Examples:
    path = place / "scenes" / f"CLEVR_{short}_scenes.json"
    try:
        scenes = json.loads(path.read_text(encoding="utf-8"))["scenes"]
        names = [f"images/{short}/{scene['image_filename']}" for scene in scenes]
        depths = [[obj["pixel_coords"][2] for obj in scene["objects"]] for scene in scenes]
        # TFDS stores them in single precision, which decides on which side of a bound a value falls.
        closest = np.array([min(values) for values in depths], np.float32)
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise DataError(f"{path} is not a file of CLEVR scenes: {error!r}.") from error
    return from_files(place, names, {"objects": np.array([len(d) for d in depths]), "closest": closest})
