"""Draws: stratified, seeded, nested, the same whatever else is there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from unseen.core.errors import DataError
from unseen.core.records import DatasetCard
from unseen.data import Dataset, Split
from unseen.data.subset import draw_order, select, shuffle_labels, stratified_split

LABELS = st.lists(st.integers(0, 4), min_size=1, max_size=60)


def make_dataset(labels: list[int]) -> Dataset:
    split = Split(
        [f"{i}.png" for i in range(len(labels))],
        np.asarray(labels, np.int64),
        lambda i: Image.new("L", (1, 1)),
        content_key=lambda i: bytes([i]),
    )
    return Dataset(DatasetCard("x"), [f"class {i}" for i in range(5)], {"train": split, "test": split}, wnids=())


@given(LABELS, st.floats(0, 0.6), st.floats(0, 0.39), st.integers(0, 3))
def test_a_split_is_a_partition_with_the_right_shares(labels: list[int], test: float, val: float, seed: int) -> None:
    names = [f"{i}" for i in range(len(labels))]
    array = np.asarray(labels, np.int64)
    parts = stratified_split(names, array, test=test, val=val, seed=seed)
    assert sorted(np.concatenate(list(parts.values())).tolist()) == list(range(len(labels)))
    for label in set(labels):
        size = labels.count(label)
        counts = {split: int((array[chosen] == label).sum()) for split, chosen in parts.items()}
        assert counts["train"] >= 1
        if test:
            assert counts["test"] == min(max(round(size * test), 1), size - 1)
        if val and size >= 3:
            assert counts["val"] >= 1 or counts["train"] == 1


def test_a_draw_does_not_depend_on_what_else_there_is() -> None:
    names = [f"{i}" for i in range(50)]
    order = [names[i] for i in draw_order(names, 1)]
    fewer = names[::-2]
    assert [fewer[i] for i in draw_order(fewer, 1)] == [name for name in order if name in fewer]
    assert [names[i] for i in draw_order(names, 2)] != order


def test_a_draw_is_the_same_for_ever() -> None:
    # Changing these numbers changes the split of every folder that anybody has measured on.
    assert draw_order(["a", "b", "c", "d", "e", "é"], 0).tolist() == [2, 3, 0, 1, 4, 5]


@given(LABELS, st.integers(1, 6), st.integers(0, 3))
def test_per_class_keeps_so_many_of_each_and_draws_are_nested(labels: list[int], count: int, seed: int) -> None:
    dataset = make_dataset(labels)
    small = select(dataset, per_class=count, seed=seed).splits["train"]
    large = select(dataset, per_class=count + 1, seed=seed).splits["train"]
    for label in range(5):
        assert (small.labels == label).sum() == min(count, labels.count(label))
    assert set(small.names) <= set(large.names)
    assert list(small.names) == sorted(small.names, key=lambda name: int(name[:-4]))


@given(LABELS, st.integers(1, 70), st.integers(0, 3))
def test_a_limit_keeps_the_classes_in_proportion(labels: list[int], limit: int, seed: int) -> None:
    kept = select(make_dataset(labels), limit=limit, seed=seed).splits["test"]
    assert len(kept) == min(limit, len(labels))
    for label in range(5):
        share = labels.count(label) * len(kept) / len(labels)
        assert abs((kept.labels == label).sum() - share) < 5  # rounding of five classes


@given(LABELS, st.integers(1, 7), st.integers(0, 3))
def test_fewer_classes_are_counted_anew(labels: list[int], count: int, seed: int) -> None:
    dataset = make_dataset(labels)
    chosen = select(dataset, classes=count, seed=seed)
    assert len(chosen.class_names) == min(count, 5)
    old = {name: i for i, name in enumerate(dataset.class_names)}
    train = chosen.splits["train"]
    for name, label in zip(train.names, train.labels, strict=True):
        assert labels[int(name[:-4])] == old[chosen.class_names[label]]
    assert len(train) == sum(labels.count(old[name]) for name in chosen.class_names)


def test_wnids_go_with_their_classes() -> None:
    base = make_dataset([0, 1, 2, 3, 4])
    dataset = Dataset(base.card, base.class_names, base.splits, wnids=[f"n0000000{i}" for i in range(5)])
    chosen = select(dataset, classes=2)
    assert [f"class {wnid[-1]}" for wnid in chosen.wnids if wnid] == chosen.class_names


def test_shares_that_leave_nothing_are_refused() -> None:
    with pytest.raises(DataError, match="leave nothing to train on"):
        stratified_split(["a"], np.zeros(1, np.int64), test=0.6, val=0.5)


def test_a_choice_of_classes_is_recorded() -> None:
    smaller = select(make_dataset([0, 1, 2, 3, 4]), classes=2)
    assert (smaller.record.classes_given, smaller.record.classes_used) == (5, 2)


def test_shuffled_labels_are_a_permutation_that_keeps_the_images() -> None:
    dataset = make_dataset([0] * 20 + [1] * 20 + [2] * 20)
    shuffled, again, other = (shuffle_labels(dataset, seed).split("train") for seed in (0, 0, 1))
    before = dataset.split("train")
    assert sorted(shuffled.labels) == sorted(before.labels)
    assert shuffled.labels.tolist() == again.labels.tolist() != other.labels.tolist()
    assert 10 <= int((shuffled.labels == before.labels).sum()) <= 30, "a third agree by chance"
    assert shuffled.names == before.names and shuffled.fingerprint == before.fingerprint
