"""Several datasets as one: classes in a row, images where they were, features stored apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from unseen.benchmarks import Workbench
from unseen.core.errors import DataError
from unseen.data import Dataset, load_dataset
from unseen.data.dataset import join_datasets


@pytest.fixture
def members(make_folder: Callable[..., Path]) -> list[Dataset]:
    """Two folders of two and three classes."""
    root = make_folder({f"{n}/class{i}": 5 for n in (2, 3) for i in range(n)})
    return [load_dataset(f"folder:{root / str(n)}") for n in (2, 3)]


def test_classes_and_images_follow_one_another(members: list[Dataset]) -> None:
    joined = join_datasets(members[0].card, members)
    assert joined.class_names == ["class0", "class1", "class0", "class1", "class2"]
    for name in ("train", "test"):
        first, second = (member.split(name) for member in members)
        both = joined.split(name)
        assert both.labels.tolist() == [*first.labels, *(second.labels + 2)]
        assert list(both.names) == [*first.names, *second.names]
        place = len(first) + 1
        assert np.array_equal(np.asarray(both.open(place)), np.asarray(second.open(1)))
        assert both.fingerprint == join_datasets(members[0].card, members).split(name).fingerprint
        assert both.fingerprint != join_datasets(members[0].card, members[::-1]).split(name).fingerprint
    part = joined.split("train").take([0, 9])
    assert not part.members and part.fingerprint, "a part is a split like any other"


def test_features_are_those_of_the_members(members: list[Dataset], tmp_path: Path, small_model: str) -> None:
    bench = Workbench(tmp_path / "home")
    joined = join_datasets(replace(members[0].card, id="both"), members)
    assert joined.split("train").members
    apart = [bench.layers(small_model, member, "train", ("pooled",))["pooled"] for member in members]
    stored = len(list((tmp_path / "home" / "features").rglob("manifest.json")))
    rows = bench.layers(small_model, joined, "train", ("pooled",))["pooled"]
    np.testing.assert_array_equal(rows.features[:], np.concatenate([each.features[:] for each in apart]))
    np.testing.assert_array_equal(rows.labels, joined.split("train").labels)
    assert rows.index.tolist() == list(range(rows.total))
    assert len(list((tmp_path / "home" / "features").rglob("manifest.json"))) == stored, "nothing is stored twice"


def test_a_class_of_two_members_is_refused(members: list[Dataset]) -> None:
    same = [replace(member, wnids=["n02123045", *[None] * (len(member.class_names) - 1)]) for member in members]
    with pytest.raises(DataError, match="n02123045 is a class of two"):
        join_datasets(members[0].card, same)
