"""Caltech101: a folder per class; 30 random images of each are for training, the others for testing.

Differs:    the draw is ours: TFDS draws in the order in which a file system lists its files
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unseen.data.sources.vtab.examples import Examples
from unseen.data.sources.vtab.original.class_folders import holds_class_folders, read_class_folders

_PER_CLASS = 30


def find(root: Path) -> Path | None:
    places = ("101_ObjectCategories", "caltech101/101_ObjectCategories", "caltech-101/101_ObjectCategories")
    return next((root / p for p in places if holds_class_folders(root / p, "accordion")), None)


def read(place: Path) -> dict[str, Examples]:
    everything = read_class_folders(place).shuffled()
    labels = everything.fields["label"]
    # Position of each image among those of its class, in the shuffled order.
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], labels[order], side="left")
    rank = np.empty(len(labels), np.int64)
    rank[order] = np.arange(len(labels)) - starts
    return {
        "train": everything.take(np.flatnonzero(rank < _PER_CLASS)),
        "test": everything.take(np.flatnonzero(rank >= _PER_CLASS)),
    }
