"""Parts in any order, from several workers: the store ends as if one process had written it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unseen.backbones import load_backbone
from unseen.core.errors import StoreError
from unseen.data import load_dataset
from unseen.features import Extraction, FeatureStore, extract
from unseen.features.extraction import ExtractionJob
from unseen.features.part import PartRows

LAYERS = ("pooled", "logits")


def content(root: Path) -> dict[str, bytes]:
    """Every file of a store but locks and provenance."""
    found = sorted(path for path in root.rglob("*") if path.is_file() and ".locks" not in path.parts)
    return {str(path.relative_to(root)): path.read_bytes() for path in found if path.name != "provenance.json"}


@pytest.fixture
def world(images: Path, small_model: str, tmp_path: Path) -> tuple[object, ...]:
    (images / "class1" / "bad.png").write_bytes(b"no picture")
    how = Extraction(part_size=4, graphs=tmp_path / "graphs")
    backbone, dataset = load_backbone(small_model), load_dataset(f"folder:{images}")
    whole = FeatureStore(tmp_path / "whole")
    extract(backbone, dataset, "train", whole, layers=LAYERS, how=how)
    return backbone, dataset, how, content(whole.root)


def add(world: tuple[object, ...], store: FeatureStore, starts: list[int]) -> None:
    backbone, dataset, how, _ = world
    total = len(dataset.split("train"))
    for keys, part, notes in ExtractionJob(backbone, dataset, "train", LAYERS, how).extract_parts(starts, 4):
        store.add_layers(keys, part, total=total, part_size=4, provenance=notes)


def test_parts_come_in_any_order(world: tuple[object, ...], tmp_path: Path) -> None:
    backbone, dataset, how, expected = world
    store = FeatureStore(tmp_path / "parts")
    described = ExtractionJob(backbone, dataset, "train", LAYERS, how).describe(store)
    key, total = described.keys["pooled"], described.total
    size, starts = store.missing(key, total=total, part_size=4)
    assert (size, starts) == (4, list(range(0, total, 4)))
    order = [int(start) for start in np.random.default_rng(3).permutation(starts)]
    for number, start in enumerate(order):
        assert not store.holds(key)
        add(world, store, [start])
        assert start not in store.missing(key, total=total, part_size=4)[1]
        assert len(store.missing(key, total=total, part_size=4)[1]) == len(order) - number - 1
    assert store.holds(key)
    assert content(store.root) == expected
    add(world, store, [order[0]])  # a late duplicate changes nothing
    assert content(store.root) == expected
    assert store.verify() == []


def test_one_process_resumes_what_several_have_begun(world: tuple[object, ...], tmp_path: Path) -> None:
    backbone, dataset, how, expected = world
    store = FeatureStore(tmp_path / "parts")
    add(world, store, [8, 0, 16])
    assert len(list(store.root.rglob("part-*.json"))) == 6, "three parts of two layers"
    calls: list[int] = []

    class Counting:
        def begin(self, title: str, total: int, done: int) -> None: ...
        def advance(self, images: int, skipped: int) -> None:
            calls.append(images)

        def waiting(self, title: str) -> None: ...
        def note(self, text: str) -> None: ...
        def end(self) -> None: ...

    extract(backbone, dataset, "train", store, layers=LAYERS, how=how, progress=Counting())
    assert (sum(calls), len(dataset.split("train"))) == (8, 19), "parts of 4, 4 and 3 images were there"
    assert content(store.root) == expected


def test_a_damaged_part_is_extracted_again(world: tuple[object, ...], tmp_path: Path) -> None:
    backbone, dataset, how, expected = world
    store = FeatureStore(tmp_path / "parts")
    add(world, store, [8, 12])
    victim = sorted(store.root.rglob("part-00002.safetensors"))[0]
    data = bytearray(victim.read_bytes())
    data[-1] ^= 1
    victim.write_bytes(data)
    for note in sorted(store.root.rglob("part-00003.json"))[:1]:
        note.write_text("{")
    extract(backbone, dataset, "train", store, layers=LAYERS, how=how)
    assert content(store.root) == expected


def test_an_entry_that_has_all_parts_is_completed(world: tuple[object, ...], tmp_path: Path) -> None:
    backbone, dataset, how, expected = world
    store = FeatureStore(tmp_path / "parts")
    described = ExtractionJob(backbone, dataset, "train", LAYERS, how).describe(store)
    add(world, store, list(range(0, described.total, 4)))
    for manifest in store.root.rglob("manifest.json"):  # as a kill before the last step would leave it
        from unseen.features.manifest import load_manifest, save_manifest

        found = load_manifest(manifest.parent)
        assert found is not None
        object.__setattr__(found, "state", "partial")
        save_manifest(manifest.parent, found)
    store.add_layers(described.keys, {}, total=described.total, part_size=4, provenance={})
    assert content(store.root) == expected


def test_a_part_that_is_not_missing_is_refused(world: tuple[object, ...], tmp_path: Path) -> None:
    backbone, dataset, how, _ = world
    store = FeatureStore(tmp_path / "parts")
    key = ExtractionJob(backbone, dataset, "train", LAYERS, how).describe(store).keys["pooled"]
    none = np.empty(0, np.int64)
    with store.writer(key, total=10, part_size=4) as writer:
        for first in (2, -4, 12):
            with pytest.raises(StoreError, match="no missing part"):
                writer.write(PartRows(first, np.empty((0, 3), np.float32), none, none))
