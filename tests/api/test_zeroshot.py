"""`unseen.evaluate_zeroshot` refuses arrays that do not belong together, and names what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import unseen
from unseen.core.errors import UnseenError

rng = np.random.default_rng(0)
S = rng.normal(size=(30, 16))
y = np.repeat(np.arange(30), 6)
X = S[y] @ rng.normal(size=(16, 24)) + 0.1 * rng.normal(size=(180, 24))
NAMES = [f"class {i}" for i in range(30)]


def zero_row() -> Any:
    rows = S.copy()
    rows[4] = 0
    return rows


@pytest.mark.parametrize(
    ("features", "labels", "embeddings", "more", "words"),
    [
        (X, y, S[:20], {}, r"labels go from 0 to 29, and class embeddings have shape \(20, 16\): 20 classes"),
        (X, y, S[:20], {"unseen": [1, 2, 25]}, r"labels go from 0 to 29"),
        (X, y, S.T, {}, r"shape \(16, 30\).*transposed"),
        (X[y < 10], y[y < 10], S[:16, :10], {}, r"'10', '11'.*look transposed"),
        (X, y, S.T, {"class_names": NAMES}, "axes are swapped"),
        (X, y + 1, S, {}, "labels go from 1 to 30.*subtract 1"),
        (X, y - 1, S, {}, "labels go from -1 to 28"),
        (X[y != 7], y[y != 7], S, {"unseen": [3, 7, 9]}, "1 of 30 classes have no image, such as '7'"),
        (X[y != 7], y[y != 7], S, {}, "1 of 30 classes have no image, such as '7'"),
        (X, y[:-1], S, {}, "180 rows of features and 179 labels"),
        (X, np.stack([y, y], 1), S, {}, r"labels must have shape \(180,\).*found \(180, 2\)"),
        (X[0], y, S, {}, r"features must be a table.*found shape \(24,\)"),
        (X, y, zero_row(), {}, r"no embedding \(all zero\), first '4'"),
        (X, y, S, {"unseen": 5}, "unseen is a share of classes such as 0.2, or a list of classes; found 5"),
        (X, y, S, {"unseen": "class 1"}, "or a list of classes; found 'class 1'"),
        (X, y, S, {"unseen": 1.5}, "between 0 and 1"),
        (X, y, S, {"unseen": [0]}, "leaves 29 seen and 1 unseen classes; 4 and 2"),
        (X, y, S, {"unseen": [0, 0]}, "leaves 29 seen and 1 unseen classes"),
        (X, y, S, {"unseen": range(28)}, "leaves 2 seen and 28 unseen classes"),
        (X, y, S, {"unseen": [3, 30]}, "unseen classes go from 3 to 30, and there are the classes 0 to 29"),
        (X, y, S, {"unseen": ["class 1", "clas 2"], "class_names": NAMES}, r"'clas 2' \(did you mean 'class 2'\?\)"),
        (X, y, S, {"class_names": NAMES[:-1]}, "there are 29 class names"),
        (X, y, S, {"class_names": ["one"] * 30}, "'one' occurs twice"),
        (X, [f"class {i + 1}" for i in y], S, {"class_names": NAMES}, "'class 30'.*not among the 30 class names"),
        (X, y, S, {"methods": "ESZLS"}, "did you mean 'ESZSL'"),
    ],
)  # fmt: skip
def test_mismatched_arrays(features: Any, labels: Any, embeddings: Any, more: dict[str, Any], words: str) -> None:
    with pytest.raises(UnseenError, match=f"(?i){words}"):
        unseen.evaluate_zeroshot(features, labels, embeddings, **{"methods": "ESZSL", **more})


def test_labels_may_be_a_column_and_classes_may_be_names() -> None:
    plain = unseen.evaluate_zeroshot(X, y, S, methods="ESZSL", unseen=[3, 7, 11])
    column = unseen.evaluate_zeroshot(X, y[:, None], S, methods="ESZSL", unseen=np.array([11, 7, 3]))
    named = unseen.evaluate_zeroshot(
        X, [NAMES[i] for i in y], S, methods="ESZSL", unseen=[NAMES[i] for i in (3, 7, 11)], class_names=NAMES
    )
    assert plain.top1 == column.top1
    assert named.unseen_classes == ("class 3", "class 7", "class 11")
    share = unseen.evaluate_zeroshot(X, y, S, methods="ESZSL", unseen=np.float32(0.2))
    assert len(share.unseen_classes) == 6


def test_groups_of_methods_add_up() -> None:
    found = unseen.evaluate_zeroshot(X, y, S, methods=("ESZSL", "SAE", "ESZSL"), unseen=[3, 7, 11])
    assert list(found.results) == ["ESZSL", "SAE"]


def test_methods_are_compared_image_by_image() -> None:
    """The headline is what the decision supports; every metric has its interval."""
    noisy = X + 8 * np.random.default_rng(1).normal(size=X.shape)
    found = unseen.evaluate_zeroshot(noisy, y, S, methods=("ESZSL", "SAE"), unseen=[3, 7, 11, 15, 19])
    decision = found.decision()
    first, second = decision.order
    assert decision.pairs[first, second].paired
    assert found.decision("H").pairs[first, second].paired
    value, interval = found.top1[first], decision.intervals[first]
    assert interval.low < value < interval.high
    words = "statistically tied" if decision.best is None else f"significantly better than {second}"
    assert words in found.headline()
    assert f"[{100 * interval.low:.1f}" in found.headline()
    assert {"zsl_low", "H_high", "AUSUC_low"} <= set(found.rows()[0])
    alone = unseen.evaluate_zeroshot(X, y, S, methods="ESZSL", unseen=[3, 7, 11], test_share=0.0)
    assert alone.headline().endswith("(chance 33.3 %)")
    assert alone.rows()[0]["zsl_low"] < 1, "18 of 18 images are no proof of 100 %"
