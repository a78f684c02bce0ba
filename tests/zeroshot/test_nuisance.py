"""Real attributes and splits of CUB and AWA2 with made features that vary more within a class than attributes tell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unseen.data.sources.xlsa17.splits import read_attribute_splits, read_classes, read_folds
from unseen.metrics import harmonic_mean, mean_per_class
from unseen.zeroshot import CMT, evaluate_method
from unseen.zeroshot.problem import Fold, Images, Problem

#: Images per class, what is a class's own, the factors that all images share, and noise, in units of what is told.
SETTINGS = {"CUB": (30, 1.5, 0.7, 3.0), "AWA2": (60, 2.5, 1.0, 2.0)}


def made(folder: Path, name: str) -> Problem:
    """256 rectified dimensions of length 1, driven by attributes, own offsets, twelve shared factors and noise."""
    count, own, shared, noise = SETTINGS[name]
    splits = read_attribute_splits(folder / name / "att_splits.mat")
    seen = read_classes(folder / name / "trainvalclasses.txt", splits.class_names)
    unseen = read_classes(folder / name / "testclasses.txt", splits.class_names)
    rng = np.random.default_rng(3)
    S = splits.attributes
    told = (S - S.mean(0)) / (S - S.mean(0)).std() @ rng.normal(size=(S.shape[1], 256)) / np.sqrt(S.shape[1])
    means = told + own * rng.normal(size=told.shape)
    factors = rng.normal(size=(12, 256)) / 2

    def draw(classes: np.ndarray, per_class: int) -> Images:
        y = np.repeat(classes, per_class)
        X = means[y] + shared * rng.normal(size=(len(y), 12)) @ factors + noise * rng.normal(size=(len(y), 256))
        X = np.maximum(X, 0)
        return Images((X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32), y)

    train, tested, held = draw(seen, count), draw(unseen, count), draw(seen, count // 4)
    folds = [Fold(f.train, f.val) for f in read_folds(folder / name, splits.class_names, tested.y)]
    return Problem(train, tested, held, S, splits.class_names, folds)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["CUB", "AWA2"])
def test_generative_and_novelty_methods_keep_their_level(golden_data: Path, name: str) -> None:
    problem = made(golden_data / "gbu", name)
    found = {
        m: evaluate_method(m, problem, grid="quick").metrics for m in ("ESZSL", "GFZSL", "GFZSL-tran", "CMT", "CMT*")
    }
    assert 0.4 < found["ESZSL"]["zsl"] < 0.6
    assert found["GFZSL"]["zsl"] > found["ESZSL"]["zsl"] - 0.02
    assert found["GFZSL-tran"]["zsl"] > found["GFZSL"]["zsl"]
    # In the paper CMT* gains on AWA2 (1.0 to 15.9) and loses on CUB (12.6 to 8.7), where 50 classes are new.
    assert found["CMT*"]["H"] > (5 if name == "AWA2" else 1.3) * found["CMT"]["H"]
    if name == "CUB":  # five times is out of reach: who knew which images are new would not get there
        told = CMT(epochs=20).fit(problem.train.X, problem.train.y, problem.S)
        held, seen = problem.test_seen, problem.seen
        tr = mean_per_class(held.y, seen[told.predict(held.X, problem.S[seen])] == held.y)
        assert harmonic_mean(found["CMT"]["zsl"], tr) < 3.5 * found["CMT"]["H"]
    for method in ("ESZSL", "CMT"):
        assert found[method]["tr"] > 3 * found[method]["ts"]
