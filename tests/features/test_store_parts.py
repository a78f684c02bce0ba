"""Parts that several processes add, without a model: when the entry is complete, and what the store lists."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unseen.core.records import FeatureKey, Preprocessing
from unseen.features import FeatureStore
from unseen.features import part as part_module
from unseen.features.manifest import entry_folder, part_name, save_manifest
from unseen.features.part import PartRows, find_parts

KEY = FeatureKey("m", "w", "pooled", Preprocessing(32, 32), "fp32", "torch", "d", "train", "f")


def bring(store: FeatureStore, number: int, count: int, key: FeatureKey = KEY, size: int = 2) -> None:
    """Part `number` of an entry of `count` parts; each image's feature is its place."""
    index = np.arange(number * size, (number + 1) * size)
    rows = np.repeat(index[:, None], 3, axis=1).astype(np.float32)
    part = {"pooled": PartRows(number * size, rows, index % 5, index)}
    store.add_layers({"pooled": key}, part, total=count * size, part_size=size, provenance={})


def stored(store: FeatureStore) -> list[int]:
    manifest = find_parts(entry_folder(store.root, KEY))
    return [] if manifest is None else [part.first // manifest.part_size for part in manifest.parts]


def descriptions(store: FeatureStore) -> int:
    return len(list(entry_folder(store.root, KEY).glob("part-*.json")))


@pytest.mark.parametrize("order", [range(21), range(20, -1, -1), [*range(1, 12), 13, 12, *range(14, 21), 0]])
def test_the_last_part_completes_the_entry(tmp_path: Path, order: Sequence[int]) -> None:
    """The manifest is written at the beginning and at the end; until then each part has a description."""
    store = FeatureStore(tmp_path)
    for count, number in enumerate(order, start=1):
        assert not store.holds(KEY)
        bring(store, number, 21)
        assert stored(store) == sorted(order[:count])
        assert descriptions(store) == (0 if count == 21 else count)
    assert store.holds(KEY)
    np.testing.assert_array_equal(store.open(KEY).features[np.arange(42)][:, 0], np.arange(42))


def test_missing_parts_are_those_without_a_description(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path)
    assert store.missing(KEY, total=28, part_size=5) == (5, [0, 5, 10, 15, 20, 25])
    for number in (*range(1, 12), 13, 12):
        bring(store, number, 14)
    assert store.missing(KEY, total=28, part_size=5) == (2, [0]), "the entry keeps its part size"
    bring(store, 0, 14)
    assert store.missing(KEY, total=28, part_size=5) == (2, [])


def test_a_stored_part_is_not_written_again(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path)
    bring(store, 1, 3)
    path = entry_folder(store.root, KEY) / part_name(1)
    stamp = path.stat().st_mtime_ns
    bring(store, 1, 3)
    assert path.stat().st_mtime_ns == stamp


@pytest.mark.parametrize("size", [1, 3, 4])
def test_a_part_of_another_size_is_not_stored(tmp_path: Path, size: int) -> None:
    """The process that begins an entry decides; others read the size from the store."""
    store = FeatureStore(tmp_path)
    bring(store, 0, 6)
    before = {path.name: path.read_bytes() for path in entry_folder(store.root, KEY).iterdir()}
    for number in (0, 1):
        index = np.arange(number * size, (number + 1) * size)
        rows = PartRows(number * size, np.zeros((size, 3), np.float32), index, index)
        store.add_part(KEY, rows, total=12, part_size=size)
    assert {path.name: path.read_bytes() for path in entry_folder(store.root, KEY).iterdir()} == before
    assert store.missing(KEY, total=12, part_size=size) == (2, [2, 4, 6, 8, 10])


@pytest.mark.parametrize("completed", [False, True])
def test_a_part_is_not_described_if_the_entry_changed_while_its_file_was_written(
    tmp_path: Path, completed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may complete the entry, or remove a file that has no description yet."""
    store = FeatureStore(tmp_path)
    bring(store, 0, 2)
    write = part_module.write_part_file

    def interrupted(*given: Any) -> Any:
        description = write(*given)
        monkeypatch.undo()
        if completed:
            bring(store, 1, 2)
        else:
            with store.writer(KEY, total=4, part_size=2):
                pass
        return description

    monkeypatch.setattr("unseen.features.store.write_part_file", interrupted)
    bring(store, 1, 2)
    assert (stored(store), store.holds(KEY)) == (([0, 1], True) if completed else ([0], False))
    assert descriptions(store) == (0 if completed else 1)
    bring(store, 1, 2)
    assert store.holds(KEY)
    assert store.verify() == []


def test_parts_that_are_added_at_the_same_time(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: bring(store, number % 24, 24), range(48)))
    assert (store.holds(KEY), descriptions(store), store.verify()) == (True, 0, [])
    np.testing.assert_array_equal(store.open(KEY).features[:][:, 0], np.arange(48))


def test_a_partial_manifest_that_lists_parts_is_resumed(tmp_path: Path) -> None:
    """Version 0.1 listed the parts of an unfinished entry in its manifest."""
    store = FeatureStore(tmp_path)
    for number in (0, 1, 3):
        bring(store, number, 5)
    folder = entry_folder(store.root, KEY)
    whole = find_parts(folder)
    assert whole is not None
    save_manifest(folder, replace(whole, parts=whole.parts[:2]))
    for name in ("part-00000.json", "part-00001.json"):
        (folder / name).unlink()
    assert stored(store) == [0, 1, 3]
    assert store.missing(KEY, total=10, part_size=2) == (2, [4, 8])
    (folder / part_name(0)).write_bytes(b"damaged")
    with store.writer(KEY, total=10, part_size=2) as writer:
        assert writer.missing == [0, 4, 8]
        assert len(writer.discarded) == 1 and "part-00000.safetensors" in writer.discarded[0]
    assert stored(store) == [1, 3]
    for number in (0, 2, 4):
        bring(store, number, 5)
    assert store.holds(KEY)
    np.testing.assert_array_equal(store.open(KEY).features[:][:, 0], np.arange(10))


def test_manifests_of_a_model(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path)
    keys = [KEY, replace(KEY, split="test"), replace(KEY, dataset="e"), replace(KEY, layer="logits")]
    for key in (*keys, replace(KEY, model="n")):
        bring(store, 0, 1, key)

    def found(*names: str) -> set[str]:
        return {manifest.key.digest for manifest in store.manifests(*names)}

    assert found("m") == {key.digest for key in keys}
    assert found("m", "d") == {key.digest for key in keys if key.dataset == "d"}
    assert found("m", "*", "test") == {keys[1].digest}
    assert found("m", "d", "train") == {keys[0].digest, keys[3].digest}
    assert found("other") == found("m", "other") == set()
    entry_folder(store.root, keys[1]).joinpath("manifest.json").write_text("{")
    (entry_folder(store.root, keys[0]).parent / "no-digest").mkdir()
    assert found("m") == {key.digest for key in keys if key is not keys[1]}


@pytest.mark.parametrize(("pattern", "count"), [("m", 2), ("d", 3), ("?", 3), ("timm:*", 0), ("n", 1)])
def test_entries_are_chosen_by_name(pattern: str, count: int, tmp_path: Path) -> None:
    from unseen.core.errors import UnknownNameError

    store = FeatureStore(tmp_path)
    for key in (KEY, replace(KEY, split="test"), replace(KEY, model="n")):
        bring(store, 0, 1, key)
    if not count:
        with pytest.raises(UnknownNameError):
            store.select(pattern)
        return
    assert len(store.select(pattern)) == count
    assert len(store.select(KEY.digest[:4])) == 1
    with pytest.raises(UnknownNameError):
        store.select(KEY.digest[:3])
