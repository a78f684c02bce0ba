"""Zero-shot problems for the tests: small ones from nothing, and ones over the real attributes and splits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from unseen.data.sources.xlsa17.splits import read_attribute_splits, read_classes, read_folds
from unseen.zeroshot.problem import Fold, Images, Problem

MakeProblem = Callable[..., Problem]

#: Of 645 (SUN), one in three: each of the 24 methods takes ten times as long on all of them.
MOST_SEEN = 215

#: How much of a class no attribute tells. The fewer training classes there are, the less of it can be borne.
UNTOLD = {"SUN": 1.2, "CUB": 1.2, "AWA1": 0.8, "AWA2": 0.8, "APY": 0.6}


def class_gaussians(S: np.ndarray, d: int, rng: np.random.Generator, spread: float) -> np.ndarray:
    """Class means driven by the attributes, and a part of their own that no attribute tells."""
    centred = S - S.mean(0)
    centred = centred / centred.std()
    told = centred @ rng.normal(size=(S.shape[1], d)) / np.sqrt(S.shape[1])
    return told + spread * rng.normal(size=(len(S), d))


def draw(means: np.ndarray, classes: np.ndarray, count: int, rng: np.random.Generator, noise: float = 1.0) -> Images:
    """Rectified, as the pooled features of a network are, and of length 1."""
    y = np.resize(classes, count)
    X = np.maximum(means[y] + noise * rng.normal(size=(count, means.shape[1])), 0)
    return Images((X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32), y.astype(np.int64))


@pytest.fixture(scope="session")
def small_problem() -> Problem:
    """20 seen and 5 unseen classes, 12 attributes, 64 dimensions."""
    rng = np.random.default_rng(7)
    S = rng.normal(size=(25, 12))
    S /= np.linalg.norm(S, axis=1, keepdims=True)
    means = class_gaussians(S, 64, rng, 0.3)
    seen, unseen = np.arange(20), np.arange(20, 25)
    folds = [Fold(np.setdiff1d(seen, val), val) for val in (seen[:5], seen[5:10], seen[10:15])]
    names = [f"class {i}" for i in range(25)]
    return Problem(
        *(draw(means, c, n, rng, 1.5) for c, n in ((seen, 400), (unseen, 100), (seen, 100))), S, names, folds
    )


@pytest.fixture(scope="session")
def real_problem(golden_data: Path) -> MakeProblem:
    """`real_problem("CUB", split="PS")`: real attributes and class lists, features made for them."""
    made: dict[tuple[str, str], Problem] = {}

    def make(name: str, split: str = "PS", *, d: int = 96, cap: int = 1200) -> Problem:
        if (name, split) not in made:
            folder = golden_data / "gbu" / name
            splits = read_attribute_splits(folder / "att_splits.mat")
            seen = read_classes(folder / "trainvalclasses.txt", splits.class_names)
            unseen = read_classes(folder / "testclasses.txt", splits.class_names)
            folds = read_folds(folder, splits.class_names, seen)
            seen = np.sort(seen)[:: -(-len(seen) // MOST_SEEN)]
            rng = np.random.default_rng(3)
            means = class_gaussians(splits.attributes, d, rng, UNTOLD[name])
            images = {loc: min(cap, len(rows)) for loc, rows in splits.locs.items()}
            train = draw(means, seen, max(images["trainval"], 4 * len(seen)), rng)
            tested = draw(means, unseen, images["test_unseen"] // 3, rng)
            held = (
                draw(means, seen, max(images["test_seen"] // 3, len(seen)), rng)
                if split == "PS"
                else Images(np.empty((0, d)), np.empty(0, np.int64))
            )
            kept = np.union1d(seen, unseen)
            place = lambda y: np.searchsorted(kept, y)  # noqa: E731
            parts = (Images(part.X, place(part.y)) for part in (train, tested, held))
            names = [splits.class_names[c] for c in kept]
            own = [Fold(*(place(np.intersect1d(side, seen)) for side in (f.train, f.val))) for f in folds]
            made[name, split] = Problem(*parts, splits.attributes[kept], names, own)
        return made[name, split]

    return make
