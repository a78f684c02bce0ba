"""Splits: lazy fingerprints, what changes them, and choosing images."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from unseen.core.errors import DataError
from unseen.core.records import DatasetCard
from unseen.core.run_record import RunRecord
from unseen.data import Dataset, Split
from unseen.data.dataset import check_classes


def make_split(contents: list[bytes], labels: list[int] | None = None, names: list[str] | None = None) -> Split:
    return Split(
        names=names or [f"{i}.png" for i in range(len(contents))],
        labels=np.asarray(labels if labels is not None else [0] * len(contents), np.int64),
        open=lambda i: Image.new("RGB", (i + 1, 1)),
        content_key=lambda i: contents[i],
    )


def test_a_given_fingerprint_is_kept() -> None:
    split = Split(names=["a"], labels=np.zeros(1, np.int64), open=lambda i: Image.new("L", (1, 1)), fingerprint="abc")
    assert split.fingerprint == "abc"


def test_the_fingerprint_is_computed_once_and_only_when_read() -> None:
    asked: list[int] = []

    def key(i: int) -> bytes:
        asked.append(i)
        return b"x"

    split = Split(["a", "b"], np.zeros(2, np.int64), lambda i: Image.new("L", (1, 1)), content_key=key)
    assert repr(split) == "<Split of 2 images>"
    assert asked == []
    first = split.fingerprint
    assert len(first) == 32
    assert split.fingerprint == first
    assert sorted(asked) == [0, 1]


@pytest.mark.parametrize(
    "changed",
    [
        make_split([b"a", b"c"]),
        make_split([b"b", b"a"]),
        make_split([b"a", b"b"], labels=[0, 1]),
        make_split([b"a", b"b"], names=["0.png", "2.png"]),
        make_split([b"a"]),
        make_split([b"ab", b""]),
    ],
    ids=["content", "order", "label", "name", "count", "boundary"],
)
def test_whatever_matters_changes_the_fingerprint(changed: Split) -> None:
    assert make_split([b"a", b"b"]).fingerprint == make_split([b"a", b"b"]).fingerprint
    assert changed.fingerprint != make_split([b"a", b"b"]).fingerprint


def test_a_second_labelling_keeps_the_fingerprint() -> None:
    fine = make_split([b"a", b"b"], labels=[0, 1])
    coarse = Split(
        fine.names, np.zeros(2, np.int64), fine.open, content_key=fine.content_key, primary_labels=fine.labels
    )
    assert coarse.fingerprint == fine.fingerprint


def test_names_that_are_not_valid_utf8_have_a_fingerprint() -> None:
    assert make_split([b"a"], names=["\udcff.png"]).fingerprint != make_split([b"a"]).fingerprint


@given(st.lists(st.integers(0, 9), max_size=12))
def test_taking_images_takes_everything_of_them(indices: list[int]) -> None:
    split = make_split([bytes([i]) for i in range(10)], labels=list(range(10)))
    part = split.take(indices)
    assert list(part.names) == [f"{i}.png" for i in indices]
    assert part.labels.tolist() == indices
    assert [part.open(j).width for j in range(len(part))] == [i + 1 for i in indices]
    same = make_split([bytes([i]) for i in indices], labels=indices, names=[f"{i}.png" for i in indices])
    assert part.fingerprint == same.fingerprint


def test_taking_from_a_split_with_a_given_fingerprint_makes_a_new_one() -> None:
    split = Split(["a", "b"], np.zeros(2, np.int64), lambda i: Image.new("L", (1, 1)), fingerprint="abc")
    assert len({split.fingerprint, split.take([0]).fingerprint, split.take([1]).fingerprint}) == 3


def test_broken_splits_are_refused() -> None:
    with pytest.raises(DataError, match="2 images but 1 labels"):
        make_split([b"a", b"b"], labels=[0])
    with pytest.raises(DataError, match="needs a fingerprint"):
        Split(["a"], np.zeros(1, np.int64), lambda i: Image.new("L", (1, 1)))
    with pytest.raises(DataError, match="labels from 0 to 3 do not fit 2 classes"):
        Dataset(DatasetCard("x"), ["a", "b"], {"train": make_split([b"a", b"b"], labels=[0, 3])})
    with pytest.raises(DataError, match=r"has no split 'val'. It has: train"):
        Dataset(DatasetCard("x"), ["a"], {"train": make_split([b"a"])}).split("val")


def small(labels: list[int], tested: list[int], **more: Any) -> Dataset:
    def part(name: str, own: list[int]) -> Split:
        return Split(
            [f"{name}{i}" for i in range(len(own))],
            np.asarray(own, np.int64),
            lambda i: Image.new("L", (1, 1)),
            f"{name}{own}",
        )

    return Dataset(
        DatasetCard("small"), ["ant", "bee"], {"train": part("a", labels), "test": part("b", tested)}, **more
    )


def test_what_a_classifier_cannot_learn_is_refused_by_the_name_of_the_class() -> None:
    check_classes(small([0, 1, 1], [0, 1]))
    check_classes(small([0, 1, 1], [1]))  # its own test images may lack a class
    check_classes(small([1, 1], [1], target="several"))
    with pytest.raises(DataError, match="one class, 'bee'; a classifier needs at least two"):
        check_classes(small([1, 1], [1]))
    with pytest.raises(DataError, match="the class 'ant' has one image, so none is left to test on"):
        check_classes(small([0, 1, 1], [1], untested=["ant"]))
    with pytest.raises(DataError, match="has no test images"):
        check_classes(small([0, 1, 1], []))


def test_records_and_expected_sizes_are_no_part_of_the_revision() -> None:
    noted = RunRecord(notes=("something",), provenance="unknown")
    assert (
        small([0, 1], [1], record=noted, expected={"test": 9}, untested=["ant"]).revision == small([0, 1], [1]).revision
    )
