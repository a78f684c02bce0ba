"""`unseen.evaluate(X, y)`: a probe on features that are given, held to scikit-learn and to the same rows as images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import unseen
from unseen.core.errors import DataError, UnseenError, UsageError


def problem(count: int = 120, seed: int = 0) -> tuple[Any, Any]:
    generator = np.random.default_rng(seed)
    labels = np.arange(count) % 3
    rows = generator.normal(size=(count, 8)) + 1.2 * np.eye(3, 8)[labels]
    return rows, np.asarray(["ant", "bee", "cat"])[labels]


def test_features_are_probed_like_scikit_learn_does() -> None:
    rows, labels = problem()
    more, wanted = problem(300, seed=1)
    found = unseen.evaluate(rows, labels, test=(more, wanted))
    unit = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in (rows, more)]
    best = max(LogisticRegression(C=c, max_iter=500).fit(unit[0], labels).score(unit[1], wanted) for c in (1, 10, 100))
    assert found.top1 == pytest.approx(best, abs=0.04)
    assert set(found.per_class) == {"ant", "bee", "cat"}
    details = found.results[0].details
    assert details["class_names"] == ["ant", "bee", "cat"] and details["test_images"] == 300
    record = found.results[0].record
    assert record.images["train"].used == 120 and record.images["test"].found == 300 and record.search is not None


def test_a_fifth_is_held_out_by_content() -> None:
    rows, labels = problem()
    first = unseen.evaluate(rows, labels)
    order = np.random.default_rng(3).permutation(len(rows))
    again = unseen.evaluate(torch.from_numpy(rows[order]), labels[order].tolist())
    assert first.results[0].details["test_images"] == 24
    np.testing.assert_array_equal(first.correct, again.correct)
    column = unseen.evaluate(rows, labels[:, None])
    assert column.top1 == first.top1 and column.per_class == first.per_class


def test_numbers_and_several_labels() -> None:
    rows, _ = problem()
    numbers = unseen.evaluate(rows, (rows[:, 0] * 2 + 0.1)[:, None])
    assert numbers.r2 > 0.99
    several = unseen.evaluate(rows, (rows[:, :3] > 0.2).astype(int))
    assert several.mean_average_precision > 0.8
    dropped = int((~(rows[:, :3] > 0.2).any(1)).sum())
    assert dropped and several.results[0].record.count("unlabelled") == dropped


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        ((np.ones((4, 2)), [0, 1, 0]), None, r"shape \(4, 2\), but there are 3 labels"),
        ((np.eye(6), ["cat"] * 6), None, "one class, 'cat'"),
        ((np.eye(6), [0] * 6), None, "one class, '0'"),
        ((np.eye(6), ["cat"] * 5 + ["dog"]), None, "the class 'dog' has one image"),
        ((np.eye(6), list("abcdef")), None, "no class has two images"),
        ((np.eye(6), list("ababab")), (np.eye(5), list("ababa")), "found 6 and 5"),
        ((np.full((6, 2), np.nan), list("ababab")), None, "NaN or infinity"),
        ((np.eye(6), None), None, "need one label per row"),
    ],
)
def test_arrays_that_do_not_fit(train: Any, test: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        unseen.evaluate(*train, test)


def test_what_features_cannot_have() -> None:
    rows, labels = problem()
    with pytest.raises(UsageError, match="test is \\(features, labels\\)"):
        unseen.evaluate(rows, labels, rows)
    with pytest.raises(UsageError, match="transform and preprocessing"):
        unseen.evaluate(rows, labels, transform=lambda image: image)
    with pytest.raises(UnseenError, match="solvr"):
        unseen.evaluate(rows, labels, solvr="ridge")


def test_plain_paths_of_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from unseen.core.records import Cell, Result
    from unseen.results import FILE_NAME, ResultsDatabase

    (tmp_path / "photos").mkdir()
    (tmp_path / "sd.pth").touch()
    cell = Cell("probe", f"file:{tmp_path}/sd.pth", f"folder:{tmp_path}/photos", {"seed": 0})
    with ResultsDatabase(tmp_path / FILE_NAME) as database:
        database.append("mine", Result(cell, metrics={"top1": 0.5}))
    monkeypatch.chdir(tmp_path)
    assert len(unseen.load_results(model="sd.pth", dataset="photos", home=tmp_path)) == 1
    assert len(unseen.load_results(dataset=Path("photos"), home=tmp_path)) == 1
    assert len(unseen.load_results(dataset="folder:elsewhere", home=tmp_path)) == 0
