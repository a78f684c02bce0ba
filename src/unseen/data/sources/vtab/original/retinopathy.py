"""Diabetic Retinopathy (Kaggle 2015): photographs of eyes, levels 0 to 4.

TFDS' key: the name without extension.

Paper:      the images as TFDS `btgraham-300` has them, after Ben Graham's winning entry
Implements: the eye scaled to a radius of 300, four times the difference from a local mean plus 128, a disc of 0.9 of
            the radius on grey, cropped to it
Differs:    no JPEG in between (TFDS stores quality 72), and Pillow's resampling and blur instead of OpenCV's
"""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

from unseen.core.errors import DataError
from unseen.data.decode import decode_rgb
from unseen.data.sources.vtab.examples import Examples, from_files

LEVELS = ("none", "mild", "moderate", "severe", "proliferative")
_RADIUS = 300
_KEPT = 0.9


def find(root: Path) -> Path | None:
    places = (
        root / "diabetic-retinopathy-detection",
        root / "diabetic_retinopathy_detection",
        root / "retinopathy",
        root,
    )
    return next((p for p in places if (p / "trainLabels.csv").exists()), None)


def read(place: Path) -> dict[str, Examples]:
    train = _parse(place / "trainLabels.csv")
    tests = _parse(place / "retinopathy_solution.csv")
    chosen = {
        "train": ("train", [(image, level) for image, level, _ in train]),
        "validation": ("test", [(image, level) for image, level, usage in tests if usage == "Public"]),
        "test": ("test", [(image, level) for image, level, usage in tests if usage == "Private"]),
    }
    return {
        split: _examples(place, folder, rows).as_recorded(split, [image for image, _ in rows])
        for split, (folder, rows) in chosen.items()
    }


def _examples(place: Path, folder: str, rows: list[tuple[str, int]]) -> Examples:
    names = [f"{folder}/{image}.jpeg" for image, _ in rows]
    raw = from_files(place, names, {"label": np.array([level for _, level in rows], np.int64)}, LEVELS)
    return replace(raw, open=lambda i: flatten_eye(decode_rgb(raw.open(i))))


def flatten_eye(image: Image.Image, radius: int = _RADIUS) -> Image.Image:
    """An eye of known size under even light, on grey."""
    brightness = np.asarray(image, np.float64)[image.height // 2].sum(axis=1)
    half = np.count_nonzero(brightness > brightness.mean() / 10) / 2
    scale = radius / (half if half >= 1 else image.height / 2)  # a black middle: take the whole height for the eye
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    eye = image.resize(size, Image.Resampling.BILINEAR)
    local = np.asarray(eye.filter(ImageFilter.GaussianBlur(radius / 30)), np.float32)
    even = np.clip(4 * (np.asarray(eye, np.float32) - local) + 128, 0, 255)
    kept = int(radius * _KEPT)
    y, x = np.ogrid[: size[1], : size[0]]
    inside = (x - size[0] // 2) ** 2 + (y - size[1] // 2) ** 2 <= kept**2
    shown = np.where(inside[..., None], even, 128).astype(np.uint8)
    top, left = max(size[1] // 2 - kept, 0), max(size[0] // 2 - kept, 0)
    return Image.fromarray(shown[top : size[1] // 2 + kept, left : size[0] // 2 + kept])


def _parse(path: Path) -> list[tuple[str, int, str]]:
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            return [(row["image"], int(row["level"]), row.get("Usage", "")) for row in csv.DictReader(stream)]
    except (OSError, KeyError, ValueError) as error:
        raise DataError(f"{path} is not a table with image and level: {error!r}.") from error
