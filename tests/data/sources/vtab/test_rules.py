"""Rules from annotations to classes, with every boundary value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unseen.core.errors import DataError, UnknownNameError
from unseen.data.sources.vtab import vtab_task, vtab_tasks
from unseen.data.sources.vtab.tasks import Rule


def naive(bounds: tuple[float, ...], value: float) -> int:
    """The largest bound strictly below the value, as the authors compute it."""
    return max(k for k, bound in enumerate(bounds) if bound - value < 0)


@given(st.floats(0.001, 99.9))
def test_clevr_distance_is_the_authors_rule(depth: float) -> None:
    task = vtab_task("clevr-distance")
    assert task.rule([depth], task.classes)[0] == naive(task.rule.bounds, depth)


@given(st.one_of(st.floats(-99, 998), st.just(1000.0)))
def test_kitti_distance_is_the_authors_rule(depth: float) -> None:
    task = vtab_task("kitti-distance")
    assert task.rule([depth], task.classes)[0] == naive(task.rule.bounds, depth)


def test_boundary_values(replicas: Any) -> None:
    clevr, kitti = vtab_task("clevr-distance"), vtab_task("kitti-distance")
    for depth, label in replicas.clevr_depths:
        assert clevr.rule([depth], 6)[0] == label
    for depth, label in replicas.kitti_depths:
        assert kitti.rule([1000.0 if depth is None else depth], 4)[0] == label


def test_counts_positions_and_angles() -> None:
    assert vtab_task("clevr-count").rule(range(3, 11), 8).tolist() == list(range(8))
    x = vtab_task("dsprites-location").rule(range(32), 16)
    assert x.tolist() == [k // 2 for k in range(32)]
    orientation = vtab_task("dsprites-orientation").rule(range(40), 16)
    assert orientation.tolist() == [int(k // 2.5) for k in range(40)]
    assert orientation[[0, 2, 3, 4, 5, 37, 38, 39]].tolist() == [0, 0, 1, 1, 2, 14, 15, 15]
    assert vtab_task("smallnorb-azimuth").rule(range(18), 18).tolist() == list(range(18))


def test_values_of_no_class_are_refused() -> None:
    with pytest.raises(DataError, match="none of the 8 classes"):
        vtab_task("clevr-count").rule([2, 5], 8)
    with pytest.raises(DataError, match="1 such"):
        Rule()([0, 1, 2], 2)


def test_the_table_of_tasks_is_whole() -> None:
    tasks = vtab_tasks()
    assert len(tasks) == 19
    assert [sum(t.group == g for t in tasks.values()) for g in ("natural", "specialized", "structured")] == [7, 4, 8]
    assert len({t.folder for t in tasks.values()}) == 19
    for task in tasks.values():
        assert task.card.id == f"vtab:{task.name}"
        assert task.url.startswith("http")
        assert task.expects
        assert task.license
        assert min(task.sizes) >= 200
    with pytest.raises(UnknownNameError, match="clevr-count"):
        vtab_task("clevr-coutn")


def test_table_2_counts_training_and_validation_images() -> None:
    for task in vtab_tasks().values():
        if task.name != "kitti-distance":  # printed as 5,711, see the note in the table
            assert task.sizes[0] + task.sizes[1] == task.printed_size, task.name


def test_labels_are_integers() -> None:
    assert Rule(width=2.5)(np.array([0.0, 39.0]), 16).dtype == np.int64
