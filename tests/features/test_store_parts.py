"""Parts that many bring, without a model: when they are listed, under which names, and what a store says of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from unseen.core.records import FeatureKey, Preprocessing
from unseen.features import FeatureStore
from unseen.features.extraction import ExtractedPart, keep_part
from unseen.features.manifest import entry_folder, load_manifest, part_name

KEY = FeatureKey("m", "w", "pooled", Preprocessing(32, 32), "fp32", "torch", "d", "train", "f")


def bring(store: FeatureStore, number: int, count: int, key: FeatureKey = KEY, size: int = 2) -> None:
    """Part `number` of an entry of `count` parts; each image's feature is its place."""
    index = np.arange(number * size, (number + 1) * size)
    rows = np.repeat(index[:, None], 3, axis=1).astype(np.float32)
    part = ExtractedPart(number * size, {"pooled": rows}, index % 5, index, ())
    keep_part(store, {"pooled": key}, part, total=count * size, part_size=size, provenance={})


def listed(store: FeatureStore) -> int:
    manifest = load_manifest(entry_folder(store.root, KEY))
    return 0 if manifest is None else len(manifest.parts)


def loose(store: FeatureStore) -> int:
    return len(list(entry_folder(store.root, KEY).glob("part-*.json")))


def test_parts_in_turn_are_listed_eight_at_a_time(tmp_path: Path) -> None:
    """The manifest is written once for some parts, not for each; few wait, and the last ones are not forgotten."""
    store, counts = FeatureStore(tmp_path), []
    for number in range(21):
        bring(store, number, 21)
        counts.append(listed(store))
        assert counts[-1] + loose(store) == number + 1
    assert counts == [0] * 7 + [8] * 8 + [16] * 5 + [21]
    assert store.holds(KEY)
    np.testing.assert_array_equal(store.open(KEY).features[np.arange(42)][:, 0], np.arange(42))


def test_of_many_parts_more_are_listed_at_once(tmp_path: Path) -> None:
    store, steps = FeatureStore(tmp_path), []
    before = 0
    for number in range(120):
        bring(store, number, 200)
        if listed(store) != before:
            steps.append(listed(store) - before)
            before = listed(store)
    assert steps[:8] == [8] * 8 and steps[-1] > 8, "an eighth of what is there"
    assert sorted(steps) == steps


def test_a_gap_keeps_what_lies_behind_it_loose(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path)
    for number in (*range(1, 12), 13, 12):
        bring(store, number, 14)
        assert listed(store) == 0
    assert store.missing(KEY, total=28, part_size=5) == (2, [0])
    bring(store, 0, 14)
    assert (listed(store), loose(store), store.holds(KEY)) == (14, 0, True)
    assert store.missing(KEY, total=28, part_size=5) == (2, [])


def test_the_file_of_a_part_is_wanted_where_the_entry_lacks_it(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path)
    rows, index = np.zeros((2, 3), np.float32), np.arange(2)

    def write(size: int, first: int) -> bool:
        return store.write_part_file(KEY, size, first, rows, index, index + first) is not None

    assert not write(2, 0), "the entry is new"
    for number in range(8):
        bring(store, number, 20)
    files = {path.name for path in entry_folder(store.root, KEY).glob("*.safetensors")}
    assert not write(3, 18), "parts are of another size"
    assert not write(2, 14), "it is listed"
    assert {path.name for path in entry_folder(store.root, KEY).glob("*.safetensors")} == files
    assert write(2, 16) and write(2, 20)
    new = {path.name for path in entry_folder(store.root, KEY).glob("*.safetensors")} - files
    assert new == {part_name(8), part_name(10)}


def test_the_file_of_a_large_part_is_wanted_too(tmp_path: Path) -> None:
    store, index = FeatureStore(tmp_path), np.arange(600, 1200)
    bring(store, 0, 2, size=600)
    assert store.write_part_file(KEY, 600, 600, np.zeros((600, 3), np.float32), index % 5, index) is not None


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


def test_a_file_that_was_cleared_away_meanwhile_is_written_again(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path)
    bring(store, 0, 3)
    rows, index = np.ones((2, 3), np.float32), np.arange(4, 6)
    written = store.write_part_file(KEY, 2, 4, rows, index, index)
    assert written is not None
    path = entry_folder(store.root, KEY) / part_name(2)
    content, stamp = path.read_bytes(), path.stat().st_mtime_ns
    for gone in (False, True):
        if gone:
            path.unlink()
        with store.writer(KEY, total=6, part_size=2, verify=False) as writer:
            writer.write_part(rows, index, index, first=4, written=written)
        assert path.read_bytes() == content
        assert (path.stat().st_mtime_ns == stamp) != gone, "what is in place is left alone"
