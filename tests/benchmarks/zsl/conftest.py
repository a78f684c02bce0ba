"""A small xlsa17 release, and studies on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from unseen.core.records import Result
from unseen.engines import make_engine
from unseen.study import Study, run_study

ANIMALS = ["cat", "dog", "horse", "cow", "sheep", "goat", "lion", "wolf", "mouse", "otter", "bat", "seal"]


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A release of 12 classes: 9 seen, 3 unseen, 8 attributes, 10 images each."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "xlsa17" / "AWA1"
    folder.mkdir(parents=True)
    att = rng.random((8, 12))
    labels = np.repeat(np.arange(12), 10)
    means = (att.T - 0.5) @ rng.normal(size=(8, 24))
    features = np.maximum(means[labels] + 0.3 * rng.normal(size=(120, 24)), 0).T
    place, seen = np.tile(np.arange(10), 12), labels < 9
    savemat(folder / "res101.mat", {"features": features, "labels": labels[:, None] + 1})
    savemat(
        folder / "att_splits.mat",
        {
            "att": att / np.linalg.norm(att, axis=0),
            "allclasses_names": np.array([[name] for name in ANIMALS], dtype=object),
            "trainval_loc": np.flatnonzero(seen & (place < 7))[:, None] + 1,
            "test_seen_loc": np.flatnonzero(seen & (place >= 7))[:, None] + 1,
            "test_unseen_loc": np.flatnonzero(~seen)[:, None] + 1,
        },
    )
    lists = {"testclasses": ANIMALS[9:], "trainvalclasses": ANIMALS[:9]}
    for n in (1, 2, 3):
        val = ANIMALS[3 * n - 3 : 3 * n]
        lists |= {f"valclasses{n}": val, f"trainclasses{n}": [a for a in ANIMALS[:9] if a not in val]}
    for name, classes in lists.items():
        (folder / f"{name}.txt").write_text("\n".join(classes) + "\n")
    return tmp_path / "xlsa17"


@pytest.fixture
def run_zsl(home: Path) -> Callable[..., list[Result]]:
    """`run_zsl(dataset, model, methods=..., ...)` gives the results of a study of one model and dataset."""

    def run(dataset: str, model: str, **options: object) -> list[Result]:
        with make_engine("local", workers=1) as engine:
            return list(run_study(Study("zsl", (model,), (dataset,), {"zsl": options}), home, engine).results)

    return run
