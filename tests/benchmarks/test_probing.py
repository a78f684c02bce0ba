"""Which images validate, and that a run which would repeat another is not done again."""

from __future__ import annotations

import numpy as np
import pytest

from unseen.benchmarks.probing import Arrays, probe_splits
from unseen.probes import evaluate_probe


@pytest.fixture(scope="module")
def splits() -> dict[str, Arrays]:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(4, 16))

    def draw(count: int) -> Arrays:
        labels = np.arange(count) % 4
        return (centres[labels] + rng.normal(size=(count, 16))).astype(np.float32), labels

    return {"train": draw(40), "val": draw(20), "test": draw(60)}


def test_drawn_pools_and_own_does_not(splits: dict[str, Arrays]) -> None:
    drawn = probe_splits(splits, solver="ridge", shots=("all",), seeds=(1, 2), validation="drawn")
    own = probe_splits(splits, solver="ridge", shots=("all",), seeds=(1, 2), validation="own")
    assert {r.validation_size for r in drawn.values()} == {12}
    assert {r.validation_size for r in own.values()} == {20}
    assert {r.train_size for r in (*drawn.values(), *own.values())} == {60}


def test_records_are_those_of_the_probe_itself(splits: dict[str, Arrays]) -> None:
    found = probe_splits(splits, solver="logistic", shots=(2, "all"), seeds=(1, 2), validation="own")
    features, labels = splits["val"]
    plain = evaluate_probe(
        *splits["train"],
        *splits["test"],
        shots=(2, "all"),
        seeds=(1, 2),
        validation_features=features,
        validation_labels=labels,
    )
    assert {key: record.top1 for key, record in found.items()} == {(r.shots, r.seed): r.top1 for r in plain}


def test_more_shots_than_images_are_all_images(splits: dict[str, Arrays]) -> None:
    found = probe_splits(splits, solver="logistic", shots=(4, 15, 64, "all"), seeds=(3,), validation="drawn")
    assert list(found) == [(4, 3), (15, 3), (64, 3), ("all", 3)]
    assert [record.shots for record in found.values()] == [4, 15, 64, "all"]
    np.testing.assert_array_equal(found[15, 3].predictions, found["all", 3].predictions)
    np.testing.assert_array_equal(found[64, 3].predictions, found["all", 3].predictions)
    assert found[4, 3].train_size == 16
