"""Which images validate, and that a run which would repeat another is not done again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unseen.benchmarks import make_benchmark
from unseen.benchmarks.probing import Arrays, ProbeOptions, probe_cells, probe_device, probe_splits
from unseen.benchmarks.workbench import SplitRows
from unseen.core.records import Cell
from unseen.features import Extraction
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


def test_a_memory_limit_keeps_rows_where_they_are_and_changes_no_number() -> None:
    """4,000 x 128 rows need 6 MB of copies: with a limit of 1 MB they are never read at once."""
    rng = np.random.default_rng(1)
    labels = np.arange(4400) % 20
    rows = (0.35 * rng.normal(size=(20, 128))[labels] + rng.normal(size=(4400, 128))).astype(np.float32)
    largest: list[int] = []

    class Read:
        """Rows that record how many of them are read."""

        def __init__(self, rows: np.ndarray) -> None:
            self.rows, self.shape, self.dtype = rows, rows.shape, rows.dtype

        def __getitem__(self, wanted: Any) -> Any:
            found = self.rows[wanted]
            largest.append(len(found))
            return found

    splits = {"train": (Read(rows[:4000]), labels[:4000]), "test": (rows[4000:], labels[4000:])}
    found = {}
    for limit in (0, 1):
        largest.clear()
        options = make_benchmark("cog", {"memory_limit": limit, "seeds": [1]})
        assert isinstance(options, ProbeOptions)
        cells = [Cell("cog", "m", "d", {"shots": "all", "seed": 1})]
        parts = {
            name: SplitRows(features, wanted, np.arange(len(wanted)), len(wanted))
            for name, (features, wanted) in splits.items()
        }
        (result,) = probe_cells(cells, parts, options, classes=20, details={}, how=Extraction())
        found[limit] = result.metrics["top1"], max(largest)
    assert found[0][1] == 4000
    assert found[1][1] < 4000
    assert 0.3 < found[0][0] < 0.99
    assert found[1][0] == pytest.approx(found[0][0], abs=1 / 400 + 1e-9), (
        "at most one image of 400 has another prediction"
    )


def test_probes_compute_where_features_come_from_if_that_is_a_gpu() -> None:
    assert probe_device(Extraction(device="cpu")) == "cpu"
    assert probe_device(Extraction(device="cuda:1")) == "cuda:1"
    assert probe_device(Extraction(device="mps")) == "cpu"


def test_square_roots_and_streaming_reach_the_probe(splits: dict[str, Arrays], monkeypatch: pytest.MonkeyPatch) -> None:
    from unseen.probes.rows import FeatureSet
    from unseen.probes.softmax import SoftmaxLoss

    asked = {"solver": "logistic", "shots": ("all",), "seeds": (1,), "validation": "drawn"}
    plain, rooted = (probe_splits(splits, **asked, square_root=root)["all", 1] for root in (False, True))
    assert plain.log_loss != rooted.log_loss
    streamed: list[bool] = []
    call = SoftmaxLoss.__call__
    monkeypatch.setattr(
        SoftmaxLoss,
        "__call__",
        lambda loss, weights: (streamed.append(isinstance(loss.rows, FeatureSet)), call(loss, weights))[1],
    )
    again = probe_splits(splits, **asked, memory_limit=1)["all", 1]
    assert streamed and all(streamed) and again.log_loss == pytest.approx(plain.log_loss, rel=1e-3)


@pytest.mark.parametrize("name", ["probe", "cog"])
def test_results_from_before_square_roots_keep_their_ids(name: str) -> None:
    plain, limited, rooted = (
        make_benchmark(name, values).plan("model", "data")[0]
        for values in ({}, {"memory_limit": 10**9}, {"square_root": True})
    )
    assert "square_root" not in plain.parameters and "memory_limit" not in plain.parameters
    assert limited == plain and rooted != plain
