"""What a listing of the store says, and what it leaves alone."""

from __future__ import annotations

import dataclasses
import os
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import pytest

from unseen.core.errors import CorruptPartError
from unseen.features import FeatureStore, Problem
from unseen.features.manifest import MANIFEST, entry_folder

pytestmark = pytest.mark.usefixtures("without_flushing")


def test_an_entry_says_what_it_holds(store: FeatureStore, store_process: ModuleType) -> None:
    sample = store_process.Sample(10, 4, bad=frozenset({5}))
    sample.write(store, parts=2)
    folder = entry_folder(store.root, sample.key)
    os.utime(folder / MANIFEST, (1_600_000_000, 1_600_000_000))
    (entry,) = store.entries()
    expected = {"id": sample.key.digest, "state": "partial", "images": 10, "covered": 8, "rows": 7, "skipped": 1}
    expected |= {"dim": 3, "dtype": "float32", "parts": 2, "path": str(folder), "problem": ""}
    expected |= {"bytes": sum(path.stat().st_size for path in folder.iterdir())}
    expected |= {"modified": "2020-09-13T12:26:40+00:00", **sample.key.to_dict()}
    assert entry.to_dict() == expected
    (folder / MANIFEST).write_text("{")
    (damaged,) = store.entries()
    assert {*damaged.to_dict()} == {"id", "state", "bytes", "modified", "path", "problem"}
    assert (damaged.state, "is damaged" in damaged.problem) == ("damaged", True)


def test_an_entry_without_a_manifest_is_as_old_as_its_folder(store: FeatureStore, store_process: ModuleType) -> None:
    """As a writer leaves it that was stopped before its first step: no part, no problem."""
    folder = entry_folder(store.root, store_process.make_key())
    folder.mkdir(parents=True)
    os.utime(folder, (1_600_000_000, 1_600_000_000))
    (entry,) = store.entries()
    assert (entry.state, entry.problem, entry.nbytes, store.verify()) == ("partial", "", 0, [])
    assert entry.modified == datetime.fromtimestamp(1_600_000_000, UTC)


def test_what_is_no_entry_is_not_listed(store: FeatureStore, store_process: ModuleType) -> None:
    store_process.Sample().write(store)
    (entry,) = store.entries()
    (entry.path.parent / "notes of mine").mkdir()
    (entry.path.parent / entry.digest[:-1]).mkdir()
    (store.root / ".locks" / "a" / "b" / entry.digest).mkdir(parents=True)
    assert [one.path for one in store.entries()] == [entry.path]


@pytest.mark.parametrize("name", ["#1", "(mine)", "*", "a*"])
def test_manifests_of_datasets_with_odd_names(store: FeatureStore, store_process: ModuleType, name: str) -> None:
    odd, other = store_process.make_key(dataset=name), store_process.make_key(dataset="other")
    for key in (odd, other):
        store_process.Sample(key=key).write(store)
    found = {manifest.key for manifest in store.manifests(odd.model, name)}
    assert found == ({odd, other} if name == "*" else {odd}), "a star alone stands for all"


def test_removing_leaves_the_folders_of_others(store: FeatureStore, store_process: ModuleType) -> None:
    keys = [store_process.make_key(), store_process.make_key(layer="logits"), store_process.make_key(split="test")]
    for key in keys:
        store_process.Sample(key=key).write(store)
    for number, key in enumerate(keys):
        store.remove(store.select(key.digest))
        assert {one.digest for one in store.entries()} == {other.digest for other in keys[number + 1 :]}
    assert [path.name for path in store.root.iterdir()] == [".locks"], "empty folders go too"


def test_the_file_is_named_with_what_is_wrong_with_it(store: FeatureStore, store_process: ModuleType) -> None:
    sample = store_process.Sample(4, 4)
    sample.write(store)
    part = entry_folder(store.root, sample.key) / "part-00000.safetensors"
    content = part.read_bytes()
    part.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(CorruptPartError, match=r"sha256 is [0-9a-f]{12}\.\.\., the manifest says [0-9a-f]{12}\.\.\."):
        store.open(sample.key)
    part.write_bytes(content[:-1])
    size = len(content)
    with pytest.raises(CorruptPartError, match=f"it has {size - 1} bytes, the manifest says {size}"):
        store.open(sample.key)
    part.unlink()
    with pytest.raises(CorruptPartError, match=r"it cannot be opened \(No such file or directory\)"):
        store.open(sample.key)
    (problem,) = store.verify()
    assert (problem.path, str(problem)) == (part, problem.message)


def test_records_are_small_and_cannot_be_changed(store: FeatureStore, store_process: ModuleType) -> None:
    """A store has many of them, and callers share them."""
    store_process.Sample(10, 4, bad=frozenset({5})).write(store)
    (entry,) = store.entries()
    assert entry.manifest is not None
    records = [entry, Problem(Path("x"), "y"), entry.manifest, entry.manifest.parts[0], entry.manifest.skipped[0]]
    for record in records:
        name = type(record).__match_args__[0]
        with pytest.raises(AttributeError):
            setattr(record, name, None)
        assert not hasattr(record, "__dict__")
    assert dataclasses.replace(entry) == entry
